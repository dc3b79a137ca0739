"""A fault in a kernel raises an error that says what, where and which thread. Nothing hangs."""

import _thread
import re
import sys
import threading
import time

import numpy as np
import pytest

import coalesce


@pytest.fixture(autouse=True)
def _only_simulated(on_simulator):
    """Skip on a GPU: a GPU reports less, and a fault destroys its context."""


def kernel(source, **options):
    return coalesce.Kernel(source, device="sim", **options)


def fault(source, *arguments, grid=1, block=32, error=coalesce.MemoryFault, **options):
    with pytest.raises(error) as caught:
        kernel(source, **options)[grid, block](*arguments)
    return str(caught.value)


READ_ROWS = """
extern "C" __global__ void rows(const float *a, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[i * n + 3];
}
"""


def test_read_past_the_end():
    a, out = np.zeros((64, 32), np.float32), np.zeros(128, np.float32)
    message = fault(READ_ROWS, a, out, 32, grid=2, block=64)
    assert message.startswith("read of 4 bytes past the end of `a`\n")
    assert (
        "`a` has shape (64, 32), float32; the address is a[64, 3], 12 bytes past its end" in message
    )
    assert "kernel rows, line 4:   out[i] = a[i * n + 3];" in message
    assert "in block (1, 0, 0) and 31 other threads, lanes 0-31 of their warp" in message


def test_only_the_lanes_outside_are_named():
    a, out = np.zeros((60, 32), np.float32), np.zeros(64, np.float32)
    message = fault(READ_ROWS, a, out, 32, grid=1, block=64)
    assert "a[60, 3]" in message
    assert "(60, 0, 0) in block (0, 0, 0) and 3 other threads, lanes 28-31 of their warp" in message


def test_lanes_at_equal_distances_are_named_briefly():
    source = """__global__ void some(int *a, unsigned lanes) {
        if (lanes >> threadIdx.x & 1) a[threadIdx.x + 1] = 1;
    }"""
    for lanes, named in (
        (0x22222222, "7 other threads, lanes 1, 5, ..., 29 of their warp"),
        (0x80008000, "1 other thread, lanes 15, 31 of their warp"),
        (0x11110100, "4 other threads, lanes 8, 16, 20, 24, 28 of their warp"),
        (0x80000000, "block (0, 0, 0), lane 31 of its warp"),
    ):
        assert named in fault(source, np.zeros(1, np.int32), lanes)


def test_write_before_the_start():
    source = """__global__ void before(double *a) { a[int(threadIdx.x) - 2] = 1; }"""
    message = fault(source, np.zeros((4, 8)))
    assert message.startswith("write of 8 bytes before the start of `a`")
    assert "a[-1, 6], 16 bytes before its start" in message
    assert "lanes 0-1" in message


def test_an_element_half_outside():
    source = """__global__ void wide(const float4 *a, float *sum) {
        float4 v = a[threadIdx.x];
        sum[threadIdx.x] = v.x + v.y + v.z + v.w;
    }"""
    message = fault(source, np.zeros(6, np.float32), np.zeros(2, np.float32), block=2)
    assert "its last bytes are past the end" in message


def test_null_pointer():
    source = """__global__ void null(float *a, const float *p) {
        if (threadIdx.x == 5) a[0] = p[3];
    }"""
    source = source.replace("const float *p", "unsigned long long p").replace(
        "p[3]", "((const float *)p)[3]"
    )
    message = fault(source, np.zeros(1, np.float32), 0)
    assert message.startswith("read of 4 bytes through a null pointer")
    assert "thread (5, 0, 0) in block (0, 0, 0), lane 5" in message


def test_misaligned():
    source = """__global__ void odd(float *a) { *(float2 *)(a + 1) = make_float2(1, 2); }"""
    message = fault(source, np.zeros(8, np.float32))
    assert "write of 8 bytes at an address that is not a multiple of 8" in message
    assert "4 bytes into `a`" in message


def test_read_only_array():
    a = np.zeros(8, np.float32)
    a.flags.writeable = False
    source = "__global__ void put(const float *a) { ((float *)a)[threadIdx.x] = 1; }"
    message = fault(source, a, block=8)
    assert message.startswith("write to `a`, which is read-only")
    assert not a.any()


def test_shared_memory():
    source = """__global__ void over(int *a) {
        __shared__ int tile[32];
        tile[threadIdx.x] = 1;
        __syncthreads();
        a[0] = tile[threadIdx.x ^ 1];
    }"""
    message = fault(source, np.zeros(1, np.int32), block=64)
    assert message.startswith("write of 4 bytes outside shared memory")
    assert "byte 128, and the block has 128 bytes of shared memory" in message
    assert "dynamic" not in message


@pytest.mark.parametrize(
    ("shared_bytes", "advice"), [(0, "; for dynamic"), (64, "; for more dyna")]
)
def test_too_little_dynamic_shared_memory(shared_bytes: int, advice: str):
    source = """__global__ void over(int *a) {
        extern __shared__ int tile[];
        tile[threadIdx.x] = 1;
        __syncthreads();
        a[0] = tile[threadIdx.x ^ 1];
    }"""
    with pytest.raises(coalesce.MemoryFault, match=advice):
        kernel(source)[1, 32, shared_bytes](np.zeros(1, np.int32))


def test_a_partly_faulting_store_writes_nothing():
    source = "__global__ void put(int *a) { a[threadIdx.x] = 1; }"
    a = np.zeros(20, np.int32)
    fault(source, a)
    assert not a.any()


BARRIER = coalesce.LaunchError


def test_barrier_in_a_branch():
    """Threads that skip the barrier wait for the others at the next barrier."""
    source = """__global__ void half(int *a) {
        if (threadIdx.x < 40) {
            a[threadIdx.x] = 1;
            __syncthreads();
        }
        a[threadIdx.x] += 1;
        __syncthreads();
        a[threadIdx.x] += a[threadIdx.x ^ 1];
    }"""
    message = fault(source, np.zeros(64, np.int32), block=64, error=BARRIER)
    assert message.startswith("a barrier is reached by only some threads of the block")
    assert "40 threads wait at the barrier in kernel half, line 4:   __syncthreads();" in message
    assert "24 threads wait at the barrier in kernel half, line 7" in message
    assert "(the first is thread (40, 0, 0) in block (0, 0, 0), lanes 8-31 of warp 1)" in message


def test_instruction_limit():
    source = "__global__ void forever(volatile int *a) { while (a[0] == 0); a[1] = 1; }"
    message = fault(
        source, np.zeros(2, np.int32), error=coalesce.LaunchError, instruction_limit=200_000
    )
    assert "stopped after the limit of 200000 warp instructions" in message
    assert "\n  kernel forever, line 1:   __global__ void forever" in message
    assert "thread (0, 0, 0) in block (0, 0, 0) was here" in message


@pytest.mark.parametrize("wait", ["", "__syncthreads()", "__syncwarp()", "__nanosleep(100)"])
def test_interrupt(wait: str):
    """Ctrl-C stops a kernel that never ends, and the next launch works."""
    endless = kernel(
        f"__global__ void forever(volatile int *a) {{ while (a[0] == 0) {wait}; a[1] = 1; }}"
    )
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as interrupted:
        endless[4, 64](np.zeros(2, np.int32))
    assert time.monotonic() - start < 30
    if sys.version_info >= (3, 11):  # Python 3.10 has no notes
        (note,) = interrupted.value.__notes__
        assert note.startswith("kernel forever, line 1:   __global__ void forever")
        assert "\n  thread (0, 0, 0) in block (" in note
        assert note.endswith(
            "was here. If the kernel never ends, look at the loop around this line"
        )
    timer.join()
    a = np.array([1, 0], np.int32)
    endless[4, 64](a)
    assert a[1] == 1


def test_failed_assert():
    source = """__global__ void check(const int *a, int n) {
        assert(a[threadIdx.x] < n);
    }"""
    message = fault(source, np.arange(32, dtype=np.int32), 30, error=coalesce.LaunchError)
    assert message.startswith("assertion failed: a[threadIdx.x] < n")
    assert "kernel check, line 2" in message
    assert "thread (30, 0, 0)" in message
    assert "and 1 other thread of its warp" in message


def test_trap():
    message = fault(
        "__global__ void stop(int *a) { if (a[0] == 0) __trap(); }",
        np.zeros(1, np.int32),
        error=coalesce.LaunchError,
    )
    assert "trap" in message


def test_unsupported_instruction_is_named_before_anything_runs():
    source = """extern "C" __global__ void everywhere(int *a) {
        a[0] = 1;
        asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], 1;" :: "l"(a));
    }"""
    a = np.zeros(1, np.int32)
    message = fault(source, a, error=coalesce.UnsupportedInstruction)
    assert "multimem.red.relaxed.sys.global.add.u32" in message
    assert "kernel everywhere, line 3 of the CUDA source" in message
    assert a[0] == 0


def test_endless_recursion():
    source = """__device__ __noinline__ int deeper(volatile int *a, int n) {
        return a[0] ? n : deeper(a, n + 1) + a[1];
    }
    __global__ void fall(int *a) { a[1] = deeper(a, 0); }"""
    message = fault(source, np.zeros(2, np.int32), error=coalesce.LaunchError)
    assert message.startswith("stack overflow")


@pytest.mark.parametrize(("depth", "fits"), [(5, True), (10, False)])  # as on an H200
def test_the_stack_of_a_thread_has_1024_bytes(depth, fits):
    source = """__device__ int deeper(int n, volatile int *sink) {
        volatile int pad[16];
        pad[n % 16] = n;
        if (n == 0) return *sink;
        int r = deeper(n - 1, sink);
        return r + pad[n % 16] - n + 1;
    }
    __global__ void fall(int *a, int n) { a[0] = deeper(n, a + 1); }"""
    fall = kernel(source)
    for call in (lambda a: fall[1, 1](a, depth), lambda a: fall.profile(1, 1, a, depth)):
        a = np.zeros(2, np.int32)
        if fits:
            call(a)
        else:
            with pytest.raises(
                (coalesce.LaunchError, coalesce.MemoryFault), match="stack overflow"
            ):
                call(a)


def test_a_block_needs_registers():
    source = """__global__ void heavy(const double *x, double *y) {
        int t = threadIdx.x;
        double a[48], s = 0;
        #pragma unroll
        for (int i = 0; i < 48; ++i) a[i] = x[i * 1024 + t];
        #pragma unroll 1
        for (int k = 0; k < 3; ++k) {
            #pragma unroll
            for (int i = 0; i < 48; ++i) a[i] = a[i] * a[(i * 7 + 3) % 48] + a[(i + 11) % 48];
        }
        #pragma unroll
        for (int i = 0; i < 48; ++i) s += a[i];
        y[t] = s;
    }"""
    heavy = kernel(source)
    x, y = np.zeros((48, 1024)), np.zeros(1024)
    heavy[1, 512](x, y)
    for call in (
        lambda: heavy[1, 1024](x, y),
        lambda: heavy.check(1, 1024, x, y),
        lambda: heavy.profile(1, 1024, x, y),
        lambda: heavy.trace(1, 1024, x, y),
        lambda: heavy.step(1, 1024, x, y),
    ):
        with pytest.raises(coalesce.LaunchError) as caught:
            call()
        message = str(caught.value)
        assert re.search(r"uses \d+ registers per thread, and a multiprocessor has 65536", message)
        assert "can have at most 512 threads" in message or "at most 608 threads" in message
        assert "__launch_bounds__(1024)" in message
