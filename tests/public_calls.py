"""Valid calls of the public API: launches, kernels and operations. Each argument has a kind.

public_calls_shown.py has the calls of results, pictures, lessons and plots.
"""

import functools
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from wrong_values import (
    ARRAYS,
    BOOLS,
    BYTES,
    FLOATS,
    INTEGERS,
    LISTS,
    NONE,
    OBJECTS,
    TEXTS,
    Argument,
    Value,
    any_text,
    array,
    constant,
    device,
    extent,
    flag,
    function,
    huge,
    integer,
    like_array,
    negative,
    real,
    text,
    texts,
)

import coalesce

SCALE = """
__device__ float kept[4];
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""


@dataclass(frozen=True)
class Call:
    """A function and its arguments by name; names that begin with ``*`` are positional."""

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
def transpose_profile() -> coalesce.Profile:
    return coalesce.profile("transpose", _a())


@functools.cache
def transpose_trace() -> coalesce.Trace:
    return coalesce.trace("transpose", _a())


@functools.cache
def transpose_benchmark() -> coalesce.Benchmark:
    return coalesce.benchmark("transpose", _a(), variants=["tiled", "padded"], device="sim")


def vector() -> np.ndarray:
    return np.ones(40, np.float32)


def overlapping(shape: tuple[int, ...]) -> Value:
    """Return a writeable array whose elements share memory."""
    memory = np.zeros(1, np.float32)
    return constant(np.lib.stride_tricks.as_strided(memory, shape, (0,) * len(shape)))


def _operation(name: str, *more: str) -> dict[str, Argument]:
    wrong_dtype: Value = constant(np.ones((4, 4), np.int32))
    matrix = array(_a(), wrong_dtype, constant(np.ones(3, np.float32)))
    variants = {"matmul": "naive", "transpose": "tiled"}.get(name)
    results = {"matmul": (40, 20), "transpose": (33, 40), "row_sums": (40,), "column_sums": (33,)}
    arguments = {
        "*a": matrix,
        "variant": text(variants or coalesce.variants(name).names[0]),
        "device": device(),
        "return_timing": flag(),
        "check": flag(),
        "out": array(None, wrong_dtype, overlapping(results[name]), none=True),
    }
    if "b" in more:
        arguments["*b"] = array(
            np.ones((33, 20), np.float32), constant(np.ones((5, 5), np.float32))
        )
        arguments["alpha"] = arguments["beta"] = real(1.0, wrong=[])
        arguments["c"] = array(np.ones((40, 20), np.float32), wrong_dtype)
        arguments["tile"] = integer(None, none=True, least=1)
    return arguments


def _geometry() -> dict[str, Argument]:
    return {
        "*grid": extent(2),
        "*block": extent(32),
        "*x": array(
            vector(), constant(np.ones(3)), constant([1.0]), overlapping((40,)), none=True
        ).but(ARRAYS[1]),
        "*factor": real(2.0, wrong=[]),
        "*n": integer(5, least=-(2**31)).but(*BOOLS),  # a bool is accepted as an integer
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
            "stream": Argument(None, [*OBJECTS, *TEXTS, *FLOATS, *BOOLS, *LISTS, huge, negative]),
        },
    )
    yield Call(
        "Kernel[grid, block, shared_bytes, stream]",
        lambda grid, block, x, factor, n, shared_bytes, stream=None: k()[
            grid, block, shared_bytes, stream
        ](x, factor, n),
        {
            **_geometry(),
            "stream": Argument(None, [*OBJECTS, *TEXTS, *FLOATS, *BOOLS, *LISTS, huge, negative]),
        },
    )
    yield Call(
        "Kernel.profile",
        lambda *a, **o: k().profile(*a, **o),
        {
            **_geometry(),
            **sim,
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
        {**_geometry(), **sim, "undefined": Argument((), [*texts(()).wrong, constant("nosuch")])},
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
        "Kernel.write_trace",
        lambda *a, **o: k().write_trace(Path(tempfile.mkdtemp()) / "trace", *a, **o),
        {**_geometry(), **sim},
    )
    yield Call(
        "Kernel.step",
        lambda *a, **o: k().step(*a, **o).close(),
        {
            **_geometry(),
            **sim,
            "of_block": Argument(0, _indices()),
            "limit": limit,
            "optimized": flag(True),
        },
    )


def _indices() -> list[Value]:
    """Return values that are neither an index of a block, warp or line nor several indices."""
    return [*OBJECTS[:6], *FLOATS, *BOOLS, *LISTS, huge, negative, constant("x"), constant([])]


def _steps() -> Iterator[Call]:
    def stepper() -> Any:
        return _kernel().step(1, 64, vector(), 2.0, 40)

    def call(method: str) -> Callable[..., Any]:
        def run(**options: Any) -> None:
            with stepper() as session:
                getattr(session, method)(**options)

        return run

    def set_warp(number: Any) -> None:
        with stepper() as session:
            session.warp = number

    warp = integer(0, none=True, most=1)
    line = Argument(4, [*OBJECTS[:6], *FLOATS, *BOOLS, constant("x"), huge, *NONE, constant([])])
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
                    constant("\0"),
                ],
            ),
            "entry": text("scale", none=True),
            "options": Argument((), [*texts(()).wrong, constant("-O3"), constant(["\0"])]),
            "arch": Argument(
                None, [*OBJECTS, *TEXTS, *FLOATS, *BOOLS, *LISTS, huge, negative, constant(1)]
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
                    constant({5: "x"}),
                    constant({"x.h": 5}),
                    constant({"\0": "x"}),
                ],
            ),
            "filename": Argument(
                None,
                [v for v in any_text("k.cu", none=True).wrong if v is not NONE[0]]
                + [constant("\0"), constant('a"b.cu'), constant("a\nb.cu"), constant("")],
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
        {"name": any_text("kept")},  # an unknown name is a KeyError
    )


def _operations() -> Iterator[Call]:
    yield Call("matmul", coalesce.matmul, _operation("matmul", "b"))
    for name in ("transpose", "row_sums", "column_sums"):
        arguments = _operation(name)
        if name == "row_sums":
            arguments["shared"] = text("static")
        yield Call(name, getattr(coalesce, name), arguments)
    x = array(vector(), constant(np.ones((4, 4), np.float32))).but(ARRAYS[0], ARRAYS[2])
    common = {"*x": x, "device": device(), "return_timing": flag(), "check": flag()}
    options = {
        "offset": integer(1, none=True, most=40),
        "stride": integer(2, none=True, least=1),
        "order": Argument(None, [*like_array(None).wrong[:-1], constant(range(31))]),
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
    matrix = {"*a": array(_a(), constant(np.ones(3, np.float32)))}
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
                + [constant(["nosuch"]), constant([])],
            ),
            "device": device(),
            "runs": integer(1, least=1),
            "verify": flag(),
        },
    )
    yield Call(
        "compare",
        lambda profiles: coalesce.compare(transpose_profile(), profiles),
        {"profiles": Argument(transpose_profile(), [*OBJECTS, *NONE, *INTEGERS, *TEXTS, *LISTS])},
    )


def calls() -> Iterator[Call]:
    """Yield the calls of this file."""
    for part in (_launches, _steps, _kernels, _operations):
        yield from part()
