"""mbarriers and bulk copies (cp.async.bulk) on the simulator: results, errors and checks."""

import many_kernels
import numpy as np
import pytest
from both_ways import both_ways
from counter_cases.case import KERNELS

import coalesce

pytestmark = pytest.mark.usefixtures("machine_code")

HELPERS = (KERNELS / "mbarriers.cuh").read_text()

# Tiles of x pass through a ring buffer of two stages. Each thread adds its neighbour's element.
RING = (
    HELPERS
    + """
extern "C" __global__ void ring(const float* x, float* out, int tiles, int waits) {
    __shared__ __align__(16) float stage[2][64];
    __shared__ __align__(8) unsigned long long full[2], empty[2];
    const int t = threadIdx.x;
    if (t == 0)
        for (int s = 0; s < 2; ++s) { init(at(&full[s]), 1); init(at(&empty[s]), 2); }
    __syncthreads();
    float sum = 0;
    for (int n = 0; n < tiles; ++n) {
        const int s = n % 2;
        if (t == 0) {
            wait(at(&empty[s]), n / 2 % 2 ^ 1);
            expect(at(&full[s]), sizeof stage[s]);
            bring(at(stage[s]), x + 64 * n, sizeof stage[s], at(&full[s]));
        }
        if (waits) wait(at(&full[s]), n / 2 % 2);
        sum += stage[s][(t + 1) % 64];
        __syncwarp();
        if (t % 32 == 0) arrive(at(&empty[s]));
    }
    out[t] = sum;
}
"""
)


def kernel(source: str, entry: str | None = None, **options: object) -> coalesce.Kernel:
    return coalesce.Kernel(source, entry, device="sim", arch="sm_90", **options)


@pytest.mark.parametrize("tiles", [1, 2, 3, 8])
def test_a_ring_of_stages(tiles: int) -> None:
    x = np.arange(64 * tiles, dtype=np.float32)
    out = np.zeros(64, np.float32)
    ring = kernel(RING)
    ring[1, 64](x, out, tiles, 1)
    np.testing.assert_array_equal(out, np.roll(x.reshape(tiles, 64), -1, axis=1).sum(0))
    assert list(ring.check(1, 64, x, out, tiles, 1)) == []
    p = ring.profile(1, 64, x, out, tiles, 1)
    assert "bulk copies" in p.not_modelled
    assert p.modelled_ms is None


def test_data_read_without_waiting_has_not_arrived() -> None:
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    ring = kernel(RING)
    ring[1, 64](x, out, 1, 0)
    assert np.isnan(out).all()
    assert len(ring.check(1, 64, x, out, 1, 0)) > 0


def test_a_copy_into_memory_that_others_still_read_is_a_race() -> None:
    source = (
        HELPERS
        + """
    extern "C" __global__ void k(const float* x, float* out) {
        __shared__ __align__(16) float tile[64];
        __shared__ __align__(8) unsigned long long full;
        const int t = threadIdx.x;
        if (t == 0) init(at(&full), 1);
        __syncthreads();
        if (t == 0) { expect(at(&full), 256); bring(at(tile), x, 256, at(&full)); }
        wait(at(&full), 0);
        out[t] = tile[63 - t];
        BETWEEN
        if (t == 0) { expect(at(&full), 256); bring(at(tile), x + 64, 256, at(&full)); }
    }"""
    )
    x, out = np.ones(128, np.float32), np.zeros(64, np.float32)
    racy = kernel(source.replace("BETWEEN", "")).check(1, 64, x, out)
    assert len(racy) == 1
    assert "tile" in str(racy)
    assert len(kernel(source.replace("BETWEEN", "__syncthreads();")).check(1, 64, x, out)) == 0


def test_states_of_arrivals() -> None:
    source = (
        HELPERS
        + """
    extern "C" __global__ void k(int* out) {
        __shared__ __align__(8) unsigned long long b;
        __shared__ int value;
        const int t = threadIdx.x;
        if (t == 0) init(at(&b), blockDim.x);
        __syncthreads();
        unsigned long long state;
        unsigned d;
        if (t == 63) value = 7;
        asm volatile("mbarrier.arrive.b64 %0, [%1];" : "=l"(state) : "l"(&b) : "memory");
        do {
            asm volatile("{ .reg .pred p; mbarrier.test_wait.b64 p, [%1], %2;"
                         " selp.u32 %0, 1, 0, p; }" : "=r"(d) : "l"(&b), "l"(state) : "memory");
        } while (!d);
        out[t] = value;
    }"""
    )
    out = np.zeros(96, np.int32)
    k = kernel(source)
    (out,) = both_ways(k, 1, 96, out)
    assert (out == 7).all()
    assert list(k.check(1, 96, out)) == []


def test_arrive_drop_removes_threads_from_a_barrier() -> None:
    source = (
        HELPERS
        + """
    extern "C" __global__ void k(int* out) {
        __shared__ __align__(8) unsigned long long b;
        const int t = threadIdx.x;
        if (t == 0) init(at(&b), 64);
        __syncthreads();
        if (t >= 32) {
            asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" :: "r"(at(&b)) : "memory");
            return;
        }
        for (int phase = 0; phase < 3; ++phase) {
            arrive(at(&b));
            wait(at(&b), phase % 2);
        }
        out[t] = 1;
    }"""
    )
    out = np.zeros(32, np.int32)
    (out,) = both_ways(kernel(source), 1, 64, out)
    assert out.all()


def test_copies_back_to_global_memory() -> None:
    source = (
        HELPERS
        + """
    extern "C" __global__ void k(float* out) {
        __shared__ __align__(16) float tile[64];
        tile[threadIdx.x] = threadIdx.x;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;"
                         :: "l"(out), "r"(at(tile)) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        }
    }"""
    )
    out = np.zeros(64, np.float32)
    k = kernel(source)
    (out,) = both_ways(k, 1, 64, out)
    np.testing.assert_array_equal(out, np.arange(64))
    assert list(k.check(1, 64, out)) == []


def test_asynchronous_copies_arrive_at_an_mbarrier() -> None:
    source = (
        HELPERS
        + """
    extern "C" __global__ void k(const float* x, float* out) {
        __shared__ float tile[64];
        __shared__ __align__(8) unsigned long long b;
        const int t = threadIdx.x;
        if (t == 0) init(at(&b), 64);
        __syncthreads();
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at(&tile[t])), "l"(x + t)
                     : "memory");
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(at(&b))
                     : "memory");
        wait(at(&b), 0);
        out[t] = tile[63 - t];
    }"""
    )
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    k = kernel(source)
    x, out = both_ways(k, 1, 64, x, out)
    np.testing.assert_array_equal(out, x[::-1])
    assert list(k.check(1, 64, x, out)) == []


def test_the_library_s_barrier() -> None:
    source = """
    #include <cuda/barrier>
    extern "C" __global__ void k(int* out, int rounds) {
        #pragma nv_diag_suppress static_var_with_dynamic_init
        __shared__ cuda::barrier<cuda::thread_scope_block> bar;
        __shared__ int sums[2];
        if (threadIdx.x == 0) { init(&bar, blockDim.x); sums[0] = sums[1] = 0; }
        __syncthreads();
        for (int i = 0; i < rounds; ++i) {
            atomicAdd(&sums[i % 2], 1);
            bar.arrive_and_wait();
        }
        out[threadIdx.x] = sums[0] + sums[1];
    }"""
    out = np.zeros(64, np.int32)
    (out,) = both_ways(kernel(source), 1, 64, out, 5)
    assert (out == 320).all()


MISUSES = {
    "not initialised": ("arrive(at(&b[1]));", "the mbarrier was not initialised"),
    "too many arrive": ("init(at(b), 1); arrive(at(b));", ""),
    "no arrivals": ("init(at(b), 0);", "1 to 1,048,575 arrivals; got 0"),
    "too many": (
        "init(at(b), 1); arrive_for(at(b), 9);",
        "more threads arrive than the mbarrier expects",
    ),
    "size": ("init(at(b), 1); bring(at(tile), x, 20, at(b));", "a multiple of 16 bytes; got 20"),
    "aligned": ("init(at(b), 1); bring(at(tile) + 4, x, 16, at(b));", "not a multiple of 16"),
    "source": ("init(at(b), 1); bring(at(tile), x, 272, at(b));", "`x`"),
    "target": ("init(at(b), 1); bring(at(tile) + 65536, x, 16, at(b));", "shared"),
    "barrier": ("init(at(b), 1); bring(at(tile), x, 16, at(b) + 4);", "not a multiple of 8"),
    "freed": (
        "init(at(b), 1); end(at(b)); arrive(at(b));",
        "was not initialised",
    ),
}


@pytest.mark.parametrize(("code", "message"), MISUSES.values(), ids=list(MISUSES))
def test_misuse_is_named(code: str, message: str) -> None:
    source = (
        HELPERS
        + f"""
    extern "C" __global__ void k(const float* x) {{
        __shared__ __align__(16) float tile[64];
        __shared__ __align__(8) unsigned long long b[2];
        {code}
    }}"""
    )
    x = np.ones(64, np.float32)
    k = kernel(source)
    if not message:
        k[1, 1](x)
        return
    with pytest.raises((coalesce.LaunchError, coalesce.MemoryFault), match=message) as caught:
        k[1, 1](x)
    assert "line" in str(caught.value)


def test_bulk_copies_that_are_not_simulated_are_refused() -> None:
    source = """
    extern "C" __global__ void k(const float* x) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 16;"
                     :: "l"(x), "r"(0));
    }"""
    with pytest.raises(coalesce.UnsupportedInstruction, match=r"cp\.reduce\.async\.bulk"):
        kernel(source)[1, 1](np.ones(64, np.float32))


@pytest.mark.parametrize(
    "instruction",
    [
        "mbarrier.arrive.init.shared.b64 _, [%0];",
        "mbarrier.arrive.noinc.shared.b64 _, [%0];",
        "mbarrier.init.noComplete.shared.b64 [%0], 1;",
        "mbarrier.inval.expect_tx.shared.b64 [%0];",
    ],
)
def test_modifiers_of_other_instructions_are_refused(instruction: str) -> None:
    """The user's PTX contains them; the CUDA assembler would refuse them, too."""
    ptx = coalesce.Kernel(
        HELPERS
        + """
    extern "C" __global__ void k() {
        __shared__ __align__(8) unsigned long long b;
        init(at(&b), 1);
    }""",
        device="sim",
        arch="sm_90",
    ).ptx
    line = next(text for text in ptx.splitlines() if "mbarrier.init" in text)
    address = line[line.index("[") + 1 : line.index("]")]
    changed = ptx.replace(line, instruction.replace("%0", address))
    with pytest.raises(coalesce.UnsupportedInstruction, match="mbarrier"):
        coalesce.Kernel(changed, device="sim")[1, 1]()


PRODUCT = """
    __device__ void multiply(float& sum) {
        float d[4] = {sum};
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
                     " {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(threadIdx.x));
        sum = d[0];
    }"""
# What a kernel does with the tests of an mbarrier, and which of its accesses depend on them.
TESTS = [
    # The usual ways of waiting.
    ("wait(b, 0); sum = x[t];", ""),
    ("if (!done(b, 0)) wait(b, 0); sum = x[t] + s[t];", ""),
    ("bool ok = done(b, 0); sum = x[t]; if (!ok) wait(b, 0); sum += s[t];", ""),
    ("while (!done(b, 0)) __nanosleep(20); sum = x[t];", ""),
    # Only a value depends on the test.
    ("sum = done(b, 0) ? x[t] + 1 : x[t] + 2;", ""),
    # Accesses depend on it: in a loop, at a branch, by their address or by their number.
    ("while (!done(b, 0)) sum += ((volatile const float*)x)[t];", "global"),
    ("if (done(b, 0)) sum = s[t];", "shared"),
    ("sum = x[done(b, 0) ? t : 32 + t / 2];", "global"),
    ("int n = 0; while (!done(b, 0)) ++n; sum = s[(t + n) % 32 * 2];", "shared"),
    ("int n = 1; while (!done(b, 0)) ++n; for (int i = 0; i < n; ++i) sum += x[i * 32 + t];",
     "global"),
    ("s[t] = done(b, 0); __syncwarp(); sum = x[int(s[31 - t]) * t];", "global"),
    ("int ok = done(b, 0); ok = __shfl_xor_sync(~0u, ok, 1); sum = x[ok * t];", "global"),
    # Bulk copies and products of matrices.
    ("wait(b, 0); if (t == 0) { expect(b, 128); bring(at(s), x, 128, b); }", ""),
    ("if (done(b, 0) && t == 0) { expect(b, 128); bring(at(s), x, 128, b); }", "copies"),
    ("wait(b, 0); multiply(sum);", ""),
    ("if (__any_sync(~0u, done(b, 0))) multiply(sum);", "tensor"),
]  # fmt: skip


def source_of_test(code: str) -> str:
    return f"""
    extern "C" __global__ void k(const float* x, float* out) {{
        __shared__ __align__(128) float s[64];
        __shared__ __align__(8) unsigned long long barrier;
        const unsigned b = at(&barrier);
        const int t = threadIdx.x;
        s[t] = s[t + 32] = t;
        if (t == 0) init(b, 1);
        __syncthreads();
        if (t == 0) arrive(b);
        float sum = 0;
        {code}
        __syncthreads();
        out[t] = sum;
    }}"""


TESTING = many_kernels.together((source_of_test(code) for code, _ in TESTS), "k")


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize(("code", "spaces"), TESTS)
def test_accesses_that_depend_on_a_test_are_not_exact(code: str, spaces: str) -> None:
    source, entry = TESTING[source_of_test(code)]
    k = kernel(HELPERS + PRODUCT + source, entry)
    p = k.profile(1, 32, np.ones(4096, np.float32), np.zeros(32, np.float32), caches=False)
    requests = {
        "global": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "shared": "smsp__inst_executed_op_shared_ld.sum",
        "copies": "smsp__inst_executed_op_tma_ld.sum",
        "tensor": "sm__inst_executed_pipe_tensor.sum",
    }
    assert {s for s, metric in requests.items() if metric in p.inexact} == (
        {spaces} if spaces else set()
    )
    assert "smsp__inst_executed.sum" not in p.exact
