"""Finds out whether longer rows of a shared array would remove or reduce its bank conflicts.

The addresses of the examples are computed again as if each row of the array had more elements. Then
the bank conflicts are counted as in a profile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coalesce.profiling.patterns.classification import (
    BANKS,
    LANES,
    WORD_BYTES,
    AccessKind,
    bank_passes,
)
from coalesce.profiling.patterns.examples import Example, distinct
from coalesce.profiling.rows.accesses import Access, Instruction, Padding

if TYPE_CHECKING:
    from coalesce.simulate.events import TraceArray


class _Request(NamedTuple):
    """How a warp accesses an array: the row of each lane, and the byte inside this row.

    If the rows become longer, the compiler may have to replace the access by smaller ones, for
    example by 2 or 4. `parts` is the largest possible number of smaller accesses.
    """

    kind: AccessKind
    opcode: str
    width: int
    parts: int
    mask: int
    rows: tuple[int, ...]
    bytes: tuple[int, ...]

    def ways(self, row_bytes: int) -> int:
        """Return the degree of the bank conflict."""
        # If lanes update the same word with an atomic, this is not a bank conflict.
        kind: AccessKind = "load" if self.kind == "load" else "store"
        return max(self._passes(row_bytes, kind)[0], default=1)

    def cost(self, row_bytes: int) -> int:
        """Return the number of wavefronts."""
        passes, wavefronts = self._passes(row_bytes, self.kind)
        return wavefronts * sum(passes) * self._parts(row_bytes)

    def possible(self, row_bytes: int) -> bool:
        """Whether the addresses are multiples of the bytes that a lane accesses."""
        return _aligned(self._addresses(row_bytes), self.width // self._parts(row_bytes))

    def is_free(self, row_bytes: int) -> bool:
        """Whether the access is one access without a bank conflict."""
        return self._parts(row_bytes) == 1 and self.ways(row_bytes) == 1

    def _parts(self, row_bytes: int) -> int:
        addresses = self._addresses(row_bytes) if self.parts > 1 else []
        for parts in range(1, self.parts):
            if self.parts % parts == 0 and _aligned(addresses, self.width // parts):
                return parts
        return self.parts

    def _passes(self, row_bytes: int, kind: AccessKind) -> tuple[list[int], int]:
        width = self.width // self._parts(row_bytes)
        return bank_passes(self._addresses(row_bytes), width, self.mask, kind, self.opcode)

    def _addresses(self, row_bytes: int) -> list[int]:
        return [r * row_bytes + b for r, b in zip(self.rows, self.bytes, strict=True)]


def _aligned(addresses: Sequence[int], width: int) -> bool:
    return all(address % width == 0 for address in addresses)


def padding_of(access: Access, of_array: Sequence[Instruction]) -> Padding | None:
    """Return the best padding for an access with a bank conflict; see `Access.padding`.

    `of_array` has all instructions of the kernel that access the same shared array.
    """
    pattern, array = access.pattern, access.example.array if access.example else None
    if pattern is None or pattern.kind != "conflict" or not pattern.regular:
        return None
    if array is None or array.space != "shared" or len(array.shape) < 2:
        return None
    best = _best(access, of_array, array, any_split=False)
    if best is not None and best.ways > 1:
        # An access of more than an element may be written in the source, or the compiler may have
        # combined accesses to neighbouring elements. If it matters, the best padding is not known.
        other = _best(access, of_array, array, any_split=True)
        if other is None or other.ways < best.ways:
            return None
    return best


def _best(
    access: Access, of_array: Sequence[Instruction], array: TraceArray, *, any_split: bool
) -> Padding | None:
    """Return the best padding, or None if it is not known.

    `any_split` says whether the compiler may replace any access by accesses of one element. If not,
    it may do so only for accesses that the assembler has merged.
    """
    item = np.dtype(array.dtype).itemsize
    row_bytes = array.shape[-1] * item
    # How often each request happens. The requests of an unrolled loop are often the same.
    often: Counter[_Request] = Counter()
    mine: set[_Request] = set()
    numbers = {instruction.index for instruction in access.instructions}
    for instruction in of_array:
        shown = distinct(instruction.examples)
        parts = instruction.merged
        if any_split and instruction.width % item == 0:
            parts = instruction.width // item
        for example in shown:
            request = _request(example, array, row_bytes, parts)
            if request is None:
                return None
            often[request] += instruction.requests // len(shown) + 1
            if instruction.index in numbers:
                mine.add(request)
        if not shown:
            return None
    if not mine:
        return None

    def ways(row_bytes: int) -> int:
        return max(request.ways(row_bytes) for request in mine)

    def cost(row_bytes: int) -> int:
        return sum(count * request.cost(row_bytes) for request, count in often.items())

    now, least = ways(row_bytes), cost(row_bytes)
    best = Padding(0, now)
    # The banks repeat every 128 bytes, so a longer padding cannot be better.
    for elements in range(1, BANKS * WORD_BYTES // item + 1):
        longer = row_bytes + elements * item
        if any(request.ways(longer) >= now for request in mine):
            continue
        if all(request.possible(longer) for request in often) and (lower := cost(longer)) < least:
            best, least = Padding(elements, ways(longer)), lower
            if all(request.is_free(longer) for request in often):
                break  # no padding is better
    return best


def _request(example: Example, array: TraceArray, row_bytes: int, parts: int) -> _Request | None:
    """Return the request of an example, relative to a row at or before those that it accesses.

    If a lane accesses bytes outside the array, or bytes of two rows, return None.
    """
    active = example.active
    inside = array.nbytes - example.width
    if not all(0 <= address - array.address <= inside for address in active):
        return None
    places = [divmod(address - array.address, row_bytes) for address in active]
    if any(byte + example.width > row_bytes for _, byte in places):
        return None
    # Leave out a multiple of 16 rows, and a multiple of 16 bytes at the start of each row. For rows
    # of any length, the addresses then change by a multiple of 16 bytes, and no alignment changes.
    first_row = min(row for row, _ in places) // 16 * 16
    start = (array.address + min(byte for _, byte in places)) // 16 * 16 - array.address
    lanes = iter([(row - first_row, byte - start) for row, byte in places])
    by_lane = [next(lanes) if example.mask >> n & 1 else (0, 0) for n in range(LANES)]
    rows, bytes_ = zip(*by_lane, strict=True)
    kind, width = example._drawn_kind, example.width
    return _Request(kind, example.opcode, width, parts, example.mask, rows, bytes_)
