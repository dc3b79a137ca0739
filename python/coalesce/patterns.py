"""Access patterns: copies that read their source in a given order, to see what the order costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coalesce import catalogue
from coalesce.arrays import views
from coalesce.catalogue import operands as catalogue_operands
from coalesce.catalogue.operands import Operand
from coalesce.catalogue.run import ELEMENTS, Run, called
from coalesce.common import checks

_WIDTHS = tuple(ELEMENTS)
# What each pattern takes.
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


def access(
    x: Any,
    *,
    pattern: str,
    offset: int | None = None,
    stride: int | None = None,
    order: Sequence[int] | np.ndarray[Any, Any] | None = None,
    index: Any = None,
    distance: int | None = None,
    width: int | None = None,
    field: int | None = None,
    out: Any = None,
    device: Any = None,
    return_timing: bool = False,
    check: bool = False,
) -> Any:
    """Copy x, one element a thread, reading it by a pattern.

    Thread i writes ``out[i]``, so stores are always contiguous; what differs is where each lane of
    a warp reads. The table gives the result in NumPy's terms and the sectors of 32 bytes that a
    warp's load touches, for 4-byte elements.

    =============  =======================================================  ==================
    pattern        result                                                   sectors a load
    =============  =======================================================  ==================
    ``offset``     ``x[offset:]``                                           4 aligned, else 5
    ``stride``     ``x[::stride]``                                          8 at 2, 32 from 8
    ``permuted``   each 32 elements as ``x[32 * w:][order]``                4
    ``broadcast``  ``np.repeat(x[::32], 32)[:len(x)]``                      1
    ``gather``     ``x[index]``                                             as index falls
    ``far_lane``   x, but every 32nd element ``distance`` further on        5
    ``vector``     x, by loads of `width` bytes                             width
    ``aos``        ``x[:, field]``                                          4 times the fields
    ``soa``        ``x[field]``                                             4
    =============  =======================================================  ==================

    Parameters
    ----------
    x : array of shape (n,), elements of 1, 2, 4, 8 or 16 bytes
        NumPy or GPU array. For ``aos`` of shape (n, fields), for ``soa`` (fields, n).
    pattern : str
        One of ``variants("access").names``.
    offset : int, default 1
        Elements to skip, at most n.
    stride : int, default 2
        Elements from one lane to the next, at least 1.
    order : sequence of 32 int, default reversed
        A permutation of 0 to 31: which of the warp's elements each lane reads. Elements at the end
        that fill no whole warp stay in place.
    index : array of shape (m,), int32
        What to gather, each from 0 to n - 1 (checked for NumPy arrays). Its own load adds a request
        of 4 sectors.
    distance : int, default n // 2
        How far from its neighbours the last lane of each warp reads, modulo n.
    width : int, default 16
        Bytes of a load: 1, 2, 4, 8 or 16. The bytes of x must be a multiple of it.
    field : int, default 0
        Which field of the structure to read.
    out : array
        Where to put the result; of its shape and the dtype of x. May overlap x.
    device, return_timing, check
        As in `matmul`.

    Returns
    -------
    array of shape (n,), or of the pattern's length
        `out`, or a new array of the kind of x.
    Timing
        Only with ``return_timing=True``. `gbps` counts bytes of the result twice, as read and as
        written, whatever else the sectors brought along.
    Findings
        Only with ``check=True``.

    Raises
    ------
    TypeError
        x is no array, or an option has the wrong type.
    ValueError
        An option is out of range or belongs to another pattern, or there is no such pattern.
    DeviceUnavailable
        There is no such device.

    Examples
    --------
    >>> coalesce.access(np.arange(10, dtype=np.float32), pattern="stride", stride=3)
    array([0., 3., 6., 9.], dtype=float32)
    """
    options = {
        "offset": offset,
        "stride": stride,
        "order": order,
        "index": index,
        "distance": distance,
        "width": width,
        "field": field,
    }
    return called(
        lambda where: run_access(x, pattern, options, out=out, device=where, timed=return_timing),
        device,
        return_timing,
        check,
    )


def run_access(
    x: Any,
    pattern: str,
    options: dict[str, Any],
    *,
    out: Any = None,
    device: Any = None,
    timed: bool | int = False,
    counts: bool = False,
) -> tuple[Any, Run]:
    """Do what `access` does and return the launches too."""
    entry = catalogue.find("access", pattern, argument="pattern")
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in OPTIONS[pattern]:
            takes = ", ".join(OPTIONS[pattern]) or "no option"
            raise ValueError(f"{name} does not belong to pattern {pattern!r}, which takes {takes}")

    axes = {"aos": "(n, fields)", "soa": "(fields, n)"}.get(pattern, "(n,)")
    source = catalogue_operands.array("x", x, axes, "access", dtypes=())
    item_size = source.dtype.itemsize
    if item_size not in _WIDTHS or source.dtype.kind not in "biufcV" or source.dtype.hasobject:
        raise TypeError(
            f"x has dtype {source.dtype}; access takes elements of 1, 2, 4, 8 or 16 bytes"
        )
    count, values, defines, extra = _PATTERNS[pattern](source, given)
    operands = [source, *extra]
    target = catalogue_operands.output(out, (count,), source.dtype, "")
    run = Run(device, [*operands, *([target] if target else [])], timed=timed, counts=counts)
    width = values.pop("width", item_size)
    written = run.result((count,), source.dtype, operands, target, alignment=width)
    threads = count * item_size // width
    if threads:
        values.update(
            x=_as_elements(run.ready(source, alignment=width), width),
            out=_as_elements(written, width),
            n=np.uint64(threads),
            **{o.name: run.ready(o) for o in extra},
        )
        run.launch(
            "access",
            pattern,
            (threads, 1),
            {name: values[name] for name in entry.arguments},
            item_size=width,
            defines=(f"ELEMENT={ELEMENTS[width][0]}", *defines),
        )
    run.work = (0.0, 2.0 * count * item_size)
    return run.deliver(written, operands, target), run


# Each pattern's meaning: given x and its options, how many elements result, the kernel's other
# arguments, its macros and any further array it reads.
Setup = tuple[int, dict[str, Any], tuple[str, ...], list[Operand]]


def _offset(x: Operand, given: dict[str, Any]) -> Setup:
    n = x.shape[0]
    offset = checks.whole("offset", given.get("offset", min(1, n)), 0, n)
    return n - offset, {"offset": np.uint64(offset)}, (), []


def _stride(x: Operand, given: dict[str, Any]) -> Setup:
    stride = checks.whole("stride", given.get("stride", 2), 1, 2**63 - 1)
    return -(-x.shape[0] // stride), {"stride": np.uint64(stride)}, (), []


def _permuted(x: Operand, given: dict[str, Any]) -> Setup:
    order = checks.as_array("order", given.get("order", range(31, -1, -1)))
    if order.dtype.kind not in "iu":
        raise TypeError(f"order must hold integers; got dtype {order.dtype}")
    if sorted(order.ravel().tolist()) != list(range(32)) or order.ndim != 1:
        raise ValueError(f"order must be a permutation of 0 to 31; got {order.tolist()}")
    return x.shape[0], {}, ("ORDER=" + ",".join(map(str, order.tolist())),), []


def _broadcast(x: Operand, _: dict[str, Any]) -> Setup:
    return x.shape[0], {}, (), []


def _gather(x: Operand, given: dict[str, Any]) -> Setup:
    if "index" not in given:
        raise ValueError("index is missing: pattern 'gather' reads x[index]")
    wanted = given["index"]
    if isinstance(wanted, np.ndarray) and wanted.dtype.kind in "iu" and wanted.size:
        low, high = int(wanted.min()), int(wanted.max())
        if low < 0 or high >= x.shape[0]:
            wrong = low if low < 0 else high
            raise ValueError(f"index must be from 0 to {x.shape[0] - 1}; it holds {wrong}")
        wanted = wanted.astype(np.int32, copy=False)  # NumPy's own indices have 64 bits
    index = catalogue_operands.array("index", wanted, "(m,)", "access", (np.int32,))
    return index.shape[0], {}, (), [index]


def _far_lane(x: Operand, given: dict[str, Any]) -> Setup:
    n = x.shape[0]
    distance = checks.whole("distance", given.get("distance", n // 2), 0, 2**63 - 1)
    return n, {"distance": np.uint64(distance % n if n else 0)}, (), []


def _vector(x: Operand, given: dict[str, Any]) -> Setup:
    width = checks.whole("width", given.get("width", 16), 1, 16)
    if width not in _WIDTHS:
        raise ValueError(f"width must be one of 1, 2, 4, 8, 16; got {width}")
    size = x.shape[0] * x.dtype.itemsize
    if size % width:
        raise ValueError(f"x holds {size} bytes; width must divide it, got {width}")
    return x.shape[0], {"width": width}, (), []


def _aos(x: Operand, given: dict[str, Any]) -> Setup:
    n, fields = x.shape
    return n, _field(fields, given), (), []


def _soa(x: Operand, given: dict[str, Any]) -> Setup:
    fields, n = x.shape
    return n, _field(fields, given), (), []


def _field(fields: int, given: dict[str, Any]) -> dict[str, Any]:
    if fields == 0:
        raise ValueError("x must have at least one field; it has shape with fields = 0")
    field = checks.whole("field", given.get("field", 0), 0, fields - 1)
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


def _as_elements(array: Any, width: int) -> Any:
    """Return the same memory typed as the kernel's ELEMENT, for the kernel only moves bits."""
    dtype = ELEMENTS[width][1]
    if isinstance(array, np.ndarray):
        # Of its own shape, if that can be, from which a profile sees that rows are structures.
        return (array if array.itemsize == width else array.reshape(-1)).view(dtype)
    view = views.view(array)
    assert view is not None
    return view.flat(dtype)
