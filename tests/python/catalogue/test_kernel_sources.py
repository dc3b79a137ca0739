"""Sources of kernels: files, architectures, templates, several kernels, and PTX."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

import coalesce
from coalesce.arrays import devices
from coalesce.compile import nvrtc

SCALE = """
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""
ARCHITECTURE = """
extern "C" __global__ void architecture(int *out) {
#ifdef __CUDA_ARCH__
    out[0] = __CUDA_ARCH__;
#endif
}
"""


def test_files(tmp_path: Path, device: str) -> None:
    (tmp_path / "factor.cuh").write_text("#define FACTOR 3\n")
    path = tmp_path / "own.cu"
    path.write_text('#include "factor.cuh"\n' + SCALE.replace("*= factor", "*= factor * FACTOR"))
    kernel = coalesce.Kernel(path, device=device)
    x = np.ones(4, np.float32)
    kernel[1, 32](x, 2.0, 4)
    assert x.tolist() == [6] * 4

    path.write_text("\n\nbroken")
    with pytest.raises(coalesce.CompileError, match=r"own\.cu\(3\): error"):
        coalesce.Kernel(path, device=device)


@pytest.mark.usefixtures("loads_ptx")
def test_files_of_ptx(tmp_path: Path, device: str) -> None:
    ptx = tmp_path / "own.ptx"
    ptx.write_text(coalesce.Kernel(SCALE, device=device).ptx)
    x = np.ones(4, np.float32)
    coalesce.Kernel(ptx, "scale", device=device)[1, 32](x, 2.0, 4)
    assert x.tolist() == [2] * 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\x02", "is machine code without PTX; `source` must be"),
        (b"// a\n// \xff\n", "the source has no kernel"),
    ],
)
def test_invalid_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "odd.cu"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        coalesce.Kernel(path)
    with pytest.raises(FileNotFoundError):
        coalesce.Kernel(tmp_path / "missing.cu")


def test_a_pipe_to_which_nobody_writes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no kernel"):
        coalesce.Kernel(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("kernels/tile.cu", ValueError, r"there is no file 'kernels/tile.cu'"),
        ("\n// \0", ValueError, "NUL character in line 2"),
        ("\n// \udc80", ValueError, r"surrogate \('.udc80'\), which is not text, in line 2"),
        (tempfile.gettempdir(), ValueError, "is a folder"),
        (Path(tempfile.gettempdir()), ValueError, "is a folder"),
        (Path("/dev/zero"), ValueError, r"/dev/zero has more than the 134,217,728 bytes"),
        ("", ValueError, "no kernel"),
        ("int main() {}", ValueError, "the source has no kernel"),
        ("#include <iostream>\n", ValueError, "the source has no kernel"),
        ("__global__ void k() { cudaMalloc(0, 0); }", coalesce.CompileError, "launch from Python"),
        ("__global__ void k() { k<<<1, 1>>>(); }", coalesce.CompileError, "launch from Python|lau"),
        ("float f(float x) { return x; }", coalesce.CompileError, r"__device__ \.\.\. f\(\.\.\.\)"),
        (
            "__device__ int f(int); __global__ void k(int *x) { *x = f(1); }",
            coalesce.CompileError,
            "f is declared, but this source does not contain its body",
        ),
    ],
)
def test_invalid_sources(source: str | Path, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        coalesce.Kernel(source, device="sim")


def test_an_error_shows_the_line_and_a_caret() -> None:
    with pytest.raises(coalesce.CompileError) as caught:
        coalesce.Kernel("__global__ void k(float *a) {\n  a[0] = b;\n}", filename="mine.cu")
    lines = str(caught.value).splitlines()
    at = lines.index('mine.cu(2): error: identifier "b" is undefined')
    assert lines[at + 1].endswith("a[0] = b;")
    assert lines[at + 2].index("^") == lines[at + 1].index("b;")


def test_sizes_are_bounded() -> None:
    with pytest.raises(
        ValueError, match=r"`source` has 104,857,600 characters; at most 33,554,432"
    ):
        coalesce.Kernel("/" * (100 << 20))


# --- architectures --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "number"), [("sm_80", 800), (80, 800), ("compute_80", 800), ("90", 900), (None, None)]
)
def test_architectures(
    arch: str | int | None, number: int | None, device: str, request: pytest.FixtureRequest
) -> None:
    if number == 800:
        request.getfixturevalue("loads_ptx")
    kernel = coalesce.Kernel(ARCHITECTURE, arch=arch, device=device)
    out = np.zeros(1, np.int32)
    kernel[1, 1](out)
    if number is None:
        major, minor = kernel.device.compute_capability
        number = 100 * major + 10 * minor
    assert out[0] == number
    assert f".target sm_{number // 10}" in kernel.ptx


@pytest.mark.parametrize("arch", ["ampere", "sm_", 8.0, True, "sm_9x", (8, 0)])
def test_wrong_architectures(arch: object) -> None:
    with pytest.raises(ValueError, match='`arch` must be a compute capability such as "sm_80"'):
        coalesce.Kernel(SCALE, arch=arch)  # type: ignore[arg-type]


def test_unknown_architectures() -> None:
    with pytest.raises(coalesce.CompileError, match="This NVRTC can compile for sm_"):
        coalesce.Kernel(SCALE, arch="sm_11")
    ptx = coalesce.Kernel(SCALE, device="sim").ptx
    with pytest.raises(ValueError, match="the source is PTX"):
        coalesce.Kernel(ptx, arch=80, device="sim")


# --- several kernels and templates ----------------------------------------------------------------

SEVERAL = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
namespace ns {
template <int TILE> __global__ void tile(int *out) {
    __shared__ int staged[TILE];
    staged[threadIdx.x % TILE] = TILE + SHIFT;
    __syncthreads();
    out[threadIdx.x] = staged[0];
}
}
template <typename T> __global__ void twice(T *x) { T y = x[threadIdx.x]; x[threadIdx.x] = y + y; }
extern "C" __global__ void alone(int *out) { out[threadIdx.x] = SHIFT; }
"""
GROUP = """
#include <cooperative_groups.h>
extern "C" __global__ void group(int *out) {
    auto block = cooperative_groups::this_thread_block();
    auto warp = cooperative_groups::tiled_partition<32>(block);
    out[block.thread_rank()] = warp.thread_rank();
}
"""


def test_templates_headers_and_definitions(device: str) -> None:
    if not nvrtc.include_folders():
        pytest.skip("CUDA's headers are not installed")
    options = ["-DSHIFT=100"]
    out = np.zeros(8, np.int32)
    coalesce.Kernel(SEVERAL, "ns::tile<16>", options, device=device)[1, 8](out)
    assert out.tolist() == [116] * 8

    half = np.arange(4, dtype=np.float16)
    coalesce.Kernel(SEVERAL, "twice<__half>", options, device=device)[1, 4](half)
    assert half.tolist() == [0, 2, 4, 6]
    brain = (np.arange(4, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    coalesce.Kernel(SEVERAL, "twice<__nv_bfloat16>", options, device=device)[1, 4](brain)
    assert (brain.astype(np.uint32) << 16).view(np.float32).tolist() == [0, 2, 4, 6]

    out = np.zeros(64, np.int32)
    coalesce.Kernel(SEVERAL + GROUP, "group", options, device=device)[1, 64](out)
    np.testing.assert_array_equal(out, np.arange(64) % 32)

    with pytest.raises(ValueError, match=r"'tile' is a template.*entry=\"tile<float>\"|tile"):
        coalesce.Kernel(SEVERAL, "tile", options, device=device)
    with pytest.raises(coalesce.CompileError, match="nope"):
        coalesce.Kernel(SEVERAL, "nope<3>", options, device=device)


# --- globals --------------------------------------------------------------------------------------

GLOBALS = """
#define ROWS 2
constexpr int COLS = 3;
struct Pair { int a; float b; };
namespace ns { __constant__ float weights[ROWS][COLS + 1] = {1, 2}; __device__ double idle[4]; }
__device__ int calls = 5;
static __device__ unsigned char hidden;
__device__ Pair pairs[3];
__device__ __align__(16) float4 vectors[2];
__constant__ bool on;
__device__ int first, second[COLS];
__device__ const int fixed = 3;
__device__ float *pointer;
__device__ long long function(int calls) { return calls; }
template <int N> __device__ int sized = N;

extern "C" __global__ void k(float *out) {
    if (threadIdx.x == 0) { ++calls; ++hidden; }
    out[threadIdx.x] = ns::weights[1][threadIdx.x] + pairs[1].b + vectors[1].z + on + sized<7>
        + second[2] + fixed + first + function(0);
}
extern "C" __global__ void tell(int *out) { *out = calls; }
"""


@pytest.fixture
def kernel(device: str) -> coalesce.Kernel:
    return coalesce.Kernel(GLOBALS, "k", device=device)


def test_listed_variables(kernel: coalesce.Kernel) -> None:
    listed = {name.split("::")[-1]: kernel.globals[name] for name in kernel.globals}
    shapes = {name: (value.dtype.str[1:], value.shape) for name, value in listed.items()}
    assert shapes == {
        "weights": ("f4", (2, 4)),
        "idle": ("f8", (4,)),
        "calls": ("i4", ()),
        "hidden": ("u1", ()),
        "pairs": ("u1", (24,)),
        "vectors": ("f4", (2, 4)),
        "on": ("b1", ()),
        "first": ("i4", ()),
        "second": ("i4", (3,)),
        "fixed": ("i4", ()),
        "pointer": ("u8", ()),
        "sized": ("i4", ()),
    }
    assert listed["weights"].tolist() == [[1, 2, 0, 0], [0] * 4]
    assert listed["calls"] == 5
    text = repr(kernel.globals)
    assert "__constant__ float ns::weights[2][4]" in text
    assert "__device__ int calls" in text


def test_variables_are_read_and_set(kernel: coalesce.Kernel) -> None:
    out = np.zeros(4, np.float32)
    values = kernel.globals
    values["ns::weights"] = np.arange(8).reshape(2, 4)
    pairs = np.array([(1, 2), (3, 100), (5, 6)], [("a", "i4"), ("b", "f4")])
    values["pairs"] = pairs
    values["vectors"] = np.array([[1, 2, 3, 4], [5, 6, 1000, 8]], np.float32)
    values["on"] = True
    values["first"] = 10_000
    values["second"] = 0
    kernel[1, 4](out)
    expected = np.arange(4, 8) + 100 + 1000 + 1 + 7 + 0 + 3 + 10_000
    np.testing.assert_array_equal(out, expected)
    assert values["calls"] == 6
    assert values["hidden"] == 1
    np.testing.assert_array_equal(values["pairs"].view(pairs.dtype), pairs)
    values["calls"] = -1
    kernel[1, 4](out)
    assert values["calls"] == 0


def test_variables_belong_to_the_module(kernel: coalesce.Kernel, device: str) -> None:
    out, count = np.zeros(4, np.float32), np.zeros(1, np.int32)
    # Blocks may run one after another or at the same time. On a GPU the sum may be smaller.
    kernel[3, 4](out)
    tell = kernel.get_function("tell")
    tell[1, 1](count)
    assert count[0] == kernel.globals["calls"] == tell.globals["calls"]
    apart = coalesce.Kernel(GLOBALS, "tell", device=device)
    apart[1, 1](count)
    assert count[0] == 5
    with pytest.raises(ValueError, match="no kernel 'nope'"):
        kernel.get_function("nope")
    with pytest.raises(ValueError, match="was not compiled with this kernel"):
        kernel.get_function("tell<3>")


def test_another_kernel_of_a_template_s_source(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
    template <class T> __global__ void fill(T *x, T value) { x[threadIdx.x] = value; }
    extern "C" __global__ void count(int *n) { *n += 1; }"""
    fill = coalesce.Kernel(source, "fill<float>", device=device)
    count = fill.get_function("count")
    assert (fill.name, count.name, count.entry) == ("fill<float>", "count", "count")
    n = np.zeros(1, np.int32)
    count[1, 1](n)
    assert n[0] == 1
    # If there is a GPU, the launch for Nsight Compute is kept.
    monkeypatch.setattr(devices, "gpu_status", lambda: devices.GpuStatus("ok", "1 GPU"))
    assert count.profile(1, 1, n)._launch.kernel.entry == "count"
    for again in (fill.get_function("fill<float>"), fill.get_function(fill.entry)):
        assert (again.name, again.entry) == (fill.name, fill.entry)
        x = np.zeros(4, np.float32)
        again[1, 4](x, 2.5)
        assert np.all(x == 2.5)


def test_spaces_in_template_arguments_do_not_matter(device: str) -> None:
    source = "template <int n, bool up> __global__ void k(int *x) { *x = up ? n : -n; }"
    for compiled in ("k<2, true>", "k<2,true>"):
        first = coalesce.Kernel(source, compiled, device=device)
        for name in ("k<2,true>", "k<2, true>", "k< 2 ,true >"):
            x = np.zeros(1, np.int32)
            first.get_function(name)[1, 1](x)
            assert x[0] == 2
        with pytest.raises(ValueError, match="was not compiled with this kernel"):
            first.get_function("k<22,true>")


def test_a_copy_cannot_be_mistaken_for_the_variable(kernel: coalesce.Kernel) -> None:
    with pytest.raises(ValueError, match="read-only"):
        kernel.globals["weights"][0, 0] = 1


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("nope", 1, KeyError, "the variables are .*ns::weights"),
        ("weights", np.zeros((3, 3)), ValueError, r"dtype float32; got shape \(3, 3\)"),
        ("calls", 1.5, TypeError, "int32; got dtype float64"),
        ("calls", 2**31, ValueError, "outside the range of int32"),
        ("hidden", -1, ValueError, "outside the range of uint"),
        ("first", 1j, TypeError, "got dtype complex128"),
        ("weights", 1e39, ValueError, "outside the range of float32"),
        ("weights", "text", TypeError, "got dtype <U4"),
        ("fixed", 4, ValueError, "is const"),
    ],
)
def test_invalid_values_of_variables(
    kernel: coalesce.Kernel, name: str, value: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        kernel.globals[name] = value


@pytest.mark.usefixtures("loads_ptx")
def test_variables_of_ptx(kernel: coalesce.Kernel, device: str) -> None:
    again = coalesce.Kernel(kernel.ptx, "tell", device=device)
    assert again.globals["calls"] == 5
    # PTX knows the size of a variable, not its sign.
    assert again.globals["calls"].dtype == np.uint32
    assert again.globals["ns::weights"].shape == (32,)
    again.globals["calls"] = 7
    out = np.zeros(1, np.int32)
    again[1, 1](out)
    assert out[0] == 7


# --- streams --------------------------------------------------------------------------------------


class Handle:
    """A stream in the forms that different libraries use."""

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)

    def __repr__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in vars(self).items())


@pytest.mark.parametrize(
    "stream",
    [None, 0, 1, Handle(cuda_stream=0), Handle(ptr=0), Handle(handle=0), Handle(handle=None)],
    ids=str,
)
def test_streams_of_every_library(device: str, stream: object) -> None:
    kernel = coalesce.Kernel(SCALE, device=device)
    x = np.ones(4, np.float32)
    kernel[1, 32, 0, stream](x, 2.0, 4)
    kernel.launch(1, 32, x, 2.0, 4, stream=stream)
    assert x.tolist() == [4] * 4


def test_the_stream_protocol(device: str) -> None:
    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 1

    x = np.ones(4, np.float32)
    coalesce.Kernel(SCALE, device=device)[1, 32, 0, Protocol()](x, 2.0, 4)
    assert x.tolist() == [2] * 4


NVCC = shutil.which("nvcc")


@pytest.mark.skipif(NVCC is None, reason="there is no nvcc")
def test_ptx_of_nvcc(tmp_path: Path, device: str) -> None:
    """PTX from `nvcc -ptx -lineinfo`: a template kernel, a shared array and a __constant__."""
    source = tmp_path / "own.cu"
    source.write_text("""
    #include <cstdio>
    __constant__ float factor = 3;
    template <int tile> __global__ void reverse(const float *x, float *y, int n) {
        __shared__ float s[tile];
        int i = blockIdx.x * tile + threadIdx.x;
        s[threadIdx.x] = i < n ? factor * x[i] : 0;
        __syncthreads();
        if (i < n) y[i] = s[tile - 1 - threadIdx.x];
    }
    template __global__ void reverse<64>(const float *, float *, int);
    int main() { printf("host code\\n"); }""")
    ptx = tmp_path / "own.ptx"
    assert NVCC is not None
    command = [NVCC, "-ptx", "-arch=compute_80", "-lineinfo", "-o", str(ptx), str(source)]
    subprocess.run(command, check=True)
    kernel = coalesce.Kernel(ptx, "reverse", device=device)
    x = np.arange(128, dtype=np.float32)
    y = np.zeros_like(x)
    kernel[2, 64](x, y, 128)
    np.testing.assert_array_equal(y, 3 * x.reshape(2, 64)[:, ::-1].ravel())
    kernel.globals["factor"] = 2
    kernel[2, 64](x, y, 128)
    np.testing.assert_array_equal(y, 2 * x.reshape(2, 64)[:, ::-1].ravel())
    with pytest.raises(coalesce.MemoryFault, match="line 7"):
        coalesce.Kernel(ptx, device="sim")[3, 64](x, y, 192)
