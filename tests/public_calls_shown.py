"""Valid calls of the public API: warps, arrays, results, pictures, lessons and plots."""

import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from public_calls import Call, transpose_benchmark, transpose_profile, transpose_trace, vector
from wrong_values import (
    ARRAYS,
    BYTES,
    FLOATS,
    GPU_LIKE,
    INTEGERS,
    LISTS,
    NONE,
    OBJECTS,
    TEXTS,
    Argument,
    any_text,
    constant,
    device,
    extent,
    flag,
    huge,
    integer,
    like_array,
    negative,
    path,
    real,
    text,
    texts,
)

import coalesce


def _warps() -> Iterator[Call]:
    lanes = 4 * np.arange(32)
    yield Call(
        "transactions",
        coalesce.transactions,
        {
            "*addresses": like_array(lanes),
            "*itemsize": integer(4, least=1, most=16),
            "mask": Argument(None, [*OBJECTS, *LISTS, *TEXTS, *FLOATS, *ARRAYS, huge, negative]),
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
            huge,
            negative,
            constant((1, -1)),
            constant((2**40, 2**40)),
        ],
    )
    dtype = Argument(
        np.float32,
        [
            *OBJECTS[:2],
            *OBJECTS[3:6],
            *TEXTS,
            *FLOATS,
            constant("O"),
            constant("U3"),
            constant(">f4"),
            constant(5),
            huge,
        ],
    )
    for name in ("empty", "zeros", "ones", "pinned_empty"):
        yield Call(
            name, getattr(coalesce, name), {"*shape": shape, "dtype": dtype, "device": device()}
        )
    wrong = [*OBJECTS[:3], *OBJECTS[4:6], *NONE, *TEXTS, *LISTS, *ARRAYS[2:3], *ARRAYS[4:], huge]
    of_any = Argument(vector(), [*wrong, *GPU_LIKE])
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
        {"shape": Argument((4, 3), [*OBJECTS, *NONE, *TEXTS, *FLOATS, *LISTS, huge, negative])},
    )


def _results() -> Iterator[Call]:
    width, folder = integer(90).but(huge), Path(tempfile.gettempdir())
    color = flag()
    for name, make in [("Profile", transpose_profile), ("Benchmark", transpose_benchmark)]:

        def to_text(*a: Any, made: Any = make, **o: Any) -> Any:
            return made().to_text(*a, **o)

        def to_html(*a: Any, made: Any = make, **o: Any) -> Any:
            return made().to_html(*a, **o)

        yield Call(f"{name}.to_text", to_text, {"width": width, "color": color})
        yield Call(f"{name}.to_html", to_html, {"path": path(folder / "wrong_calls.html")})
    line = integer(None, none=True, least=1)
    share = real(0.1, wrong=[*FLOATS[:3], negative])
    for name, more in [
        ("assert_coalesced", {}),
        ("assert_no_bank_conflicts", {}),
        ("assert_bytes_used", {"at_least": share}),
        (
            "assert_sectors_per_request",
            {"load": real(40.0, none=True, wrong=[*FLOATS[:1], negative])},
        ),
    ]:

        def asserts(*a: Any, name: str = name, **o: Any) -> Any:
            with contextlib.suppress(AssertionError):
                return getattr(transpose_profile(), name)(*a, **o)

        yield Call(f"Profile.{name}", asserts, {"line": line, **more})
    yield Call(
        "Profile.to_dataframe",
        lambda by: _unless(
            ImportError, transpose_profile().to_dataframe, by
        ),  # pandas may be missing
        {"by": text("line")},
    )
    yield Call(
        "Profile.measured_counters",
        lambda **o: _unless(coalesce.DeviceUnavailable, transpose_profile().measured_counters, **o),
        {"timeout": real(100.0, wrong=[*FLOATS[:1], negative, constant(0)])},
    )
    event = integer(0, most=10**6)
    yield Call(
        "Trace.element",
        lambda event, lane: transpose_trace().element(event, lane),
        {"event": event, "lane": integer(0, most=31)},
    )
    yield Call(
        "Trace.select",
        lambda **o: transpose_trace().select(**o),
        {
            "array": text("in", none=True).but(ARRAYS[0]),
            "kind": text("load", none=True).but(ARRAYS[0]),
            "space": text("global", none=True).but(ARRAYS[0]),
            "line": Argument(None, [*OBJECTS[:6], *FLOATS, constant("x")]),
            "block": Argument(None, [*OBJECTS[:6], *FLOATS, constant("x")]),
            "warp": Argument(None, [*OBJECTS[:6], *FLOATS, constant("x")]),
        },
    )
    yield Call(
        "Trace.to_dataframe",
        lambda lanes: _unless(ImportError, transpose_trace().to_dataframe, lanes=lanes),
        {"lanes": flag()},
    )
    yield Call(
        "Comparison.ratio",
        lambda name, of: coalesce.compare(transpose_profile(), transpose_profile()).ratio(name, of),
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
    mask = Argument(None, [*OBJECTS, *LISTS, *TEXTS, *FLOATS, *ARRAYS, huge, negative])
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
        "draw.board",
        draw.board,
        {
            "*grids": Argument([draw.Grid("tile", [["used"]])], [*OBJECTS, *NONE, *INTEGERS]),
            "*legend": Argument({"used": "read"}, [*OBJECTS, *NONE, *INTEGERS, *TEXTS]),
            "title": title,
            "headline": any_text("one cell"),
        },
    )
    yield Call(
        "draw.player",
        draw.player,
        {"*frames": Argument({"one": draw.thread_block((8, 4))}, [*OBJECTS, *NONE, *INTEGERS])},
    )
    yield Call(
        "draw.event",
        draw.event,
        {
            "*trace": Argument(transpose_trace(), [*OBJECTS, *NONE, *INTEGERS, *TEXTS]),
            "*number": integer(0, most=10**6),
            "title": title,
        },
    )
    yield Call(
        "draw.matrix_cells",
        draw.matrix_cells,
        {
            "*shape": Argument((4, 4), [*OBJECTS, *NONE, *TEXTS, *FLOATS, negative]),
            "*touched": Argument([(0, 1)], [*OBJECTS, *NONE, *FLOATS, *LISTS, *BYTES, huge]),
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
    yield Call(
        "lessons.predict",
        lambda name, question: lessons.predict(name, question, guess=..., measured=lambda: 1),
        {"*name": any_text("stride"), "*question": any_text("How many?")},
    )
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
            constant([]),
            constant([-1]),
            constant([1.5]),
            constant("x"),
            constant([2**70]),
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
    kernels = Argument(
        {"a": transpose_profile()}, [*OBJECTS[:6], *NONE, *INTEGERS, *LISTS, constant({})]
    )
    theme = text("light", none=True)
    yield Call(
        "plots.sweep",
        drawn(plots.sweep),
        {"*pattern": text("stride"), "values": values, "ax": ax, "theme": theme},
    )
    bars = Argument({"a": 1.0}, [*kernels.wrong, constant({"a": "x"}), constant({"a": -1.0})])
    yield Call("plots.bars", drawn(plots.bars), {"values": bars, "ax": ax, "theme": theme})
    yield Call("plots.ladder", drawn(plots.ladder), {"variants": kernels, "ax": ax, "theme": theme})
    peak = real(1000.0, wrong=[*FLOATS[:3], negative, constant(0)])
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
    number = real(1.0, wrong=[*FLOATS[:3], negative, constant(0)])
    yield Call("plots.Work", plots.Work, {"*flops": number, "*dram_bytes": number, "*ms": number})


def calls() -> Iterator[Call]:
    """Yield the calls of this file."""
    for part in (_warps, _arrays, _results, _pictures, _lessons, _plots):
        yield from part()
