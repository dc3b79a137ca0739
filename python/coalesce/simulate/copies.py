"""Finds the asynchronous copies that a picture cannot show, and says why.

A copy has two ends: the global memory that it reads, and the shared memory that it writes. A
picture shows one end, and the cost of this end. In some copies, the other end changes this cost.
Then the number of sectors or wavefronts in the picture would differ from the number that a GPU
counts. So reports show a sentence in place of the picture.
"""

from __future__ import annotations

from collections.abc import Sequence

from coalesce._core import model


def undrawn_read(
    addresses: Sequence[int],
    width: int,
    mask: int,
    opcode: str,
    target: Sequence[int],
    target_mask: int,
) -> str:
    """Return a sentence that says why the reads of a copy cannot be drawn.

    The sentence is empty if they can be drawn. Each lane copies `width` bytes from an address of
    `addresses` (global memory) to an address of `target` (shared memory). Bit i of `mask` is set if
    lane i reads, and bit i of `target_mask` is set if lane i writes. `target_mask` is 0 if `target`
    is not known. `opcode` is the opcode of the copy.
    """
    why = "There is no picture: the copy bypasses L1, so its sectors depend on where it writes to."
    counted = model.counted_sectors(addresses, width, mask, "copy", opcode, target, target_mask)
    if counted is None:
        return f"{why} These addresses were not recorded."
    touched = len(model.sectors([a for i, a in enumerate(addresses) if mask >> i & 1], width))
    if counted == touched:
        return ""
    return f"{why} The lanes touch {touched} sectors; {counted} are counted."


def _bypasses_l1(addresses: Sequence[int], width: int, mask: int, opcode: str) -> bool:
    return model.counted_sectors(addresses, width, mask, "copy", opcode) is None


def undrawn_write(
    addresses: Sequence[int],
    width: int,
    mask: int,
    opcode: str,
    source: Sequence[int],
    source_mask: int,
) -> str:
    """Return a sentence that says why the writes of a copy cannot be drawn.

    The sentence is empty if they can be drawn. Each lane copies `width` bytes from an address of
    `source` (global memory) to an address of `addresses` (shared memory). Bit i of `mask` is set if
    lane i writes, and bit i of `source_mask` is set if lane i reads. `source_mask` is 0 if `source`
    is not known. `opcode` is the opcode of the copy.
    """
    if _bypasses_l1(addresses, width, mask, opcode):
        return ""
    why = "There is no picture: the wavefronts depend on the addresses that the copy reads, too."
    if source_mask == 0:
        return f"{why} These addresses were not recorded."
    access = (addresses, width, mask, "copy", opcode)
    alone, _, _, _ = model.shared_groups(*access)
    both, _, _, _ = model.shared_groups(*access, source, source_mask)
    if both == alone:
        return ""
    here, counted = (sum(turns for _, turns in groups) for groups in (alone, both))
    return f"{why} Shared memory alone would take {here} wavefronts; {counted} are counted."
