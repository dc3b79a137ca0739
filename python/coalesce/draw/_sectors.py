"""Determines which sectors and cache lines an access touches, and which of their bytes it uses."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from coalesce._core import model
from coalesce.draw._lanes import Lanes


@dataclass
class Sector:
    """A sector that an access touches."""

    number: int  # 0 for the sector with the lowest address
    address: int
    used: NDArray[np.bool_]  # for each byte, whether a lane accesses it
    lanes: list[int] = field(default_factory=list)  # the lanes that access the sector

    @property
    def bytes_used(self) -> int:
        return int(self.used.sum())


@dataclass
class Memory:
    """The cache lines and sectors that one access touches, in the order of addresses.

    Attributes
    ----------
    line_bytes, sector_bytes : int
        The size of a cache line and of a sector in bytes.
    lines : list of int
        The addresses of the touched lines.
    sectors : dict of int to Sector
        The touched sectors. The keys are their addresses.
    """

    line_bytes: int
    sector_bytes: int
    lines: list[int]
    sectors: dict[int, Sector]

    @property
    def bytes_moved(self) -> int:
        return len(self.sectors) * self.sector_bytes

    @property
    def bytes_used(self) -> int:
        """How many bytes the lanes access. A byte that several lanes access counts once."""
        return sum(sector.bytes_used for sector in self.sectors.values())

    @property
    def least_sectors(self) -> int:
        """The smallest number of sectors that can hold the used bytes."""
        return -(-self.bytes_used // self.sector_bytes)

    def sector_of(self, address: int) -> Sector:
        return self.sectors[address - address % self.sector_bytes]


def memory_of(lanes: Lanes, line_bytes: int = 128, sector_bytes: int = 32) -> Memory:
    """Return the cache lines and sectors that an access touches.

    `line_bytes` and `sector_bytes` are the sizes of a cache line and of a sector. If a lane
    accesses bytes of two sectors, it touches both.
    """
    used: dict[int, NDArray[np.bool_]] = {}
    users: dict[int, list[int]] = {}
    for lane in lanes.numbers:
        first = lanes.address(lane)
        for sector in model.sectors([first], lanes.itemsize, sector_bytes):
            flags = used.setdefault(sector, np.zeros(sector_bytes, np.bool_))
            flags[max(0, first - sector) : first + lanes.itemsize - sector] = True
            users.setdefault(sector, []).append(lane)
    sectors = {
        address: Sector(number, address, used[address], users[address])
        for number, address in enumerate(sorted(used))
    }
    lines = sorted({address - address % line_bytes for address in sectors})
    return Memory(line_bytes, sector_bytes, lines, sectors)
