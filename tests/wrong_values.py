"""Values that are wrong for an argument, by the argument's requirements.

An `Argument` has a right value and wrong ones. Wrong values are drawn at random or constant; some
are objects that raise from every method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


class Hostile:
    """An object whose attributes and protocols all raise an unexpected exception."""

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("hostile")

    def __repr__(self) -> str:
        raise RuntimeError("hostile")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("hostile")

    __index__ = __int__ = __float__ = __complex__ = __len__ = __iter__ = __getitem__ = _raise
    __fspath__ = __array__ = __bool__ = __hash__ = __eq__ = __contains__ = _raise  # type: ignore[assignment]
    __lt__ = __le__ = __gt__ = __ge__ = __dlpack__ = __dlpack_device__ = _raise
    __cuda_array_interface__ = property(_raise)
    __cuda_stream__ = property(_raise)
    title = accesses = dtype = shape = property(_raise)


class Silent:
    """An object without any attribute."""


class GpuLike:
    """An object with a given `__cuda_array_interface__`."""

    def __init__(self, interface: Any) -> None:
        self.__cuda_array_interface__ = interface


_INTERFACE = {"shape": (8,), "typestr": "<f4", "data": (0x7F0000000000, False), "version": 3}
BROKEN_INTERFACES: list[Any] = [
    5,
    None,
    {},
    "interface",
    *(
        {**_INTERFACE, key: value}
        for key, value in [
            ("shape", None),
            ("shape", (-1,)),
            ("shape", ("8",)),
            ("shape", 8),
            ("typestr", "nonsense"),
            ("typestr", 4),
            ("typestr", ""),
            ("typestr", ">f4"),
            ("typestr", "<f99"),
            ("data", None),
            ("data", 5),
            ("data", (None, False)),
            ("data", (-1, False)),
            ("data", (2**70, False)),
            ("strides", 4),
            ("strides", (4, 4)),
            ("strides", ("4",)),
            ("mask", np.zeros(8, bool)),
            ("stream", "x"),
            ("stream", 0),
            ("stream", 2**70),
        ]
    ),
    *({k: v for k, v in _INTERFACE.items() if k != gone} for gone in ("shape", "typestr", "data")),
]

Value = Callable[[np.random.Generator], Any]


def constant(value: Any) -> Value:
    return lambda _: value


def huge(random: np.random.Generator) -> int:
    sign = -1 if random.random() < 0.5 else 1
    return sign * 2 ** int(random.integers(31, 130)) + int(random.integers(0, 3)) + 2**70 * sign


def negative(random: np.random.Generator) -> int:
    return -int(random.integers(1, 2**31))


def _text(random: np.random.Generator) -> str:
    return "".join(map(chr, random.integers(32, 1000, int(random.integers(1, 20)))))


def _fraction(random: np.random.Generator) -> float:
    return float(random.normal()) + 0.5


def _object_array(_: np.random.Generator) -> Any:
    return np.array([None, "x"], object)


OBJECTS: list[Value] = [
    constant(Hostile()),
    constant(Silent()),
    constant(object),
    constant(3 + 4j),
    constant(len),
    constant(Ellipsis),
    constant({"a": 1}),
    constant({1, 2}),
    _object_array,
]
NONE: list[Value] = [constant(None)]
TEXTS: list[Value] = [constant(""), constant("\0"), constant("nonsense"), _text]
BYTES: list[Value] = [constant(b"bytes"), constant(bytearray(3))]
FLOATS: list[Value] = [
    constant(float("nan")),
    constant(float("inf")),
    constant(-float("inf")),
    _fraction,
    constant(np.float32(1.5)),
]
INTEGERS: list[Value] = [constant(5), constant(np.int64(3)), constant(0), huge, negative]
BOOLS: list[Value] = [constant(True), constant(np.bool_(False))]
LISTS: list[Value] = [constant([None]), constant([[1], [2, 3]]), constant((None, "x"))]
ARRAYS: list[Value] = [
    constant(np.zeros(0)),
    constant(np.zeros((2, 3, 4, 5), np.float32)),
    constant(np.zeros(3, ">f4")),
    constant(np.ma.zeros(3)),
    constant(np.zeros(3, "U2")),
    constant(np.zeros(2, [("a", "f4"), ("b", "i2")])),
    constant(np.array("2020-01-01", "M8[D]")),
]
GPU_LIKE: list[Value] = [constant(GpuLike(interface)) for interface in BROKEN_INTERFACES]


@dataclass(frozen=True)
class Argument:
    """A valid value for an argument, and wrong values."""

    good: Any
    wrong: list[Value]

    def but(self, *right: Value) -> Argument:
        """Return a copy without some values, which are right here."""
        return Argument(self.good, [value for value in self.wrong if value not in right])


def text(good: str, *more: Value, none: bool = False) -> Argument:
    """A string from a list of names; any other string is wrong."""
    others = [*OBJECTS, *BYTES, *FLOATS, *INTEGERS, *BOOLS, *LISTS, *TEXTS, *ARRAYS, *more]
    return Argument(good, others if none else [*others, *NONE])


def any_text(good: str, none: bool = False) -> Argument:
    """Any string."""
    argument = text(good, none=none)
    return Argument(good, [v for v in argument.wrong if v not in TEXTS])


def integer(good: Any, *, none: bool = False, most: int | None = None, least: int = 0) -> Argument:
    """An integer in a range; by default from 0 to the largest 64-bit integer."""
    wrong: list[Value] = [*OBJECTS, *TEXTS, *BYTES, *FLOATS, *BOOLS, *LISTS, *ARRAYS, huge]
    if least >= 0:
        wrong.append(negative)
    if least > 0:
        wrong += [constant(0)]
    if most is not None:
        wrong += [constant(most + 1)]
    return Argument(good, wrong if none else [*wrong, *NONE])


def real(good: float, *, none: bool = False, wrong: list[Value] | None = None) -> Argument:
    """A real number."""
    values = [*OBJECTS, *TEXTS, *BYTES, *LISTS, *ARRAYS, *BOOLS, *(wrong or [])]
    return Argument(good, values if none else [*values, *NONE])


def flag(good: bool = False) -> Argument:
    """True or False."""
    return Argument(
        good, [*OBJECTS, *TEXTS, *BYTES, *LISTS, *ARRAYS, *NONE, *FLOATS, constant(2), huge]
    )


def array(good: Any, *more: Value, none: bool = False) -> Argument:
    """A NumPy array of some shape and dtype."""
    wrong = [*OBJECTS, *TEXTS, *BYTES, *LISTS, *ARRAYS, *FLOATS, *INTEGERS, *GPU_LIKE, *more]
    return Argument(good, wrong if none else [*wrong, *NONE])


def like_array(good: Any, none: bool = False) -> Argument:
    """Any object that ``numpy.asarray`` converts to a one-dimensional array of integers."""
    wrong = [*OBJECTS, *BYTES, *LISTS, *FLOATS, *ARRAYS[1:], constant("nonsense")]
    return Argument(good, wrong if none else [*wrong, *NONE])


def texts(good: Any) -> Argument:
    """Several strings."""
    wrong = [*OBJECTS, *INTEGERS, *FLOATS, *BOOLS, *BYTES, *LISTS, *NONE, constant([5])]
    return Argument(good, [v for v in wrong if v is not OBJECTS[6]])


def extent(good: Any) -> Argument:
    """The extents of a grid or a block."""
    wrong = [*OBJECTS, *TEXTS, *BYTES, *FLOATS, *BOOLS, *LISTS, *NONE, huge, negative]
    more: list[Value] = [constant(0), constant((1, 2, 3, 4)), constant(()), constant((1, -1))]
    return Argument(good, [*wrong, *more, constant((1, 2**40))])


def function(good: Any = None) -> Argument:
    """True, False, None or a function of two numbers."""
    wrong = [*OBJECTS, *TEXTS, *BYTES, *FLOATS, *LISTS, *ARRAYS, constant(5), huge]
    return Argument(good, [v for v in wrong if v not in (OBJECTS[2], OBJECTS[4])])


def device(good: str | None = "sim", none: bool = True) -> Argument:
    """A device's name."""
    argument = text(good or "sim", constant("cuda:99"), constant("sim:nothing"), none=none)
    return Argument(good, argument.wrong)


def path(good: Any, none: bool = True) -> Argument:
    """A file to write; a file in a missing folder is an OSError."""
    wrong = [*OBJECTS, *INTEGERS, *FLOATS, *BOOLS, *LISTS, *ARRAYS, constant("\0")]
    return Argument(good, wrong if none else [*wrong, *NONE])
