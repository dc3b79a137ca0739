"""Wrong calls of the whole public API: a call that is right but for one argument.

Each must end in a TypeError, a ValueError or a CoalesceError that names the argument, soon. The
calls are drawn with a seed, so that a failure can be repeated:

    python tests/wrong_calls.py --calls 5000 --seed 1

prints the calls that ended otherwise and a summary; the exit status is 1 if there was any.
tests/python/test_wrong_calls.py runs a few hundred of them.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import re
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import coalesce

SECONDS = 10.0  # a call that takes longer hangs

SCALE = """
__device__ float kept[4];
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""


# --- values ---------------------------------------------------------------------------------------


class Hostile:
    """An object whose every attribute and protocol raises what no one expects."""

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
    """An object that has nothing."""


class GpuLike:
    """An object with the `__cuda_array_interface__` that it is given."""

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


def _constant(value: Any) -> Value:
    return lambda _: value


def _huge(random: np.random.Generator) -> int:
    sign = -1 if random.random() < 0.5 else 1
    return sign * 2 ** int(random.integers(31, 130)) + int(random.integers(0, 3)) + 2**70 * sign


def _negative(random: np.random.Generator) -> int:
    return -int(random.integers(1, 2**31))


def _text(random: np.random.Generator) -> str:
    return "".join(map(chr, random.integers(32, 1000, int(random.integers(1, 20)))))


def _fraction(random: np.random.Generator) -> float:
    return float(random.normal()) + 0.5


def _object_array(_: np.random.Generator) -> Any:
    return np.array([None, "x"], object)


OBJECTS: list[Value] = [
    _constant(Hostile()),
    _constant(Silent()),
    _constant(object),
    _constant(3 + 4j),
    _constant(len),
    _constant(Ellipsis),
    _constant({"a": 1}),
    _constant({1, 2}),
    _object_array,
]
NONE: list[Value] = [_constant(None)]
TEXTS: list[Value] = [_constant(""), _constant("\0"), _constant("nonsense"), _text]
BYTES: list[Value] = [_constant(b"bytes"), _constant(bytearray(3))]
FLOATS: list[Value] = [
    _constant(float("nan")),
    _constant(float("inf")),
    _constant(-float("inf")),
    _fraction,
    _constant(np.float32(1.5)),
]
INTEGERS: list[Value] = [_constant(5), _constant(np.int64(3)), _constant(0), _huge, _negative]
BOOLS: list[Value] = [_constant(True), _constant(np.bool_(False))]
LISTS: list[Value] = [_constant([None]), _constant([[1], [2, 3]]), _constant((None, "x"))]
ARRAYS: list[Value] = [
    _constant(np.zeros(0)),
    _constant(np.zeros((2, 3, 4, 5), np.float32)),
    _constant(np.zeros(3, ">f4")),
    _constant(np.ma.zeros(3)),
    _constant(np.zeros(3, "U2")),
    _constant(np.zeros(2, [("a", "f4"), ("b", "i2")])),
    _constant(np.array("2020-01-01", "M8[D]")),
]
GPU_LIKE: list[Value] = [_constant(GpuLike(interface)) for interface in BROKEN_INTERFACES]


@dataclass(frozen=True)
class Argument:
    """A right value for an argument, and wrong ones."""

    good: Any
    wrong: list[Value]

    def but(self, *right: Value) -> Argument:
        """Without some values, which are right here."""
        return Argument(self.good, [value for value in self.wrong if value not in right])


def text(good: str, *more: Value, none: bool = False) -> Argument:
    """A name out of a list: any other text is wrong, too."""
    others = [*OBJECTS, *BYTES, *FLOATS, *INTEGERS, *BOOLS, *LISTS, *TEXTS, *ARRAYS, *more]
    return Argument(good, others if none else [*others, *NONE])


def any_text(good: str, none: bool = False) -> Argument:
    """A text of any kind."""
    found = text(good, none=none)
    return Argument(good, [v for v in found.wrong if v not in TEXTS])


def integer(good: Any, *, none: bool = False, most: int | None = None, least: int = 0) -> Argument:
    """An integer in a range; by default from 0 to what 64 bits hold."""
    wrong: list[Value] = [*OBJECTS, *TEXTS, *BYTES, *FLOATS, *BOOLS, *LISTS, *ARRAYS, _huge]
    if least >= 0:
        wrong.append(_negative)
    if least > 0:
        wrong += [_constant(0)]
    if most is not None:
        wrong += [_constant(most + 1)]
    return Argument(good, wrong if none else [*wrong, *NONE])


def real(good: float, *, none: bool = False, wrong: list[Value] | None = None) -> Argument:
    """A real number."""
    values = [*OBJECTS, *TEXTS, *BYTES, *LISTS, *ARRAYS, *BOOLS, *(wrong or [])]
    return Argument(good, values if none else [*values, *NONE])


def flag(good: bool = False) -> Argument:
    """True or False."""
    return Argument(
        good, [*OBJECTS, *TEXTS, *BYTES, *LISTS, *ARRAYS, *NONE, *FLOATS, _constant(2), _huge]
    )


def array(good: Any, *more: Value, none: bool = False) -> Argument:
    """A NumPy array of some shape and dtype."""
    wrong = [*OBJECTS, *TEXTS, *BYTES, *LISTS, *ARRAYS, *FLOATS, *INTEGERS, *GPU_LIKE, *more]
    return Argument(good, wrong if none else [*wrong, *NONE])


def like_array(good: Any, none: bool = False) -> Argument:
    """What ``numpy.asarray`` takes, of one axis of integers."""
    wrong = [*OBJECTS, *BYTES, *LISTS, *FLOATS, *ARRAYS[1:], _constant("nonsense")]
    return Argument(good, wrong if none else [*wrong, *NONE])


def texts(good: Any) -> Argument:
    """Several texts."""
    wrong = [*OBJECTS, *INTEGERS, *FLOATS, *BOOLS, *BYTES, *LISTS, *NONE, _constant([5])]
    return Argument(good, [v for v in wrong if v is not OBJECTS[6]])


def extent(good: Any) -> Argument:
    """A grid or a block."""
    wrong = [*OBJECTS, *TEXTS, *BYTES, *FLOATS, *BOOLS, *LISTS, *NONE, _huge, _negative]
    more: list[Value] = [_constant(0), _constant((1, 2, 3, 4)), _constant(()), _constant((1, -1))]
    return Argument(good, [*wrong, *more, _constant((1, 2**40))])


def function(good: Any = None) -> Argument:
    """True, False, None or a function of two numbers."""
    wrong = [*OBJECTS, *TEXTS, *BYTES, *FLOATS, *LISTS, *ARRAYS, _constant(5), _huge]
    return Argument(good, [v for v in wrong if v not in (OBJECTS[2], OBJECTS[4])])


def device(good: str | None = "sim", none: bool = True) -> Argument:
    """A device's name."""
    found = text(good or "sim", _constant("cuda:99"), _constant("sim:nothing"), none=none)
    return Argument(good, found.wrong)


def path(good: Any, none: bool = True) -> Argument:
    """A file to write; one whose folder is missing is an OSError."""
    wrong = [*OBJECTS, *INTEGERS, *FLOATS, *BOOLS, *LISTS, *ARRAYS, _constant("\0")]
    return Argument(good, wrong if none else [*wrong, *NONE])


# --- calls ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A function and its arguments by name; those that begin with ``*`` come by position."""

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Argument]


@functools.cache
def _kernel() -> coalesce.Kernel:
    return coalesce.Kernel(SCALE, device="sim", instruction_limit=1_000_000)


@functools.cache
def _a() -> np.ndarray:
    return np.ones((40, 33), np.float32)


@functools.cache
def _profile() -> coalesce.Profile:
    return coalesce.profile("transpose", _a())


@functools.cache
def _trace() -> coalesce.Trace:
    return coalesce.trace("transpose", _a())


@functools.cache
def _benchmark() -> coalesce.Benchmark:
    return coalesce.benchmark("transpose", _a(), variants=["tiled", "padded"], device="sim")


def _x() -> np.ndarray:
    return np.ones(40, np.float32)


def _operation(name: str, *more: str) -> dict[str, Argument]:
    wrong_dtype: Value = _constant(np.ones((4, 4), np.int32))
    matrix = array(_a(), wrong_dtype, _constant(np.ones(3, np.float32)))
    variants = {"matmul": "naive", "transpose": "tiled"}.get(name)
    found = {
        "*a": matrix,
        "variant": text(variants or coalesce.variants(name).names[0]),
        "device": device(),
        "return_timing": flag(),
        "check": flag(),
        "out": array(None, wrong_dtype, none=True),
    }
    if "b" in more:
        found["*b"] = array(np.ones((33, 20), np.float32), _constant(np.ones((5, 5), np.float32)))
        found["alpha"] = found["beta"] = real(1.0, wrong=[])
        found["c"] = array(np.ones((40, 20), np.float32), wrong_dtype)
        found["tile"] = integer(None, none=True, least=1)
    return found


def _geometry() -> dict[str, Argument]:
    return {
        "*grid": extent(2),
        "*block": extent(32),
        "*x": array(_x(), _constant(np.ones(3)), _constant([1.0]), none=True).but(ARRAYS[1]),
        "*factor": real(2.0, wrong=[]),
        "*n": integer(5, least=-(2**31)).but(*BOOLS),  # which an integer may be given as
        "shared_bytes": integer(0, most=2**31 - 1),
    }


def _launches() -> Iterator[Call]:
    k = _kernel
    sim = {"device": device()}
    chosen = {
        "blocks": Argument(None, [*_indices(), *TEXTS[:2]]),
        "warps": Argument(None, _indices()),
        "lines": Argument(None, _indices()),
    }
    limit = integer(100, none=True, least=1)
    yield Call(
        "Kernel.launch",
        lambda *a, **o: k().launch(*a, **o),
        {
            **_geometry(),
            **sim,
            "runs": integer(1, none=True, least=1),
            "counts": flag(),
            "write_only": texts(("x",)),
            "stream": Argument(None, [*OBJECTS, *TEXTS, *FLOATS, *BOOLS, *LISTS, _huge, _negative]),
        },
    )
    yield Call(
        "Kernel[grid, block, shared_bytes, stream]",
        lambda grid, block, x, factor, n, shared_bytes, stream=None: k()[
            grid, block, shared_bytes, stream
        ](x, factor, n),
        {
            **_geometry(),
            "stream": Argument(None, [*OBJECTS, *TEXTS, *FLOATS, *BOOLS, *LISTS, _huge, _negative]),
        },
    )
    yield Call(
        "Kernel.profile",
        lambda *a, **o: k().profile(*a, **o),
        {
            **_geometry(),
            **sim,
            "sample": real(
                None, none=True, wrong=[*FLOATS[:3], _constant(0), _constant(1), _negative]
            ),
            "executor": Argument(None, [*OBJECTS, *TEXTS, *INTEGERS, *LISTS]),
            "progress": function(False),
            "caches": flag(True),
        },
    )
    yield Call(
        "Kernel.trace",
        lambda *a, **o: k().trace(*a, **o),
        {**_geometry(), **sim, **chosen, "limit": limit, "progress": function(False)},
    )
    yield Call(
        "Kernel.check",
        lambda *a, **o: k().check(*a, **o),
        {**_geometry(), **sim, "undefined": Argument((), [*texts(()).wrong, _constant("nosuch")])},
    )
    callback = Argument(len, [*OBJECTS[:2], *OBJECTS[3:4], *NONE, *TEXTS, *INTEGERS])
    yield Call(
        "Kernel.observe",
        lambda *a, **o: k().observe(*a, **o),
        {
            **_geometry(),
            **sim,
            **chosen,
            "callback": callback,
            "batch": integer(10, least=1),
            "progress": function(False),
        },
    )
    yield Call(
        "Kernel.step",
        lambda *a, **o: k().step(*a, **o).close(),
        {**_geometry(), **sim, "of_block": Argument(0, _indices()), "limit": limit},
    )


def _indices() -> list[Value]:
    """What is neither a block, a warp nor a line of the launch, nor several."""
    return [*OBJECTS[:6], *FLOATS, *BOOLS, *LISTS, _huge, _negative, _constant("x"), _constant([])]


def _steps() -> Iterator[Call]:
    def stepper() -> Any:
        return _kernel().step(1, 64, _x(), 2.0, 40)

    def call(method: str) -> Callable[..., Any]:
        def run(**options: Any) -> None:
            with stepper() as found:
                getattr(found, method)(**options)

        return run

    def set_warp(number: Any) -> None:
        with stepper() as found:
            found.warp = number

    warp = integer(0, none=True, most=1)
    line = Argument(4, [*OBJECTS[:6], *FLOATS, *BOOLS, _constant("x"), _huge, *NONE, _constant([])])
    yield Call("Stepper.step", call("step"), {"warp": warp})
    yield Call("Stepper.step_line", call("step_line"), {"warp": warp})
    yield Call("Stepper.run_to", call("run_to"), {"line": line, "warp": warp})
    yield Call("Stepper.warp", lambda warp: set_warp(warp), {"warp": integer(0, most=1)})


def _kernels() -> Iterator[Call]:
    yield Call(
        "Kernel",
        coalesce.Kernel,
        {
            "source": Argument(
                SCALE,
                [
                    *OBJECTS,
                    *INTEGERS,
                    *BYTES,
                    *LISTS,
                    *NONE,
                    *FLOATS,
                    _constant("\0"),
                ],
            ),
            "entry": text("scale", none=True),
            "options": Argument((), [*texts(()).wrong, _constant("-O3"), _constant(["\0"])]),
            "arch": Argument(
                None, [*OBJECTS, *TEXTS, *FLOATS, *BOOLS, *LISTS, _huge, _negative, _constant(1)]
            ),
            "device": device(),
            "instruction_limit": integer(None, none=True),
            "headers": Argument(
                None,
                [
                    *OBJECTS[:6],
                    *INTEGERS,
                    *TEXTS,
                    *FLOATS,
                    *LISTS,
                    *OBJECTS[6:7],
                    _constant({5: "x"}),
                    _constant({"x.h": 5}),
                    _constant({"\0": "x"}),
                ],
            ),
            "filename": Argument(
                None,
                [v for v in any_text("k.cu", none=True).wrong if v is not NONE[0]]
                + [_constant("\0"), _constant('a"b.cu'), _constant("a\nb.cu"), _constant("")],
            ),
        },
    )
    yield Call(
        "Kernel.get_function",
        lambda entry: _kernel().get_function(entry),
        {"entry": text("scale")},
    )
    yield Call(
        "Kernel.globals.on",
        lambda device: _kernel().globals.on(device),
        {"device": device()},
    )
    yield Call(
        "Kernel.globals[name]",
        lambda name: _kernel().globals[name],
        {"name": any_text("kept")},  # one that there is not is a KeyError
    )


def _operations() -> Iterator[Call]:
    yield Call("matmul", coalesce.matmul, _operation("matmul", "b"))
    for name in ("transpose", "row_sums", "column_sums"):
        found = _operation(name)
        if name == "row_sums":
            found["shared"] = text("static")
        yield Call(name, getattr(coalesce, name), found)
    vector = array(_x(), _constant(np.ones((4, 4), np.float32))).but(ARRAYS[0], ARRAYS[2])
    common = {"*x": vector, "device": device(), "return_timing": flag(), "check": flag()}
    options = {
        "offset": integer(1, none=True, most=40),
        "stride": integer(2, none=True, least=1),
        "order": Argument(None, [*like_array(None).wrong[:-1], _constant(range(31))]),
        "distance": integer(3, none=True),
        "width": integer(4, none=True, least=1, most=16),
    }
    for pattern, argument in [*options.items(), ("gather", array(np.zeros(3, np.int32)))]:
        option = {"vector": "width", "permuted": "order", "gather": "index"}.get(pattern, pattern)
        named = {"width": "vector", "order": "permuted", "distance": "far_lane"}.get(
            pattern, pattern
        )
        yield Call(
            f"access, {named}",
            functools.partial(coalesce.access, pattern=named),
            {**common, option: argument, "out": array(None, none=True).but(ARRAYS[2])},
        )
    yield Call("access", coalesce.access, {**common, "pattern": text("broadcast")})
    for pattern in ("aos", "soa"):
        yield Call(
            f"access, {pattern}",
            functools.partial(coalesce.access, pattern=pattern),
            {"*x": array(np.ones((4, 4), np.float32)), "field": integer(1, none=True, most=3)},
        )
    operation = {"*operation": text("transpose")}
    yield Call("variants", coalesce.variants, {"*operation": text("matmul", none=True)})
    yield Call("source", coalesce.source, {**operation, "*variant": text("tiled")})
    matrix = {"*a": array(_a(), _constant(np.ones(3, np.float32)))}
    progress = {"progress": function(False)}
    yield Call(
        "profile",
        coalesce.profile,
        {
            **operation,
            **matrix,
            **progress,
            "device": device(),
            "variant": text("tiled"),
            "sample": real(None, none=True, wrong=[*FLOATS[:3], _constant(0), _constant(1)]),
            "executor": Argument(None, [*OBJECTS, *TEXTS, *INTEGERS, *LISTS]),
            "caches": flag(True),
        },
    )
    yield Call(
        "trace",
        coalesce.trace,
        {
            **operation,
            **matrix,
            **progress,
            "variant": text("tiled"),
            "blocks": Argument(None, _indices()),
            "warps": Argument(None, _indices()),
            "lines": Argument(None, _indices()),
            "limit": integer(100, none=True, least=1),
        },
    )
    yield Call(
        "benchmark",
        coalesce.benchmark,
        {
            **operation,
            **matrix,
            **progress,
            "variants": Argument(
                ["tiled"],
                [v for v in texts(()).wrong if v is not NONE[0]]
                + [_constant(["nosuch"]), _constant([])],
            ),
            "device": device(),
            "runs": integer(1, least=1),
            "verify": flag(),
        },
    )
    yield Call(
        "compare",
        lambda profiles: coalesce.compare(_profile(), profiles),
        {"profiles": Argument(_profile(), [*OBJECTS, *NONE, *INTEGERS, *TEXTS, *LISTS])},
    )


def _warps() -> Iterator[Call]:
    lanes = 4 * np.arange(32)
    yield Call(
        "transactions",
        coalesce.transactions,
        {
            "*addresses": like_array(lanes),
            "*itemsize": integer(4, least=1, most=16),
            "mask": Argument(None, [*OBJECTS, *LISTS, *TEXTS, *FLOATS, *ARRAYS, _huge, _negative]),
            "gpu": text("h200"),
            "warp_size": integer(32, least=1, most=64),
        },
    )
    coordinate = like_array((3, 1, 0))
    for name in ("thread_index", "warp_of_thread"):
        yield Call(
            name,
            getattr(coalesce, name),
            {"threadIdx": coordinate, "blockDim": extent((16, 16))},
        )


def _arrays() -> Iterator[Call]:
    shape = Argument(
        (3, 4),
        [
            *OBJECTS,
            *NONE,
            *TEXTS[2:],
            *BYTES[:0],
            *FLOATS,
            *LISTS,
            _huge,
            _negative,
            _constant((1, -1)),
            _constant((2**40, 2**40)),
        ],
    )
    dtype = Argument(
        np.float32,
        [
            *OBJECTS[:2],
            *OBJECTS[3:6],
            *TEXTS,
            *FLOATS,
            _constant("O"),
            _constant("U3"),
            _constant(">f4"),
            _constant(5),
            _huge,
        ],
    )
    for name in ("empty", "zeros", "ones"):
        yield Call(
            name, getattr(coalesce, name), {"*shape": shape, "dtype": dtype, "device": device()}
        )
    wrong = [*OBJECTS[:3], *OBJECTS[4:6], *NONE, *TEXTS, *LISTS, *ARRAYS[2:3], *ARRAYS[4:], _huge]
    of_any = Argument(_x(), [*wrong, *GPU_LIKE])
    yield Call(
        "asarray",
        coalesce.asarray,
        {"*a": of_any.but(ARRAYS[2]), "dtype": dtype, "device": device()},
    )
    yield Call("to_device", coalesce.to_device, {"*a": of_any, "device": device()})
    x = functools.cache(lambda: coalesce.zeros((3, 4), device="sim"))
    bad = [*OBJECTS, *TEXTS, *LISTS, *INTEGERS, *FLOATS, *ARRAYS]
    yield Call("DeviceArray.get", lambda out: x().get(out), {"out": Argument(None, bad)})
    yield Call(
        "DeviceArray.set",
        lambda values: x().set(values),
        {"values": Argument(np.zeros((3, 4), np.float32), [*bad, *NONE])},
    )
    yield Call(
        "DeviceArray.reshape",
        lambda shape: x().reshape(shape),
        {"shape": Argument((4, 3), [*OBJECTS, *NONE, *TEXTS, *FLOATS, *LISTS, _huge, _negative])},
    )


def _results() -> Iterator[Call]:
    width, folder = integer(90).but(_huge), Path(tempfile.gettempdir())
    color = flag()
    for name, make in [("Profile", _profile), ("Benchmark", _benchmark)]:

        def to_text(*a: Any, made: Any = make, **o: Any) -> Any:
            return made().to_text(*a, **o)

        def to_html(*a: Any, made: Any = make, **o: Any) -> Any:
            return made().to_html(*a, **o)

        yield Call(f"{name}.to_text", to_text, {"width": width, "color": color})
        yield Call(f"{name}.to_html", to_html, {"path": path(folder / "wrong_calls.html")})
    line = integer(None, none=True, least=1)
    share = real(0.1, wrong=[*FLOATS[:3], _negative])
    for name, more in [
        ("assert_coalesced", {}),
        ("assert_no_bank_conflicts", {}),
        ("assert_bytes_used", {"at_least": share}),
        (
            "assert_sectors_per_request",
            {"load": real(40.0, none=True, wrong=[*FLOATS[:1], _negative])},
        ),
    ]:

        def asserts(*a: Any, name: str = name, **o: Any) -> Any:
            with contextlib.suppress(AssertionError):
                return getattr(_profile(), name)(*a, **o)

        yield Call(f"Profile.{name}", asserts, {"line": line, **more})
    yield Call(
        "Profile.to_dataframe",
        lambda by: _unless(ImportError, _profile().to_dataframe, by),  # pandas may not be there
        {"by": text("line")},
    )
    yield Call(
        "Profile.measured_counters",
        lambda **o: _unless(coalesce.DeviceUnavailable, _profile().measured_counters, **o),
        {"timeout": real(1.0, wrong=[*FLOATS[:1], _negative, _constant(0)])},
    )
    event = integer(0, most=10**6)
    yield Call(
        "Trace.element",
        lambda event, lane: _trace().element(event, lane),
        {"event": event, "lane": integer(0, most=31)},
    )
    yield Call(
        "Trace.select",
        lambda **o: _trace().select(**o),
        {
            "array": text("in", none=True).but(ARRAYS[0]),
            "kind": text("load", none=True).but(ARRAYS[0]),
            "space": text("global", none=True).but(ARRAYS[0]),
            "line": Argument(None, [*OBJECTS[:6], *FLOATS, _constant("x")]),
            "block": Argument(None, [*OBJECTS[:6], *FLOATS, _constant("x")]),
            "warp": Argument(None, [*OBJECTS[:6], *FLOATS, _constant("x")]),
        },
    )
    yield Call(
        "Trace.to_dataframe",
        lambda lanes: _unless(ImportError, _trace().to_dataframe, lanes=lanes),
        {"lanes": flag()},
    )
    yield Call(
        "Comparison.ratio",
        lambda name, of: coalesce.compare(_profile(), _profile()).ratio(name, of),
        {"name": text("global load sectors"), "of": integer(1, least=-1, most=1)},
    )


def _unless(
    error: type[Exception], function: Callable[..., Any], *args: Any, **options: Any
) -> Any:
    with contextlib.suppress(error):
        return function(*args, **options)
    return None


def _pictures() -> Iterator[Call]:
    from coalesce import draw

    lanes = 4 * np.arange(32)
    title = any_text("a title", none=True)
    mask = Argument(None, [*OBJECTS, *LISTS, *TEXTS, *FLOATS, *ARRAYS, _huge, _negative])
    yield Call(
        "draw.warp_access",
        draw.warp_access,
        {
            "*addresses": like_array(lanes),
            "*itemsize": integer(4, least=1, most=64),
            "mask": mask,
            "warp_size": integer(32, none=True, least=1),
            "title": title,
        },
    )
    yield Call(
        "draw.bank_board",
        draw.bank_board,
        {
            "*addresses": like_array(lanes),
            "*itemsize": integer(4, least=1, most=16),
            "mask": mask,
            "kind": text("load"),
            "base": integer(0),
            "rows": text("words"),
            "title": title,
        },
    )
    yield Call(
        "draw.thread_block",
        draw.thread_block,
        {"block_dim": extent((8, 4)), "title": title},
    )
    yield Call(
        "draw.event",
        draw.event,
        {
            "*trace": Argument(_trace(), [*OBJECTS, *NONE, *INTEGERS, *TEXTS]),
            "*number": integer(0, most=10**6),
            "title": title,
        },
    )
    yield Call(
        "draw.matrix_cells",
        draw.matrix_cells,
        {
            "*shape": Argument((4, 4), [*OBJECTS, *NONE, *TEXTS, *FLOATS, _negative]),
            "*touched": Argument([(0, 1)], [*OBJECTS, *NONE, *FLOATS, *LISTS, *BYTES, _huge]),
            "name": any_text("a"),
            "itemsize": integer(4, least=1, most=64),
            "offset": integer(0),
            "headline": any_text("a headline", none=True),
            "title": title,
        },
    )
    picture = functools.cache(lambda: draw.warp_access(lanes, 4))
    yield Call(
        "Picture.save",
        lambda path: picture().save(path),
        {"path": path(Path(tempfile.gettempdir()) / "wrong_calls.svg", none=False)},
    )


def _lessons() -> Iterator[Call]:
    from coalesce import lessons

    yield Call("lessons.exercise", lessons.exercise, {"*name": text("smooth")})
    yield Call("lessons.source", lessons.source, {"*name": text("padding")})
    yield Call(
        "lessons.code", lessons.code, {"*operation": text("matmul"), "*variant": text("naive")}
    )
    yield Call(
        "lessons.times",
        lessons.times,
        {"*operation": text("transpose"), "variants": texts(["tiled"])},
    )
    yield Call("lessons.sweep", lessons.sweep, {"*pattern": text("stride")})
    yield Call(
        "Exercise.check",
        lambda kernel: lessons.exercise("smooth").check(kernel),
        {
            "kernel": Argument(
                lessons.exercise("smooth").source,
                [*OBJECTS, *NONE, *INTEGERS, *FLOATS, *LISTS, *BYTES],
            )
        },
    )


def _plots() -> Iterator[Call]:
    try:
        import matplotlib as mpl
    except ImportError:
        return
    mpl.use("agg")
    from matplotlib import pyplot

    from coalesce import plots

    def drawn(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*a: Any, **o: Any) -> None:
            try:
                function(*a, **o)
            finally:
                pyplot.close("all")

        return call

    values = Argument(
        [1, 2],
        [
            *OBJECTS[:6],
            *FLOATS,
            *LISTS,
            _constant([]),
            _constant([-1]),
            _constant([1.5]),
            _constant("x"),
            _constant([2**70]),
        ],
    )
    ax = Argument(None, [*OBJECTS, *INTEGERS, *TEXTS])
    yield Call(
        "plots.Sweep.run",
        plots.Sweep.run,
        {
            "*pattern": text("stride"),
            "values": values,
            "itemsize": integer(4, least=1, most=16),
            "device": device(),
        },
    )
    kernels = Argument({"a": _profile()}, [*OBJECTS[:6], *NONE, *INTEGERS, *LISTS, _constant({})])
    theme = text("light", none=True)
    yield Call(
        "plots.sweep",
        drawn(plots.sweep),
        {"*pattern": text("stride"), "values": values, "ax": ax, "theme": theme},
    )
    bars = Argument({"a": 1.0}, [*kernels.wrong, _constant({"a": "x"}), _constant({"a": -1.0})])
    yield Call("plots.bars", drawn(plots.bars), {"values": bars, "ax": ax, "theme": theme})
    yield Call("plots.ladder", drawn(plots.ladder), {"variants": kernels, "ax": ax, "theme": theme})
    peak = real(1000.0, wrong=[*FLOATS[:3], _negative, _constant(0)])
    yield Call(
        "plots.roofline",
        drawn(plots.roofline),
        {
            "*kernels": kernels,
            "peak_gflops": peak,
            "peak_gbps": peak,
            "flops": real(1e6).but(OBJECTS[6]),
        },
    )
    number = real(1.0, wrong=[*FLOATS[:3], _negative, _constant(0)])
    yield Call("plots.Work", plots.Work, {"*flops": number, "*dram_bytes": number, "*ms": number})


@functools.cache
def calls() -> tuple[Call, ...]:
    """Every public function and method that takes arguments."""
    parts = (
        _launches,
        _steps,
        _kernels,
        _operations,
        _warps,
        _arrays,
        _results,
        _pictures,
        _lessons,
        _plots,
    )
    return tuple(call for part in parts for call in part())


# --- running --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of a wrong call; `fault` is "" where it was refused as it must be."""

    call: str
    argument: str
    value: str
    fault: str

    def __str__(self) -> str:
        return f"{self.call}({self.argument}={self.value}): {self.fault}"


class _TooLong(BaseException):
    pass


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Interrupt what takes too long; end the process where that does not help."""

    def stop(*_: Any) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    faulthandler.dump_traceback_later(3 * SECONDS, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def told(value: Any) -> str:
    """Return a value's text, whatever it is."""
    if isinstance(value, GpuLike):
        return f"GpuLike({value.__cuda_array_interface__!r})"
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) < 100 else text[:97] + "..."


def run(call: Call, name: str, value: Any) -> Outcome:
    """Make a call with one argument wrong and judge how it ends."""
    given = {key: argument.good for key, argument in call.arguments.items()} | {name: value}
    by_place = [v for key, v in given.items() if key.startswith("*")]
    by_name = {key: v for key, v in given.items() if not key.startswith("*")}
    plain = name.lstrip("*")
    fault = "it was accepted"
    try:
        with _limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call.function(*by_place, **by_name)
    except (TypeError, ValueError, coalesce.CoalesceError) as error:
        try:
            message = str(error)
        except Exception as second:
            message = f"<no message: {second!r}>"
        fault = ""
        if not re.search(rf"(?<![\w.]){re.escape(plain)}(?!\w)", message):
            fault = f"{type(error).__name__} does not name it: {message[:300]}"
    except _TooLong:
        fault = f"it took more than {SECONDS:g} s"
    except Exception as error:
        fault = f"{type(error).__name__}: {told(error)}"
    return Outcome(call.name, plain, told(value), fault)


def outcomes(count: int, seed: int) -> Iterator[Outcome]:
    """Make so many wrong calls, drawn with a seed: every argument in turn, each value at random."""
    random = np.random.default_rng(seed)
    wrong = [(call, name) for call in calls() for name in call.arguments]
    order: list[int] = []
    for _ in range(count):
        if not order:
            order = random.permutation(len(wrong)).tolist()
        call, name = wrong[order.pop()]
        values = call.arguments[name].wrong
        yield run(call, name, values[int(random.integers(len(values)))](random))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for call in calls():  # what the right calls need is there, and they are right
        run(call, next(iter(call.arguments)), None)
    faults = [found for found in outcomes(options.calls, options.seed) if found.fault]
    for found in sorted(set(map(str, faults))):
        print(found)
    kinds = Counter(found.call for found in faults)
    arguments = sum(len(call.arguments) for call in calls())
    print(
        f"{options.calls} wrong calls of {len(calls())} functions with {arguments} arguments, "
        f"seed {options.seed}: {len(faults)} not refused as they must be"
    )
    for name, number in kinds.most_common(40):
        print(f"  {number:5} {name}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
