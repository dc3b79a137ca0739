"""Checks the lanes of one warp access. Every picture of an access uses this module first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coalesce.common import require

Kind = Literal["load", "store", "atomic"]

MOST_LANES = 64
MOST_BYTES = 64  # the most bytes per lane; the widest access of any GPU is 32 bytes


@dataclass(frozen=True)
class Lanes:
    """The lanes that access memory, their addresses and the width of the access.

    Attributes
    ----------
    addresses : array of uint64
        For each lane, the address of its first byte.
    active : array of bool
        Which lanes take part.
    itemsize : int
        Bytes per lane.
    """

    addresses: NDArray[np.uint64]
    active: NDArray[np.bool_]
    itemsize: int

    @property
    def count(self) -> int:
        """Lanes of the warp, active or not."""
        return len(self.addresses)

    @property
    def numbers(self) -> list[int]:
        """The active lanes."""
        return [int(lane) for lane in np.flatnonzero(self.active)]

    def address(self, lane: int) -> int:
        return int(self.addresses[lane])

    def words(self) -> str:
        """The number of active lanes in words: "32 lanes", "7 of 32 lanes"."""
        active = len(self.numbers)
        if active == self.count:
            return f"{active} lanes"
        return f"{active} of {self.count} lanes"


def lanes_of(
    addresses: Any, itemsize: Any, mask: Any = None, warp_size: int | None = None
) -> Lanes:
    """Check addresses, width and mask of one warp access.

    Raises
    ------
    TypeError
        Addresses or widths are not integers.
    ValueError
        There are no lanes or too many, an address is negative, or no lane is active.
    """
    width = require.whole("itemsize", itemsize, 1, MOST_BYTES)
    if warp_size is not None:
        warp_size = require.whole("warp_size", warp_size, 1, MOST_LANES)
    values = _integers(addresses)
    most = warp_size or MOST_LANES
    if not 1 <= len(values) <= most:
        raise ValueError(
            f"addresses must hold 1 to {most} addresses, one for each lane; got {len(values)}"
        )
    lanes = warp_size or (32 if len(values) <= 32 else 64)
    active = _active(mask, len(values), lanes)
    if not active.any():
        raise ValueError("mask has no active lane, so there is no request to draw")
    used = [value if on else 0 for value, on in zip(values, active, strict=False)]
    for value in used:
        if not 0 <= value <= 2**64 - width:
            raise ValueError(f"addresses must be from 0 to 2**64 - itemsize; one is {value}")
    padded = used + [0] * (lanes - len(values))
    return Lanes(np.array(padded, np.uint64), active, width)


def power_of_two(name: str, value: Any, low: int, high: int) -> int:
    """Return an integer argument that is a power of two."""
    result = require.whole(name, value, low, high)
    if result & (result - 1):
        raise ValueError(f"{name} must be a power of two; got {result}")
    return result


def _integers(addresses: Any) -> list[int]:
    # Use Python integers. From a list with small and very large integers, NumPy would make floats.
    if isinstance(addresses, np.ndarray):
        if addresses.ndim != 1:
            raise ValueError(
                "addresses must have one axis, with an address for each lane; got shape "
                f"{addresses.shape}"
            )
        if addresses.dtype.kind not in "iu":
            raise TypeError(f"addresses must be integers; got dtype {addresses.dtype}")
        return [int(a) for a in addresses]
    given = [] if isinstance(addresses, set | frozenset) else addresses
    given = require.several("addresses", given, "one for each lane, in order")
    return [require.integer("addresses", address) for address in given]


def _active(mask: Any, given: int, lanes: int) -> NDArray[np.bool_]:
    active = np.zeros(lanes, np.bool_)
    if mask is None:
        active[:given] = True
        return active
    if isinstance(mask, int | np.integer) and not isinstance(mask, bool):
        bits = int(mask)
        if not 0 <= bits < 2**given:
            raise ValueError(
                f"mask must be from 0 to 2**{given} - 1, with a bit for each address (the lowest "
                f"bit is lane 0); got {bits:#x}"
            )
        active[:given] = [bits >> lane & 1 for lane in range(given)]
        return active
    flags = require.as_array("mask", mask)
    if flags.dtype.kind != "b":
        raise TypeError(
            "mask must be an integer with a bit for each lane, or a bool for each lane; got "
            f"{require.shown(mask)}"
        )
    if flags.shape != (given,):
        raise ValueError(
            f"mask must have the shape of addresses, ({given},); got shape {flags.shape}"
        )
    active[:given] = flags
    return active
