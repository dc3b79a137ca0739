from collections.abc import Mapping, Sequence
from typing import Any

def gpus() -> list[dict[str, Any]]: ...
def occupancy(gpu: str, threads: int, registers: int, shared_bytes: int) -> dict[str, Any]: ...
def time(
    gpu: str, threads: int, registers: int, shared_bytes: int, work: Mapping[str, float]
) -> dict[str, Any]: ...
def time_of_blocks(
    gpu: str, blocks: int, warps: int, work: Mapping[str, float]
) -> dict[str, Any]: ...

SECTOR_BYTES: int
LINE_BYTES: int
BANKS: int
WORD_BYTES: int

def sectors(addresses: Sequence[int], itemsize: int, size: int = 32) -> list[int]: ...
def packed_sectors(lanes: int, itemsize: int) -> int: ...
def counted_sectors(
    addresses: Sequence[int],
    itemsize: int,
    mask: int,
    kind: str,
    opcode: str = "",
    targets: Sequence[int] = (),
    target_mask: int = 0,
) -> int | None: ...
def shared_groups(
    addresses: Sequence[int],
    itemsize: int,
    mask: int,
    kind: str,
    opcode: str = "",
    sources: Sequence[int] = (),
    source_mask: int = 0,
) -> tuple[list[tuple[int, int]], int, bool, str]: ...
def l1_cycles(addresses: Sequence[int], itemsize: int) -> tuple[int, int]: ...
