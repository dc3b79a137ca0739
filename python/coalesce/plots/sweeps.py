"""The class `Sweep`: the costs of an access pattern for several strides, offsets or widths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coalesce.arrays import devices
from coalesce.arrays.device_array import DeviceArray
from coalesce.catalogue.table import OPERATIONS
from coalesce.common import require

# For each pattern: the option that varies, the meaning of its values, and the default values.
PATTERNS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "stride": ("stride", "elements from one lane to the next", tuple(range(1, 33))),
    "offset": ("offset", "elements by which the first lane is shifted", tuple(range(33))),
    "vector": ("width", "bytes per load", (1, 2, 4, 8, 16)),
}
_COUNTED_WARPS = 64
_MOST = 1 << 16  # a larger stride would take gigabytes of memory
_ELEMENTS: dict[int, Any] = {
    1: np.uint8,
    2: np.int16,
    4: np.float32,
    8: np.float64,
    16: np.complex128,
}
# The numbers of bytes to copy. On a GPU, they fit in no cache. On the simulator, they are so few
# that a run takes only a moment.
_TIMED_BYTES, _MODELLED_BYTES = 1 << 29, 1 << 22


@dataclass(frozen=True)
class Sweep:
    """The cost of an access pattern over a range of strides, offsets or widths.

    Attributes
    ----------
    pattern : {"stride", "offset", "vector"}
        The pattern. See `coalesce.access`.
    values : array of int, shape (n,)
        The strides, offsets or widths.
    itemsize : int
        The size of an element in bytes.
    sectors : array of float, shape (n,)
        How many 32-byte sectors a load of a warp touches. The simulator counts them.
    gbps : array of float, shape (n,), or None
        The bandwidth in 1e9 bytes per second. The bytes of the copied elements count twice: once as
        read and once as written. None if nothing was timed.
    source : {"measured", "modelled"}
        Whether `gbps` was measured on a GPU, or modelled for a simulated GPU.
    device : str
        The name of the GPU: ``"NVIDIA H200"``.

    Examples
    --------
    >>> sweep = coalesce.plots.Sweep.run("offset", [0, 1])
    >>> sweep.sectors
    array([4., 5.])
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
        """Count the sectors of a pattern for each value. If there is a GPU, also time the pattern.

        Parameters
        ----------
        pattern : {"stride", "offset", "vector"}
            The pattern; see `coalesce.access`.
        values : sequence of int, optional
            The strides (at least 1), offsets (at least 0) or widths (in bytes). By default, a
            range that suits the pattern.
        itemsize : int
            The size of an element in bytes: 1, 2, 4, 8 or 16.
        device : str or Device, optional
            The GPU to time on. For a simulated GPU, the bandwidth is modelled. The default is the
            first GPU. Without a GPU, nothing is timed.

        Returns
        -------
        Sweep

        Raises
        ------
        ValueError
            There is no such pattern, or the pattern does not support one of the `values`.
        DeviceUnavailable
            There is no such device.

        Examples
        --------
        >>> coalesce.plots.Sweep.run("stride", [1, 2, 8]).sectors
        array([ 4.,  8., 32.])
        """
        require.choice("pattern", pattern, PATTERNS)
        if require.integer("itemsize", itemsize) not in _ELEMENTS:
            raise ValueError(f"`itemsize` must be 1, 2, 4, 8 or 16; got {itemsize!r}")
        timed = devices.resolve(device)
        chosen = None if device is None and timed.kind == "sim" else timed
        chosen_values = PATTERNS[pattern][2] if values is None else values
        wanted = [
            require.whole("values", value, 0, _MOST)
            for value in require.several("values", chosen_values, "whole numbers")
        ]
        if not wanted:
            raise ValueError("`values` must contain at least one number")
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
        """For each value, the sectors that a load would touch if its bytes were contiguous."""
        if self.pattern == "vector":
            # 32 lanes and 32 bytes per sector: as many sectors as bytes per lane.
            return self.values.astype(np.float64)
        return np.full(len(self.values), float(self.itemsize))

    @property
    def axis_label(self) -> str:
        """The label of the horizontal axis, such as "vector: bytes per load".

        It names the pattern and the meaning of `values`.
        """
        return f"{self.pattern}: {PATTERNS[self.pattern][1]}"


def _sectors(pattern: str, value: Any, itemsize: int) -> float:
    """Return the sectors per load. A few warps are simulated, because each touches as many
    sectors.
    """
    option = PATTERNS[pattern][0]
    threads = 32 * _COUNTED_WARPS
    elements = {"stride": threads * value, "offset": threads + value, "vector": threads * 16}
    x = np.zeros(elements[pattern], _ELEMENTS[itemsize])
    options = {"pattern": pattern, option: value}
    _, run = OPERATIONS["access"].run([x], options, device="sim", counts=True)
    counts = run.own.counts
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
        options = {"pattern": pattern, option: value}
        _, run = OPERATIONS["access"].run([x], options, device=device, timed=True)
        rates.append(run.timing().gbps)
    return np.array(rates)
