"""Headers for kernels that were written for nvcc.

This package compiles kernels with NVRTC, which has no headers of the host, such as ``<stdio.h>``.
But many kernels were written for nvcc. They include such headers, or use names that nvcc declares
without a header, such as ``INFINITY``. Therefore this module has replacements:

- `STANDARD` is a dict from the names of headers to their texts. A text contains only the
  declarations that kernels can use.
- `PRELUDE` declares the names that nvcc declares without a header. It is put before every source.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from coalesce.compile.device_headers import standard_library, vector_operators
from coalesce.cxx.file_layout import included

PRELUDE_NAME = "coalesce_prelude.h"
INCLUDE_OPTION = re.compile(r"(?:-I|--include-path=)(.+)")

# The names that every kernel can use with nvcc, such as int8_t and INT_MAX. A source may define the
# same names, so each definition here is inside an #ifndef. CCCL (NVIDIA's C++ library) also defines
# limits such as INT_MAX. The compiler warns if two definitions of a macro differ, so the
# definitions here have the same text.
PRELUDE = """\
#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef long long int64_t;  // as CCCL declares it for NVRTC
typedef unsigned long long uint64_t;
typedef int8_t int_least8_t;
typedef int16_t int_least16_t;
typedef int32_t int_least32_t;
typedef int64_t int_least64_t;
typedef uint8_t uint_least8_t;
typedef uint16_t uint_least16_t;
typedef uint32_t uint_least32_t;
typedef uint64_t uint_least64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
namespace std {
template <class, class> class basic_ostream;  // for thrust/complex.h
template <class, class> class basic_istream;
}
#define register
// Keywords of GNU C++, which nvcc accepts.
#define __extension__
#define __signed__ signed
#define __asm__ asm
#define __auto_type auto
// __typeof__ takes an expression or a type. After `(x)`, `- y` is a difference of two terms; after
// `(int)`, it is a cast of -y.
struct __coalesce_anything { template <class T> __device__ operator T() const; };
struct __coalesce_term {};
template <class T> struct __coalesce_expression {};
__device__ __coalesce_anything operator-(__coalesce_term);
template <class T> __device__ __coalesce_expression<T> operator-(T &&, __coalesce_term);
template <class T> struct __coalesce_typeof { typedef T type; };
template <class T> struct __coalesce_typeof<__coalesce_expression<T>> { typedef T type; };
template <class T> struct __coalesce_typeof<__coalesce_expression<T &>> { typedef T type; };
template <class T> using __coalesce_typeof_t = typename __coalesce_typeof<T>::type;
#define __typeof__(...) __coalesce_typeof_t<decltype((__VA_ARGS__) - __coalesce_term())>
#define __typeof(...) __typeof__(__VA_ARGS__)
// Templates, because cuda_device_runtime_api.h defines functions with these names.
#if __CUDA_ARCH__ >= 900
template <class = void> __device__ inline void cudaGridDependencySynchronize() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
template <class = void> __device__ inline void cudaTriggerProgrammaticLaunchCompletion() {
    asm volatile("griddepcontrol.launch_dependents;");
}
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fc00000)
#endif
#ifndef HUGE_VAL
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000LL)
#define HUGE_VALF __int_as_float(0x7f800000)
#endif
#ifndef M_E
#define M_E 2.7182818284590452354
#endif
#ifndef M_LOG2E
#define M_LOG2E 1.4426950408889634074
#endif
#ifndef M_LOG10E
#define M_LOG10E 0.43429448190325182765
#endif
#ifndef M_LN2
#define M_LN2 0.69314718055994530942
#endif
#ifndef M_LN10
#define M_LN10 2.30258509299404568402
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif
#ifndef M_PI_2
#define M_PI_2 1.57079632679489661923
#endif
#ifndef M_PI_4
#define M_PI_4 0.78539816339744830962
#endif
#ifndef M_1_PI
#define M_1_PI 0.31830988618379067154
#endif
#ifndef M_2_PI
#define M_2_PI 0.63661977236758134308
#endif
#ifndef M_2_SQRTPI
#define M_2_SQRTPI 1.12837916709551257390
#endif
#ifndef M_SQRT2
#define M_SQRT2 1.41421356237309504880
#endif
#ifndef M_SQRT1_2
#define M_SQRT1_2 0.70710678118654752440
#endif
#ifndef CHAR_BIT
#define CHAR_BIT 8
#endif
#ifndef SCHAR_MAX
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define CHAR_MAX SCHAR_MAX
#define CHAR_MIN SCHAR_MIN
#define SHRT_MAX 0x7fff
#define SHRT_MIN (-SHRT_MAX - 1)
#define USHRT_MAX 0xffff
#endif
#ifndef INT_MAX
#define INT_MAX 0x7fffffff
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 0xffffffff
#endif
#ifndef LLONG_MAX
#define LLONG_MAX 0x7fffffffffffffffLL
#define LLONG_MIN (-LLONG_MAX - 1)
#define ULLONG_MAX 0xffffffffffffffffUL
#endif
#ifndef LONG_MAX
#define LONG_MAX 0x7fffffffffffffffL
#define LONG_MIN (-LONG_MAX - 1)
#define ULONG_MAX 0xffffffffffffffffUL
#endif
#ifndef RAND_MAX
#define RAND_MAX 2147483647
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#endif
#ifndef MAXFLOAT
#define MAXFLOAT 3.40282347e+38F
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
"""

_NOTHING = "#pragma once\n"
_STDIO = "#pragma once\n#define EOF (-1)\ntypedef struct _IO_FILE FILE;\n"

# INT8_C and similar names are macros in CCCL, but functions in these headers. The compiler warns if
# a second definition of a macro has a different text, and the spaces in CCCL's macros differ from
# version to version. So no macro could have the same text as all versions of CCCL.
_CONSTANTS = "".join(
    f"__host__ __device__ constexpr ::{sign}int_least{bits}_t {sign.upper()}INT{bits}_C"
    f"({wide} x) {{ return ::{sign}int_least{bits}_t(x); }}\n"
    for sign, wide in (("", "long long"), ("u", "unsigned long long"))
    for bits in (8, 16, 32, 64)
)

_STDINT = f"""\
#pragma once
#define INT8_MAX SCHAR_MAX
#define INT8_MIN SCHAR_MIN
#define UINT8_MAX UCHAR_MAX
#define INT16_MAX SHRT_MAX
#define INT16_MIN SHRT_MIN
#define UINT16_MAX USHRT_MAX
#define INT32_MAX INT_MAX
#define INT32_MIN INT_MIN
#define UINT32_MAX UINT_MAX
#define INT64_MAX LLONG_MAX
#define INT64_MIN LLONG_MIN
#define UINT64_MAX ULLONG_MAX
#define INTPTR_MAX INT64_MAX
#define UINTPTR_MAX UINT64_MAX
#define SIZE_MAX UINT64_MAX
#if !defined(INT8_C) && !defined(COALESCE_CONSTANTS_)  // CCCL or <cstdint> may have them
#define COALESCE_CONSTANTS_
{_CONSTANTS}\
#endif
"""

_FLOAT = """\
#pragma once
#define FLT_RADIX 2
#define FLT_MAX 3.40282346638528859811704183484516925e+38f
#define FLT_MIN 1.17549435082228750796873653722224568e-38f
#define FLT_EPSILON 1.19209289550781250000000000000000000e-7f
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define DBL_MAX 1.79769313486231570814527423731704357e+308
#define DBL_MIN 2.22507385850720138309023271733240406e-308
#define DBL_EPSILON 2.22044604925031308084726333618164062e-16
#define DBL_DIG 15
#define DBL_MANT_DIG 53
"""

# Headers of the standard library. `standard_library` has the parts of them that kernels use.
_LIBRARY = {"algorithm", "cmath", "functional", "limits", "math.h", "type_traits", "utility"}

# Headers of the host that programs often include. Kernels need nothing from them.
_HOST_STANDARD = {
    *("bitset", "chrono", "condition_variable", "ctime", "deque"),
    *("exception", "execution", "filesystem", "format", "fstream", "future", "iomanip", "ios"),
    *("iosfwd", "iostream", "istream", "iterator", "list", "locale", "map", "memory", "mutex"),
    *("numeric", "ostream", "queue", "random", "ranges", "regex", "set"),
    *("sstream", "stack", "stdexcept", "streambuf", "string", "string_view", "system_error"),
    *("thread", "typeinfo", "unordered_map", "unordered_set", "valarray", "variant", "vector"),
    *(
        "bits/stdc++.h",
        "cfenv",
        "fenv.h",
        "csignal",
        "clocale",
        "errno.h",
        "cerrno",
        "any",
        "initializer_list",
        "new",
        "ratio",
        "typeindex",
        "ctype.h",
        "cctype",
        "inttypes.h",
        "cinttypes",
        "stdbool.h",
        "cstdbool",
        "wchar.h",
        "io.h",
        "direct.h",
        "process.h",
        "fcntl.h",
        "getopt.h",
        "libgen.h",
        "malloc.h",
    ),
    *("memory.h", "netdb.h", "pthread.h", "sched.h", "signal.h", "strings.h", "time.h"),
    *("unistd.h", "windows.h", "dirent.h", "conio.h", "cstdarg", "stdarg.h"),
}

# Types of PyTorch that kernels use. PyTorch's own headers declare code for the host.
_TORCH = Path(__file__).with_name("torch_types.h").read_text(encoding="utf-8")
_OF_TORCH = re.compile(r"(?:torch|ATen|c10)/")
_HIP = Path(__file__).with_name("hip_runtime.h").read_text(encoding="utf-8")

# The parts of CUB for blocks and warps. NVRTC cannot compile CUB as a whole, because CUB also has
# algorithms that launch kernels.
_CUB = "#pragma once\n" + "".join(
    f"#include <cub/{name}.cuh>\n"
    for name in (
        *(
            f"block/block_{part}"
            for part in (
                *("adjacent_difference", "discontinuity", "exchange", "histogram", "load"),
                *("merge_sort", "radix_rank", "radix_sort", "reduce", "run_length_decode", "scan"),
                *("shuffle", "store"),
            )
        ),
        *(
            f"warp/warp_{part}"
            for part in (*("exchange", "load", "merge_sort", "reduce", "scan", "store"),)
        ),
        "iterator/cache_modified_input_iterator",
    )
)

# Some types of host libraries, such as cufftComplex, are also used in kernels. Handles are not, but
# they can be members of a class that kernels use.
_NUMBERS = """\
#pragma once
#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
typedef struct cublasContext *cublasHandle_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef struct cusparseContext *cusparseHandle_t;
"""
_CUFFT = """\
#pragma once
#include <cuComplex.h>
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef int cufftHandle;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;
"""

# Macros that nvcc's compilers define for every source, and NVRTC does not. (The headers of CUDA do
# not compile with __GNUC__.)
_OF_NVCC = {"__NVCC__", "__linux__", "__linux", "__gnu_linux__", "__unix__", "__unix", "_LP64"}
_OF_NVCC |= {f"__{platform.machine()}__"}  # such as __x86_64__

# printf, assert, malloc, memcpy and the mathematical functions are built into the compiler.
STANDARD = {
    **dict.fromkeys((*_LIBRARY, *_HOST_STANDARD, *standard_library.COSTLY), _NOTHING),
    "assert.h": _NOTHING,
    "cassert": _NOTHING,
    "cfloat": _FLOAT,
    "climits": _NOTHING,
    "cstddef": _NOTHING,
    "cstdint": _STDINT,
    "cstdio": _STDIO,
    "cstdlib": _NOTHING,
    "cstring": _NOTHING,
    "cub/cub.cuh": _CUB,
    **dict.fromkeys(("cublas.h", "cublas_v2.h", "cublasLt.h", "cudnn.h", "cusparse.h"), _NUMBERS),
    **dict.fromkeys(("cufft.h", "cufftw.h", "cufftXt.h", "cusolverDn.h"), _CUFFT),
    # They declare functions of the host, and types that kernels may use.
    "channel_descriptor.h": "#include <cuda_runtime_api.h>\n",
    "driver_functions.h": "#include <driver_types.h>\n",
    # It declares the driver's functions, which only the host calls.
    "cuda.h": "#pragma once\n#define CUDA_VERSION"
    " (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)\n",
    "cudaTypedefs.h": _NOTHING,  # it declares the types of these functions
    "float.h": _FLOAT,
    "hip/hip_bfloat16.h": "#include <cuda_bf16.h>\n",
    "hip/hip_fp16.h": "#include <cuda_fp16.h>\n",
    "hip/hip_runtime.h": _HIP,
    "hip/hip_runtime_api.h": _NOTHING,
    "limits.h": _NOTHING,
    "stddef.h": _NOTHING,
    "stdint.h": _STDINT,
    "stdio.h": _STDIO,
    "stdlib.h": _NOTHING,
    "string.h": _NOTHING,
}

# Headers of host libraries. Kernels need nothing from them.
_HOST_LIBRARIES = re.compile(
    r"cublas|cusparse|cusolver|cufft|cudnn|curand\.h|nvml\.h|nccl|npp\w*\.h|nvtx|nvToolsExt|nvrtc"
    r"|nvvm\.h|cub/util_allocator|cuda/memory_resource|cuda/stream_ref"
    r"|nvjpeg|cuda_profiler_api|cuda_gl_interop|cuda_egl|cudaProfiler|exception\.h|sys/|GL/|EGL/"
    r"|helper_(?:cuda|functions|timer|string|image|gl|multiprocess|cusolver|cuda_drvapi)\.h"
    r"|boost/|opencv|Eigen/|mpi\.h|omp\.h|torch/|ATen/|c10/|pybind11/|cudaEGL|cudaGL|cudaVDPAU"
    r"|cub/device/|thrust/(?!complex|pair|tuple|functional|optional|version)"
)

# Thrust's macros, such as THRUST_STATIC_ASSERT. Most of its headers are left out, but device code
# may use the macros, which they all define.
_OF_THRUST = re.compile(r"\bTHRUST_\w+")
_THRUST_MACROS = "".join(
    f"#if __has_include(<{header}>)\n#include <{header}>\n#endif\n"
    for header in ("thrust/detail/config.h", "thrust/detail/static_assert.h", "thrust/version.h")
)


def is_for_host(header: str) -> bool:
    """Return whether a header is only for host code, so that kernels do not need it."""
    return _HOST_LIBRARIES.match(header) is not None


def folders_of(options: Sequence[str]) -> list[Path]:
    """Return the folders that the options (``-Ifolder``) add to the search path of ``#include``."""
    return [Path(match[1]) for option in options if (match := INCLUDE_OPTION.match(option))]


def replaced(
    source: str, user_headers: Mapping[str, str], options: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return the headers that `source` includes and that coalesce replaces by its own text.

    coalesce replaces headers that were not found, and headers that are mostly host code. The result
    is a dict. A key is the name of a replaced header. The value is a pair: a message for the user,
    and the text that replaces the header. `user_headers` is a dict from the names of the user's
    headers to their texts. `options` are the compiler's options, such as ``-Ifolder``.
    """
    forms = (form for text in (source, *user_headers.values()) for form in included(text))
    return {
        name: replacement
        for name in dict.fromkeys(form[1:-1] for form in forms if form[0] in '<"')
        if (replacement := _replacement(name))
        and name not in user_headers
        and (is_for_host(name) or not any((f / name).is_file() for f in folders_of(options)))
    }


def has_replacement(header: str) -> bool:
    """Return whether this package has a replacement for a header that is not installed."""
    return _replacement(header) is not None


def _replacement(header: str) -> tuple[str, str] | None:
    if _OF_TORCH.match(header):
        return "replaced by coalesce's own types of PyTorch", _TORCH
    if header.rpartition("/")[2] in vector_operators.HEADERS:
        note = "not found; replaced by coalesce's own operators on vectors"
        return note, vector_operators.TEXT
    return None


def texts_for(
    source: str, user_headers: Mapping[str, str], options: Sequence[str] = ()
) -> dict[str, str]:
    """Return all headers that a source can include, as a dict from names to texts.

    These are the user's own headers (`user_headers`), the headers of this module, and `PRELUDE`. If
    the source or a header of the user uses ``std::``, the prelude also has parts of the C++
    standard library. `options` are the compiler's options, such as ``-Ifolder``.
    """
    mentioned = "\n".join([source, *user_headers.values()])
    texts = {PRELUDE_NAME: PRELUDE, **STANDARD}
    texts[PRELUDE_NAME] += "".join(
        f"#ifndef {name}\n#define {name} 1\n#endif\n"
        for name in sorted(_OF_NVCC)
        if name in mentioned
    )
    texts |= {name: text for name, (_, text) in replaced(source, user_headers, options).items()}
    if standard_library.USES.search(mentioned):
        texts[PRELUDE_NAME] += standard_library.TEXT
        for header in standard_library.COSTLY:
            texts[header] = standard_library.header_text(header, mentioned)
    if _OF_THRUST.search(mentioned):
        texts[PRELUDE_NAME] += _THRUST_MACROS
    return {**texts, **user_headers}
