"""The cache model replays a launch: merged writes, and blocks with slow warps."""

import many_kernels
import numpy as np
import pytest

import coalesce

WRITTEN = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"


def source_of(body, parameters):
    """Return a kernel with this body.

    The body may use `i`, the thread's index in the grid, and `lane`, its lane.
    """
    return f"""
    extern "C" __global__ void f({parameters}) {{
        const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
        const int warp = threadIdx.x / 32;
        {body}
    }}"""


def profile(body, parameters, grid, block, *arguments):
    """Profile a kernel with this body."""
    source = "struct Point { float x, y, z; };" + source_of(body, parameters)
    return coalesce.Kernel(source, "f", device="sim").profile(grid, block, *arguments)


def test_partial_writes_of_a_sector_by_one_warp_are_merged():
    threads = 1024
    out = np.zeros(3 * threads, np.float32)
    least = out.nbytes // 32
    one = profile("p[i].y = i;", "Point *p", 8, 128, out)
    assert one.modelled.caches["l2_writes"] == one.metrics()[WRITTEN] == least
    three = profile("p[i].x = i; p[i].y = i; p[i].z = i;", "Point *p", 8, 128, out)
    assert three.metrics()[WRITTEN] == 3 * least
    assert least < three.modelled.caches["l2_writes"] < 2 * least
    # All writes that arrive are partial. Merged writes are not counted separately.
    for p in one, three:
        assert p.modelled.caches["l2_partial_writes"] == p.modelled.caches["l2_writes"]


def test_writes_of_other_warps_are_not_merged():
    out = np.zeros(8 * 32 * 4, np.float32)
    parts = out.size  # each write is a sector
    others = profile("out[(blockIdx.x * 32 + lane) * 8 + warp] = i;", "float *out", 4, 256, out)
    assert others.modelled.caches["l2_writes"] == others.metrics()[WRITTEN] == parts
    own = profile("for (int k = 0; k < 8; ++k) out[i * 8 + k] = k * i;", "float *out", 4, 32, out)
    assert own.metrics()[WRITTEN] == parts
    assert parts // 8 < own.modelled.caches["l2_writes"] < parts // 2


def test_writes_of_whole_sectors_are_not_merged():
    out = np.zeros(1024, np.float32)
    p = profile("out[i] = 1; out[i] = 2; out[i] = 3;", "volatile float *out", 8, 128, out)
    assert p.modelled.caches["l2_writes"] == p.metrics()[WRITTEN] == 3 * out.nbytes // 32
    assert p.modelled.caches["l2_partial_writes"] == 0


def test_lanes_that_write_the_same_word_do_not_fill_its_sector():
    out = np.zeros(32 * 32, np.float32)
    p = profile("if (lane < 20) out[i / 32 * 32] = lane;", "float *out", 4, 256, out)
    assert p.metrics()[WRITTEN] == p.modelled.caches["l2_partial_writes"] == 32


def test_distant_writes_are_not_merged():
    """L1 does not merge two writes of a sector with too many other lines between them."""
    out = np.zeros(32 * 32 * 3, np.float32)
    body = (
        "for (int k = 0; k < 2; ++k) for (int j = 0; j < 3; ++j) out[(j * 32 + lane) * 32 + k] = j;"
    )
    p = profile(body, "volatile float *out", 1, 32, out)
    assert p.modelled.caches["l2_writes"] == p.metrics()[WRITTEN] == 2 * 3 * 32


def test_a_line_is_looked_up_once_for_any_order_of_lanes():
    lanes = np.arange(32)
    for index in (
        lanes,
        lanes[::-1],
        lanes // 2 + 32 * (lanes % 2),
        lanes // 2 + 32 * (1 - lanes % 2),
    ):
        out = np.zeros(64, np.float32)
        p = profile(
            "out[index[i]] = i;", "const int *index, float *out", 1, 32, np.int32(index), out
        )
        assert p.modelled.caches["l1_stores"] == p.metrics()[WRITTEN] == 4
        assert p.modelled.caches["l2_partial_writes"] == 0


TURNS = """
    const int turns = i / 32 % every == which ? slow : quick;
    float v = x[i];
    for (int k = 0; k < turns; ++k) v = v * 1.5f + 1;
    x[i] = v;"""


def turning(every, which, grid=1, slow=100_000):
    """Return a kernel of eight warps per block; one warp in `every` makes `slow` iterations."""
    x = np.ones(grid * 256, np.float32)
    given = (x, *np.int32([every, which, slow, 10]))
    parameters = "float *x, int every, int which, int slow, int quick"
    return profile(TURNS, parameters, grid, 256, *given).modelled


def test_equal_warps_are_equally_fast():
    for m in turning(1, 0), turning(1, 1, grid=300):
        assert m.work["slowest"] == m.work["slowest_in_block"] == 1


def test_a_kernel_lasts_as_long_as_its_slowest_warp():
    alone, all_of_them = turning(8, 5), turning(1, 0)
    assert alone.work["instructions"] < all_of_them.work["instructions"] / 6
    assert alone.work["slowest"] == alone.work["slowest_in_block"]
    assert alone.work["slowest"] == pytest.approx(8, rel=0.01)  # one of eight warps works
    assert alone.cycles["latency"] == pytest.approx(all_of_them.cycles["latency"], rel=0.05)
    assert alone.cycles["latency"] > 20 * turning(1, 1).cycles["latency"]
    # The units have eight times the work, for which the warps wait a little.
    assert alone.ms < all_of_them.ms < 1.15 * alone.ms


def test_a_block_lasts_as_long_as_its_slowest_warp():
    in_each = turning(8, 5, grid=300, slow=5000)
    in_one = turning(2400, 1000, grid=300, slow=2000)
    assert in_each.work["slowest_in_block"] == in_each.work["slowest"]
    assert in_each.work["slowest"] == pytest.approx(8, rel=0.15)
    # One of 2400 warps works, so its block is the slowest. Few blocks are as slow.
    assert in_one.work["slowest"] > 20
    assert in_one.work["slowest_in_block"] < 1.5


def test_a_sample_of_the_lines_stands_for_large_launches():
    """L2 handles only a sample of the lines of a large launch. Its requests are still exact."""
    x = np.zeros(1 << 20, np.float32)
    sectors = x.nbytes // 32
    p = profile("y[i] = x[i];", "const float *x, float *y", x.size // 256, 256, x, x.copy())
    caches = p.modelled.caches
    assert caches["l2_reads"] == caches["l2_writes"] == sectors
    assert caches["l2_merged"] == caches["l2_partial_writes"] == 0
    assert caches["dram_read_bytes"] == x.nbytes
    # Both arrays fit into L2. A partition asks the other one for half of the lines.
    assert caches["dram_written_bytes"] == 0
    assert caches["l2_lookups"] == pytest.approx(3 * sectors, rel=0.02)
    # Each block reads what another block has read before it.
    repeated = "y[i] = x[i % 262144] + x[(i + 262144) % 262144];"
    p = profile(repeated, "const float *x, float *y", x.size // 256, 256, x, x.copy())
    assert p.modelled.caches["dram_read_bytes"] == pytest.approx(x.nbytes / 4, rel=0.01)


# What some blocks or lanes do differently from others.
DIFFERENT = {
    "nothing": "",
    "load": "if (block % 3 == 1) sum += c[i];",
    "array": "sum += (block % 3 == 1 ? c : a)[i];",
    "addresses": "sum += c[index[i]];",
    "lanes": "if (lane < block % 3) sum += c[i];",
    "shared_memory": "tile[lane * (1 + block % 2)] = sum; sum += tile[lane];",
}
PLACES = ["before", "between", "after"]


def source_with_a_difference(what, place):
    do = {there: DIFFERENT[what] if there == place else "" for there in PLACES}
    body = f"""
    const int block = blockIdx.x;
    __shared__ float tile[64];
    float sum = 0;
    {do["before"]}
    for (int k = 0; k < 2; ++k) {{
        sum += a[i];
        __syncthreads();
    }}
    {do["between"]}
    sum += b[i];
    {do["after"]}
    out[i] = sum;"""
    parameters = "const float *a, const float *b, const float *c, const int *index, float *out"
    return source_of(body, parameters)


REPLAYED = many_kernels.together(
    (source_with_a_difference(what, place) for what in DIFFERENT for place in PLACES), "f"
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", DIFFERENT)
def test_blocks_are_replayed_with_their_own_addresses(what, place):
    """The bytes from DRAM show which lines the replayed requests access."""
    blocks, threads = 40, 96
    n = blocks * threads
    random = np.random.default_rng(0)
    index = np.int32(random.permutation(n))
    a, b, c = random.random((3, n), np.float32)
    out = np.zeros(n, np.float32)
    source, entry = REPLAYED[source_with_a_difference(what, place)]
    kernel = coalesce.Kernel(source, entry, device="sim")
    p = kernel.profile(blocks, threads, a, b, c, index, out)
    i = np.arange(n)
    block, lane = i // threads, i % 32
    of_c = {
        "load": i[block % 3 == 1],
        "array": i[block % 3 == 1],
        "addresses": index,
        "lanes": i[lane < block % 3],
    }.get(what, i[:0])
    loaded = [i, i, of_c] + ([i] if what == "addresses" else [])
    # DRAM is read in half lines of 64 bytes, which are 16 elements.
    halves = sum(len(np.unique(elements // 16)) for elements in loaded)
    assert p.modelled.caches["dram_read_bytes"] == 64 * halves


def test_blocks_with_equal_requests_have_equal_hits():
    """The hits of a launch are those of one block times the number of blocks."""
    threads = 128
    body = """
    float sum = 0;
    for (int k = 0; k < 64; ++k) sum += a[blockIdx.x * 8192 + (k * 37 + threadIdx.x) % 8192];
    out[i] = sum;"""
    a = np.zeros(64 * 8192, np.float32)
    rates = []
    for blocks in (1, 2, 64):
        out = np.zeros(blocks * threads, np.float32)
        caches = profile(
            body, "const float *a, float *out", blocks, threads, a, out
        ).modelled.caches
        rates.append([caches[name] / blocks for name in ("l1_loads", "l1_load_hits")])
        assert caches["dram_read_bytes"] == blocks * 64 * -(-(63 * 37 + threads) // 16)
    assert rates[0] == rates[1] == rates[2]
