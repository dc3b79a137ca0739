"""Runs `coalesce.access`: checks the options of a pattern, and launches the pattern's kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from coalesce import catalogue
from coalesce.catalogue import operands as catalogue_operands
from coalesce.catalogue.operands import Operand
from coalesce.catalogue.run import ELEMENTS, Launcher, Run, Scratch, as_elements
from coalesce.common import require

_WIDTHS = tuple(ELEMENTS)
# The options of each pattern.
OPTIONS: dict[str, tuple[str, ...]] = {
    "offset": ("offset",),
    "stride": ("stride",),
    "permuted": ("order",),
    "broadcast": (),
    "gather": ("index",),
    "far_lane": ("distance",),
    "vector": ("width",),
    "aos": ("field",),
    "soa": ("field",),
}


def run_access(
    x: Any,
    *,
    pattern: str,
    out: Any = None,
    device: Any = None,
    timed: bool | int = False,
    counts: bool = False,
    launcher: Launcher | None = None,
    scratch: Scratch | None = None,
    **options: Any,
) -> tuple[Any, Run]:
    """Run `coalesce.access`. Return a pair: the result, and a `Run`.

    The `Run` has a record of each launch. `options` are the options of the pattern, such as
    ``stride=2``. `device`, `timed`, `counts`, `launcher` and `scratch` are options of `Run`.
    """
    entry = catalogue.find("access", pattern, argument="pattern")
    passed = {name: value for name, value in options.items() if value is not None}
    for name in passed:
        if name not in OPTIONS[pattern]:
            known = ", ".join(map(require.quoted, OPTIONS[pattern]))
            listed = f"its options are {known}" if known else "it has no options"
            raise ValueError(f"pattern {pattern!r} has no option `{name}`; {listed}")

    axes = {"aos": "(n, fields)", "soa": "(fields, n)"}.get(pattern, "(n,)")
    operand = catalogue_operands.array("x", x, axes, "access", dtypes=())
    item_size = operand.dtype.itemsize
    if item_size not in _WIDTHS or operand.dtype.kind not in "biufcV" or operand.dtype.hasobject:
        raise TypeError(
            f"`x` has dtype {operand.dtype}; access() needs elements of 1, 2, 4, 8 or 16 bytes"
        )
    count, values, defines, extra = _PATTERNS[pattern](operand, passed)
    operands = [operand, *extra]
    target = catalogue_operands.output(out, (count,), operand.dtype, "")
    run = Run(
        [*operands, *([target] if target else [])],
        device=device,
        timed=timed,
        counts=counts,
        launcher=launcher,
        scratch=scratch,
    )
    width = values.pop("width", item_size)
    written = run.result((count,), operand.dtype, operands, target, alignment=width)
    threads = count * item_size // width
    if threads:
        values.update(
            x=as_elements(run.ready(operand, alignment=width), width),
            out=as_elements(written, width),
            n=np.uint64(threads),
            **{o.name: run.ready(o) for o in extra},
        )
        run.launch(
            entry,
            (threads, 1),
            {name: values[name] for name in entry.arguments},
            item_size=width,
            defines=(f"ELEMENT={ELEMENTS[width][0]}", *defines),
        )
    run.work = (0.0, 2.0 * count * item_size)
    return run.deliver(written, operands, target), run


# The data that a pattern needs for its launch. They are the number of elements of the result, the
# scalar arguments of the kernel, its macros, and other arrays that it reads.
Setup = tuple[int, dict[str, Any], tuple[str, ...], list[Operand]]


def _offset(x: Operand, options: dict[str, Any]) -> Setup:
    n = x.shape[0]
    offset = require.whole("offset", options.get("offset", min(1, n)), 0, n)
    return n - offset, {"offset": np.uint64(offset)}, (), []


def _stride(x: Operand, options: dict[str, Any]) -> Setup:
    stride = require.whole("stride", options.get("stride", 2), 1, 2**63 - 1)
    return -(-x.shape[0] // stride), {"stride": np.uint64(stride)}, (), []


def _permuted(x: Operand, options: dict[str, Any]) -> Setup:
    order = require.as_array("order", options.get("order", range(31, -1, -1)))
    if order.dtype.kind not in "iu":
        raise TypeError(f"`order` must hold integers; got dtype {order.dtype}")
    if order.shape != (32,) or sorted(order.tolist()) != list(range(32)):
        raise ValueError(f"`order` must be a permutation of 0 to 31; got {require.shown(order)}")
    return x.shape[0], {}, ("ORDER=" + ",".join(map(str, order.tolist())),), []


def _broadcast(x: Operand, _: dict[str, Any]) -> Setup:
    return x.shape[0], {}, (), []


def _gather(x: Operand, options: dict[str, Any]) -> Setup:
    if "index" not in options:
        raise ValueError("`index` is missing; pattern 'gather' reads x[index], so pass index=...")
    wanted = options["index"]
    if isinstance(wanted, np.ndarray) and wanted.dtype.kind in "iu" and wanted.size:
        # An array from numpy.broadcast_to() may have more elements than can be read.
        distinct = wanted[tuple(slice(None if stride else 1) for stride in wanted.strides)]
        low, high = int(distinct.min()), int(distinct.max())
        if low < 0 or high >= x.shape[0]:
            wrong = low if low < 0 else high
            last = x.shape[0] - 1
            values = f"from 0 to {last}" if last else "0"
            raise ValueError(f"`index` contains {wrong}; its values must be {values}")
        wanted = wanted.astype(np.int32, copy=False)  # NumPy's index arrays have 64 bits
    index = catalogue_operands.array("index", wanted, "(m,)", "access", (np.int32,))
    return index.shape[0], {}, (), [index]


def _far_lane(x: Operand, options: dict[str, Any]) -> Setup:
    n = x.shape[0]
    distance = require.whole("distance", options.get("distance", n // 2), 0, 2**63 - 1)
    return n, {"distance": np.uint64(distance % n if n else 0)}, (), []


def _vector(x: Operand, options: dict[str, Any]) -> Setup:
    width = require.whole("width", options.get("width", 16), 1, 16)
    if width not in _WIDTHS:
        raise ValueError(f"`width` must be one of 1, 2, 4, 8, 16; got {width}")
    size = x.shape[0] * x.dtype.itemsize
    if size % width:
        raise ValueError(
            f"`x` has {size} bytes; the number of bytes must be a multiple of `width`, which is "
            f"{width}"
        )
    return x.shape[0], {"width": width}, (), []


def _aos(x: Operand, options: dict[str, Any]) -> Setup:
    return x.shape[0], _field(1, x, options), (), []


def _soa(x: Operand, options: dict[str, Any]) -> Setup:
    return x.shape[1], _field(0, x, options), (), []


def _field(axis: int, x: Operand, options: dict[str, Any]) -> dict[str, Any]:
    fields = x.shape[axis]
    if fields == 0:
        raise ValueError(
            f"`x` has the shape {tuple(x.shape)}. The length of axis {axis} is the number of "
            "members of a structure, so it must be at least 1"
        )
    field = require.whole("field", options.get("field", 0), 0, fields - 1)
    return {"fields": np.uint64(fields), "field": np.uint64(field)}


_PATTERNS = {
    "offset": _offset,
    "stride": _stride,
    "permuted": _permuted,
    "broadcast": _broadcast,
    "gather": _gather,
    "far_lane": _far_lane,
    "vector": _vector,
    "aos": _aos,
    "soa": _soa,
}
