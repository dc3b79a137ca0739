"""Maps C++ types to NumPy dtypes: a kernel with a ``float *`` accepts an array of float32."""

from __future__ import annotations

import re

# For each C++ type, NumPy's code of the type with the same bytes. "V2" is bfloat16, which NumPy
# does not have.
_BUILT_IN = {
    "bool": "b1",
    "char": "i1",
    "signed char": "i1",
    "unsigned char": "u1",
    "short": "i2",
    "unsigned short": "u2",
    "int": "i4",
    "unsigned int": "u4",
    "long": "i8",
    "long long": "i8",
    "unsigned long": "u8",
    "unsigned long long": "u8",
    "float": "f4",
    "double": "f8",
    "__half": "f2",
    "__nv_bfloat16": "V2",
}
# Other names of such types, which the headers of C++ and CUDA define. The compiler's own output
# never contains these names.
_NAMED = {
    "int8_t": "i1",
    "uint8_t": "u1",
    "int16_t": "i2",
    "uint16_t": "u2",
    "int32_t": "i4",
    "uint32_t": "u4",
    "int64_t": "i8",
    "ptrdiff_t": "i8",
    "intptr_t": "i8",
    "uint64_t": "u8",
    "uintptr_t": "u8",
    "size_t": "u8",
    "cudaTextureObject_t": "u8",
    "cudaSurfaceObject_t": "u8",
    "half": "f2",
    "nv_bfloat16": "V2",
    "cuComplex": "c8",
    "cuFloatComplex": "c8",
    "cuDoubleComplex": "c16",
}
SCALARS = {**_BUILT_IN, **_NAMED}
_VECTOR = re.compile(
    r"(u?char|u?short|u?int|u?long|u?longlong|float|double|__half|half|__nv_bfloat16|nv_bfloat16)"
    r"([1-4])"
)

# Other dtypes that an array may have, for the C++ type of an element or of its components.
_ALSO = {
    "char": ("u1",),
    "unsigned char": ("b1",),
    "__nv_bfloat16": ("u2",),
    "nv_bfloat16": ("u2",),
}


def is_known(name: str) -> bool:
    """Return whether a name is a type that C++ or CUDA defines, such as "int" or "float4"."""
    return name in SCALARS or _VECTOR.fullmatch(name) is not None


def compiler_shows(name: str) -> bool:
    """Return whether the compiler writes a standard type under this name in its output.

    It writes "float" for ``float``, so the result for "float" is True. It writes "unsigned int" for
    ``uint32_t``, so the result for "uint32_t" is False. If the output contains "uint32_t", this is
    a type that the user has defined.
    """
    return name not in _NAMED


def element_types(spelled: str) -> tuple[tuple[str, ...], int]:
    """Return the dtypes of arrays that match a C++ type, and the size of an element in bytes.

    The dtypes are NumPy's codes: for "float", the result is ``(("f4",), 4)``. If the type is not
    known, the result is ``((), 0)``. Then arrays of every dtype are accepted.
    """
    if code := SCALARS.get(spelled):
        return (code, *_ALSO.get(spelled, ())), int(code[1:])
    if vector := _VECTOR.fullmatch(spelled):
        base, lanes = vector[1], int(vector[2])
        base = {"longlong": "long long", "ulonglong": "unsigned long long"}.get(
            base, "unsigned " + base[1:] if base.startswith("u") else base
        )
        code = SCALARS[base]
        pairs = {"f4": ("c8",), "f8": ("c16",)}.get(code, ()) if lanes == 2 else ()
        return (code, *_ALSO.get(base, ()), *pairs), int(code[1:]) * lanes
    return (), 0
