"""Examples of a profile's accesses: one warp's lanes, where they lay, and a picture of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coalesce.common.forks import cached_property
from coalesce.profiling.lane_runs import Thread
from coalesce.profiling.patterns import Pattern, classify, shared_wavefronts

if TYPE_CHECKING:
    from coalesce.draw import Picture
    from coalesce.simulate.events import Trace, TraceArray


@dataclass(frozen=True)
class Example:
    """A memory instruction as one warp executed it.

    Attributes
    ----------
    block : tuple of int
        blockIdx.
    warp : int
        Of its block.
    space, kind : str
        As of `Instruction`.
    width : int
        Bytes a lane.
    mask : int
        Bit i is set where lane i is active.
    addresses : tuple of int
        Of the 32 lanes, 0 for those that are not active; of shared memory from the start of the
        block's.
    array : TraceArray or None
        What is accessed, where it has a name.
    threads : tuple of (x, y, z)
        threadIdx of the 32 lanes.
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

    @property
    def active(self) -> list[int]:
        """The addresses of the active lanes."""
        return [a for lane, a in enumerate(self.addresses) if self.mask >> lane & 1]

    @cached_property
    def sectors(self) -> int:
        """Distinct sectors of 32 bytes that the lanes touch."""
        active, last = self.active, self.width - 1  # an access is no wider than a sector
        return len({a >> 5 for a in active} | {(a + last) >> 5 for a in active})

    @cached_property
    def cost(self) -> int:
        """Wavefronts of shared memory, sectors of other memory."""
        if self.space == "shared":
            return sum(self._wavefronts)
        return self.sectors

    @cached_property
    def _wavefronts(self) -> list[int]:
        """The wavefronts of each group of lanes that shared memory serves together."""
        load = self._drawn_kind == "load"
        return shared_wavefronts(self.addresses, self.width, self.mask, load=load)

    @property
    def _drawn_kind(self) -> Literal["load", "store", "atomic"]:
        """What a picture calls the access; an asynchronous copy is a load and a store."""
        if self.kind == "async_copy":
            return "store" if self.space == "shared" else "load"
        if self.kind == "load":
            return "load"
        return "store" if self.kind == "store" else "atomic"

    @cached_property
    def wastes(self) -> bool:
        """Whether the lanes' elements, packed, would cost less."""
        if self.space == "shared":
            return max(self._wavefronts) > 1
        return self.cost > max(1, -(-self.mask.bit_count() * self.width // 32))

    @cached_property
    def pattern(self) -> Pattern:
        """How the lanes lie."""
        return classify(
            self.addresses,
            self.width,
            self.mask,
            space=self.space,
            load=self._drawn_kind == "load",
            array=self.array,
            threads=self.threads,
        )

    def picture(self, title: str = "") -> Picture:
        """Draw it: the lanes over the lines of memory, or on the banks of shared memory."""
        from coalesce import draw

        kind = self._drawn_kind
        given = (self.addresses, self.width, self.mask)
        if self.space == "shared":
            return draw.bank_board(*given, kind=kind, title=title or None)
        of: dict[str, Any] = {}
        if self.array is not None and self.array.space == self.space:
            of = {"array": self.array.name, "base": self.array.address}
            of["array_itemsize"] = np.dtype(self.array.dtype).itemsize
        return draw.warp_access(*given, kind=kind, title=title or None, **of)

    def matrix(self, title: str = "") -> Picture | None:
        """Draw the cells of the array that the lanes touch; None where it is no matrix."""
        from coalesce import draw

        if self.array is None or len(self.array.shape) != 2 or self.array.space != self.space:
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
            offset=self.array.address % 32,
            title=title or None,
        )


def examples(trace: Trace) -> Mapping[int, list[Example]]:
    """Return the examples of each instruction, by its row in the table of counts."""
    found: dict[int, list[Example]] = {}
    threads: dict[int, tuple[Thread, ...]] = {}
    for i in range(len(trace)):
        array = int(trace.array[i])
        warp = int(trace.warp[i])
        if warp not in threads:
            threads[warp] = tuple((x, y, z) for x, y, z in trace.thread[i].tolist())
        example = Example(
            block=tuple(trace.block[i].tolist()),
            warp=warp,
            space=str(trace.space[i]),
            kind=str(trace.kind[i]),
            width=int(trace.width[i]),
            mask=int(trace.mask[i]),
            addresses=tuple(trace.addresses[i].tolist()),
            array=trace.arrays[array] if array >= 0 else None,
            threads=threads[warp],
        )
        found.setdefault(int(trace.instruction[i]), []).append(example)
    return found


def typical(candidates: list[Example], cost: float, *, wasteful: bool) -> Example | None:
    """Return the example whose cost is the nearest to the mean; the first of several.

    Where the access wastes, it is one of those that do, as they show why.
    """
    chosen = [e for e in candidates if e.wastes] if wasteful else []
    return min(chosen or candidates, key=lambda e: abs(e.cost - cost), default=None)
