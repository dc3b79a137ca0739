"""The sectors and lines that the lanes access, and the accessed bytes of each sector."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from coalesce._core import model
from coalesce.draw._lanes import Lanes


@dataclass
class Sector:
    """A sector that is moved: its number in address order, and which lanes use which bytes."""

    number: int
    address: int
    used: NDArray[np.bool_]
    lanes: list[int] = field(default_factory=list)

    @property
    def bytes_used(self) -> int:
        return int(self.used.sum())


@dataclass
class Memory:
    """The lines and sectors of one access, in the order of addresses.

    Attributes
    ----------
    lines : list of int
        Addresses of the lines touched.
    sectors : dict of int to Sector
        The sectors touched, by address.
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
        """Distinct bytes that lanes request. A byte that several lanes request counts once."""
        return sum(sector.bytes_used for sector in self.sectors.values())

    @property
    def least_sectors(self) -> int:
        """The smallest number of sectors that can hold the used bytes."""
        return -(-self.bytes_used // self.sector_bytes)

    def sector_of(self, address: int) -> Sector:
        return self.sectors[address - address % self.sector_bytes]


def memory_of(lanes: Lanes, line_bytes: int = 128, sector_bytes: int = 32) -> Memory:
    """Find the sectors that an access touches. A lane may use bytes of two sectors."""
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
