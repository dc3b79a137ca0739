"""Access patterns over a range: sectors per request, and bandwidth where there is a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coalesce.arrays import devices
from coalesce.arrays.device_array import DeviceArray
from coalesce.catalogue.table import OPERATIONS
from coalesce.common import checks

# The option that a pattern varies by, what its numbers mean, and those shown by default.
PATTERNS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "stride": ("stride", "elements from one lane to the next", tuple(range(1, 33))),
    "offset": ("offset", "elements that the first lane is shifted by", tuple(range(33))),
    "vector": ("width", "bytes per load", (1, 2, 4, 8, 16)),
}
_COUNTED_WARPS = 64
_MOST = 1 << 16  # a stride of so many elements takes gigabytes to try
_ELEMENTS: dict[int, Any] = {
    1: np.uint8,
    2: np.int16,
    4: np.float32,
    8: np.float64,
    16: np.complex128,
}
# So much that no cache of a GPU holds it; on the simulator what takes a moment.
_TIMED_BYTES, _MODELLED_BYTES = 1 << 29, 1 << 22


@dataclass(frozen=True)
class Sweep:
    """What an access pattern costs over a range of strides, offsets or widths.

    Attributes
    ----------
    pattern : {"stride", "offset", "vector"}
        As in `coalesce.access`.
    values : array of int, shape (n,)
        Strides, offsets or widths.
    itemsize : int
        Bytes of an element.
    sectors : array of float, shape (n,)
        Sectors of 32 bytes a warp's load touches, counted by the simulator from the addresses.
    gbps : array of float, shape (n,), or None
        1e9 bytes per second that were asked for, read and written; None where nothing was timed.
    source : {"measured", "modelled"}
        How `gbps` came about: timed on a GPU or estimated for a simulated one.
    device : str
        What it is of: "NVIDIA H200".
    """

    pattern: str
    values: NDArray[np.int64]
    itemsize: int
    sectors: NDArray[np.float64]
    gbps: NDArray[np.float64] | None = None
    source: Literal["measured", "modelled"] = "measured"
    device: str = ""

    @classmethod
    def run(
        cls,
        pattern: str,
        values: Iterable[int] | None = None,
        *,
        itemsize: int = 4,
        device: str | devices.Device | None = None,
    ) -> Sweep:
        """Count the sectors of a pattern for each value, and time it where there is a GPU.

        Parameters
        ----------
        pattern : {"stride", "offset", "vector"}
            What varies: as in `coalesce.access`.
        values : sequence of int, optional
            Strides from 1 on, offsets from 0 on, or widths in bytes.
        itemsize : int
            Bytes of an element: 1, 2, 4, 8 or 16.
        device : str or Device, optional
            Where to time: a GPU, or a simulated one for a modelled bandwidth. By default the GPU
            if there is one, otherwise nothing is timed.

        Returns
        -------
        Sweep

        Raises
        ------
        ValueError
            There is no such pattern, or a value does not fit it.
        DeviceUnavailable
            There is no such device.

        Examples
        --------
        >>> coalesce.plots.Sweep.run("stride", [1, 2, 8]).sectors
        array([ 4.,  8., 32.])
        """
        checks.choice("pattern", pattern, PATTERNS)
        if checks.integer("itemsize", itemsize) not in _ELEMENTS:
            raise ValueError(f"itemsize must be 1, 2, 4, 8 or 16; got {itemsize!r}")
        timed = devices.resolve(device)
        chosen = None if device is None and timed.kind == "sim" else timed
        given = PATTERNS[pattern][2] if values is None else values
        wanted = [
            checks.whole("values", value, 0, _MOST)
            for value in checks.several("values", given, "whole numbers")
        ]
        if not wanted:
            raise ValueError("values must hold at least one number")
        sectors = [_sectors(pattern, value, itemsize) for value in wanted]
        gbps = _gbps(pattern, wanted, itemsize, chosen) if chosen else None
        return cls(
            pattern,
            np.array(wanted, np.int64),
            itemsize,
            np.array(sectors),
            gbps,
            "modelled" if chosen and chosen.kind == "sim" else "measured",
            chosen.description if chosen else "",
        )

    @property
    def ideal(self) -> NDArray[np.float64]:
        """Sectors that the bytes asked for would fill if they lay side by side."""
        if self.pattern == "vector":
            return self.values.astype(np.float64)  # 32 lanes, 32 bytes per sector
        return np.full(len(self.values), float(self.itemsize))

    @property
    def meaning(self) -> str:
        """What the values are, for an axis."""
        return f"{self.pattern}: {PATTERNS[self.pattern][1]}"


def _sectors(pattern: str, value: Any, itemsize: int) -> float:
    """Count on a few warps, which all touch as many."""
    option = PATTERNS[pattern][0]
    threads = 32 * _COUNTED_WARPS
    elements = {"stride": threads * value, "offset": threads + value, "vector": threads * 16}
    x = np.zeros(elements[pattern], _ELEMENTS[itemsize])
    asked = {"pattern": pattern, option: value}
    _, run = OPERATIONS["access"].run([x], asked, device="sim", counts=True)
    counts = run.records[-1][1].counts
    return float(counts.global_load_sectors / counts.global_load_requests)


def _gbps(
    pattern: str, values: list[int], itemsize: int, device: devices.Device
) -> NDArray[np.float64]:
    option = PATTERNS[pattern][0]
    dtype = np.dtype(_ELEMENTS[itemsize])
    x: Any
    if device.kind == "sim":
        x = np.zeros(_MODELLED_BYTES // itemsize, dtype)
    else:
        x = DeviceArray.empty(_TIMED_BYTES // itemsize, dtype, device)
    rates = []
    for value in values:
        asked = {"pattern": pattern, option: value}
        _, run = OPERATIONS["access"].run([x], asked, device=device, timed=True)
        rates.append(run.timing().gbps)
    return np.array(rates)
