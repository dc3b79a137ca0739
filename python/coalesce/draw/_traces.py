"""Draws the events of a trace: one event, or the first iterations of a loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from coalesce._core import model
from coalesce.common import require
from coalesce.common.words import plural
from coalesce.draw._banks import bank_board
from coalesce.draw._canvas import Picture
from coalesce.draw._frames import matrices
from coalesce.draw._lanes import Kind
from coalesce.draw._matrix import Matrix
from coalesce.draw._warp import warp_access
from coalesce.simulate.copies import undrawn_read, undrawn_write
from coalesce.simulate.events import Trace

if TYPE_CHECKING:
    from coalesce.simulate.events import TraceEvent

Events = NDArray[np.intp]


def event(trace: Trace, number: int = 0, *, title: str | None = None) -> Picture:
    """Draw one event of a trace.

    An access to global memory is drawn with `warp_access`, and an access to shared memory with
    `bank_board`.

    Parameters
    ----------
    trace : Trace
        The result of `coalesce.trace` or `Kernel.trace`.
    number : int
        The index of the event in the trace.
    title : str, optional
        A line above the headline. By default, it has the kernel, the source line, the instruction,
        the block and the warp.

    Returns
    -------
    Picture

    Raises
    ------
    TypeError
        `trace` is not a `Trace`.
    ValueError
        The trace has no such event, or the event cannot be drawn. Accesses to local and constant
        memory cannot be drawn. Some asynchronous copies cannot be drawn either; the message says
        why.

    Examples
    --------
    >>> a = np.ones((64, 64), np.float32)
    >>> t = coalesce.trace("transpose", a, variant="naive_write", blocks=0, warps=0)
    >>> print(coalesce.draw.event(t.select(array="in")).headline)
    32 lanes, 4-byte loads → 32 sectors in 32 lines, 12.5 % of the bytes used
    """
    if not isinstance(trace, Trace):
        raise TypeError(f"`trace` must be a Trace; got {require.shown(trace)}")
    if not len(trace):
        raise ValueError("`trace` has no events, so there is nothing to draw")
    one = trace[require.whole("number", number, -len(trace), len(trace) - 1)]
    if title is None:
        line = f", line {one.line}" if one.line else ""
        title = f"{trace.kernel}{line}: {one.opcode} of block {one.block}, warp {one.warp}"
    kind = _kind(one)
    if kind == "copy" and (why := _undrawn_copy(trace, one)):
        raise ValueError(f"event {number} cannot be drawn. {why}")
    if one.space == "shared":
        return bank_board(
            one.addresses, one.width, one.mask, kind=kind, opcode=one.opcode, title=title
        )
    if one.space != "global":
        raise ValueError(
            f"event {number} accesses {one.space} memory; only accesses to global and shared "
            "memory can be drawn"
        )
    known = trace.arrays[one.array] if one.array >= 0 else None
    return warp_access(
        one.addresses,
        one.width,
        one.mask,
        kind=kind,
        title=title,
        array=known.name if known else None,
        base=known.address if known else 0,
        array_itemsize=np.dtype(known.dtype).itemsize if known else None,
    )


def steps(
    trace: Trace,
    numbers: Iterable[int] = range(3),
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    label: str = "step {}",
    cells: Literal["lane", "thread"] = "lane",
    title: str | None = None,
    headline: str | None = None,
) -> Picture:
    """Draw which cells of each array a warp accesses in the first iterations of a loop.

    The picture has a frame for each step. For each array, the warp's first access is step 0, its
    second access is step 1, and so on. If a warp accesses an array only once, the array is shown in
    an additional frame before or after the steps.

    Parameters
    ----------
    trace : Trace
        A trace of one warp. To draw only some of its events, call `Trace.select` first.
    numbers : iterable of int
        The steps to draw, such as ``[0, 1, 2]``.
    shapes : mapping of str to (rows, columns), optional
        Shapes of arrays, by name. A trace does not know the rows and columns of some arrays, such
        as dynamic shared memory. Without a shape, such an array is drawn as one row.
    label : str
        The label of a frame. ``{}`` stands for the number of the step, as in ``"k = {}"``.
    cells : {"lane", "thread"}
        The text in an accessed cell. ``"lane"``: the number of the lane. Cells of the same sector
        have the same colour. ``"thread"``: threadIdx.y and threadIdx.x. Cells with the same
        threadIdx.y have the same colour.
    title, headline : str, optional
        The same as for `matrices`.

    Returns
    -------
    Picture

    Raises
    ------
    ValueError
        No event accesses an array with a name. Or the trace has events of several warps. Or a shape
        in `shapes` has more or fewer elements than its array.

    Examples
    --------
    >>> a, b = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
    >>> t = coalesce.trace("matmul", a, b, variant="naive", blocks=0, warps=0)
    >>> picture = coalesce.draw.steps(t, range(3), label="k = {}")
    >>> print(picture.headline)
    A warp at one step: 32 sectors of a, 1 sector of b
    """
    if cells not in ("lane", "thread"):
        raise ValueError(f"`cells` must be 'lane' or 'thread'; got {cells!r}")
    wanted = [require.whole("numbers", number, 0) for number in numbers]
    if not wanted:
        raise ValueError("`numbers` is empty; pass at least one step, such as 0")
    for name in shapes or {}:
        if name not in [array.name for array in trace.arrays]:
            raise ValueError(f"`shapes` has the key {name!r}, but the trace has no such array")
    warps = len(np.unique(np.column_stack([trace.block, trace.warp]), axis=0)) if len(trace) else 0
    if warps != 1:
        hint = "; select one: trace.select(block=(0, 0), warp=0)" if warps else ""
        raise ValueError(f"`trace` must hold the events of one warp; it has {warps}{hint}")
    accesses = _accesses(trace)
    if not accesses:
        raise ValueError(
            "`trace` has no event that can be drawn: the arrays that its events access are not "
            "known"
        )

    def panels(step: int, members: list[Events]) -> list[Matrix]:
        return [_matrix(trace, int(m[step]), shapes or {}, cells) for m in members if step < len(m)]

    loops = [events for events in accesses if len(events) > 1]
    single = [events for events in accesses if len(events) == 1]
    if loops and not any(step < len(events) for step in wanted for events in loops):
        most = max(map(len, loops))
        raise ValueError(
            f"the trace has the steps 0 to {most - 1}; `numbers` must contain at "
            f"least one of these steps, got {wanted}"
        )
    begin = min((events[0] for events in loops), default=0)
    before = panels(0, [events for events in single if events[0] < begin])
    after = panels(0, [events for events in single if events[0] >= begin])
    frames = {"before": before} if before else {}
    for step in wanted:
        if drawn := panels(step, loops):
            frames[label.format(step)] = drawn
    if after:
        frames["afterwards" if loops else ""] = after
    return matrices(frames, title=trace.kernel if title is None else title, headline=headline)


def _accesses(trace: Trace) -> list[Events]:
    """Group the events by array and kind of access. Return the numbers of each group's events."""
    drawn = np.isin(trace.space, ["global", "shared"])
    return [
        np.flatnonzero(drawn & (trace.array == number) & (trace.kind == kind))
        for number in np.unique(trace.array[drawn & (trace.array >= 0)])
        for kind in dict.fromkeys(trace.kind[drawn & (trace.array == number)])
    ]


def _kind(one: TraceEvent) -> Kind:
    if one.kind in ("atomic", "reduction"):
        return "atomic"
    if one.kind == "async_copy":
        return "copy"
    return "store" if one.kind == "store" else "load"


def _undrawn_copy(trace: Trace, one: TraceEvent) -> str:
    """Return why an event of an asynchronous copy cannot be drawn. Empty if it can be drawn."""
    same = (trace.instruction == one.instruction) & (trace.warp == one.warp)
    same &= (trace.execution == one.execution) & (trace.block == one.block).all(axis=1)
    there, mask = [], 0
    for other in np.flatnonzero(same & (trace.space != one.space)):
        there, mask = trace.addresses[other].tolist(), int(trace.mask[other])
    undrawn = undrawn_write if one.space == "shared" else undrawn_read
    return undrawn(one.addresses.tolist(), one.width, int(one.mask), one.opcode, there, mask)


def _matrix(trace: Trace, number: int, shapes: Mapping[str, Sequence[int]], cells: str) -> Matrix:
    """Return the matrix that an event accesses, and the cells that its lanes access."""
    one = trace[number]
    array = trace.arrays[one.array]
    itemsize = np.dtype(array.dtype).itemsize
    rows, cols = _extents(array.name, array.shape, shapes.get(array.name))
    lanes = [lane for lane in range(32) if one.mask >> lane & 1 and one.index[lane] >= 0]
    each = max(1, one.width // itemsize)  # a float4 covers four cells
    touched = [divmod(int(one.index[lane]) + i, cols) for lane in lanes for i in range(each)]
    users = [lane for lane in lanes for _ in range(each)]
    labels: list[object] | None = None if users == list(range(32)) else [*users]
    groups = None
    if cells == "thread":
        threads = trace.thread[number]
        labels = [f"{threads[lane][1]},{threads[lane][0]}" for lane in users]
        groups = [int(threads[lane][1]) for lane in users]
    return Matrix(
        array.name,
        (rows, cols),
        touched,
        labels,
        groups,
        itemsize,
        offset=array.address % model.SECTOR_BYTES,
        memory="shared" if array.space == "shared" else "global",
    )


def _extents(name: str, known: tuple[int, ...], wanted: Sequence[int] | None) -> tuple[int, int]:
    """Return the rows and columns to draw for an array.

    The last axis of the array's shape gives the columns. All other axes together give the rows. If
    the user passed a shape for the array, `wanted` is this shape.
    """
    size = int(np.prod(known, dtype=np.int64))
    shape = tuple(known if wanted is None else wanted)
    if not shape:
        return 1, 1
    if wanted is not None and int(np.prod(shape)) != size:
        raise ValueError(
            f"`shapes[{name!r}]` is {shape}, a shape of "
            f"{plural(int(np.prod(shape)), 'element')}, but the array {name} has "
            f"{plural(size, 'element')}"
        )
    return size // shape[-1], shape[-1]
