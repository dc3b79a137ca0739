"""Finds the access pattern of a warp, and describes it with a name and a sentence.

The pattern follows from the addresses of the active lanes. For global memory, it explains the
number of sectors. Examples are contiguous lanes, a stride, a broadcast, a gather, or few active
lanes. For shared memory, it says whether lanes access different words of the same bank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from coalesce._core import model
from coalesce.common.words import plural
from coalesce.profiling.patterns.lane_runs import Thread, runs_of

AccessKind = Literal["load", "store", "atomic", "copy"]

Kind = Literal[
    "contiguous",
    "misaligned",
    "stride",
    "field",
    "broadcast",
    "groups",
    "runs",
    "partial",
    "permuted",
    "single",
    "gather",
    "conflict",
    "free",
]

SECTOR_BYTES, WORD_BYTES, BANKS = model.SECTOR_BYTES, model.WORD_BYTES, model.BANKS
LANES = 32
_NARROW_BYTES = 64  # a row of at most this size is called a structure, not a row of a matrix


@dataclass(frozen=True)
class Pattern:
    """The pattern of an access: how the addresses of the lanes of one warp follow each other.

    Attributes
    ----------
    kind : str
        The kind of pattern. For global memory, it is one of these:

        - ``"contiguous"``: neighbouring lanes access neighbouring elements;
        - ``"misaligned"``: contiguous, but not from the start of a sector. So the lanes touch one
          sector more than needed;
        - ``"partial"``: contiguous, but some lanes in between are inactive;
        - ``"permuted"``: the lanes access contiguous elements, but not in the order of the lanes;
        - ``"stride"``: the elements of neighbouring lanes have a constant distance;
        - ``"field"``: lane i accesses structure i. All lanes access the same field: ``a[i].x``;
        - ``"runs"``: neighbouring lanes access neighbouring elements, but only in groups of a few
          lanes, for example because the block is narrow;
        - ``"broadcast"``: all lanes access the same address;
        - ``"groups"``: there are a few addresses, and several lanes access each of them;
        - ``"single"``: only one lane is active;
        - ``"gather"``: none of the other kinds.

        For shared memory, it is one of these:

        - ``"free"``: no bank conflict;
        - ``"conflict"``: a bank conflict;
        - ``"broadcast"``: all lanes access the same word;
        - ``"groups"``: several lanes update the same word with an atomic.
    name : str
        A short name of the pattern, such as ``"stride 512"`` or ``"32-way conflict"``.
    text : str
        A sentence that describes the pattern.
    stride_bytes : int or None
        The distance in bytes from one active lane to the next. None if it is not constant.
    axis : int or None
        The axis of the array along which neighbouring lanes access elements. It is 0 if they access
        ``a[0, 5]``, ``a[1, 5]``, ``a[2, 5]`` and so on. None if there is no such axis.
    regular : bool
        Whether the distances between the lanes follow a rule. If not, the addresses probably depend
        on data.

    Examples
    --------
    >>> x = np.zeros(256, np.float32)
    >>> p = coalesce.profile("access", x, pattern="stride", stride=8)
    >>> p.accesses()[0].pattern.kind
    'stride'
    """

    kind: Kind
    name: str
    text: str
    stride_bytes: int | None = None
    axis: int | None = None
    regular: bool = True


def classify(
    addresses: Sequence[int],
    width: int,
    mask: int = 0xFFFFFFFF,
    *,
    space: str = "global",
    access: AccessKind = "load",
    opcode: str = "",
    array: Any = None,
    threads: Sequence[Thread] | None = None,
) -> Pattern:
    """Return the pattern of one access by one warp.

    Parameters
    ----------
    addresses : sequence of int
        For each lane, the address of the first byte that it accesses.
    width : int
        The number of bytes that each lane accesses.
    mask : int
        The active lanes: bit i is set if lane i is active.
    space : str
        The memory. ``"shared"`` has banks, and all other memories have sectors.
    access : {"load", "store", "atomic", "copy"}
        The kind of access. Shared memory serves some loads faster than stores, and stores faster
        than atomics.
    opcode : str
        The opcode of an atomic. Some opcodes are faster on shared memory; see `bank_passes`.
    array : TraceArray, optional
        The array that is accessed. The text of the pattern names it: "one row of a".
    threads : sequence of (x, y, z), optional
        The threadIdx of each lane.
    """
    lanes = [lane for lane in range(len(addresses)) if mask >> lane & 1]
    active = [addresses[lane] for lane in lanes]
    those = None if threads is None else [threads[lane] for lane in lanes]
    if space == "shared":
        passes, _ = bank_passes(addresses, width, mask, access, opcode)
        of_words = passes
        if access in ("atomic", "copy"):  # these serve one lane at a time, a store one word
            of_words, _ = bank_passes(addresses, width, mask, "store")
        shares = max(passes, default=1) > max(of_words, default=1)
        return _of_banks(active, max(of_words, default=1), shares, those)
    pattern = _of_sectors(lanes, active, width, array, those)
    few = _active_lanes_text(lanes, len(addresses))
    if few and pattern.kind != "single":
        return replace(pattern, text=f"{pattern.text} {few}")
    return pattern


def _of_sectors(
    lanes: list[int],
    active: list[int],
    width: int,
    array: Any,
    threads: Sequence[Thread] | None,
) -> Pattern:
    name = f" of {array.name}" if array is not None else ""
    if len(active) == 1:
        return Pattern("single", "one lane", "Only one lane of the warp is active.")
    steps = {b - a for a, b in pairwise(active)}
    if steps == {0}:
        return Pattern(
            "broadcast", "broadcast", "All lanes access the same address: a broadcast.", 0
        )
    packed = len(active) * width
    distinct = sorted(set(active))
    if len(distinct) == len(active) and distinct[-1] - distinct[0] == packed - width:
        return _packed(steps == {width}, distinct[0] % SECTOR_BYTES, packed, width)
    step = _step_per_lane(lanes, active)
    if step is not None and abs(step) == width:
        text = "Contiguous, but some lanes in between are inactive. Whole sectors are touched."
        return Pattern("partial", "partial warp", text, width)
    if len(steps) == 1:
        together = lanes[-1] - lanes[0] == len(lanes) - 1
        who = "Neighbouring" if together else "Active"
        return _stride(f"{who} lanes", steps.pop(), width, array)
    if step is not None:
        return _stride("Neighbouring lanes", step, width, array)
    runs = runs_of(active, threads)
    if len(distinct) <= len(active) // 4 or (runs is not None and runs.step == 0):
        text = f"{len(active)} lanes access {len(distinct)} different addresses{name}."
        return Pattern("groups", f"{len(distinct)} addresses", text)
    sectors = model.sectors(active, width)
    if runs is None:
        where = plural(len(sectors), "sector")
        text = f"The lanes gather from {where}{name}, without a regular step."
        return Pattern("gather", "gather", text, regular=False)
    if abs(runs.step) != width:
        who, where = (
            f"In runs of {runs.length}, neighbouring lanes",
            f"and touch {plural(len(sectors), 'sector')} in total",
        )
        return _stride(who, runs.step, width, array, where)
    up_to = "up to " if runs.number * runs.length != len(active) else ""
    text = (
        f"The lanes access {runs.number} runs of {up_to}{runs.length} neighbouring elements{name}, "
        f"in {plural(len(sectors), 'sector')}."
    )
    return Pattern("runs", f"{runs.number} runs of {runs.length}", text)


def _packed(in_order: bool, past: int, packed: int, width: int) -> Pattern:
    """Describe contiguous lanes that start `past` bytes after a sector boundary."""
    how, step = ("Contiguous", width) if in_order else ("Contiguous in another order", None)
    if (past + packed - 1) // SECTOR_BYTES >= -(-packed // SECTOR_BYTES):
        start = f"{past} byte{'s' * (past > 1)} after the start of a sector"
        text = f"{how}, but beginning {start}: one extra sector."
        return Pattern("misaligned", "misaligned", text, step)
    if in_order:
        return Pattern("contiguous", "contiguous", "Contiguous.", step)
    return Pattern("permuted", "permuted", "Contiguous in another order, which costs nothing.")


def _step_per_lane(lanes: list[int], active: list[int]) -> int | None:
    """Return the distance in bytes between the addresses of neighbouring lanes.

    Inactive lanes count, too: if only every second lane is active, this is half of the distance
    between two active lanes. If the distance differs between lanes, return None.
    """
    step, rest = divmod(active[1] - active[0], lanes[1] - lanes[0])
    first = active[0] - step * lanes[0]
    regular = rest == 0 and all(
        a == first + step * lane for lane, a in zip(lanes, active, strict=True)
    )
    return step if regular else None


def _stride(who: str, step: int, width: int, array: Any, where: str = "") -> Pattern:
    """Describe lanes that are `step` bytes apart. `where` says how many sectors they touch."""
    item = np.dtype(array.dtype).itemsize if array is not None else width
    far = abs(step)
    if far < width:
        bytes_apart = f"{far} byte{'s' * (far > 1)}"
        text = f"{who} overlap: they are {bytes_apart} apart, and each accesses {width}."
        return Pattern("stride", f"stride {bytes_apart}", text, step)
    alone = where or "each in a sector of its own"
    if far < SECTOR_BYTES and not where:
        alone = (
            f"{SECTOR_BYTES / far:.3g} in each sector, which could serve {SECTOR_BYTES // width}"
        )
    if array is not None and far == _structure(array, item) > width:
        text = f"Each lane accesses {width} of the {far} bytes of a structure of {array.name}."
        return Pattern("field", "structure field", text, step)
    distance = f"{far:,} bytes"
    name = distance
    if far % item == 0 and far != item:
        distance, name = f"{far // item:,} elements ({far:,} bytes)", f"{far // item:,}"
    axis, along = _axis(far, item, array)
    text = f"{who} are {distance} apart,{along} {alone}."
    return Pattern("stride", f"stride {name}", text, step, axis)


def _structure(array: Any, item: int) -> int:
    """Return the number of bytes of an element that is a structure; 0 for other arrays.

    A short row of a matrix counts as a structure, too.
    """
    if array.dtype.startswith("V"):
        return item
    row = item * array.shape[-1] if len(array.shape) >= 2 else 0
    return row if row <= _NARROW_BYTES else 0


def _axis(far: int, item: int, array: Any) -> tuple[int | None, str]:
    """Return the axis of the array along which neighbouring lanes step, and a text that says so.

    `far` is the distance between two lanes in bytes. If the lanes step along the last axis or along
    no axis, return None and "".
    """
    shape = array.shape if array is not None else ()
    stride = item
    for axis in reversed(range(len(shape))):
        if far == stride and axis < len(shape) - 1:
            row = "one row" if len(shape) == 2 else f"one step along axis {axis}"
            return axis, f" {row} of {array.name},"
        stride *= shape[axis]
    return None, ""


def _of_banks(
    active: list[int], ways: int, shares: bool, threads: Sequence[Thread] | None
) -> Pattern:
    """Name the pattern of an access to shared memory.

    `ways` is the largest number of words of one bank. `shares` is True for an atomic if lanes that
    update the same word are served one after the other.
    """
    if len(active) > 1 and len(set(active)) == 1:
        if shares:
            text = "All lanes update the same word, one after the other."
            return Pattern("broadcast", "one word", text, 0)
        return Pattern("broadcast", "broadcast", "All lanes access the same word: a broadcast.", 0)
    steps = {b - a for a, b in pairwise(active)}
    step = steps.pop() if len(steps) == 1 else None
    if ways == 1 and shares:
        text = "Some lanes update the same word, one after the other."
        return Pattern("groups", "shared words", text, step)
    if ways == 1:
        return Pattern("free", "no conflict", "No bank conflict.", step)
    name = f"{ways}-way conflict"
    if step is not None and step % WORD_BYTES == 0:
        text = (
            f"{ways}-way bank conflict: neighbouring lanes are {abs(step) // WORD_BYTES:,} words "
            f"apart, and the banks repeat every {BANKS} words."
        )
        return Pattern("conflict", name, text, step)
    regular = runs_of(active, threads) is not None
    text = f"{ways}-way bank conflict: {ways} different words of one bank are accessed at once"
    text += "." if regular else ", without a regular step."
    return Pattern("conflict", name, text, step, regular=regular)


def bank_passes(
    addresses: Sequence[int], width: int, mask: int, access: AccessKind, opcode: str = ""
) -> tuple[list[int], int]:
    """Return a pair: the number of passes of each group of lanes, and the wavefronts per pass.

    For example, the result ``([2, 4], 1)`` means: the first group takes 2 passes, the second takes
    4, and each pass counts as 1 wavefront (the unit of Nsight Compute).

    Shared memory serves the lanes of a warp in groups, one group after the other. A group takes one
    pass or more. In each pass, a bank serves one word. For most atomics, a bank serves only one
    lane per pass, even if other lanes access the same word. A few atomics follow another rule,
    so the function needs the `opcode`.
    """
    padded = [*addresses, *[0] * (LANES - len(addresses))]
    groups, wavefronts, *_ = model.shared_groups(padded, width, mask, access, opcode)
    return [passes for lanes, passes in groups if lanes], wavefronts


def _active_lanes_text(lanes: list[int], of: int) -> str:
    """Say which lanes are active. The text is empty if all lanes are active."""
    if len(lanes) == of or of < LANES:
        return ""
    steps = {b - a for a, b in pairwise(lanes)}
    if len(steps) == 1 and (step := steps.pop()) > 1:
        suffix = {2: "nd", 3: "rd"}.get(step, "th")
        return f"Only every {step}{suffix} lane is active."
    return f"Only {len(lanes)} of {of} lanes are active."
