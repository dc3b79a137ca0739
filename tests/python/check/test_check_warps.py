"""Planted faults: wrong use of barriers and of warp functions."""

import numpy as np
import pytest

import coalesce

pytestmark = pytest.mark.usefixtures("on_simulator")


def check(source, grid, block, *arguments, entry="k", **options):
    return coalesce.Kernel(source, entry).check(grid, block, *arguments, **options)


def only(findings, kind, severity="error"):
    assert [(f.kind, f.severity) for f in findings] == [(kind, severity)], str(findings)
    return findings[0]


def ones(n):
    return np.ones(n, np.int32)


def test_a_barrier_that_some_threads_miss():
    source = """extern "C" __global__ void k(int *x) {
        if (threadIdx.x < LIMIT) __syncthreads();
        x[threadIdx.x] = 2;
    }"""
    f = only(check(source.replace("LIMIT", "48"), 1, 64, ones(64)), "barrier")
    assert "reached by only some threads of the block" in f.title
    assert f.lines == (2,)
    assert not check(source.replace("LIMIT", "64"), 1, 64, ones(64))


def test_a_barrier_that_whole_warps_miss():
    source = """extern "C" __global__ void k(int *x) {
        if (threadIdx.x / 32 != 1) __syncthreads();
        x[threadIdx.x] = 2;
    }"""
    x = ones(96)
    f = only(check(source, 1, 96, x), "barrier")
    assert f.title == "a barrier is reached by only some threads of the block"
    assert "32 threads have left the kernel on a path without this barrier" in f.details[0]
    assert (x == 2).all()  # On a GPU, too, the other threads continue.


def test_a_barrier_that_threads_miss_in_their_last_round():
    source = """extern "C" __global__ void k(int *x) {
        int rounds = threadIdx.x / 32 == 2 ? 1 : 3;
        for (int i = 0; i < rounds; ++i) {
            x[threadIdx.x] += i;
            __syncthreads();
        }
        x[threadIdx.x] += rounds;
    }"""
    f = only(check(source, 1, 96, ones(96)), "barrier")
    assert "on a path without this barrier" in f.details[0]
    assert not check(source.replace("/ 32 == 2", "< 0"), 1, 96, ones(96))


def test_an_early_return_in_a_loop():
    source = """extern "C" __global__ void k(int *x) {
        for (int i = 0; i < 3; ++i) {
            if (threadIdx.x >= 32 * (3 - i)) { x[threadIdx.x] = i; return; }
            __syncthreads();
        }
    }"""
    x = ones(128)
    f = only(check(source, 1, 128, x), "barrier", "warning")
    assert "have left the kernel" in f.title
    np.testing.assert_array_equal(x[32:], 2 - np.arange(96) // 32)


def test_a_barrier_after_threads_have_left():
    """The kernel works on today's GPUs, but the CUDA guide requires all threads at the barrier."""
    source = """extern "C" __global__ void k(int *x, int n) {
        int i = threadIdx.x;
        if (i >= n) return;
        x[i] = 2;
        __syncthreads();
        x[i] += 1;
    }"""
    x = ones(64)
    f = only(check(source, 1, 64, x, 40), "barrier", "warning")
    assert f.title == "a barrier completes after some threads of the block have left the kernel"
    assert "24 threads have left" in f.details[0]
    assert f.lines == (5,)
    assert x.tolist() == [3] * 40 + [1] * 24
    assert not check(source, 1, 64, ones(64), 64)


def test_a_barrier_that_some_of_those_left_miss():
    source = """extern "C" __global__ void k(int *x, int n) {
        int i = threadIdx.x;
        if (i >= n) return;
        if (i < n - 1) __syncthreads();
        x[i] = 2;
    }"""
    f = only(check(source, 1, 64, ones(64), 40), "barrier")
    assert "reached by only some threads of the block" in f.title
    assert "25 threads have left the kernel" in f.details[-1]


def test_threads_that_wait_at_different_barriers():
    source = """extern "C" __global__ void k(int *x) {
        int i = threadIdx.x;
        if (i < 32) {
            x[i] = 2;
            __syncthreads();
        } else {
            x[i] = 3;
            __syncthreads();
        }
    }"""
    f = only(check(source, 1, 64, ones(64)), "barrier", "warning")
    assert f.title == "threads of one block wait at different barriers"
    assert sorted(f.lines) == [5, 8]
    both = source.replace("__syncthreads();", "", 1).replace("x[i] = 3;\n", "x[i] = 3; }\n")
    both = both.replace("__syncthreads();\n        }", "__syncthreads();")
    assert not check(both, 1, 64, ones(64))


def test_a_shuffle_that_lanes_miss():
    source = """extern "C" __global__ void k(int *x) {
        int v = x[threadIdx.x];
        if (threadIdx.x < 16) v = __shfl_sync(MASK, v, 3);
        x[threadIdx.x] = v;
    }"""
    f = only(check(source.replace("MASK", "0xffffffff"), 1, 32, ones(32)), "warp_mask")
    assert f.title == "lanes end without a warp operation that waits for them"
    assert "names lanes 16-31. A GPU goes on without them" in f.details[0]
    assert not check(source.replace("MASK", "0xffff"), 1, 32, ones(32))


def test_a_vote_and_a_match_that_lanes_miss():
    for call in ("__any_sync(MASK, v > 0)", "__match_any_sync(MASK, v)", "__ballot_sync(MASK, v)"):
        source = f"""extern "C" __global__ void k(int *x) {{
            int v = x[threadIdx.x];
            if (threadIdx.x % 4 == 0) v = {call};
            x[threadIdx.x] = v;
        }}"""
        only(check(source.replace("MASK", "0x33333333"), 1, 32, ones(32)), "warp_mask")
        assert not check(source.replace("MASK", "0x11111111"), 1, 32, ones(32))


def test_a_mask_without_the_calling_lane():
    for call in ("v += __shfl_xor_sync(MASK, v, 1)", "__syncwarp(MASK)"):
        source = f"""extern "C" __global__ void k(int *x) {{
            int v = x[threadIdx.x];
            if (threadIdx.x < 16) {call};
            x[threadIdx.x] = v;
        }}"""
        f = only(check(source.replace("MASK", "0x00ff"), 1, 32, ones(32)), "warp_mask")
        assert f.title == "the member mask of a warp operation does not include the calling lane"
        assert f.first.thread == (8, 0, 0)
        assert f.count == 8
        assert not check(source.replace("MASK", "0xffff"), 1, 32, ones(32))


def test_the_result_of_a_vote_may_replace_its_mask():
    source = """extern "C" __global__ void k(int *x) {
        unsigned mask = ~0u;
        asm volatile("{ .reg .pred p; setp.eq.s32 p, %1, 0; vote.sync.ballot.b32 %0, p, %0; }"
                     : "+r"(mask) : "r"(x[threadIdx.x]));
        x[threadIdx.x] = mask;
    }"""
    x = ones(32)
    assert not check(source, 1, 32, x)
    assert not x.any()


def test_a_shuffle_from_an_inactive_lane():
    source = """extern "C" __global__ void k(int *x, int n) {
        int i = threadIdx.x, v = x[i];
        if (i < n) v += __shfl_down_sync((1u << n) - 1, v, 4 WIDTH);
        x[i] = v;
    }"""
    f = only(check(source.replace("WIDTH", ""), 1, 32, ones(32), 8), "warp_mask", "warning")
    assert f.title == "a shuffle reads from a lane that does not execute the shuffle"
    assert "lane 4 reads lane 8" in f.details[0]
    assert f.count == 4
    assert not check(source.replace("WIDTH", ", 8"), 1, 32, ones(32), 8)


def test_exited_lanes_need_not_arrive():
    """CUDA allows masks that name exited lanes."""
    source = """extern "C" __global__ void k(int *x, int n) {
        int i = threadIdx.x;
        if (i >= n) return;
        x[i] = __popc(__ballot_sync(~0u, x[i] > 0));
    }"""
    x = ones(32)
    assert not check(source, 1, 32, x, 20)
    assert x[0] == 20


def test_an_early_return_in_a_branch():
    """The lanes of a warp reach the barrier one after the other."""
    source = """extern "C" __global__ void k(int *x) {
        int i = threadIdx.x;
        if (x[i] & 1) {
            if (x[i] & 2) return;
            for (int n = 0; n < x[i]; ++n) x[i] -= n & 1;
        } else {
            x[i] += 5;
        }
        __syncthreads();
        x[i] += 1;
        __syncthreads();
    }"""
    findings = check(source, 1, 64, np.arange(64, dtype=np.int32) % 7)
    assert {(f.kind, f.severity) for f in findings} == {("barrier", "warning")}, str(findings)


@pytest.mark.parametrize(
    ("call", "title", "severity"),
    [
        ("__shfl_down_sync(~0u, v, 1, 64)", "a shuffle has a width of 64 lanes", "error"),
        ("__shfl_sync(~0u, v, 0, 64)", "a shuffle has a width of 64 lanes", "error"),
        ("__shfl_xor_sync(~0u, v, 32)", "a shuffle with an offset of 32", "warning"),
        ("__shfl_up_sync(~0u, v, n)", "a shuffle with an offset of 48", "warning"),
        ("__shfl_down_sync(~0u, v, n - 32)", "", ""),
        ("__shfl_sync(~0u, v, n, 8)", "", ""),
    ],
)
def test_shuffles_for_64_lanes(call, title, severity):
    source = f"""extern "C" __global__ void k(int *x, int n) {{
        int v = x[threadIdx.x];
        x[threadIdx.x] = {call};
    }}"""
    findings = check(source, 1, 32, ones(32), 48)
    if title:
        assert only(findings, "warp_mask", severity).title.startswith(title)
    else:
        assert not findings
