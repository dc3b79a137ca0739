"""Users' own kernels, run on the device under test."""

import gc
import os
import re
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import coalesce
from coalesce import _core

SOURCE = """
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}

__global__ void add(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}

extern "C" __global__ void count(int *where) { atomicAdd(where, 1); }

extern "C" __global__ void indices(int *out) {
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}

extern "C" __global__ void reverse(const int *in, int *out) {
    extern __shared__ int staged[];
    staged[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = staged[blockDim.x - 1 - threadIdx.x];
}

struct Line { double slope; float offset; int steps; };
extern "C" __global__ void line(float *out, Line l) {
    if (threadIdx.x < l.steps) out[threadIdx.x] = l.slope * threadIdx.x + l.offset;
}

extern "C" __global__ void kinds(bool b, char c, unsigned char u, short s, unsigned short w, int i,
                                 unsigned j, long long k, unsigned long long l, float f, double d,
                                 double *out) {
    double all[] = {double(b), double(c), double(u), double(s), double(w), double(i), double(j),
                    double(k), double(l), double(f), d};
    for (int n = 0; n < 11; ++n) out[n] = all[n];
}

extern "C" __global__ void sum4(const float4 *v, float *out) {
    float4 e = v[threadIdx.x];
    out[threadIdx.x] = e.x + e.y + e.z + e.w;
}

template <typename T, int N>
__global__ void fill(T *x, T value) { x[threadIdx.x] = value * N; }

extern "C" __global__ void nothing() {}

extern "C" __global__ void beyond(float *x) { x[1000000000LL + threadIdx.x] = 1; }
"""


@pytest.fixture(scope="module")
def kernel(device: str):  # type: ignore[no-untyped-def]
    """Return a function that compiles a kernel of SOURCE by name for the device under test."""
    if device == "sim" and not hasattr(_core, "sim"):
        pytest.skip("this build has no simulator")
    return lambda entry, **options: coalesce.Kernel(SOURCE, entry, device=device, **options)


def test_arrays_are_written_in_place(kernel) -> None:  # type: ignore[no-untyped-def]
    x = np.arange(1000, dtype=np.float32)
    kernel("scale")[4, 256](x, 3.0, np.int32(999))
    np.testing.assert_array_equal(x[:999], 3 * np.arange(999))
    assert x[999] == 999


@pytest.mark.parametrize("size", [64, 1024])
def test_dynamic_shared_memory(kernel, size: int) -> None:  # type: ignore[no-untyped-def]
    x = np.arange(size, dtype=np.int32)
    out = np.zeros_like(x)
    kernel("reverse")[1, size, 4 * size](x, out)
    np.testing.assert_array_equal(out, x[::-1])
    kernel("reverse").launch(1, size, out, x, shared_bytes=100_000)
    np.testing.assert_array_equal(x, np.arange(size))


def test_scalars_of_every_kind(kernel) -> None:  # type: ignore[no-untyped-def]
    out = np.zeros(11)
    kernel("kinds")[1, 1](
        True, -7, 200, -300, np.uint16(60000), -70000, 4_000_000_000, -(2**40), 2**63, 0.5, 0.1, out
    )
    expected = [1, -7, 200, -300, 60000, -70000, 4e9, -(2.0**40), 2.0**63, 0.5, 0.1]
    assert out.tolist() == expected


@pytest.mark.parametrize("layout", ["strided", "reversed", "fortran", "column"])
def test_layouts(kernel, layout: str) -> None:  # type: ignore[no-untyped-def]
    base = np.arange(60, dtype=np.float32).reshape(6, 10)
    views = {
        "strided": base[::2, ::3],
        "reversed": base[::-1],
        "fortran": np.asfortranarray(base),
        "column": base[:, 3],
    }
    x = views[layout]
    expected = x * 2
    kernel("scale")[1, 64](x, 2.0, x.size)
    np.testing.assert_array_equal(x, expected)


def test_read_only_arrays(kernel) -> None:  # type: ignore[no-untyped-def]
    a = np.arange(10, dtype=np.float32)
    a.flags.writeable = False
    twos = np.broadcast_to(np.float32(2), (10,))
    out = np.zeros(10, np.float32)
    kernel("add")[1, 32](a, twos, out, 10)
    np.testing.assert_array_equal(out, np.arange(10) + 2)


def test_aliased_arguments_stay_aliased(kernel) -> None:  # type: ignore[no-untyped-def]
    x = np.arange(12, dtype=np.float32)
    kernel("add")[1, 32](x, x, x, 12)
    np.testing.assert_array_equal(x, 2 * np.arange(12))
    y = np.zeros(20, np.float32)
    y[:10] = 1
    # each thread reads an element before any thread has written it
    kernel("add")[1, 32](y[:10], y[:10], y[5:15], 10)
    assert y[12:15].tolist() == [2, 2, 2]
    assert y[15:].tolist() == [0] * 5


def test_large_arrays(kernel, device: str) -> None:  # type: ignore[no-untyped-def]
    size = 40_000_003 if device == "cuda" else 300_007
    x = np.ones(size, np.float32)
    kernel("scale")[-(-size // 256), 256](x, 7.0, size)
    assert (x == 7).all()


def test_templates_and_manglings(kernel) -> None:  # type: ignore[no-untyped-def]
    x = np.zeros(4)
    kernel("fill<double, 5>")[1, 4](x, 0.5)
    assert x.tolist() == [2.5] * 4
    assert kernel("add").name == "add"
    assert kernel("add").entry.startswith("_Z")
    with pytest.raises(ValueError, match="its kernels are scale, add"):
        kernel("nope")


def test_ptx_text_is_used_unchanged(kernel, device: str) -> None:  # type: ignore[no-untyped-def]
    # The compiler may write a newer version of PTX than the GPU's driver can read.
    ptx = re.sub(r"\.version \d+\.\d+", ".version 8.0", kernel("scale").ptx, count=1)
    again = coalesce.Kernel(ptx, "scale", device=device)
    x = np.ones(5, np.float32)
    again[1, 32](x, 4.0, 5)
    assert x.tolist() == [4] * 5
    assert again.signature.parameters[0].name == "arg0"


def test_a_timed_launch_leaves_the_result_of_one_launch(kernel, device: str) -> None:  # type: ignore[no-untyped-def]
    where = np.zeros(1, np.int32)
    plain = kernel("count").launch(2, 64, where)
    assert where[0] == 128
    assert (plain.runs, plain.kernel_ms) == (0, 0.0)
    timed = kernel("count").launch(2, 64, where, runs=7)
    assert where[0] == 256
    assert timed.kernel_ms > 0
    assert timed.source == ("measured" if device == "cuda" else "modelled")
    assert timed.runs == (7 if device == "cuda" else 1)
    if device == "cuda":
        assert timed.h2d_ms > 0
        assert timed.d2h_ms > 0
        enough = kernel("count").launch(2, 64, where, runs="auto")
        assert 5 <= enough.runs <= 220


def test_write_only_arrays(kernel) -> None:  # type: ignore[no-untyped-def]
    a = np.arange(10, dtype=np.float32)
    out = np.zeros(10, np.float32)
    kernel("add").launch(1, 32, a, a, out, 10, write_only=("out",))
    np.testing.assert_array_equal(out, 2 * a)
    with pytest.raises(ValueError, match="write_only"):
        kernel("add").launch(1, 32, a, a, out, 10, write_only=("result",))


def test_wrong_arguments_name_the_parameter(kernel) -> None:  # type: ignore[no-untyped-def]
    bound = kernel("scale")[1, 32]
    x = np.zeros(3, np.float32)
    with pytest.raises(TypeError, match=r"scale\(float \*x, float factor, int n\) takes 3"):
        bound(x)
    with pytest.raises(
        TypeError, match=r"`x` \(float \*\) needs an array of float32; got dtype int64"
    ):
        bound(np.zeros(3, np.int64), 1.0, 3)
    with pytest.raises(TypeError, match=r"`n` \(int\) needs int32; got numpy.float64"):
        bound(x, 1.0, np.float64(3))
    with pytest.raises(ValueError, match=r"`x` \(float \*\) is a broadcast array"):
        bound(np.broadcast_to(np.float32(2), (10,)), 1.0, 3)
    assert not x.any()
    bound(x, 1.0, np.int64(3))
    with pytest.raises(TypeError):
        bound(x, 1.0, n=3)
    with pytest.raises(ValueError, match='`runs` must be a positive int or "auto"'):
        kernel("scale").launch(1, 32, x, 1.0, 3, runs=0)


def test_the_same_geometry_is_bound_once(kernel) -> None:  # type: ignore[no-untyped-def]
    k = kernel("scale")
    assert k[(1, 2), 32] is k[(1, 2), 32]
    assert k[[1, 2], 32] is not None
    for grid in range(1, 600):
        k[grid, 32]
    assert len(k._bound) <= 256


def test_a_bound_launch_keeps_its_kernel(device: str) -> None:
    """A launch works after every other reference to its kernel and its module is gone."""
    source = 'extern "C" __global__ void fill(float* x, float v) { x[threadIdx.x] = v; }'
    launches = [coalesce.Kernel(source, "fill", device=device)[1, 8] for _ in range(3)]
    gc.collect()
    x = coalesce.zeros(8, np.float32, device=device)
    for value, launch in enumerate(launches):
        launch(x, float(value))
        np.testing.assert_array_equal(x.get(), value)


@pytest.mark.parametrize(
    "key",
    [
        (True, 8),
        (1.0, 8),
        (1, np.float32(8)),
        ((1, 1.0), 8),
        (1, (8, True)),
        (1, 8, False),
        (1, 8, 0.0),
        (1, 8, 0, False),
    ],
    ids=repr,
)
def test_a_wrong_geometry_is_refused_after_an_equal_right_one(key: object) -> None:
    kernel = coalesce.Kernel('extern "C" __global__ void k() {}', device="sim")
    for valid in [(1, 8), ((1, 1), 8), (1, (8, 1)), (1, 8, 0), (1, 8, 0, 0)]:
        kernel[valid]()
    with pytest.raises(TypeError, match=r"must be an integer|must be a stream"):
        kernel[key]


def test_kernels_are_collected(kernel) -> None:  # type: ignore[no-untyped-def]
    import weakref

    k = kernel("scale")
    k[1, 32](np.zeros(3, np.float32), 1.0, 3)
    gone = weakref.ref(k)
    del k
    gc.collect()
    assert gone() is None


def test_a_fault_is_reported_and_survived(kernel, device: str) -> None:  # type: ignore[no-untyped-def]
    x = np.zeros(4, np.float32)
    if device == "sim":
        with pytest.raises(coalesce.MemoryFault):
            kernel("beyond")[1, 1](x)
        again = np.ones(4, np.float32)
        kernel("scale")[1, 32](again, 2.0, 4)
        assert again.tolist() == [2] * 4
        return
    # This test uses its own process, because a fault resets the GPU's context, which other
    # libraries share.
    done = subprocess.run(
        [sys.executable, "-c", f"SOURCE = {SOURCE!r}\n{_FAULT}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    reported, lost, later = done.stdout.split("----\n")
    # The kind of fault depends on the memory that the stray address happens to hit.
    assert reported.startswith("kernel `beyond` failed on cuda:0")
    assert re.search("CUDA_ERROR_(ILLEGAL_ADDRESS|INVALID_ADDRESS_SPACE|LAUNCH_FAILED)", reported)
    assert 'device="sim"' in reported
    assert "memory is lost" in lost
    # The driver decides whether a process can continue after a fault. Either way the error says so.
    assert later == ("[2.0, 2.0, 2.0, 2.0]\n" if "new calls work" in reported else "new process\n")


_FAULT = """
import numpy as np, coalesce
from coalesce.array import to_device
x = np.zeros(4, np.float32)
kept = to_device(x)
scale = coalesce.Kernel(SOURCE, "scale", device="cuda")
scale[1, 32](np.ones(5_000_000, np.float32), 2.0, 4)  # through the pinned ring
for what in (lambda: coalesce.Kernel(SOURCE, "beyond", device="cuda")[1, 1](x), kept.get):
    try:
        what()
    except coalesce.LaunchError as error:
        print(error)
    print("----")
x[:] = 1
try:
    scale[1, 32](x, 2.0, 4)
    scale[1, 32](np.ones(5_000_000, np.float32), 2.0, 4)
    print(x.tolist())
except coalesce.LaunchError as error:
    print("new process" if "Start a new process" in str(error) else error)
scale.launch(1, 32, x, 2.0, 4, device="sim")
"""


def test_a_launch_from_a_signal_handler_of_a_launch():
    """The outer launch could only end after the handler, so a launch by the handler cannot wait."""
    source = """__device__ int total;
    extern "C" __global__ void k(unsigned *x, int n) {
        unsigned sum = 0;
        for (int i = 0; i < n; ++i) sum += x[i & 31] * i;
        x[threadIdx.x] = sum;
        total = 7;
    }"""
    kernel, other = coalesce.Kernel(source, device="sim"), coalesce.Kernel(source, device="sim")
    said, results = [], []
    n = 40_000_000  # a launch takes about a second, and the signal comes after 0.3 s

    def launch(*_: object) -> None:
        for use in (
            lambda: kernel[1, 1](np.ones(32, np.uint32), 3),
            lambda: kernel.globals["total"],
        ):
            with pytest.raises(coalesce.LaunchError) as error:
                use()
            said.append(str(error.value))
        results.append(np.ones(32, np.uint32))
        other[1, 1](results[0], 3)

    before = signal.signal(signal.SIGUSR1, launch)
    try:
        for each in (kernel, other):  # later launches begin at once
            each[1, 32](np.ones(32, np.uint32), 1)
        x = np.ones(32, np.uint32)
        sender = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
        sender.start()
        kernel[1, 32](x, n)
        sender.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(said) == 2
    assert all("is running in this thread" in text for text in said)
    assert results[0][0] == 3
    assert (x == n * (n - 1) // 2 % 2**32).all()
    kernel[1, 1](x, 0)  # the kernel can be launched again


@pytest.mark.usefixtures("on_simulator")
@pytest.mark.parametrize("method", ["profile", "check", "trace", "observe"])
@pytest.mark.parametrize("name", ["sim:rtx3090", "sim:a100", "sim"])
def test_all_methods_take_the_device_of_the_kernel(method: str, name: str) -> None:
    """They compile for this GPU, and use its copy of the `__device__` variables."""
    source = """
    __device__ int arch;
    extern "C" __global__ void ask(int* out) {
    #ifdef __CUDA_ARCH__
        out[0] = arch = __CUDA_ARCH__;
    #endif
    }"""
    kernel = coalesce.Kernel(source, "ask", device=name)
    right, arch = np.zeros(1, np.int32), np.zeros(1, np.int32)
    kernel[1, 1](right)
    kernel.globals["arch"] = 0
    options = {"callback": len} if method == "observe" else {}
    getattr(kernel, method)(1, 1, arch, **options)
    assert arch == right > 0
    assert kernel.globals["arch"] == right
