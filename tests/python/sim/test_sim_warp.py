"""Warp functions: shuffles, votes, matches, reductions and cooperative groups."""

import numpy as np
import pytest
from both_ways import run

LANES = np.arange(32)


@pytest.mark.parametrize("width", [32, 16, 8, 4, 2, 1])
def test_shuffles(device, random, width):
    """All four modes at every distance agree with the CUDA guide."""
    x = random.integers(0, 1 << 31, 32).astype(np.int32)
    by = np.arange(32)
    out = np.zeros((4, 32, 32), np.int32)
    run(
        device,
        f"""
        extern "C" __global__ void k(const int *x, int *out) {{
            int i = threadIdx.x, v = x[i], w = {width};
            for (int d = 0; d < 32; ++d) {{
                out[d * 32 + i] = __shfl_sync(~0u, v, d + i / 5, w);
                out[1024 + d * 32 + i] = __shfl_up_sync(~0u, v, d, w);
                out[2048 + d * 32 + i] = __shfl_down_sync(~0u, v, d, w);
                out[3072 + d * 32 + i] = __shfl_xor_sync(~0u, v, d, w);
            }}
        }}""",
        x,
        out,
    )
    segment = LANES // width * width
    for d in by:
        index = segment + (d + LANES // 5) % width
        up = np.where(LANES - d >= segment, LANES - d, LANES)
        down = np.where(LANES + d < segment + width, LANES + d, LANES)
        # An exclusive-or shuffle may read lower segments, but not higher ones.
        xor = np.where((LANES ^ d) < segment + width, LANES ^ d, LANES)
        for mode, source in enumerate([index, up, down, xor]):
            np.testing.assert_array_equal(out[mode, d], x[source], f"mode {mode} by {d}")


def test_shuffles_of_wide_types_and_predicates(device, random):
    x = random.integers(0, 1 << 60, 32)
    d = random.standard_normal(32)
    out, sums = np.zeros((2, 32), np.int64), np.zeros((2, 32))
    valid = np.zeros((2, 32), np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(const long long *x, const double *d, long long *out,
                                     double *sums, int *valid) {
            int i = threadIdx.x;
            out[i] = __shfl_sync(~0u, x[i], 31 - i);
            out[32 + i] = __shfl_xor_sync(~0u, x[i], 5);
            double s = d[i];
            for (int n = 16; n > 0; n /= 2) s += __shfl_xor_sync(~0u, s, n);
            sums[i] = s;
            double prefix = d[i];
            for (int n = 1; n < 32; n *= 2) {
                double other = __shfl_up_sync(~0u, prefix, n);
                if (i >= n) prefix += other;
            }
            sums[32 + i] = prefix;
            int v, p;
            asm("{ .reg .pred p; shfl.sync.down.b32 %0|p, %2, 3, 0x1f, -1; selp.s32 %1, 1, 0, p; }"
                : "=r"(v), "=r"(p) : "r"(i));
            valid[i] = p;
            asm("{ .reg .pred p; shfl.sync.up.b32 %0|p, %2, 2, 0x1800, -1; selp.s32 %1, 1, 0, p; }"
                : "=r"(v), "=r"(p) : "r"(i));
            valid[32 + i] = p;
        }""",
        x,
        d,
        out,
        sums,
        valid,
    )
    np.testing.assert_array_equal(out, [x[::-1], x[LANES ^ 5]])
    np.testing.assert_allclose(sums[0], d.sum(), rtol=1e-13)
    np.testing.assert_allclose(sums[1], np.cumsum(d), rtol=1e-11)
    np.testing.assert_array_equal(valid[0], LANES + 3 < 32)
    np.testing.assert_array_equal(valid[1], LANES % 8 >= 2)


def test_divergent_and_partial_masks(device):
    """The halves of a warp shuffle and vote separately, without waiting for exited lanes."""
    out = np.zeros((6, 64), np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(int *out) {
            int i = threadIdx.x, lane = i & 31, n = 64;
            if (lane < 12) {
                out[i] = __shfl_sync(0xfff, i, (lane + 1) % 12);
                out[n + i] = __ballot_sync(0xfff, lane & 1);
            } else {
                out[i] = __shfl_xor_sync(0xfffff000, i, 1);
                out[n + i] = __popc(__ballot_sync(0xfffff000, lane % 3 == 0));
            }
            __syncwarp();
            if (lane >= 24) return;
            // The usual tree, although a quarter of the warp is gone.
            unsigned mask = __activemask();
            int s = 1;
            for (int d = 16; d; d /= 2) s += __shfl_down_sync(mask, s, d);
            out[2 * n + i] = s > 0;  // a lane also adds what those that are gone had
            out[3 * n + i] = __popc(mask);
            if (lane % 2) {
                bool seven = __any_sync(__activemask(), lane == 7);
                out[4 * n + i] = seven + 2 * __all_sync(0xaaaaaa, lane > 0);
            }
            out[5 * n + i] = __reduce_add_sync(0xffffff, lane);
        }""",
        out,
        block=64,
    )
    lane = np.arange(64) & 31
    i = np.arange(64)
    low = lane < 12
    want = np.where(low, i - lane + (lane + 1) % 12, i ^ 1)
    np.testing.assert_array_equal(out[0], want)
    thirds = sum(k % 3 == 0 for k in range(12, 32))
    np.testing.assert_array_equal(out[1], np.where(low, 0xAAA, thirds))
    assert (out[2][lane < 24] == 1).all()
    assert (out[3][lane < 24] == 24).all()
    assert (out[4][(lane < 24) & (lane % 2 == 1)] == 3).all()
    np.testing.assert_array_equal(out[5][lane < 24], 276)


def test_lanes_that_left_before_a_full_mask(device):
    """`if (i >= n) return;` before a shuffle with the full mask, as in many tutorials."""
    out = np.zeros(64, np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(int *out, int n) {
            int i = threadIdx.x;
            if (i >= n) return;
            int s = i;
            for (int d = 1; d < 4; d *= 2) s += __shfl_xor_sync(0xffffffff, s, d);
            __syncwarp();
            out[i] = s;
        }""",
        out,
        44,
        block=64,
    )
    base = np.arange(44) // 4 * 4
    np.testing.assert_array_equal(out[:44], base * 4 + 6)
    assert not out[44:].any()


def test_lanes_that_leave_after_others_wait(device):
    """The waiting lanes arrive first. The others run longer and then exit."""
    out = np.zeros(32, np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(int *out, int n) {
            int i = threadIdx.x;
            if (i & 1) {
                int s = 0;
                for (int j = 0; j < n * i; ++j) s ^= j * i;
                out[i] = s | 1;
                asm volatile("exit;");  // where the compiler cannot join it with the other way
            }
            out[i] = __shfl_sync(0xffffffff, i, (i + 2) & 31);
        }""",
        out,
        50,
    )
    even = LANES[::2]
    np.testing.assert_array_equal(out[::2], (even + 2) & 31)
    assert (out[1::2] != 0).all()


def test_votes_matches_and_reductions(device, random):
    x = random.integers(0, 5, 32).astype(np.int32)
    wide = random.integers(0, 3, 32) << 40
    y = random.integers(-(2**31), 2**31, 32).astype(np.int32)
    out = np.zeros((21, 32), np.uint32)
    run(
        device,
        """
        extern "C" __global__ void k(const int *x, const long long *w, const int *y,
                                     unsigned *out) {
            int i = threadIdx.x, row = 0, p;
            unsigned all = ~0u;
            auto put = [&](unsigned v) { out[32 * row++ + i] = v; };
            put(__ballot_sync(all, x[i] > 2));
            put(__all_sync(all, x[i] < 5) + 2 * __all_sync(all, x[i] < 4));
            put(__any_sync(all, x[i] == 4) + 2 * __any_sync(all, x[i] > 4));
            put(__uni_sync(all, x[i] < 5) + 2 * __uni_sync(all, x[i] > 9));
            put(__uni_sync(all, i > 3));
            put(__match_any_sync(all, x[i]));
            put(__match_any_sync(all, w[i]));
            put(__match_all_sync(all, x[i] < 9, &p)); put(p);
            put(__match_all_sync(all, x[i], &p)); put(p);
            put(__match_all_sync(all, w[i] < 0, &p));
            put(__reduce_add_sync(all, y[i]));
            put(__reduce_min_sync(all, y[i]));
            put(__reduce_max_sync(all, y[i]));
            put(__reduce_min_sync(all, (unsigned)y[i]));
            put(__reduce_max_sync(all, (unsigned)y[i]));
            put(__reduce_and_sync(all, (unsigned)y[i] | 5));
            put(__reduce_or_sync(all, (unsigned)y[i] & 0xff00ff));
            put(__reduce_xor_sync(all, (unsigned)y[i]));
            p = 0;
            if (i >= 4)
                asm("{ .reg .pred q; elect.sync _|q, 0xfffffff0; selp.u32 %0, 1, 0, q; }"
                    : "=r"(p));
            put(p);
        }""",
        x,
        wide,
        y,
        out,
    )

    def bits(truth: np.ndarray) -> int:
        return int((truth.astype(np.int64) << LANES).sum())

    u = y.view(np.uint32)
    full = 0xFFFFFFFF
    same_x = [bits(x == v) for v in x]
    same_wide = [bits(wide == v) for v in wide]
    want = [
        bits(x > 2), 1 + 2 * (x < 4).all(), (x == 4).any() + 0, 3, 0, same_x, same_wide,
        full, 1,
        full if (x == x[0]).all() else 0, (x == x[0]).all(), full,
        int(y.sum(dtype=np.int64)) & full, int(y.min()) & full, int(y.max()) & full,
        u.min(), u.max(),
        np.bitwise_and.reduce(u | 5), np.bitwise_or.reduce(u & 0xFF00FF), np.bitwise_xor.reduce(u),
    ]  # fmt: skip
    for row, values in enumerate(want):
        np.testing.assert_array_equal(out[row], np.broadcast_to(values, 32), f"row {row}")
    assert out[len(want)].sum() == 1  # one leader among the lanes of the mask


def test_special_registers(device):
    out = np.zeros((6, 96), np.uint32)
    run(
        device,
        """
        extern "C" __global__ void k(unsigned *out) {
            int i = threadIdx.x;
            unsigned r[6];
            asm("mov.u32 %0, %%laneid;" : "=r"(r[0]));
            asm("mov.u32 %0, %%lanemask_lt;" : "=r"(r[1]));
            asm("mov.u32 %0, %%lanemask_le;" : "=r"(r[2]));
            asm("mov.u32 %0, %%lanemask_gt;" : "=r"(r[3]));
            asm("mov.u32 %0, %%lanemask_ge;" : "=r"(r[4]));
            asm("mov.u32 %0, %%lanemask_eq;" : "=r"(r[5]));
            for (int j = 0; j < 6; ++j) out[96 * j + i] = r[j];
        }""",
        out,
        block=96,
    )
    i = np.arange(96)
    lane = (i & 31).astype(np.uint64)
    one = np.uint64(1)
    lower = (one << lane) - one
    np.testing.assert_array_equal(out[0], lane)
    full = np.uint64(0xFFFFFFFF)
    masks = [lower, lower * 2 + 1, full ^ (lower * 2 + 1), full ^ lower, lower + 1]
    np.testing.assert_array_equal(out[1:], np.array(masks, np.uint64))


GROUPS = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const int *x, int *out) {
    cg::thread_block block = cg::this_thread_block();
    int i = block.thread_rank(), n = block.size(), v = x[i];
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int s = v;
    for (int d = tile.size() / 2; d; d /= 2) s += tile.shfl_xor(s, d);
    out[i] = s;
    out[n + i] = tile.shfl(v, 7 - tile.thread_rank()) + tile.any(v == 3) * 1000;
    auto warp = cg::tiled_partition<32>(block);
    out[2 * n + i] = cg::reduce(warp, v, cg::plus<int>()) + cg::reduce(tile, v, cg::greater<int>());
    out[3 * n + i] = cg::inclusive_scan(tile, v) * 100 + cg::exclusive_scan(warp, v);
    if (v & 1) {
        cg::coalesced_group odd = cg::coalesced_threads();
        out[4 * n + i] = odd.size() * 100 + odd.thread_rank();
        out[5 * n + i] = odd.shfl(v, odd.size() - 1);
        out[6 * n + i] = cg::reduce(odd, v, cg::plus<int>());
    }
    block.sync();
    auto mine = cg::labeled_partition(cg::coalesced_threads(), v % 3);
    out[7 * n + i] = mine.size();
}
"""


def test_cooperative_groups(device, random):
    x = random.integers(0, 10, 96).astype(np.int32)
    out = np.zeros((8, 96), np.int32)
    run(device, GROUPS, x, out, block=96)
    tiles, warps = x.reshape(12, 8), x.reshape(3, 32)

    def each(values: np.ndarray, size: int) -> np.ndarray:
        return np.repeat(values, size)

    np.testing.assert_array_equal(out[0], each(tiles.sum(1), 8))
    any3 = each((tiles == 3).any(1), 8) * 1000
    np.testing.assert_array_equal(out[1], tiles[:, ::-1].ravel() + any3)
    np.testing.assert_array_equal(out[2], each(warps.sum(1), 32) + each(tiles.max(1), 8))
    exclusive = np.cumsum(warps, 1) - warps
    np.testing.assert_array_equal(out[3], np.cumsum(tiles, 1).ravel() * 100 + exclusive.ravel())
    odd = x % 2 == 1
    for w in range(3):
        mine = np.flatnonzero(odd[32 * w : 32 * w + 32]) + 32 * w
        np.testing.assert_array_equal(out[4][mine], len(mine) * 100 + np.arange(len(mine)))
        np.testing.assert_array_equal(out[5][mine], x[mine[-1]])
        np.testing.assert_array_equal(out[6][mine], x[mine].sum())
        for label in range(3):
            labeled = np.flatnonzero(warps[w] % 3 == label) + 32 * w
            np.testing.assert_array_equal(out[7][labeled], len(labeled))
    assert not out[4:7, ~odd].any()
