"""The types of parameters and variables are those that the compiler sees. Needs NVRTC, no GPU."""

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import coalesce
from coalesce.compile import nvrtc
from coalesce.cxx.declarations import parameters_of
from coalesce.cxx.variables import shared_arrays
from coalesce.launch.module import Module


def parameter(source: str, options: Sequence[str] = (), **settings: object) -> str:
    """Return the first parameter as messages show it: "float *x"."""
    kernel = coalesce.Kernel(source, options=options, device="sim", **settings)  # type: ignore[arg-type]
    first = kernel.signature.parameters[0]
    return f"{first.spelled} {first.name}".replace("* ", "*")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of C++ expressions that the compiler is asked about."""
    expressions: list[str] = []
    ask = Module.types

    def watched(self: Module, device: object, wanted: Sequence[str]) -> dict[str, str]:
        expressions.extend(wanted)
        return ask(self, device, wanted)  # type: ignore[arg-type]

    monkeypatch.setattr(Module, "types", watched)
    return expressions


K = 'extern "C" __global__ void k(real *x) { if (x) x[threadIdx.x] += 1; }\n'

# Each source gives `real` one type. A reader of only the first or the last line would be wrong.
FLOAT = {
    "the other branch of #if": "#if 0\ntypedef double real;\n#else\ntypedef float real;\n#endif\n",
    "the first branch of #if": "#if 1\ntypedef float real;\n#else\ntypedef double real;\n#endif\n",
    "#elif": "#if 0\nusing real = int;\n#elif 1\nusing real = float;\n#else\nusing real = char;\n"
    "#endif\n",
    "#ifdef": "#ifdef WIDE\ntypedef double real;\n#else\ntypedef float real;\n#endif\n",
    "#if of the architecture": (
        "#if __CUDA_ARCH__ < 900\ntypedef double real;\n#else\ntypedef float real;\n#endif\n"
    ),
    "#if of the compiler": (
        "#ifndef __CUDACC_RTC__\ntypedef double real;\n#else\ntypedef float real;\n#endif\n"
    ),
    "a chain": "typedef float a; typedef a b; using c = b; typedef c real;\n",
    "a chain with a condition": (
        "#if 0\ntypedef double a;\n#else\ntypedef float a;\n#endif\ntypedef a b; using real = b;\n"
    ),
    "a macro": "#define real float\n",
    "a macro of a macro": "#define wide double\n#define narrow float\n#define real narrow\n",
    "a macro defined again": "#define real double\n#undef real\n#define real float\n",
    "a macro with arguments": "#define PICK(a, b) b\ntypedef PICK(double, float) real;\n",
    "a macro that makes the type": "#define MAKE(t) typedef t real;\nMAKE(float)\n",
    "a namespace": "namespace a { typedef double real; }\nnamespace b { typedef float real; }\n"
    "using b::real;\n",
    "a class": "struct A { typedef double real; };\nstruct B { using real = float; };\n"
    "typedef B::real real;\n",
    "a member of a template": (
        "template <class T> struct V { using type = T; };\ntypedef V<float>::type real;\n"
    ),
    "decltype": "__device__ float y;\ntypedef decltype(y) real;\n",
    "an expression": "template <bool B> struct If { typedef float t; };\n"
    "template <> struct If<true> { typedef double t; };\ntypedef If<(1 > 2)>::t real;\n",
    "another order of words": "typedef float const volatile cv;\nfloat typedef real;\n",
    "several at once": "typedef float real, *pointer;\n",
    "a typedef in a kernel before": (
        "__device__ void f() { typedef double real; real y = 1; }\ntypedef float real;\n"
    ),
}


@pytest.mark.parametrize("case", FLOAT)
def test_names_are_resolved_by_the_compiler(case: str) -> None:
    source = FLOAT[case] + K
    assert parameter(source) == "float *x"
    kernel = coalesce.Kernel(source, device="sim")
    x = np.zeros(4, np.float32)
    kernel[1, 4](x)
    assert x.tolist() == [1, 1, 1, 1]
    with pytest.raises(TypeError, match=r"`x` \(float \*\)"):
        kernel[1, 4](np.zeros(4))


CONDITION = "#if WIDE > 1\ntypedef double real;\n#elif defined(INTEGER)\ntypedef int real;\n#else\n"


@pytest.mark.parametrize(
    ("options", "spelled"),
    [
        ([], "float *x"),
        (["-DWIDE=2"], "double *x"),
        (["-DWIDE=1", "-DINTEGER"], "int *x"),
        (["-D", "WIDE=2"], "double *x"),
        (["--define-macro=WIDE=2"], "double *x"),
        (["-DWIDE=2", "-UWIDE"], "float *x"),
    ],
    ids=str,
)
def test_options_choose_the_branch(options: list[str], spelled: str) -> None:
    source = CONDITION + "typedef float real;\n#endif\n" + K
    assert parameter(source, options) == spelled


def test_an_option_comes_before_a_default(asked: list[str]) -> None:
    default = "#ifndef real\n#define real float\n#endif\n"
    assert parameter(default + K) == "float *x"
    assert parameter(default + K, ["-Dreal=double"]) == "double *x"
    assert parameter(K, ["-Dreal=short"]) == "short *x"
    assert not asked, "the text settles these, at no cost"
    defined = "#undef real\n#define real float\n"
    assert parameter(defined + K, ["-Dreal=double"]) == "float *x"
    assert asked


def test_headers() -> None:
    header = {"real.h": "#define real float"}
    assert parameter('#include "real.h"\n' + K, headers=header) == "float *x"
    changes = {"real.h": "#undef real\n#define real float"}
    assert parameter('#define real double\n#include "real.h"\n' + K, headers=changes) == "float *x"


@pytest.mark.parametrize(
    ("declared", "spelled"),
    [
        ("const real *x", "const float *x"),
        ("real const *__restrict__ const x", "const float *x"),
        ("real x[]", "float *x"),
        ("float const * const __restrict__ x", "const float *x"),
        ("float **x", "float **x"),
        ("long unsigned int x", "unsigned long x"),
        ("const size_t x", "size_t x"),
        ("struct P x", "P x"),
        ("__grid_constant__ const int x", "int x"),
        ("pointer x", "float *x"),
        ("const pointer x", "float *x"),
        ("real4 *x", "float4 *x"),
        ("half_ *x", "__half *x"),
        ("complex_ *x", "float2 *x"),
        ("word x", "unsigned int x"),
        ("P *x", "P *x"),
        ("ns::Q<real> *x", "ns::Q<float> *x"),
    ],
)
def test_types_from_the_compiler_are_read(declared: str, spelled: str) -> None:
    source = f"""
        #include <cuda_fp16.h>
        #include <cuComplex.h>
        #if 1
        typedef float real; typedef float4 real4; typedef float *pointer; typedef half half_;
        typedef cuFloatComplex complex_; typedef unsigned word; struct P {{ int i; }};
        namespace ns {{ template <class T> struct Q {{ T t; }}; }}
        #endif
        extern "C" __global__ void k({declared}) {{}}
    """
    assert parameter(source) == spelled


@pytest.mark.parametrize(
    "source",
    [
        'extern "C" __global__ void k(const float *x, int n) {}',
        'typedef float real; extern "C" __global__ void k(const real *x, int n) {}',
        '#include <cuda_fp16.h>\nextern "C" __global__ void k(const half *x, size_t n) {}',
        'struct P { int i; }; extern "C" __global__ void k(const P *x, P y) {}',
        "#if A\ntypedef int t;\n#else\ntypedef float t;\n#endif\n__global__ void k(t *x) {}",
        "template <class T> __global__ void k(T *x) {}\ntemplate __global__ void k<int>(int *);",
    ],
)
def test_there_is_no_needless_compilation(source: str, asked: list[str]) -> None:
    coalesce.Kernel(source, device="sim")
    assert not asked


def test_the_mangled_name_has_precedence() -> None:
    source = "#if 0\ntypedef double t;\n#else\ntypedef float t;\n#endif\n"
    kernel = "__global__ void k(const t *x, t *y) {}"
    assert str(coalesce.Kernel(source + kernel, device="sim").signature) == (
        "k(const float *x, float *y)"
    )
    scoped = "namespace a { namespace b { " + kernel + " } }"
    assert str(coalesce.Kernel(source + scoped, "k", device="sim").signature) == (
        "a::b::k(const float *x, float *y)"
    )


def test_a_template_parameter() -> None:
    source = """
        template <class T> struct Twice { typedef T type; };
        template <> struct Twice<float> { typedef double type; };
        template <class T, int N = 2> __global__ void k(const T *x, typename Twice<T>::type *y) {}
    """
    kernel = coalesce.Kernel(source, "k<float>", device="sim")
    assert str(kernel.signature) == "k<float>(const float *x, double *y)"
    kernel = coalesce.Kernel(source, "k<int, 3>", device="sim")
    assert str(kernel.signature) == "k<int, 3>(const int *x, int *y)"


def test_overloads_keep_their_types() -> None:
    source = "__global__ void k(float *x, int n) {}\n__global__ void k(double *x, int m) {}"
    kernel = coalesce.Kernel(source, "_Z1kPdi", device="sim")
    assert [p.spelled for p in kernel.signature.parameters] == ["double *", "int"]
    assert [p.name for p in kernel.signature.parameters] == ["x", "arg1"], "only names both have"


def test_a_kernel_under_a_condition() -> None:
    source = (
        '#if 0\nextern "C" __global__ void k(double *x, int n) {}\n'
        '#else\nextern "C" __global__ void k(float *y, int n) {}\n#endif\n'
    )
    parameters = coalesce.Kernel(source, device="sim").signature.parameters
    assert [(p.name, p.spelled) for p in parameters] == [("arg0", "float *"), ("n", "int")]


def test_a_kernel_made_by_a_macro() -> None:
    source = '#define MAKE(name, t) extern "C" __global__ void name(t *x, int n) {}\nMAKE(k, float)'
    parameters = coalesce.Kernel(source, device="sim").signature.parameters
    assert [(p.name, p.spelled) for p in parameters] == [("arg0", "float *"), ("arg1", "int")]


def test_unknown_types_have_known_sizes() -> None:
    """The compiler cannot find a kernel in a namespace by its C name."""
    source = (
        "#if 0\ntypedef double real;\n#else\ntypedef float real;\n#endif\n"
        'namespace a { extern "C" __global__ void k(real *x, int n, real y) { *x = n + y; } }'
    )
    kernel = coalesce.Kernel(source, device="sim")
    assert [p.spelled for p in kernel.signature.parameters] == ["", "int", ""]
    x = np.zeros(1, np.float32)
    kernel[1, 1](x, 2, 0.5)
    assert x[0] == 2.5


def test_a_class_with_the_name_of_a_known_type() -> None:
    source = (
        "namespace a { struct half { float x, y; }; }\nusing a::half;\n"
        'extern "C" __global__ void k(half *x) { x->y = 3; }'
    )
    x = np.zeros(2, np.float32)
    coalesce.Kernel(source, device="sim")[1, 1](x)
    assert x.tolist() == [0, 3]


def test_variables() -> None:
    source = """
        #if 0
        typedef double real; enum { R = 2, C = 6 };
        #else
        typedef float real; enum { R = 3, C = 4 };
        #endif
        __device__ real table[R][C] = {{1, 2, 3, 4}};
        namespace ns { __constant__ real one = 7; }
        __device__ const real fixed[2] = {5, 6};
        typedef real *pointer;
        __device__ pointer p;
        extern "C" __global__ void k(real *x, int i) {
            x[0] = table[0][i] + ns::one + fixed[i] + (p ? *p : 0);
        }
    """
    variables = coalesce.Kernel(source, device="sim").globals
    assert variables["table"].shape == (3, 4)
    assert variables["table"].dtype == np.float32
    assert variables["table"][0].tolist() == [1, 2, 3, 4]
    assert variables["ns::one"] == np.float32(7)
    assert variables["fixed"].tolist() == [5, 6]
    with pytest.raises(ValueError, match="`fixed` is const"):
        variables["fixed"] = [1, 2]
    assert "float table[3][4]" in repr(variables)
    assert variables["p"] == 0


def test_a_variable_of_a_template_hides_no_other() -> None:
    source = """
        #if 1
        typedef float real;
        #endif
        template <class T> __device__ real of_a_template[2] = {1, 2};
        __device__ real plain[2] = {3, 4};
        extern "C" __global__ void k(float *x) { x[0] = of_a_template<int>[0] + plain[1]; }
    """
    variables = coalesce.Kernel(source, device="sim").globals
    assert variables["plain"].dtype == np.float32
    assert variables["plain"].tolist() == [3, 4]
    (other,) = (variables[name] for name in variables if name != "plain")
    assert other.nbytes == 8


def test_uncertain_shared_arrays_are_left_out() -> None:
    text = "__global__ void k() {{ __shared__ {} a[4][N]; __shared__ float b[8]; }}"
    const = "constexpr int N = 2;\n"
    assert shared_arrays(const + text.format("float")) == {
        "a": ((4, 2), 4, "float"),
        "b": ((8,), 4, "float"),
    }
    doubt = "#if X\ntypedef float real;\n#else\ntypedef double real;\n#endif\n"
    assert set(shared_arrays(const + doubt + text.format("real"))) == {"b"}
    either = "#if X\nconstexpr int N = 2;\n#else\nconstexpr int N = 4;\n#endif\n"
    assert shared_arrays(either + text.format("float"))["a"] == ((4, -1), 4, "float")


def test_shared_arrays_of_other_templates() -> None:
    """A __device__ template may have parameters with the kernel's names, in another order."""
    source = """
        template <int N, int M> __device__ void f() {
            __shared__ float both[N][M];
            __shared__ float one[N][N + 1];
        }
        template <int M, int N> __global__ void k() { __shared__ float own[N][M]; f<M, N>(); }
    """
    assert shared_arrays(source, (), "k<16, 32>") == {
        "one": ((32, 33), 4, "float"),
        "own": ((32, 16), 4, "float"),
    }


def test_shared_arrays_of_other_kernels() -> None:
    """Several kernels of a file often have an array of the same name."""
    source = """
        __global__ void first(int *x);
        __global__ void first(int *x) { __shared__ int s[64]; { __shared__ int own[2]; } }
        template <int N> __global__ void second() { __shared__ float s[N][N + 1]; }
        FUNCTION of_both() { __shared__ double both[4]; }
        __global__ void third() { __shared__ double s[8]; of_both(); }
    """
    both = {"both": ((4,), 8, "double")}
    assert shared_arrays(source, (), "first") == {
        "s": ((64,), 4, "int"),
        "own": ((2,), 4, "int"),
        **both,
    }
    assert shared_arrays(source, (), "second<4>") == {"s": ((4, 5), 4, "float"), **both}
    assert shared_arrays(source, (), "ns::third") == {"s": ((8,), 8, "double"), **both}
    # It is not known which kernel runs.
    assert set(shared_arrays(source)) == set(shared_arrays(source, (), "k")) == {"own", "both"}


def test_unbalanced_parentheses_in_code_that_is_left_out() -> None:
    source = """
        #if 0
        __global__ void __launch_bounds__( old(float *x);
        #endif
        __global__ void k(float *x, int n) { x[0] = n; }
    """
    parameters = parameters_of(source, "k", 2)
    assert parameters is not None
    assert [p.spelled for p in parameters] == ["float *", "int"]


def test_the_compiler_is_asked_once_for_all_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    source = '#define KERNEL extern "C" __global__ void\ntypedef float real;\n' + "".join(
        f"KERNEL k{i}({t} *x) {{ x[0] = {i}; }}\n" for i, t in enumerate(["real", "int", "double"])
    )
    compiled: list[Sequence[str]] = []
    inner = nvrtc.Compiler.compile

    def counting(self: nvrtc.Compiler, *request: Any) -> Any:
        compiled.append(request[-1])
        return inner(self, *request)

    monkeypatch.setattr(nvrtc.Compiler, "compile", counting)
    source += f"// {secrets.token_hex(8)}\n"  # the cache has no such source
    types = [parameter(source, entry=f"k{i}") for i in range(3)]
    assert types == ["float *arg0", "int *arg0", "double *arg0"]
    assert len(compiled) == 2  # the source and the question


def test_a_kernel_that_cannot_be_named_hides_no_other() -> None:
    source = (
        '#define KERNEL extern "C" __global__ void\n'
        "namespace a { KERNEL inner(int *x) { *x = 1; } }\n"
        "KERNEL k(double *x) { *x = 1; }\n"
    )
    assert parameter(source, entry="k") == "double *arg0"
