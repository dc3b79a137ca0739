"""What a kernel finds of the C library's headers.

NVRTC compiles device code and comes without the host's headers, while kernels written for nvcc
include them or, like ``INFINITY``, use what nvcc includes on its own. `STANDARD` are stand-ins that
hold what device code can use, and `PRELUDE` is put before every source.
"""

from __future__ import annotations

PRELUDE_NAME = "coalesce_prelude.h"

# What nvcc's own includes bring into every kernel. Guarded, since a source may define the same. The
# limits are written as CCCL's headers write them: those define them again, and the compiler warns
# of a macro whose text differs.
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
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fc00000)
#endif
#ifndef CHAR_BIT
#define CHAR_BIT 8
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
"""

_NOTHING = "#pragma once\n"

_LIMITS = """\
#pragma once
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define SHRT_MAX 0x7fff
#define SHRT_MIN (-SHRT_MAX - 1)
#define USHRT_MAX 0xffff
"""

_STDINT = (
    _LIMITS
    + """\
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
"""
)

_FLOAT = """\
#pragma once
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_DIG 15
#define DBL_MANT_DIG 53
"""

_MATH = """\
#pragma once
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_SQRT2 1.41421356237309504880
#endif
"""

# printf, assert, malloc, memcpy and the mathematical functions are built into the compiler.
STANDARD = {
    "assert.h": _NOTHING,
    "cassert": _NOTHING,
    "cfloat": _FLOAT,
    "climits": _LIMITS,
    "cmath": _MATH,
    "cstddef": _NOTHING,
    "cstdint": _STDINT,
    "cstdio": _NOTHING,
    "cstdlib": _NOTHING,
    "cstring": _NOTHING,
    "cuda.h": _NOTHING,  # the driver's functions, which only the host calls
    "float.h": _FLOAT,
    "limits.h": _LIMITS,
    "math.h": _MATH,
    "stddef.h": _NOTHING,
    "stdint.h": _STDINT,
    "stdio.h": _NOTHING,
    "stdlib.h": _NOTHING,
    "string.h": _NOTHING,
}
