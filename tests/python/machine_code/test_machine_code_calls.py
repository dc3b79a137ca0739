"""Calls in machine code: calls through pointers, and calls of code outside the cubin."""

import numpy as np
import pytest
from both_ways import why_ptx

import coalesce
from coalesce import LaunchError
from coalesce.compile import nvrtc
from coalesce.compile.binaries import cubin

pytestmark = pytest.mark.usefixtures("machine_code")

POINTERS = """
typedef float (*Function)(float);
__device__ __noinline__ float twice(float x) { return 2 * x; }
__device__ __noinline__ float square(float x) { return x * x; }
__device__ Function table[] = {twice, square, nullptr};
extern "C" __global__ void k(const int* which, float* x) {
    x[threadIdx.x] = table[which[threadIdx.x]](x[threadIdx.x]);
}
"""
# If the module has a second kernel, a pointer to a function is an index into a table.
TWO_KERNELS = POINTERS + 'extern "C" __global__ void other(float* x) { x[0] = table[0](x[0]); }'

PRINTS = """
extern "C" __device__ int printf(const char*, ...);
extern "C" __global__ void k(int limit, float* x) {
    if (threadIdx.x < limit) printf("%d: %.2f\\n", threadIdx.x, x[threadIdx.x]);
    x[threadIdx.x] += 1;
}
"""

ASSERTS = """
#include <cassert>
extern "C" __global__ void k(float limit, float* x) {
    assert(x[threadIdx.x] < limit);
    x[threadIdx.x] += 1;
}
"""


def test_each_lane_calls_its_own_function() -> None:
    kernel = coalesce.Kernel(TWO_KERNELS, "k", device="sim")
    x = np.arange(32, dtype=np.float32)
    p = kernel.profile(1, 32, np.arange(32, dtype=np.int32) % 2, x)
    assert why_ptx(kernel) == ""
    numbers = np.arange(32, dtype=np.float32)
    np.testing.assert_array_equal(x, np.where(numbers % 2, numbers**2, 2 * numbers))
    # The lanes return from one function after another, and nothing makes them reconverge.
    assert "smsp__inst_executed.sum" in p.inexact
    assert "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum" in p.inexact


def test_all_lanes_call_one_function() -> None:
    kernel = coalesce.Kernel(TWO_KERNELS, "k", device="sim")
    x = np.arange(32, dtype=np.float32)
    p = kernel.profile(1, 32, np.ones(32, np.int32), x)
    np.testing.assert_array_equal(x, np.arange(32, dtype=np.float32) ** 2)
    assert "smsp__inst_executed.sum" in p.exact


@pytest.mark.parametrize("source", [POINTERS, TWO_KERNELS], ids=["one kernel", "two kernels"])
def test_a_pointer_holds_the_same_address_in_both_codes(source: str) -> None:
    stores = source.replace(
        "{\n", "{\n    addresses[threadIdx.x] = table[which[threadIdx.x]];\n", 1
    )
    stores = stores.replace("float* x)", "float* x, Function* addresses)", 1)
    kernel = coalesce.Kernel(stores, "k", device="sim")
    which, x = np.arange(32, dtype=np.int32) % 2, np.arange(32, dtype=np.float32)
    addresses = np.zeros((2, 32), np.uint64)
    kernel[1, 32](which, x.copy(), addresses[0])
    p = kernel.profile(1, 32, which, x, addresses[1])
    assert why_ptx(kernel) == ""
    assert p.exact
    np.testing.assert_array_equal(addresses[0], addresses[1])
    assert len(set(addresses[0])) == 2
    # If there is only one kernel, its functions are part of its code, and their addresses are
    # multiples of 16 (bytes per instruction). Otherwise the addresses are 8, 16, 24 and so on.
    assert all(addresses[0] % 16 == 0) == (source == POINTERS)


def test_machine_code_without_symbols_leaves_the_addresses_unknown() -> None:
    compiled = nvrtc.compile_cuda(TWO_KERNELS)
    assert cubin.functions(compiled.cubin) == {"_Z5twicef": 8, "_Z6squaref": 16}
    assert cubin.functions(compiled.cubin.replace(b"$k$", b"$x$").replace(b"$other$", b"$o$")) == {}
    assert cubin.functions(compiled.cubin[:1000]) == {}


@pytest.mark.parametrize("source", [POINTERS, TWO_KERNELS], ids=["one kernel", "two kernels"])
@pytest.mark.parametrize("how", ["launch", "profile"])
def test_a_null_pointer_is_named(how: str, source: str) -> None:
    kernel = coalesce.Kernel(source, "k", device="sim")
    which = np.where(np.arange(32) == 5, 2, 0).astype(np.int32)
    with pytest.raises(LaunchError, match=r"(?s)null pointer.*line 7.*thread \(5, 0, 0\)"):
        getattr(kernel, how)(1, 32, which, np.ones(32, np.float32))


def test_printf_prints_and_its_code_is_not_counted(capfd: pytest.CaptureFixture[str]) -> None:
    kernel = coalesce.Kernel(PRINTS, "k", device="sim")
    x = np.arange(32, dtype=np.float32) / 4
    kernel[1, 32](3, x.copy())
    plain = capfd.readouterr().out
    p = kernel.profile(1, 32, 3, x)
    assert why_ptx(kernel) == ""
    assert capfd.readouterr().out == plain == "0: 0.00\n1: 0.25\n2: 0.50\n"
    np.testing.assert_array_equal(x, np.arange(32) / 4 + 1)
    assert not p.exact
    assert all("printf" in why for name, why in p.inexact.items() if "smsp__inst" in name)
    # A kernel that does not print runs no such code.
    assert "smsp__inst_executed.sum" in kernel.profile(1, 32, 0, x).exact


def test_an_assertion_that_holds_costs_what_the_gpu_counts() -> None:
    kernel = coalesce.Kernel(ASSERTS, "k", device="sim")
    p = kernel.profile(1, 32, 5.0, np.ones(32, np.float32))
    assert why_ptx(kernel) == ""
    assert "smsp__inst_executed.sum" in p.exact


@pytest.mark.parametrize("how", ["launch", "profile"])
def test_failed_assertions_have_the_same_message(how: str) -> None:
    kernel = coalesce.Kernel(ASSERTS, "k", device="sim")
    with pytest.raises(LaunchError, match=r"(?s)assertion failed: x\[threadIdx.x\] < limit"):
        getattr(kernel, how)(1, 32, 0.5, np.ones(32, np.float32))


def test_counts_of_the_ptx_are_never_called_exact() -> None:
    kernel = coalesce.Kernel(PRINTS, "k", device="sim", arch="sm_80")
    p = kernel.profile(1, 32, 0, np.ones(32, np.float32))
    assert not p.exact
    assert "sm_80" in p.inexact["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    assert "No count is exact" in str(p)
