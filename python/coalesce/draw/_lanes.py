"""Checks the addresses and the mask of one access by a warp, before it is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coalesce.common import require

Kind = Literal["load", "store", "atomic", "copy"]

MOST_LANES = 64
MOST_BYTES = 64  # the most bytes per lane; the widest access of any GPU is 32 bytes


@dataclass(frozen=True)
class Lanes:
    """The lanes of a warp in one access to memory, and the addresses that they access.

    Attributes
    ----------
    addresses : array of uint64
        For each lane, the address of the first byte that it accesses. 0 for inactive lanes.
    active : array of bool
        For each lane, whether it is active.
    itemsize : int
        How many bytes each lane accesses.
    """

    addresses: NDArray[np.uint64]
    active: NDArray[np.bool_]
    itemsize: int

    @property
    def count(self) -> int:
        """The number of lanes of the warp, including inactive lanes."""
        return len(self.addresses)

    @property
    def numbers(self) -> list[int]:
        """The indices of the active lanes, such as [0, 1, 2]."""
        return [int(lane) for lane in np.flatnonzero(self.active)]

    def address(self, lane: int) -> int:
        return int(self.addresses[lane])

    def words(self) -> str:
        """Return the number of active lanes as text, such as "32 lanes" or "7 of 32 lanes"."""
        active = len(self.numbers)
        if active == self.count:
            return f"{active} lanes"
        return f"{active} of {self.count} lanes"


def lanes_of(
    addresses: Any, itemsize: Any, mask: Any = None, warp_size: int | None = None
) -> Lanes:
    """Check the addresses, the width and the mask of one access by a warp.

    Parameters
    ----------
    addresses : sequence of int
        For each lane, the address of the first byte that it accesses. Lanes without an address are
        inactive.
    itemsize : int
        How many bytes each lane accesses.
    mask : int or sequence of bool, optional
        The active lanes: an int whose bit i stands for lane i, or a bool for each address. By
        default, all lanes with an address are active.
    warp_size : int, optional
        The number of lanes of a warp. By default, it is 32 for up to 32 addresses, and 64 for more.

    Returns
    -------
    Lanes

    Raises
    ------
    TypeError
        An address or `itemsize` is not an integer, or `mask` has a wrong type.
    ValueError
        There are no lanes or too many, an address is negative, or no lane is active.
    """
    width = require.whole("itemsize", itemsize, 1, MOST_BYTES)
    if warp_size is not None:
        warp_size = require.whole("warp_size", warp_size, 1, MOST_LANES)
    values = _integers(addresses)
    most = warp_size or MOST_LANES
    count = len(addresses) if isinstance(addresses, np.ndarray) else len(values)
    if not 1 <= count <= most:
        raise ValueError(
            f"`addresses` must hold 1 to {most} addresses, one for each lane; got {count}"
        )
    lanes = warp_size or (32 if len(values) <= 32 else 64)
    active = _active(mask, len(values), lanes)
    if not active.any():
        raise ValueError("`mask` has no active lane, so there is no request to draw")
    used = [value if on else 0 for value, on in zip(values, active, strict=False)]
    for value in used:
        if not 0 <= value <= 2**64 - width:
            raise ValueError(f"`addresses` must be from 0 to 2**64 - `itemsize`; got {value}")
    padded = used + [0] * (lanes - len(values))
    return Lanes(np.array(padded, np.uint64), active, width)


def power_of_two(name: str, value: Any, low: int, high: int) -> int:
    """Check that an argument is a power of two from `low` to `high`, and return it.

    `name` is the name of the argument in error messages.
    """
    result = require.whole(name, value, low, high)
    if result & (result - 1):
        raise ValueError(f"`{name}` must be a power of two; got {result}")
    return result


def _integers(addresses: Any) -> list[int]:
    # Use Python integers. From a list with small and very large integers, NumPy would make floats.
    if isinstance(addresses, np.ndarray):
        if addresses.ndim != 1:
            raise ValueError(
                "`addresses` must have one axis, with an address for each lane; got shape "
                f"{addresses.shape}"
            )
        if addresses.dtype.kind not in "iu":
            raise TypeError(f"`addresses` must be integers; got dtype {addresses.dtype}")
        return [int(a) for a in addresses[: MOST_LANES + 1]]
    several = [] if isinstance(addresses, set | frozenset) else addresses
    several = require.several("addresses", several, "one for each lane, in order")
    return [require.integer("addresses", address) for address in several]


def _active(mask: Any, count: int, lanes: int) -> NDArray[np.bool_]:
    active = np.zeros(lanes, np.bool_)
    if mask is None:
        active[:count] = True
        return active
    if isinstance(mask, int | np.integer) and not isinstance(mask, bool):
        bits = int(mask)
        if not 0 <= bits < 2**count:
            raise ValueError(
                f"`mask` must be from 0 to 2**{count} - 1, with a bit for each address (the lowest "
                f"bit is lane 0); got {bits:#x}"
            )
        active[:count] = [bits >> lane & 1 for lane in range(count)]
        return active
    flags = require.as_array("mask", mask)
    if flags.dtype.kind != "b":
        raise TypeError(
            "`mask` must be an integer with a bit for each lane, or a bool for each lane; got "
            f"{require.shown(mask)}"
        )
    if flags.shape != (count,):
        raise ValueError(
            f"`mask` must have the same shape as `addresses`, ({count},); got shape {flags.shape}"
        )
    active[:count] = flags
    return active
