"""CUDA C++ files that nvcc accepts: with main(), host headers and launches."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coalesce
from coalesce.compile import nvrtc

PROGRAM = r"""
#include <iostream>
#include <vector>
#include <chrono>
#include <cuda_runtime.h>
#include <cublas_v2.h>
#include "helper_cuda.h"
#include <no_such_header.h>
using namespace std;
using namespace std::chrono;
using std::vector;

#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \
    std::cerr << cudaGetErrorString(e) << std::endl; exit(1); } } while (0)
#define N 64

const float FACTOR = 3.0f;
int verbose = 1;
static std::vector<float> results;
__constant__ float offset[2];

struct Timer {
    std::chrono::steady_clock::time_point start;
    double seconds() const { return 0; }
};
struct Range {
    int first, last;
    Range(int a, int b) : first(a), last(b) {}
    std::string text() const { return std::to_string(first); }
    __device__ int size() const { return last - first; }
};

constexpr int twice(int x) { return 2 * x; }
template <typename T> __host__ __device__ T square(T x) { return x * x; }
void fill(std::vector<float> &v) { for (auto &x : v) x = rand() / (float)RAND_MAX; }

__global__ void scale(float *x, int n, Range range) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = square(x[i]) * FACTOR + twice(range.size());
}

#ifdef WITH_ARGUMENTS
int main(int argc, char **argv) {
#else
int main() {
#endif
    float *d_x;
    vector<float> x(N);
    fill(x);
    CHECK(cudaMalloc(&d_x, N * sizeof(float)));
    scale<<<1, N>>>(d_x, N, Range(1, 3));
    CHECK(cudaDeviceSynchronize());
    cout << "done" << endl;
    return 0;
}
"""


def _one(*kernel: Any, before: float = 0, **options: Any) -> float:
    """Return the number that one thread of a kernel leaves in place of `before`."""
    x = np.full(1, before, np.int32)
    coalesce.Kernel(*kernel, **options)[1, 1](x)
    return x[0]


def _line(text: str, start: str) -> int:
    return next(i for i, line in enumerate(text.split("\n"), 1) if line.startswith(start))


def test_a_program(device: str) -> None:
    kernel = coalesce.Kernel(PROGRAM, device=device)
    x = np.arange(5, dtype=np.float32)
    kernel[1, 32](x, 5, np.array([1, 3], np.int32).tobytes())
    assert x.tolist() == [3 * i * i + 4 for i in range(5)]
    left_out = "\n".join(kernel.left_out)
    for name in ("no_such_header.h", "main() (lines", "fill() (line", "Timer (lines", "verbose"):
        assert name in left_out
    for name in ("scale", "square", "FACTOR", "offset", "Range"):
        assert f"{name} (" not in left_out
        assert f"{name}() (" not in left_out
    assert kernel.source == PROGRAM


def test_lines_have_the_numbers_of_the_file() -> None:
    kernel = coalesce.Kernel(PROGRAM, device="sim")
    x = np.arange(5, dtype=np.float32)
    profile = kernel.profile(1, 32, x, 5, np.array([1, 3], np.int32).tobytes())
    line = _line(PROGRAM, "    if (i < n) x[i]")
    assert [covered.number for covered in profile.lines() if covered.accesses] == [line]


def test_a_mistake_is_shown_in_its_own_line() -> None:
    wrong = PROGRAM.replace("* FACTOR", "* FACTOOR")
    with pytest.raises(coalesce.CompileError, match='"FACTOOR" is undefined') as raised:
        coalesce.Kernel(wrong, device="sim")
    assert f"kernel.cu({_line(wrong, '    if (i < n) x[i]')}): error" in str(raised.value)
    assert "no_such_header.h" in str(raised.value)  # the header may define the unknown names


def test_kernels_in_a_header_that_is_missing() -> None:
    source = '#include <sys/time.h>\n#include "opt1.cu"\nvoid unused() { compute(0); }\n'
    with pytest.raises(coalesce.CompileError, match=r"has no kernel(.|\n)*sys/time.h, opt1.cu"):
        coalesce.Kernel(source, device="sim")


def test_a_host_function_that_kernels_call_is_named() -> None:
    source = (
        "float half_of(float x) { return x / 2; }\n"
        "__global__ void k(float *x) { *x = half_of(*x); }\n"
        "int main() { k<<<1, 1>>>(0); }\n"
    )
    with pytest.raises(coalesce.CompileError, match=r"`half_of` \(line 1\) is host code"):
        coalesce.Kernel(source, device="sim")


TEMPLATES = r"""
#include <cstdio>
template <typename T, int UNROLL = 2>
__global__ void add(T *x, T y) { for (int i = 0; i < UNROLL; ++i) x[i] += y; }
template <int TILE> __global__ void tile(int *x) { x[0] = TILE; }
template <typename T> __global__ void never(T *x) { *x = 0; }

template <int TILE> void run(int *x) { tile<TILE><<<1, 1>>>(x); tile<TILE * 2><<<1, 1>>>(x); }

int main() {
    float *d_x;
    int *d_i = nullptr;
    double y = 3;
    const int WIDTH = 4;
    cudaMalloc((void **)&d_x, 16);
    add<<<1, 1>>>(d_x, 1.0f);
    add<int, WIDTH + 1><<<1, 1>>>(d_i, 2);
    run<8>(d_i);
    printf("%f\n", y);
}
"""


def test_templates_that_the_program_launches(device: str) -> None:
    with pytest.raises(ValueError, match="4 kernels; choose one") as raised:
        coalesce.Kernel(TEMPLATES, device=device)
    for name in ("add<float, 2>", "add<int, (4)+1>", "tile<8>", "tile<8 * 2>"):
        assert name.replace("(4)", "4").replace("4+1", "4 + 1") in str(raised.value)
    x = np.zeros(4, np.float32)
    coalesce.Kernel(TEMPLATES, "add<float, 2>", device=device)[1, 1](x, 1.5)
    assert x.tolist() == [1.5, 1.5, 0, 0]
    with pytest.raises(ValueError, match="the name of several kernels"):
        coalesce.Kernel(TEMPLATES, "tile", device=device)
    assert _one(TEMPLATES, "tile<8 * 2>", device=device) == 16
    assert _one(TEMPLATES, "tile<3>", device=device) == 3  # the program does not launch this one


def test_one_instantiation_needs_no_arguments(device: str) -> None:
    source = TEMPLATES.replace("tile<TILE * 2><<<1, 1>>>(x);", "")
    assert _one(source, "tile", device=device) == 8


def test_templates_without_a_launch_are_listed() -> None:
    with pytest.raises(ValueError, match=r'never.* entry="never<float>"'):
        coalesce.Kernel("template <class T> __global__ void never(T *x) {}\nint main() {}")


def test_own_headers_with_host_code(tmp_path: Path, device: str) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "scale.cuh").write_text(
        '#pragma once\n#include <iostream>\n#include "factor.h"\n'
        "__global__ void scale(float *x) { *x *= FACTOR; }\n"
        "inline void launch(float *x) { scale<<<1, 1>>>(x); std::cout << FACTOR; }\n"
    )
    (tmp_path / "factor.h").write_text("#define FACTOR 5\n")
    path = tmp_path / "main.cu"
    path.write_text('#include "kernels/scale.cuh"\nint main() { launch(0); }\n')
    for source in (path, str(path)):
        kernel = coalesce.Kernel(source, device=device)
        assert [p.name for p in kernel.signature.parameters] == ["x"]
        x = np.ones(1, np.float32)
        kernel[1, 1](x)
        assert x[0] == 5


def test_definitions_that_nvcc_provides(device: str) -> None:
    source = """
    #include <algorithm>
    #include <cfloat>
    #include <climits>
    #include <cmath>
    #include <cstdint>
    #include <limits>
    #include <type_traits>
    #include <utility>
    using namespace std;
    __global__ void k(double *x, uint a, ulong b, ushort c) {
        register int i = 0;
        x[i++] = M_PI;
        x[i++] = std::max(1.5f, 2.5f) + std::min(a, 3u) + max(1, 2);
        x[i++] = numeric_limits<float>::max();
        x[i++] = -std::numeric_limits<double>::infinity();
        x[i++] = std::is_same<int, float>::value + 2 * is_floating_point_v<double>;
        x[i++] = UINT32_C(7) + b + c;
        x[i++] = FLT_MAX;
        x[i++] = INT_MAX;
        x[i++] = std::sqrt(2.0) + std::abs(-2);
        x[i++] = sizeof(conditional_t<true, char, int>) + sizeof(std::uint64_t);
        x[i++] = DBL_MAX;
        std::swap(x[0], x[1]);
    }
    """
    x = np.zeros(11)
    coalesce.Kernel(source, device=device)[1, 1](x, 2, 10, 100)
    limit = np.finfo(np.float32).max
    wanted = [6.5, np.pi, limit, -np.inf, 2, 117, limit, 2**31 - 1, np.sqrt(2) + 2, 9]
    assert x.tolist() == [*wanted, np.finfo(float).max]


def test_names_that_nvcc_defines_without_a_header() -> None:
    source = """
    #ifdef WITH
    #include <cuda.h>
    #include <climits>
    #include <cstddef>
    #include <cstdlib>
    #if CUDA_VERSION < 12000
    #error "an old version"
    #endif
    #endif
    #if CUDART_VERSION < 12000
    #error "an old version"
    #endif
    struct S { char a; double b; };
    __global__ void k(double *x) {
        double values[] = {LONG_MAX, LONG_MIN, ULONG_MAX, CHAR_MIN, SCHAR_MIN, UCHAR_MAX,
                           USHRT_MAX, SHRT_MIN, RAND_MAX, MAXFLOAT, EXIT_FAILURE, offsetof(S, b)};
        for (int i = 0; i < 12; ++i) x[i] = values[i];
    }"""
    for options in ((), ("-DWITH",)):
        x = np.zeros(12)
        coalesce.Kernel(source, options=options, device="sim")[1, 1](x)
        integers = [2**63, -(2**63), 2**64, -128, -128, 255, 65535, -32768, 2**31 - 1]
        assert x.tolist() == [*integers, float(np.finfo(np.float32).max), 1, 8]


def test_the_least_and_the_greatest_of_several(device: str) -> None:
    source = """
    #include <algorithm>
    using namespace std;
    __global__ void k(int *x) {
        static_assert(std::min({3, 2, 4}) == 2);
        x[5] = std::min({x[0], x[1], x[2]}) + 10 * max({x[0], x[1], x[2]});
        x[6] = std::max<int>({x[3], 'a', 7});
        x[7] = std::min({x[0], x[1]}, [](int a, int b) { return a > b; });
        x[8] = int(std::max({1.5f, float(x[4])}) * 2);
    }
    """
    x = np.array([3, 1, 2, 9, 4, 0, 0, 0, 0], np.int32)
    coalesce.Kernel(source, device=device)[1, 1](x)
    assert x[5:].tolist() == [31, 97, 3, 8]


@pytest.mark.parametrize(
    "header",
    [
        *("cub/cub.cuh", "cuda/barrier", "cuda/pipeline", "mma.h", "cooperative_groups.h"),
        *("cooperative_groups/reduce.h", "cooperative_groups/memcpy_async.h", "array", "complex"),
    ],
)
def test_headers_of_cuda(header: str) -> None:
    source = f"#include <{header}>\n__global__ void k(int *x) {{ *x = 1; }}"
    assert coalesce.Kernel(source, device="sim").log == ""


@pytest.mark.parametrize(
    "header",
    [
        *("cuda_device_runtime_api.h", "channel_descriptor.h", "driver_functions.h", "nvvm.h"),
        *("cuda/stream_ref", "cub/util_allocator.cuh", "thrust/swap.h", "thrust/sort.h"),
    ],
)
def test_headers_of_the_host_in_a_program(header: str) -> None:
    source = f"""#include <cuda_runtime.h>
    #include <{header}>
    template <int N> struct Two {{ THRUST_STATIC_ASSERT(N == 2); int x[N]; }};
    __global__ void k(int *x) {{ Two<2> two; two.x[0] = 1; *x = two.x[0]; }}
    int main() {{ k<<<1, 1>>>(nullptr); }}"""
    assert _one(source, device="sim") == 1


@pytest.mark.parametrize(
    "value", ["=\n MACRO(2);", "= 1 +\n MACRO(2);", "{\n MACRO(2)\n};", "(\n MACRO(2)\n );"]
)
@pytest.mark.parametrize("kind", ["const int", "static float", "constexpr int"])
def test_the_value_of_a_constant_is_a_macro_on_its_own_line(kind: str, value: str) -> None:
    source = f"""#define MACRO(a) (a < 3 ? a : 3)
{kind} blocks {value}
__global__ void one(int *x) {{ *x = 1; }}
__global__ void two(int *x) {{ *x = 2; }}
int main() {{ one<<<(int)blocks, 1>>>(nullptr); }}
"""
    kernel = coalesce.Kernel(source, "one", device="sim")
    assert len(kernel.entries) == 2
    assert [text.partition(" ")[0] for text in kernel.left_out] == ["blocks", "main()"]


def test_cub(device: str) -> None:
    source = """
    #include <cub/cub.cuh>
    #include <thrust/device_vector.h>
    __global__ void total(const int *x, int *sum) {
        using Reduce = cub::BlockReduce<int, 64>;
        __shared__ typename Reduce::TempStorage storage;
        int all = Reduce(storage).Sum(x[threadIdx.x]);
        if (threadIdx.x == 0) *sum = all;
    }
    int main() { thrust::device_vector<int> x(64); }
    """
    total = np.zeros(1, np.int32)
    coalesce.Kernel(source, device=device)[1, 64](np.arange(64, dtype=np.int32), total)
    assert total[0] == 2016


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("__global__ void a() {} __global__ void b() { a<<<1, 1>>>(); }", "dynamic parallelism"),
        ("__global__ void k(int *x) { *x = __shfl_down(*x, 1); }", "__shfl_down_sync"),
        (
            "texture<float, 1> t; __global__ void k(float *x) { *x = tex1Dfetch(t, 0); }",
            "texture references",
        ),
        ("#include <curand_kernel.h>\n__global__ void k(curandState *s) {}", "nvidia-curand"),
    ],
)
def test_unsupported_sources_are_explained(source: str, message: str) -> None:
    folders = nvrtc.include_folders()
    if "curand" in source and any((Path(f) / "curand_kernel.h").is_file() for f in folders):
        pytest.skip("nvidia-curand is installed")
    with pytest.raises(coalesce.CompileError, match=message):
        coalesce.Kernel(source, device="sim")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "cp1252"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "own.cu"
    path.write_bytes("// é\n__global__ void k(int *x) { *x = 4; }\n".encode(encoding))
    assert _one(path, device="sim") == 4


def test_device_code_is_compiled_unchanged() -> None:
    kernel = coalesce.Kernel(
        "struct Unused {}; __global__ void k(int *x) { *x = 1; }", device="sim"
    )
    assert kernel.left_out == ()


def test_macros_that_make_kernels(device: str) -> None:
    source = """
    #define KERNEL(name, op) __global__ void name(int *x) { *x = *x op 3; }
    KERNEL(add, +)
    KERNEL(multiply, *)
    extern "C" void unused(int);
    __global__ void other(int *x) { *x = 1; }
    int main() { add<<<1, 1>>>(0); }
    """
    assert _one(source, "multiply", device=device, before=5) == 15


def test_macros_that_make_functions_of_the_host(device: str) -> None:
    """Files for PyTorch use such macros one after another, without semicolons."""
    source = """
    #include <torch/extension.h>
    #define TIMES 3
    #define CHECK(x) if (!(x)) throw std::runtime_error(#x);
    #define BINDING(name, type, count) \\
        void name##_##type(torch::Tensor x) { CHECK(x.size(0)) name<<<count, 1>>>(x.data_ptr()); }
    __global__ void scale(int *x) { *x *= TIMES; }
    namespace bindings {
    BINDING(scale, int, 1)
    BINDING(scale, float,
            2)
    }
    BINDING(scale, char, (1 + 1));
    PYBIND11_MODULE(EXTENSION, m) {
        CHECK(true)
        BINDING(m, scale, int)
    }
    extern "C" __global__ void last(int *x) { *x = 9; }
    """
    assert _one(source, "scale", device=device, before=5) == 15
    assert _one(source.replace("\n", "\r\n"), "last", device=device) == 9


def test_hip(device: str) -> None:
    source = """
    #include <hip/hip_runtime.h>
    #include <iostream>
    #define HIP_CHECK(call) if ((call) != hipSuccess) std::cerr << "error"
    template <typename T> __global__ void total(const T *x, T *sum) {
        T mine = x[hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x];
        for (int d = 16; d > 0; d /= 2) mine += __shfl_down(mine, d);
        if (hipThreadIdx_x % warpSize == 0)
            __hip_atomic_fetch_add(sum, mine, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
    int main() {
        int *x, *sum;
        HIP_CHECK(hipMalloc(&x, 64 * sizeof(int)));
        hipLaunchKernelGGL(HIP_KERNEL_NAME(total<int>), dim3(2), dim3(32), 0, 0, x, sum);
    }
    """
    total = np.zeros(1, np.int32)
    coalesce.Kernel(source, device=device)[2, 32](np.arange(64, dtype=np.int32), total)
    assert total[0] == 2016


def test_headers_are_found_beside_the_header_that_includes_them(tmp_path: Path) -> None:
    for name, text in {
        "scan/sizes.h": "#define TERMS 3\n",
        "scan/scan.cu": '#include "sizes.h"\n__device__ int terms() { return TERMS; }\n',
        "pack/pack.cu": '#include "../scan/scan.cu"\n'
        "__global__ void k(int* x) { *x = terms(); }\nint main() { k<<<1, 1>>>(0); }\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert _one(tmp_path / "pack/pack.cu") == 3


def test_a_header_with_two_names(tmp_path: Path) -> None:
    (tmp_path / "math").mkdir()
    (tmp_path / "math" / "add.h").write_text(
        "#pragma once\n__device__ int add(int a, int b) { return a + b; }\nvoid host() {}\n"
    )
    (tmp_path / "math" / "twice.h").write_text(
        '#pragma once\n#include "add.h"\n__device__ int twice(int a) { return add(a, a); }\n'
    )
    source = """
    #include "math/add.h"
    #include "math/twice.h"
    __global__ void k(int *x) { *x = twice(add(1, 2)); }
    """
    for text in (source, source + "int main() { k<<<1, 1>>>(nullptr); }"):
        assert _one(text, "k", [f"-I{tmp_path}"], device="sim") == 6


def test_macros_that_specialize_a_template() -> None:
    source = """
    template <class T> struct Shared { virtual __device__ T* get() = 0; };
    #define SPECIAL(type, name) template <> struct Shared<type> { \\
        __device__ type* get() { extern __shared__ type name[]; return name; } }
    SPECIAL(int, s_int);
    SPECIAL(float, s_float);
    __global__ void k(float* x) {
        Shared<float> s;
        s.get()[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = s.get()[31 - threadIdx.x];
    }
    int main() { k<<<1, 32, 128>>>(0); }
    """
    x = np.arange(32, dtype=np.float32)
    coalesce.Kernel(source).launch(1, 32, x, shared_bytes=128)
    np.testing.assert_array_equal(x, np.arange(32)[::-1])


def test_lines_of_a_kernel_in_a_header(tmp_path: Path) -> None:
    """The lines of the source are not those of the header."""
    (tmp_path / "own.cuh").write_text(
        "#pragma once\n\n__global__ void k(float* x) { x[99] = 1; }\n"
    )
    source = tmp_path / "main.cu"
    source.write_text(
        '#include "own.cuh"\n// two\n// three\n__global__ void own(float* x) { x[9] = 1; }\n'
        "int main() { k<<<1, 1>>>(0); }\n"
    )
    kernel = coalesce.Kernel(source, "k", device="sim")
    with pytest.raises(coalesce.MemoryFault, match=r"kernel k, line 3 of .*own\.cuh\n"):
        kernel[1, 1](np.zeros(1, np.float32))
    assert "three" not in str(kernel.check(1, 2, np.zeros(100, np.float32)))
    assert "// three" not in str(kernel.profile(1, 2, np.zeros(100, np.float32)))
    with pytest.raises(coalesce.MemoryFault, match=r"kernel own, line 4:   __global__ void own"):
        kernel.get_function("own")[1, 1](np.zeros(1, np.float32))


def test_types_that_only_the_chosen_instantiation_names(device: str) -> None:
    source = """
    #include <vector>
    struct Twice { __device__ float operator()(float x) const { return 2 * x; } };
    template <class F> __global__ void apply(F f, float* x) { *x = f(*x); }
    template <class F> void run(F f) { std::vector<float> x(1); apply<<<1, 1>>>(f, x.data()); }
    int main() { run(Twice()); }
    """
    x = np.ones(1, np.float32)
    coalesce.Kernel(source, "apply<Twice>", device=device)[1, 1]({}, x)
    assert x[0] == 2


def test_words_that_only_a_host_compiler_needs(device: str) -> None:
    source = """
    #ifdef _MSC_VER
    #define EXTENSION
    #else
    #define EXTENSION __extension__
    #endif
    #define NO_NAME
    #define API
    typedef struct {
        EXTENSION union {
            struct { short low; short high; } parts;
            int whole;
        } NO_NAME;
        __signed__ char last;
    } block;
    API __device__ int sum(const block& b) { return b.whole + b.parts.high + b.last; }
    API __global__ void k(const block b, int* x) {
        __asm__ __volatile__("add.s32 %0, %1, 1;" : "=r"(*x) : "r"(sum(b)));
        const int one = 1;
        __typeof__(one) same = one;
        __typeof__(unsigned short) narrow = 65537;
        __typeof__(float4 *) vectors = nullptr;
        __typeof__(x[0]) &first = *x;
        __auto_type next = first + same;
        first = next - one + narrow - 1 + (vectors != nullptr);
    }
    API int main() { k<<<1, 1>>>(block(), 0); }
    """
    x = np.zeros(1, np.int32)
    coalesce.Kernel(source, device=device)[1, 1](({"whole": 3 << 16}, -2), x)
    assert x[0] == (3 << 16) + 3 - 2 + 1


def test_only_mistakes_of_the_unchanged_source_are_shown() -> None:
    """A macro hides a __device__, so device code is removed. The message must not be about this."""
    source = """
#define D __device__ inline
#define LEAST(F, f) D F least_of(F a, F b) { return f(a, b); }
LEAST(float, fminf) LEAST(double, fmin)
D float twice(float x) { return 2 * x; }
struct Shape { int k; D explicit Shape(int n) : k(n) {} };
extern "C" __global__ void k(int* x) { x[0] = twice(x[1]) + Shape(3).k + missing; }
"""
    with pytest.raises(coalesce.CompileError, match='"missing" is undefined') as raised:
        coalesce.Kernel(source, "k", device="sim")
    assert "1 error detected" in str(raised.value)


def test_constants_that_are_computed_from_constants(tmp_path: Path, device: str) -> None:
    (tmp_path / "physics.h").write_text("typedef double real;\nstatic const real dt = 0.25, t = 2;")
    program = """
    #include "physics.h"
    const float dx = 0.5f, dy = 2 * dx;
    float const inverse = 1.0f / dx;
    const int steps = int(t / dt);
    const float nothing = 1 / 0.0f;
    const char *const label = "x";
    __constant__ float scaled = 3.0f * dy;
    __global__ void k(float *out) {
        out[0] = inverse; out[1] = dy; out[2] = steps; out[3] = scaled; out[4] = nothing;
    }
    """
    main = "int main() { k<<<1, 1>>>(nullptr); }"
    for source in (program, program + main):
        out = np.zeros(5, "f4")
        coalesce.Kernel(source, "k", [f"-I{tmp_path}"], device=device)[1, 1](out)
        assert list(out) == [2, 1, 8, 3, np.inf]


def test_algorithms_of_cub_that_only_the_host_calls() -> None:
    source = """
    #include <cub/device/device_scan.cuh>
    void scan(int *a, int n) { cub::DeviceScan::ExclusiveSum(nullptr, n, a, a, n); }
    __global__ void k(int *a) { a[threadIdx.x] = 1; }
    """
    out = np.zeros(32, "i4")
    for text in (source, source + "int main() { k<<<1, 32>>>(nullptr); }"):
        coalesce.Kernel(text, "k", device="sim")[1, 32](out)
        assert out.all()


def test_members_of_classes_that_only_the_host_uses() -> None:
    source = """
    #include <chrono>
    #include <cstdio>
    #include <cublas_v2.h>
    #include <cudaTypedefs.h>
    #include <cufft.h>
    #include <map>
    #include <stdexcept>
    #include <string>
    #include <vector>
    struct Atoms { int first; std::vector<float> x; ::std::string name = "none"; int last; };
    struct Flags {
        std::vector< bool > all{true}, some;
        const std::map<int, Atoms> *known;
        int last;
    };
    struct Named { std::string name; int number; };
    struct Charged : Named { int charge; };  // charge is in the padding of Named
    class Potential {
      public:
        virtual void compute(std::vector<Atoms> &atoms) = 0;
        virtual std::string name() { return "potential"; }
        virtual ~Potential() = default;
        int kind;
        cublasHandle_t handle;
        cufftHandle plan;
    };
    struct Clock {
        std::chrono::steady_clock::time_point start; std::ostream *out; FILE *file; int last;
    };
    class Unknown : public std::invalid_argument {
      public:
        Unknown() : std::invalid_argument("unknown") {}
    };
    __host__ __device__ float known(float x) {
    #ifndef __CUDA_ARCH__
        if (x < 0) throw Unknown();
    #endif
        return x;
    }
    class Pairs : public Potential {
      public:
        struct Range { float least, most; };
        void compute(std::vector<Atoms> &atoms) override {}
        virtual ~Pairs() {}
        std::vector<Range> ranges;
        int last;
    };
    template <class T> __device__ long place(T member) { return (long)&(((Atoms *)0)->*member); }
    __global__ void k(long *out, Pairs::Range range) {
        out[0] = sizeof(Atoms);
        out[1] = place(&Atoms::last);
        out[2] = sizeof(Flags);
        out[3] = sizeof(Potential);
        out[4] = sizeof(Pairs);
        out[5] = sizeof(Charged);
        out[6] = sizeof(Clock);
        out[7] = known(range.most);
    }
    """
    for text in (source, source + "int main() { k<<<1, 1>>>(nullptr, Pairs::Range{1, 2}); }"):
        out = np.zeros(8, np.int64)
        coalesce.Kernel(text, "k", device="sim")[1, 1](out, (1, 7))
        assert list(out) == [72, 64, 96, 32, 64, 40, 32, 7]  # as GCC places them


def test_functions_that_only_select_a_type(device: str) -> None:
    source = """
    typedef char yes;
    struct no { char x[2]; };
    template <class C> class HasTwice {
        template <class U> static yes test(decltype(&U::twice));
        template <class U> static no test(...);
      public:
        enum { value = sizeof(test<C>(0)) == sizeof(yes) };
    };
    template <class C> yes outside(decltype(&C::twice));
    template <class C> no outside(...);
    struct A { __device__ int twice(int x) { return 2 * x; } };
    struct B {};
    __global__ void k(int *out) {
        out[0] = HasTwice<A>::value;
        out[1] = HasTwice<B>::value;
        out[2] = sizeof(outside<A>(0));
        out[3] = sizeof(outside<B>(0));
    }
    int main() { k<<<1, 1>>>(nullptr); }
    """
    out = np.full(4, -1, np.int32)
    coalesce.Kernel(source, device=device)[1, 1](out)
    assert out.tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize("use", ["g.x.size()", "g.x[1]"])
def test_a_member_for_the_host_that_a_kernel_uses_is_explained(use: str) -> None:
    source = f"""
    #include <vector>
    struct Grid {{ int n; std::vector<float> x; }};
    __global__ void k(float *out, Grid g) {{ out[0] = {use}; }}
    int main() {{ return 0; }}
    """
    with pytest.raises(coalesce.CompileError, match="such as std::vector, is for host code only"):
        coalesce.Kernel(source, "k", device="sim")


def test_virtual_functions_of_the_host_beside_those_of_kernels(device: str) -> None:
    source = """
    class Shape {
      public:
        virtual ~Shape() {}
        virtual void save() {}
        __device__ virtual float area() const = 0;
    };
    class Square : public Shape {
        float side;
      public:
        __device__ Square(float a) : side(a) {}
        __device__ float area() const override { return side * side; }
    };
    __global__ void k(float *out) {
        Square square(threadIdx.x);
        const Shape &shape = square;
        out[threadIdx.x] = shape.area() + sizeof(Shape);
    }
    """
    out = np.zeros(32, "f4")
    coalesce.Kernel(source, "k", device=device)[1, 32](out)
    assert np.array_equal(out, np.arange(32) ** 2 + 8)


def test_constants_after_a_macro_without_a_semicolon() -> None:
    source = """
    #define CHECK(x) if (!(x)) { exit(1); }
    template <int M, int N> __global__ void k(int* x) { *x = M * N; }
    template <class F> __global__ void apply(F f, int* x) { *x = f.a; }
    template <class T> struct Scale { T a; Scale(T v) : a(v) {} };
    void run(int* x) {
        CHECK(x)
        constexpr int M = 6;
        const int N = M + 1;
        k<M, N><<<1, 1>>>(x);
        Scale<int> scale(9);
        apply<<<1, 1>>>(scale, x);
    }
    """
    kernel = coalesce.Kernel(source, "k")
    assert len(kernel.entries) == 1
    assert _one(source, "k") == 42
    assert coalesce.Kernel(source, kernel.entry).entry == kernel.entry  # the mangled name
    assert coalesce.Kernel(source, "apply").entry.startswith("_Z5applyI5Scale")


def test_a_question_for_the_system() -> None:
    source = """
    #ifdef __linux__
    #define ONE 1
    #else
    #error Unsupported system
    #endif
    __global__ void k(int* x) { *x = ONE; }
    int main() { k<<<1, 1>>>(0); }
    """
    assert _one(source) == 1


@pytest.mark.parametrize(
    "condition",
    [
        "#if _POSIX_VERSION >= 200112L",
        "#ifdef CLOCK_MONOTONIC",
        "#if defined(__GNUC__) && !defined(_MSC_VER)",
        "#if _POSIX_VERSION\n#define HAVE_TIME\n#endif\n#ifdef HAVE_TIME",
        "#define NEW (_POSIX_VERSION > 0)\n#if NEW",
    ],
)
def test_errors_that_depend_on_headers_of_the_host(condition: str) -> None:
    source = f"""#include <unistd.h>
#include <time.h>
{condition}
typedef unsigned long long timestamp;
#else
#error "no time here"
#endif
timestamp now();
__global__ void k(int *x) {{ *x = 1; }}
int main() {{ k<<<1, 1>>>(nullptr); }}
"""
    assert _one(source, device="sim") == 1
    kernel = coalesce.Kernel(source, device="sim")
    assert f"#error (line {_line(source, '#error')})" in kernel.left_out


@pytest.mark.parametrize(
    "condition",
    ["#ifndef SIZE", "#if __CUDA_ARCH__ < 9999", "#if !defined(_FAST)", "#define _OWN 1\n#if _OWN"],
)
def test_errors_that_are_the_users_own(condition: str) -> None:
    source = f"""#include <unistd.h>
{condition}
#error "choose one"
#endif
__global__ void k(int *x) {{ *x = _FAST; }}
int main() {{ k<<<1, 1>>>(nullptr); }}
"""
    with pytest.raises(coalesce.CompileError, match="choose one"):
        coalesce.Kernel(source, device="sim")


def test_a_mistake_behind_an_error_of_systems_is_shown() -> None:
    source = """#include <unistd.h>
#if _POSIX_VERSION < 200112L
#error "no time here"
#endif
__global__ void k(int *x) { *x = nowhere; }
int main() { k<<<1, 1>>>(nullptr); }
"""
    with pytest.raises(coalesce.CompileError, match=r'Without the #error(.|\n)*"nowhere" is undef'):
        coalesce.Kernel(source, device="sim")


def test_a_kernel_whose_neighbours_launch_kernels() -> None:
    source = """#include <cstdio>
    #define RUN(kernel, x) kernel<<<1, 1>>>(x)
    namespace inner { __global__ void one(int *x) { *x += 1; } }
    __device__ void start(int *x) { inner::one<<<1, 1>>>(x); }
    __global__ void direct(int *x) { inner::one<<<1, 1>>>(x); }
    __global__ void in_macro(int *x) { RUN(inner::one, x); }
    namespace outer { __global__ void indirect(int *x) { start(x); } }
    template <class T> __global__ void of_template(T *x) { inner::one<<<1, 1>>>(x); }
    template <class T> __global__ void two(T *x) { *x += 2; }
    int main() {
        direct<<<1, 1>>>(nullptr);
        two<<<1, 1>>>((int *)nullptr);
        of_template<<<1, 1>>>((int *)nullptr);
    }"""
    x = np.zeros(1, np.int32)
    for entry in ("one", "inner::one", "two", "two<int>", "_ZN5inner3oneEPi"):
        coalesce.Kernel(source, entry, device="sim")[1, 1](x)
    assert x[0] == 7
    for other in (None, "direct", "in_macro", "outer::indirect", "of_template<int>", "of_template"):
        with pytest.raises(coalesce.CompileError, match="dynamic parallelism"):
            coalesce.Kernel(source, other, device="sim")


def test_definitions_take_their_marks_from_declarations() -> None:
    source = """
#include <string>
struct A {
    int x;
    __device__ int get() const;
    std::string s() const;
    struct In { __device__ int deep(); };
    template <class T> __device__ T conv(T a);
};
template <class T> struct B {
    T x;
    __host__ __device__ T get() const;
    T host(std::string) const;
};
__device__ int free_one(int);
template <class T> __device__ T free_two(T);
namespace n {
struct C { __device__ C(int); __device__ ~C(); __device__ int operator()(int) const; int v; };
}
int A::get() const { return x; }
std::string A::s() const { return ""; }
int A::In::deep() { return 3; }
template <class T> T A::conv(T a) { return a; }
template <class T> T B<T>::get() const { return x; }
template <class T> T B<T>::host(std::string) const { return x; }
int free_one(int a) { return a; }
template <class T> T free_two(T a) { return a; }
n::C::C(int a) : v(a) {}
n::C::~C() {}
int n::C::operator()(int a) const { return v + a; }
__global__ void k(int *x) {
    A a{1}; B<int> b{2}; A::In i; n::C c(4);
    *x = a.get() + b.get() + free_one(5) + i.deep() + a.conv(7) + free_two(8) + c(9);
}
int main() { k<<<1, 1>>>(nullptr); }
"""
    assert _one(source, device="sim") == 39
    kernel = coalesce.Kernel(source, device="sim")
    assert [text.partition(" ")[0] for text in kernel.left_out] == ["s()", "B()", "main()"]


def test_members_whose_marks_are_in_a_macro() -> None:
    source = """
    #include <string>
    #define INLINE inline
    #define BOTH INLINE __host__ __device__
    struct A {
        int n;
        BOTH static unsigned int half(int n) { return n / 2; }
        BOTH unsigned short     last(void) const { return n % 10; }
        INLINE std::string text() const { return "}"; }
    };
    __global__ void k(int *x) { *x = A::half(8) + A{13}.last(); }
    int main() { k<<<1, 1>>>(nullptr); }"""
    assert _one(source, device="sim") == 7


def test_a_kernel_only_for_nvcc() -> None:
    source = """
    #ifdef __NVCC__
    __global__ void k(int *x) { *x = 1; }
    #endif
    """
    assert coalesce.Kernel(source, device="sim").entry == "_Z1kPi"


def test_a_host_file_without_kernels() -> None:
    with pytest.raises(coalesce.CompileError, match="has no kernel; a kernel is a function"):
        coalesce.Kernel('#include <cuda_runtime.h>\nextern "C" void solve(float* x, int n) {}')
    with pytest.raises(coalesce.CompileError, match=r"has no kernel; .*\n.*not found: runner\.cuh"):
        coalesce.Kernel("#include <runner.cuh>\nint main() { run(1); }")
    # The kernels of a library run with the program.
    with pytest.raises(coalesce.CompileError, match=r"has no kernel; (.|\n)*: coalesce run "):
        coalesce.Kernel("#include <thrust/scan.h>\nint main() { thrust::inclusive_scan(0, 0, 0); }")


def test_a_mistake_in_a_template_is_shown() -> None:
    source = """template <int N> __global__ void k(int* x) { *x = nothing<N>(); }
    int main() { k<3><<<1, 1>>>(0); }"""
    with pytest.raises(coalesce.CompileError, match="nothing"):
        coalesce.Kernel(source)
    late = "template <class T> __global__ void k(T* x) { x->none(); }"
    with pytest.raises(coalesce.CompileError, match="detected during instantiation of"):
        coalesce.Kernel(late + "int main() { k<int><<<1, 1>>>(0); }")


def test_launches_in_macros() -> None:
    source = """
    #include <torch/extension.h>
    #define LAUNCH(type, n) \\
        k_##type##_kernel<(n)> \\
            <<<grid, n>>>(x.data_ptr<float>());
    #define DISPATCH(type) \\
        switch (n) { case 32: LAUNCH(type, 32) break; case 64: { LAUNCH(type, 64) } }
    #define BINDING(type) \\
        void run_##type(torch::Tensor x, int n) { dim3 grid(1); DISPATCH(type) }
    template <const int N> __global__ void k_f32_kernel(float* x) { *x = N; }
    template <const int N> __global__ void k_f16_kernel(float* x) { *x = -N; }
    template <typename T> __global__ void scale(T* x) { *x *= 2; }
    BINDING(f32)
    BINDING(f16)
    void all(torch::Tensor x) {
        AT_DISPATCH_FLOATING_TYPES(x.type(), "scale", ([&] {
            scale<scalar_t><<<1, 1>>>(x.data_ptr<scalar_t>());
        }));
    }
    """
    x = np.zeros(1, np.float32)
    coalesce.Kernel(source, "k_f16_kernel<(64)>")[1, 1](x)
    assert x[0] == -64
    coalesce.Kernel(source, "scale")[1, 1](x)
    assert x[0] == -128
    with pytest.raises(ValueError, match=r"k_f32_kernel<\(32\)>"):
        coalesce.Kernel(source)


def test_functions_of_the_runtime_in_kernels_and_missing_headers_are_named() -> None:
    main = "int main() { k<<<1, 1>>>(0); }"
    calls = "__global__ void k(int* x) { cudaDeviceSynchronize(); }"
    with pytest.raises(coalesce.CompileError, match=r"dynamic parallelism.*Only host code"):
        coalesce.Kernel(calls + main)
    with pytest.raises(coalesce.CompileError, match=r"headers were not found.*range\.hpp"):
        coalesce.Kernel(
            '#include "range.hpp"\ntemplate <class T> using part = typename range_proxy<T>::part;\n'
            "__global__ void k(part<int>* x) { *x = 1; }" + main
        )


TORCH = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

template <typename scalar_t>
__global__ void scale(scalar_t *y, const scalar_t *x, float factor, int n) {
    using wide = at::acc_type<scalar_t, true>;
    CUDA_KERNEL_LOOP(i, n) y[i] = static_cast<scalar_t>(wide(x[i]) * factor);
}
__global__ void add(at::Half *x, c10::BFloat16 *y, float *z) {
    at::Half two = x[0] + x[1];
    z[0] = two * 1.5f + y[0];
    z[1] = two * x[1] - 1;
    gpuAtomicAdd(z + 2, WARP_SHFL_DOWN(float(threadIdx.x), 1));
}
__global__ void transpose(torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> x,
                          float *y) {
    y[threadIdx.x * x.size(0) + threadIdx.y] = x[threadIdx.y][threadIdx.x];
}
torch::Tensor scaled(torch::Tensor x) {
    auto y = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "scale", [&] {
        scale<scalar_t><<<1, 32>>>(y.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), 2, x.numel());
    });
    return y;
}
"""


def test_types_of_pytorch(device: str) -> None:
    scale = coalesce.Kernel(TORCH, "scale<at::Half>", device=device)
    x, y = np.arange(40, dtype=np.float16), np.zeros(40, np.float16)
    scale[1, 32](y, x, 3.0, 40)
    assert y.tolist() == (3 * x).tolist()
    assert any("types of PyTorch" in text for text in scale.left_out)
    half, bfloat = np.float16([1, 1e-3]), np.array([0x3F80], np.uint16)  # 0x3F80 is 1.0
    z = np.zeros(3, np.float32)
    coalesce.Kernel(TORCH, "add", device=device)[1, 1](half, bfloat, z)
    two = half[0] + half[1]
    assert z.tolist() == [np.float32(two) * 1.5 + 1, np.float32(np.float16(two * half[1]) - 1), 0]


def test_limits_of_pytorch(device: str) -> None:
    source = """#include <ATen/NumericLimits.cuh>
    template <typename T> __global__ void limits(T *y) {
        using of = at::numeric_limits<T>;
        y[0] = of::lowest(); y[1] = of::max(); y[2] = of::lower_bound(); y[3] = of::upper_bound();
    }
    """
    inf = float("inf")
    wanted = {"float": np.float32, "double": np.float64, "at::Half": np.float16}
    for spelled, dtype in wanted.items():
        y = np.zeros(4, dtype)
        coalesce.Kernel(source, f"limits<{spelled}>", device=device)[1, 1](y)
        assert y.tolist() == [np.finfo(dtype).min, np.finfo(dtype).max, -inf, inf]
    for spelled, dtype in {"int": np.int32, "int64_t": np.int64, "uint8_t": np.uint8}.items():
        integers = np.ones(4, dtype)
        coalesce.Kernel(source, f"limits<{spelled}>", device=device)[1, 1](integers)
        assert integers.tolist() == 2 * [np.iinfo(dtype).min, np.iinfo(dtype).max]


def test_lambdas_that_are_marked_for_the_device(device: str) -> None:
    source = """__global__ void k(int *x) {
        auto twice = [&] __device__ (int n) { return 2 * n; };
        auto five = [=]
            __host__ __device__ { return 5; };
        x[threadIdx.x] = twice(threadIdx.x) + five();
    }
    """
    for host_code in ("", "int main() { k<<<1, 4>>>(nullptr); }"):
        x = np.zeros(4, np.int32)
        coalesce.Kernel(source + host_code, device=device)[1, 4](x)
        assert x.tolist() == [5, 7, 9, 11]


TABLES = r"""
#define TABLE_BEGIN(type, name, size) static const __device__ type name[size] = {
#define TABLE_END() };
TABLE_BEGIN(unsigned char, bits, 4)
    1, 2,
    4, 8
TABLE_END()
TABLE_BEGIN(int, primes, 3)
    2, 3, 5
TABLE_END()

static int host_variable = 3;

__global__ void read(int *x) {
    cudaGridDependencySynchronize();
    x[threadIdx.x] = bits[threadIdx.x] * primes[2];
    cudaTriggerProgrammaticLaunchCompletion();
}
int main() { read<<<1, 4>>>(nullptr); }
"""


def test_sequences_of_integers(device: str) -> None:
    source = """#include <utility>
    template <size_t... i> __device__ int sum(std::index_sequence<i...>) { return (int(i) + ...); }
    __global__ void f(int *x) { *x = sum(std::make_index_sequence<5>()); }"""
    assert _one(source, device=device) == 10


def test_macros_that_open_and_close_a_table(device: str) -> None:
    x = np.zeros(4, np.int32)
    coalesce.Kernel(TABLES, device=device, arch="sm_90")[1, 4](x)
    assert x.tolist() == [5, 10, 20, 40]


def test_headers_with_host_code_beside_a_kernel(tmp_path: Path, device: str) -> None:
    (tmp_path / "sizes.h").write_text(
        "#include <stdbool.h>\nstruct Sizes {\n    Sizes() : n(0) {}\n    int n;\n};\n"
        "void print(const Sizes &sizes);\n"
    )
    path = tmp_path / "fill.hip"
    path.write_text('#include "sizes.h"\n__global__ void fill(int *x, Sizes s) { *x = s.n; }\n')
    x = np.zeros(1, np.int32)
    coalesce.Kernel(path, device=device)[1, 1](x, np.int32(7).tobytes())
    assert x[0] == 7


def test_mistakes_in_headers_with_host_code(tmp_path: Path) -> None:
    """The error lists only the mistake, not the host code, which is left out."""
    (tmp_path / "sizes.h").write_text(
        "int for_the_host(int n);\n__device__ int twice(int n) { return 2 * m; }\n"
    )
    source = '#include "sizes.h"\n__global__ void k(int *x) { *x = twice(*x); }\n'
    with pytest.raises(coalesce.CompileError) as raised:
        coalesce.Kernel(source, options=[f"-I{tmp_path}"], device="sim")
    assert 'sizes.h(2): error: identifier "m" is undefined' in str(raised.value)
    assert "for_the_host" not in str(raised.value)


@pytest.mark.parametrize(
    ("source", "entry", "advice"),
    [
        ("```cuda\n__global__ void f() {}\n```", None, "Leave out the lines that start with ```"),
        ("%%cu\n__global__ void f() {}", None, "Leave out the line `%%cu`"),
        ("__global__ void f() { printf(“x”); }", None, "LEFT DOUBLE QUOTATION MARK"),
        ("__global__ void f(int *x) {\u00a0x[0] = 1; }", None, "NO-BREAK SPACE (U+00A0)"),
        ("__kernel void f() {}", None, "This is a kernel for OpenCL"),
        ("__global__ void f(std::vector<int> x) {}", None, "std::vector is for host code"),
        ("__global__ void f(int *p) { cudaMalloc(&p, 4); }", None, "malloc() allocates memory"),
        ("template <class T, int N> __global__ void f(T *x) {}", None, 'entry="f<float, 16>"'),
        ("template <class T, int N> __global__ void f(T *x) {}", "f<int>", "no default, in order"),
        ("namespace a { template <class T> __global__ void f(T *x) {} }", "f<int>", "name::f"),
        (
            "#include <boost/array.hpp>\n__global__ void f(boost::array<int> x) {}",
            None,
            "for the host and were left out: boost/array.hpp",
        ),
    ],
)
def test_mistakes_of_a_first_paste(source: str, entry: str | None, advice: str) -> None:
    with pytest.raises((coalesce.CompileError, ValueError)) as raised:
        coalesce.Kernel(source, entry, device="sim")
    assert advice in str(raised.value)
