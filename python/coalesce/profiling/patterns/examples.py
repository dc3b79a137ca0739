"""The class `Example`: the addresses of the lanes of one warp in one access, with a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce._core import model
from coalesce.common.forks import cached_property
from coalesce.profiling.patterns.classification import (
    BANKS,
    LANES,
    WORD_BYTES,
    AccessKind,
    Pattern,
    bank_passes,
    classify,
)
from coalesce.profiling.patterns.lane_runs import Thread
from coalesce.simulate.copies import undrawn_read, undrawn_write

if TYPE_CHECKING:
    from coalesce.draw import Picture
    from coalesce.simulate.events import Array, Trace, TraceArray

_ALL_LANES = 0xFFFFFFFF
_INACTIVE = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Example:
    """One execution of a memory instruction by one warp.

    Attributes
    ----------
    block : tuple of int
        The blockIdx, as (x, y, z).
    warp : int
        The index of the warp in its block.
    space, kind : str
        The memory and the kind of access, as in `Instruction`.
    width : int
        The number of bytes that each lane accesses.
    mask : int
        The active lanes: bit i is set if lane i is active.
    addresses : tuple of int
        The byte addresses of the 32 lanes. They are 0 for inactive lanes. Addresses of shared
        memory count from the start of the block's shared memory.
    array : TraceArray or None
        The array that is accessed. None if it has no name.
    threads : tuple of (x, y, z)
        The threadIdx of the 32 lanes.
    opcode : str
        The opcode of the instruction. Some opcodes, such as ``"ATOMS.CAS"``, change the cost.
    target : tuple of int
        For an asynchronous copy, the addresses in shared memory to which the 32 lanes copy. Empty
        for other accesses.
    target_mask : int
        The lanes that write to `target`. If such a lane is also in `mask`, it writes the bytes that
        it copies. If not, it writes zeros.

    Examples
    --------
    >>> p = coalesce.profile("matmul", a, b, variant="naive")
    >>> example = p.accesses()[0].example
    >>> example.sectors, len(example.active)
    (8, 8)
    """

    block: tuple[int, int, int]
    warp: int
    space: str
    kind: str
    width: int
    mask: int
    addresses: tuple[int, ...]
    array: TraceArray | None
    threads: tuple[Thread, ...] | None = None
    opcode: str = ""
    target: tuple[int, ...] = ()
    target_mask: int = 0

    @property
    def active(self) -> list[int]:
        """The byte addresses of the active lanes."""
        if self.mask == _ALL_LANES:
            return list(self.addresses)
        return [a for lane, a in enumerate(self.addresses) if self.mask >> lane & 1]

    @cached_property
    def sectors(self) -> int:
        """The number of distinct 32-byte sectors that the lanes touch."""
        return _sectors(self._offsets, self.width)

    @cached_property
    def cost(self) -> int:
        """The cost of the access: wavefronts for shared memory, and sectors for other memory.

        It is the number that a GPU counts. For an atomic, the cost may be larger than `sectors`,
        the number of distinct sectors: if several lanes access the same element, the GPU moves the
        sector of this element several times.
        """
        if self.space == "shared":
            passes, wavefronts = self._bank_passes
            return wavefronts * sum(passes)
        counted = self._counted_sectors
        return self.sectors if counted is None else counted

    @cached_property
    def _counted_sectors(self) -> int | None:
        """The sectors that a GPU counts. None if they depend on addresses that are not known."""
        kind = self._drawn_kind
        if kind in ("load", "store"):
            return self.sectors
        access = (self.addresses, self.width, self.mask, kind, self.opcode)
        return model.counted_sectors(*access, self.target, self.target_mask)

    @cached_property
    def _bank_passes(self) -> tuple[list[int], int]:
        """The passes of each group of lanes, and the wavefronts per pass; see `bank_passes`."""
        return _bank_passes(self._offsets, self.width, self.mask, self._drawn_kind, self.opcode)

    @cached_property
    def _offsets(self) -> tuple[int, ...]:
        """The active lanes' addresses from the start of their lowest cache line.

        The cost depends only on these offsets. Many warps have the same ones, so each cost is
        computed once.
        """
        active = self.active
        start = min(active) // model.LINE_BYTES * model.LINE_BYTES  # the banks repeat there, too
        return tuple([address - start for address in active])

    @cached_property
    def same_bank(self) -> tuple[int, int] | None:
        """Two lanes that access different words of the same bank at once. None if there are none.

        The result is also None for memory that is not shared memory.
        """
        if self.space != "shared":
            return None
        groups, *_ = model.shared_groups(
            self.addresses, self.width, self.mask, self._drawn_kind, self.opcode
        )
        lanes_of, _ = max(groups, key=lambda group: group[1])
        first: dict[int, tuple[int, int]] = {}  # for each bank, the first lane and its word
        for lane in (lane for lane in range(LANES) if lanes_of >> lane & 1):
            last = self.addresses[lane] + max(self.width, 1) - 1
            for word in range(self.addresses[lane] // WORD_BYTES, last // WORD_BYTES + 1):
                other, its_word = first.setdefault(word % BANKS, (lane, word))
                if its_word != word:
                    return other, lane
        return None

    @property
    def _drawn_kind(self) -> AccessKind:
        """The name of the access in a picture."""
        if self.kind == "async_copy":
            return "copy"
        if self.kind == "load":
            return "load"
        return "store" if self.kind == "store" else "atomic"

    @cached_property
    def wastes(self) -> bool:
        """Whether the access would cost less if the lanes' elements were adjacent."""
        if self.space == "shared":
            return max(self._bank_passes[0]) > 1
        return self.cost > model.packed_sectors(self.mask.bit_count(), self.width)

    @cached_property
    def split(self) -> bool:
        """Whether the access is slow only because shared memory serves parts of the warp one by
        one.

        If a lane accesses 8 bytes, these parts are the two halves of the warp. Shared memory serves
        one half after the other. So if only two lanes are active, one in each half, the access
        takes two wavefronts, although one wavefront could serve both lanes. If a lane accesses 16
        bytes, the parts are the four quarters of the warp.
        """
        if self.space != "shared" or self.kind not in ("load", "store") or self.wastes:
            return False
        return self.cost > -(-self.mask.bit_count() * self.width // (BANKS * WORD_BYTES))

    @cached_property
    def pattern(self) -> Pattern:
        """The pattern of the lanes' addresses, such as a stride. See `Pattern`."""
        return classify(
            self.addresses,
            self.width,
            self.mask,
            space=self.space,
            access=self._drawn_kind,
            opcode=self.opcode,
            array=self.array,
            threads=self.threads,
        )

    @property
    def not_drawn(self) -> str:
        """A sentence that says why `picture` returns None. Empty if there is a picture."""
        if self.kind != "async_copy":
            return ""
        access = (self.addresses, self.width, self.mask, self.opcode)
        if self.space == "shared":
            return undrawn_write(*access, (), 0)
        return undrawn_read(*access, self.target, self.target_mask)

    def picture(self, title: str = "") -> Picture | None:
        """Draw the lanes, and the cache lines or the banks of shared memory that they access.

        `title` is a line above the picture.

        For some asynchronous copies, the number of sectors or wavefronts in the picture would
        differ from the number that a GPU counts. Then the result is None, and `not_drawn` gives the
        reason.
        """
        from coalesce import draw

        if self.not_drawn:
            return None
        kind = self._drawn_kind
        access = (self.addresses, self.width, self.mask)
        if self.space == "shared":
            return draw.bank_board(*access, kind=kind, opcode=self.opcode, title=title or None)
        of: dict[str, Any] = {}
        if self.array is not None and self.array.space == self.space:
            of = {"array": self.array.name, "base": self.array.address}
            of["array_itemsize"] = np.dtype(self.array.dtype).itemsize
        return draw.warp_access(*access, kind=kind, title=title or None, **of)

    def matrix(self, title: str = "") -> Picture | None:
        """Draw the matrix that the lanes access, and mark the accessed cells.

        `title` is a line above the picture. Return None if the accessed array is not a matrix in
        global memory.
        """
        from coalesce import draw

        if self.array is None or len(self.array.shape) != 2 or self.array.space != self.space:
            return None
        if self.space == "shared":  # the cells' colours would show sectors
            return None
        itemsize = np.dtype(self.array.dtype).itemsize
        rows, cols = self.array.shape
        lanes = [lane for lane in range(len(self.addresses)) if self.mask >> lane & 1]
        cells, labels = [], []
        for lane in lanes:
            index = (self.addresses[lane] - self.array.address) // itemsize
            for k in range(index, index + max(1, self.width // itemsize)):
                if not 0 <= k < rows * cols:
                    return None
                cells.append(divmod(k, cols))
                labels.append(lane)
        return draw.matrix_cells(
            (rows, cols),
            cells,
            name=self.array.name,
            itemsize=itemsize,
            labels=labels,
            offset=self.array.address % model.SECTOR_BYTES,
            title=title or None,
        )


@lru_cache(maxsize=4096)
def _sectors(offsets: tuple[int, ...], width: int) -> int:
    return len(model.sectors(offsets, width))


@lru_cache(maxsize=4096)
def _bank_passes(
    offsets: tuple[int, ...], width: int, mask: int, kind: AccessKind, opcode: str
) -> tuple[list[int], int]:
    active = iter(offsets)
    lanes = [next(active) if mask >> lane & 1 else 0 for lane in range(LANES)]
    return bank_passes(lanes, width, mask, kind, opcode)


class Examples(Sequence[Example]):
    """The examples of an instruction. An example is made when it is first used.

    Attributes
    ----------
    distinct : list of Example
        Some of the examples: at least one for each cost. An example is left out if it certainly
        costs the same as an earlier one.
    """

    def __init__(self, trace: Trace, events: list[int], distinct: list[Example]) -> None:
        """Take the events of a trace that belong to the instruction: their indices in the trace."""
        self._trace, self._events = trace, events
        self.distinct = distinct

    @cached_property
    def _all(self) -> tuple[Example, ...]:
        if len(self.distinct) == len(self._events):
            return tuple(self.distinct)
        (made,) = _by_instruction(self._trace[self._events]).values()
        return tuple(made)

    def __getitem__(self, index: Any) -> Any:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple | Examples) and self._all == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all)

    def __repr__(self) -> str:
        return repr(self._all)

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._all,)


def examples(trace: Trace) -> Mapping[int, Examples]:
    """Return the examples of each instruction in a trace, as a dict.

    Each event of the trace is an example of the instruction that was executed. The key of an
    instruction is the index of its row in `Counts.table()`.
    """
    events: dict[int, list[int]] = {}
    for event, instruction in enumerate(trace.instruction.tolist()):
        events.setdefault(instruction, []).append(event)
    distinct = _by_instruction(trace[_distinct(trace)])
    return {number: Examples(trace, of, distinct[number]) for number, of in events.items()}


def distinct(of_instruction: Sequence[Example]) -> Sequence[Example]:
    """Return some of the examples of an instruction: at least one for each cost.

    `of_instruction` has all examples. For an `Examples`, the result is its attribute `distinct`. A
    tuple or a list is returned unchanged.
    """
    return of_instruction.distinct if isinstance(of_instruction, Examples) else of_instruction


def _distinct(trace: Trace) -> list[int]:
    """Return the indices of the events, without events that must cost the same as an earlier one.

    Two events cost the same if they have the same instruction, memory, lanes, and offsets of the
    lanes from the start of a cache line. Asynchronous copies are not compared, because their cost
    depends on the addresses of two events.
    """
    memory = (trace.space == "shared") + 2 * (trace.space == "local")
    columns = (trace.instruction, memory, *_line_offsets(trace).T)
    rows = np.stack(columns, axis=1, dtype=np.uint64, casting="unsafe")
    size, data = rows.itemsize * len(columns), rows.tobytes()
    first: dict[Any, int] = {}
    for event, kind in enumerate(trace.kind.tolist()):
        row = data[event * size : (event + 1) * size]
        first.setdefault(event if kind == "async_copy" else row, event)
    return list(first.values())


def _by_instruction(trace: Trace) -> dict[int, list[Example]]:
    """Return a dict from instructions to lists of examples, one for each event of the trace."""
    by_instruction: dict[int, list[Example]] = {}
    threads = {warp: _threads(warp, trace.block_shape) for warp in set(trace.warp.tolist())}
    columns = {
        "block": map(tuple, trace.block.tolist()),
        "warp": trace.warp.tolist(),
        "space": trace.space.tolist(),
        "kind": trace.kind.tolist(),
        "width": trace.width.tolist(),
        "mask": trace.mask.tolist(),
        "addresses": map(tuple, trace.addresses.tolist()),
        "array": [trace.arrays[n] if n >= 0 else None for n in trace.array.tolist()],
        "threads": [threads[warp] for warp in trace.warp.tolist()],
        "opcode": trace.opcode.tolist(),
        "_offsets": _offsets_of(trace),
    }
    rows = zip(*columns.values(), strict=True)
    for instruction, values in zip(trace.instruction.tolist(), rows, strict=True):
        # The constructor of a frozen class takes long, because it sets one attribute after the
        # other.
        example = object.__new__(Example)
        example.__dict__.update(zip(columns, values, strict=True))
        of_instruction = by_instruction.setdefault(instruction, [])
        if example.kind == "async_copy" and example.space == "shared" and of_instruction:
            # The previous event may belong to the same copy. Then it has the addresses that the
            # copy reads.
            source = of_instruction[-1]
            of_copy = (example.block, example.warp, "global")
            if (source.block, source.warp, source.space) == of_copy and source.target_mask == 0:
                of_instruction[-1] = replace(
                    source, target=example.addresses, target_mask=example.mask
                )
                continue
        of_instruction.append(example)
    return by_instruction


def _line_offsets(trace: Trace) -> Array:
    """Return the lanes' offsets from the start of the lowest cache line of their event.

    The offset of an inactive lane is `_INACTIVE`.
    """
    line = np.uint64(model.LINE_BYTES)
    lowest = np.where(trace.active, trace.addresses, _INACTIVE).min(axis=1, keepdims=True)
    offsets: Array = np.where(trace.active, trace.addresses - lowest // line * line, _INACTIVE)
    return offsets


def _offsets_of(trace: Trace) -> list[tuple[int, ...]]:
    """Return `Example._offsets` of each event. Events with the same offsets share one tuple."""
    made: dict[bytes, tuple[int, ...]] = {}
    by_event = []
    for offsets in _line_offsets(trace):
        key = offsets.tobytes()
        if key not in made:
            made[key] = tuple(offsets[offsets != _INACTIVE].tolist())
        by_event.append(made[key])
    return by_event


def _threads(warp: int, block: tuple[int, int, int]) -> tuple[Thread, ...]:
    """Return the threadIdx of each lane of a warp."""
    x, y, _ = block
    first = warp * LANES
    return tuple((n % x, n // x % y, n // (x * y)) for n in range(first, first + LANES))


def typical(
    candidates: Sequence[Example], cost: float, lanes: float, *, wasteful: bool
) -> Example | None:
    """Return the candidate whose cost is nearest to `cost`, the mean cost of the access.

    `candidates` are examples of the access. Of candidates with equal costs, the one is returned
    whose number of active lanes is nearest to `lanes`, the mean. If the access is `wasteful`,
    wasteful examples are preferred, because they show the cause. If there are no candidates, return
    None.
    """
    shown = [e for e in candidates if e.wastes] if wasteful else []
    return min(
        shown or candidates,
        key=lambda e: (abs(e.cost - cost), abs(e.mask.bit_count() - lanes)),
        default=None,
    )
