"""What is counted on machine code: merged loads, and which counts are called exact."""

import numpy as np
import pytest
from both_ways import why_ptx

import coalesce

pytestmark = pytest.mark.usefixtures("machine_code")


def test_the_shipped_kernels_are_counted_on_machine_code():
    a = np.ones((32, 32), np.float32)
    for operation in ("matmul", "transpose", "row_sums", "column_sums"):
        for variant in coalesce.variants(operation):
            if not variant.hopper:
                arrays = (a, a) if operation == "matmul" else (a,)
                p = coalesce.profile(operation, *arrays, variant=variant.name, device="sim")
                assert p.exact, (operation, variant.name, p.inexact)


def test_another_architecture_is_counted_on_the_ptx():
    source = 'extern "C" __global__ void k(int* out) { out[threadIdx.x] = 1; }'
    kernel = coalesce.Kernel(source, "k", device="sim", arch="sm_80")
    kernel.profile(1, 32, np.zeros(32, np.int32))
    assert "sm_80" in why_ptx(kernel)


def test_merged_loads_are_counted_once():
    a = np.ones((64, 64), np.float32)
    p = coalesce.profile("matmul", a, a, variant="tiled", device="sim")
    loads = [i for i in p.instructions() if i.space == "shared" and i.kind == "load"]
    widths = {(i.array, i.width) for i in loads}
    assert widths == {("a_tile", 16), ("b_tile", 4)}
    assert "smsp__inst_executed_op_shared_ld.sum" in p.exact


def test_reports_name_merged_accesses():
    a = np.ones((64, 64), np.float32)
    p = coalesce.profile("matmul", a, a, variant="tiled", device="sim")
    sentence = "The assembler merged every 4 loads of 4 bytes into one of 16."
    merged = {
        a.array: a.merge_note for a in p.accesses() if a.space == "shared" and a.kind == "load"
    }
    assert merged == {"a_tile": sentence, "b_tile": ""}
    (line,) = (line for line in p.lines() if any(a.merge_note for a in line.accesses))
    assert sentence in line.sentence
    assert sentence in " ".join(str(p).split())
    assert sentence in p._repr_html_()
    assert {i.merged for i in p.instructions() if i.array == "a_tile" and i.kind == "load"} == {4}


def test_wide_loads_that_the_source_spells_are_not_merged():
    source = """
    extern "C" __global__ void k(const float4* a, float4* out) {
        out[threadIdx.x] = a[threadIdx.x];
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    p = kernel.profile(1, 32, np.ones(128, np.float32), np.zeros(128, np.float32))
    assert {(a.width, a.merged, a.merge_note) for a in p.accesses()} == {(16, 1, "")}


def test_many_addresses_of_constant_memory_bound_the_time():
    x = np.zeros(1 << 20, np.float32)
    pattern = coalesce.profile("access", x, pattern="permuted", device="sim")
    assert "constants" in pattern.modelled.bound


def test_the_number_of_instructions_is_exact_if_lanes_do_not_diverge():
    source = """
    extern "C" __global__ void k(const int* a, int* out, int n) {
        int i = threadIdx.x, sum = 0;
        if (i >= n) return;
        for (int j = 0; j < BOUND; ++j) sum += a[(i + j * 32) & 255] * j;
        out[i] = sum;
    }"""
    for bound, exact in (("n", True), ("a[i]", False)):
        kernel = coalesce.Kernel(source.replace("BOUND", bound), "k", device="sim")
        a, out = np.arange(256, dtype=np.int32) % 7, np.zeros(64, np.int32)
        p = kernel.profile(1, 64, a, out, np.int32(50))
        assert ("smsp__inst_executed.sum" in p.exact) is exact
        if not exact:
            assert "diverged" in p.inexact["smsp__inst_executed.sum"]


def test_compare_and_swap_that_warps_contend_for_is_inexact():
    source = """
    extern "C" __global__ void k(double* out) {
        __shared__ double sum;
        if (threadIdx.x == 0) sum = 0;
        __syncthreads();
        atomicAdd(&sum, 1.0);
        __syncthreads();
        if (threadIdx.x == 0) out[0] = sum;
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    shared = "smsp__inst_executed_op_shared_atom.sum"
    for threads, exact in ((32, True), (64, False)):
        out = np.zeros(1)
        p = kernel.profile(1, threads, out)
        assert out[0] == threads
        assert (shared in p.exact) is exact
        if not exact:
            assert "compare-and-swap" in p.inexact[shared]


def test_the_tensor_cycles_of_hfma2_mma_are_inexact():
    """The assembler zeroes registers with HFMA2.MMA, whose cycles differ from run to run."""
    kernel = coalesce.Kernel(
        """extern "C" __global__ void k(float *y, int n) {
            float a = 0, b = 0;
            for (int i = threadIdx.x; i < n; i += 32) { a += y[i]; b = fmaf(b, y[i], a); }
            y[threadIdx.x] = a; y[32 + threadIdx.x] = b;
        }""",
        "k",
        device="sim",
    )
    profile = kernel.profile(1, 32, np.ones(256, np.float32), 128)
    cycles = "sm__pipe_tensor_cycles_active.sum"
    assert "HFMA2.MMA" in {i.opcode for i in profile.instructions()}
    assert "HFMA2.MMA" in profile.inexact[cycles]
    assert "sm__inst_executed_pipe_tensor.sum" in profile.exact
