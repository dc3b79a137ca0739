"""Computes the parameters of kernels that Numba compiled.

Numba compiles Python functions to PTX. In this PTX, an array of n dimensions needs 5 + 2n
parameters. The first five have the names meminfo, parent, size, itemsize and address. The others
are the extents of the shape and the strides in bytes. (Source: Numba's documentation, "Notes on
Numba's architecture".) The user passes only the array, and this module computes the parameters. The
types of the arguments are in the mangled name of the kernel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from coalesce.common import dtypes

# For each letter with which Numba mangles a type (Itanium mangling), NumPy's code of the type.
_LETTERS = {
    "b": "b1",
    "a": "i1",
    "h": "u1",
    "s": "i2",
    "t": "u2",
    "i": "i4",
    "j": "u4",
    "x": "i8",
    "y": "u8",
    "Dh": "f2",
    "f": "f4",
    "d": "f8",
}
_NAMED = {"complex64": "c8", "complex128": "c16"}
_ARRAY = re.compile(r"5ArrayI(?P<item>Dh|[a-z]|\d+[a-z]\w*?)Li(?P<ndim>\d+)E1(?P<layout>[CFA])")
_AFTER_ARRAY = re.compile(r"(?:7mutable|8readonly)(?:7aligned|9unaligned)E")


@dataclass(frozen=True)
class NumbaArgument:
    """The kind and the type of an argument of a Python function that Numba compiled."""

    kind: Literal["scalar", "complex", "array", "pointer"]
    code: str = ""  # NumPy's code of the scalar or of the elements; "" for any type
    ndim: int = 0
    layout: str = "C"
    read_only: bool = False

    @property
    def count(self) -> int:
        """The number of PTX parameters that this argument needs."""
        return {"array": 5 + 2 * self.ndim, "complex": 2}.get(self.kind, 1)

    @property
    def spelled(self) -> str:
        """The type as Numba writes it: "array(float32, 2d, C)" or "int64"."""
        name = dtypes.dtype_name(self.code) if self.code else "any"
        if self.kind == "array":
            return f"array({name}, {self.ndim}d, {self.layout})"
        return name + "*" * (self.kind == "pointer")


def arguments_of(entry: str, count: int) -> tuple[NumbaArgument, ...] | None:
    """Return the arguments of a Numba kernel. They are read from its mangled name, `entry`.

    `count` is the number of parameters in the PTX. One argument can need several parameters: an
    array of one dimension needs 7. Return None if another compiler made the name, or if all
    arguments together do not need exactly `count` parameters.
    """
    match = re.match(r"_ZN?(?=\d)", entry)
    # Numba's names contain a tag with a number.
    if match is None or not re.search(r"B\dv\d+", entry):
        return None
    place = match.end()
    while part := re.compile(r"B?(\d+)").match(entry, place):
        place = part.end() + int(part[1])
        if not entry.startswith("_ZN") and entry[place : place + 1] != "B":
            break
    place += entry.startswith("E", place)
    arguments: list[NumbaArgument] = []
    while place < len(entry):
        argument, place = _argument(entry, place)
        if argument is None:
            return None
        arguments.append(argument)
    return tuple(arguments) if sum(a.count for a in arguments) == count else None


def _argument(entry: str, place: int) -> tuple[NumbaArgument | None, int]:
    if array := _ARRAY.match(entry, place):
        after = _AFTER_ARRAY.match(entry, array.end())
        item = re.sub(r"^\d+", "", array["item"])
        code = _LETTERS.get(item) or _NAMED.get(item, "")
        if after is None:
            return None, place
        read_only = "readonly" in after[0]
        return (
            NumbaArgument("array", code, int(array["ndim"]), array["layout"], read_only),
            after.end(),
        )
    if letter := re.compile(r"Dh|[a-z]").match(entry, place):
        known = _LETTERS.get(letter[0])
        return (NumbaArgument("scalar", known) if known else None), letter.end()
    if name := re.compile(r"(\d+)").match(entry, place):
        end = name.end() + int(name[1])
        text = entry[name.end() : end]
        if text in _NAMED:
            return NumbaArgument("complex", _NAMED[text]), end
        if text.endswith("_2a"):  # "_2a" is an asterisk: the type CPointer
            try:
                return NumbaArgument("pointer", np.dtype(text[:-3]).str[1:]), end
            except TypeError:
                return NumbaArgument("pointer"), end
    return None, place


def flattened(arguments: Sequence[NumbaArgument], passed: Sequence[Any]) -> list[Any]:
    """Return the values of all PTX parameters of a Numba kernel, in order.

    `passed` has the values that the user passed, one for each argument. An array of one dimension,
    for example, becomes seven values (see the docstring of this module). Raises TypeError if an
    array has the wrong number of dimensions.
    """
    values: list[Any] = []
    for i, (argument, value) in enumerate(zip(arguments, passed, strict=True)):
        if argument.kind == "array":
            values += _fields(f"arg{i}", argument, value)
        elif argument.kind == "complex" and isinstance(value, int | float | complex | np.number):
            part = np.float32 if argument.code == "c8" else np.float64
            values += [part(np.real(value)), part(np.imag(value))]
        else:
            values += [value] * argument.count
    return values


def _fields(name: str, argument: NumbaArgument, value: Any) -> list[Any]:
    shape = getattr(value, "shape", None)
    if shape is None:  # not an array: the later check of the address reports this
        return [0, 0, 0, 0, value, *[0] * (2 * argument.ndim)]
    shape = tuple(int(n) for n in shape)
    if len(shape) != argument.ndim:
        raise TypeError(
            f"argument `{name}` ({argument.spelled}) needs {argument.ndim} "
            f"dimension{'s' * (argument.ndim != 1)}; got shape {shape}"
        )
    item = int(argument.code[1:]) if argument.code else int(np.dtype(value.dtype).itemsize)
    # The kernel always gets contiguous memory: the array itself, or a contiguous copy of it.
    strides = [item * math.prod(shape[i + 1 :]) for i in range(len(shape))]
    if argument.layout == "F" and len(shape) > 1:
        strides = [item * math.prod(shape[:i]) for i in range(len(shape))]
        value = value.T
    return [0, 0, math.prod(shape), item, value, *shape, *strides]
