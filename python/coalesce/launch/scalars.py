"""Converts Python and NumPy scalars to the bytes of a kernel's parameter.

A conversion must not lose anything that the user expects to keep. The rules are:

- An integer is converted to any type that holds its value exactly.
- A NumPy float is converted to a floating type of the same size or larger: float32 to float64,
  but not float64 to float32.
- A Python float is converted to any floating type whose range includes it. It may be rounded,
  because Python has no float32.
- A boolean is converted to integers, but not to floats.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from coalesce._core import cuda
from coalesce.common import require
from coalesce.common.dtypes import code_of, dtype_name
from coalesce.cxx.signature import Parameter


def scalar(parameter: Parameter, value: Any) -> bytes:
    """Return the bytes of a scalar argument.

    If the value does not fit the type of the parameter, a TypeError or ValueError is raised.
    """
    if isinstance(value, np.generic):
        return _numpy_scalar(parameter, value)
    kinds = {code[0] for code in parameter.accepted}
    if isinstance(value, bool) and kinds & {"b", "i", "u"}:
        code = next(c for c in sorted(parameter.accepted, key="biu".find) if c[0] in "biu")
        return _packed(parameter, code, int(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return _integer(parameter, value)
    if isinstance(value, float) and kinds & {"f", "c", "V"}:
        return _floating(parameter, value)
    if isinstance(value, complex) and "c" in kinds:
        return np.array(value, parameter.accepted[0]).tobytes()
    advice = ""
    if isinstance(value, float) and kinds <= {"i", "u", "b"}:
        advice = f"; pass int({parameter.name}) to drop the fraction"
    elif isinstance(value, bool):
        advice = "; pass 0.0 or 1.0"
    raise TypeError(
        f"argument {parameter} needs {_wanted_scalar(parameter)}; "
        f"got {require.shown(value)}{advice}"
    )


def _numpy_scalar(parameter: Parameter, value: np.generic) -> bytes:
    type_code = code_of(value.dtype)
    if type_code in parameter.accepted:
        return value.tobytes()
    if type_code[0] in "iu":
        return _integer(parameter, int(value))
    for code in parameter.accepted:
        if _holds_all_values(type_code, code):
            return np.array(value, code).tobytes()
    advice = ""
    wanted = parameter.accepted[0]
    if type_code[0] == "f" and wanted[0] in "iub":
        advice = f"; pass int({parameter.name}) to drop the fraction"
    elif type_code[0] == "f" and wanted[0] == "f":
        name = dtype_name(wanted)
        advice = f"; pass numpy.{name}({parameter.name}) to round it"
    raise TypeError(
        f"argument {parameter} needs {_wanted_scalar(parameter)}; "
        f"got numpy.{value.dtype.name}{advice}"
    )


def _holds_all_values(source_code: str, code: str) -> bool:
    """Return whether the type `code` can hold every value of the type `source_code` exactly."""
    kind = source_code[0]
    if kind not in "bfc":
        return False
    size, target = int(source_code[1:]), int(code[1:])
    if kind == "b":
        return code[0] in "iu"
    if kind == "f":
        return (code[0] == "f" and size <= target) or (code[0] == "c" and 2 * size <= target)
    return kind == code[0] == "c" and size <= target


def _wanted_scalar(parameter: Parameter) -> str:
    return " or ".join(dtype_name(code) for code in parameter.accepted) or "a number"


def _integer(parameter: Parameter, value: int) -> bytes:
    """Pack an integer as the first accepted type that holds its value exactly."""
    for code in parameter.accepted:
        if code[0] in "iu":
            bits = 8 * int(code[1:])
            low, high = (
                (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if code[0] == "i" else (0, 2**bits - 1)
            )
            if low <= value <= high:
                return _packed(parameter, code, value)
        elif code == "b1":
            if value in (0, 1):
                return _packed(parameter, code, value)
        elif abs(value) <= 2 ** _PRECISION[code] or _holds_integer(value, code):
            return _floating(parameter, float(value))
    raise ValueError(
        f"argument {parameter} is {value}, which does not fit {_wanted_scalar(parameter)}"
        + (" exactly; pass a float to round it" if parameter.accepted[0][0] in "fVc" else "")
        + _range_of(parameter)
    )


# For each floating type, a number of bits n: the type holds all integers of at most n bits exactly.
_PRECISION = {"f2": 11, "V2": 8, "f4": 24, "f8": 53, "c8": 24, "c16": 53}


def _holds_integer(value: int, code: str) -> bool:
    """Return whether a floating type holds an integer exactly."""
    if value.bit_length() > 1024:
        return False
    significant = value.bit_length() - ((value & -value).bit_length() - 1)
    largest = {"f2": 16, "f8": 1024, "c16": 1024}.get(code, 128)
    return significant <= _PRECISION[code] and value.bit_length() <= largest


def _range_of(parameter: Parameter) -> str:
    codes = [code for code in parameter.accepted if code[0] in "iu"]
    if len(codes) != 1:
        return ""
    limits = np.iinfo(codes[0])
    return f" ({limits.min} to {limits.max})"


def _floating(parameter: Parameter, value: float) -> bytes:
    code = next(code for code in parameter.accepted if code[0] in "fcV")
    if code == "V2":
        # Round to nearest even: the upper half of a float32, plus the carry of the lower.
        if value != value:
            return struct.pack("<H", 0x7FC0)
        with np.errstate(over="ignore"):
            bits = int(np.array(value, np.float32).view(np.uint32))
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        if rounded & 0x7FFF == 0x7F80 and value not in (float("inf"), float("-inf")):
            raise ValueError(f"argument {parameter} is {value}, which does not fit bfloat16")
        return struct.pack("<H", rounded)
    with np.errstate(over="ignore"):
        packed = np.array(value, code)
    if np.isinf(packed) and value not in (float("inf"), float("-inf")):
        raise ValueError(f"argument {parameter} is {value}, which does not fit {dtype_name(code)}")
    return packed.tobytes()


def _packed(parameter: Parameter, code: str, value: int) -> bytes:
    if code[0] in "iub":
        return value.to_bytes(int(code[1:]), "little", signed=code[0] == "i")
    return _floating(parameter, float(value))


def register_scalars() -> None:
    """Pass NumPy's scalar classes to the launcher in C++ (csrc/bindings/launcher.hpp)."""
    for code in ("b1", "i1", "u1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8"):
        cuda.register_numpy_scalar(np.dtype(code).type, code)
    for kind, code in ((np.longlong, "i8"), (np.ulonglong, "u8")):
        if np.dtype(kind).type is not np.dtype(code).type:
            cuda.register_numpy_scalar(kind, code)
