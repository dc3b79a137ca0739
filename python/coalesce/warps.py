"""Functions about warps. You can call them without a kernel.

`transactions` counts the sectors that the addresses of a warp touch. `thread_index` returns the
number of a thread in its block, from 0, and `warp_of_thread` returns the warp and the lane of a
thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce._core import model
from coalesce.arrays import devices
from coalesce.common import geometry, require
from coalesce.profiling.patterns.classification import Pattern, classify

if TYPE_CHECKING:
    from coalesce.draw import Picture


@dataclass(frozen=True)
class Transactions:
    """The cost of one access to global memory by one or more warps.

    Attributes
    ----------
    requests : int
        The number of warps that have at least one active lane.
    sectors, lines : int
        How many distinct sectors and how many distinct cache lines a warp touches, summed over
        the warps.
    ideal_sectors : int
        The number of sectors that the same lanes would touch if their elements were adjacent.
    bytes_used, bytes_moved : int
        `bytes_used` is the number of distinct bytes that the lanes access. `bytes_moved` is the
        number of bytes in the sectors that the lanes touch.

    Examples
    --------
    >>> access = coalesce.transactions(8 * np.arange(32))  # every second float32
    >>> access.sectors, access.ideal_sectors, access.efficiency
    (8, 4, 0.5)
    """

    requests: int
    sectors: int
    lines: int
    ideal_sectors: int
    bytes_used: int
    bytes_moved: int
    _addresses: tuple[tuple[int, ...], ...] = field(repr=False, default=())
    _masks: tuple[int, ...] = field(repr=False, default=())
    _itemsize: int = field(repr=False, default=4)
    _warp_size: int = field(repr=False, default=32)

    @property
    def sectors_per_request(self) -> float:
        """The average number of sectors per request. It is 0 if no lane is active."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """`bytes_used` divided by `bytes_moved`, from 0 to 1."""
        return self.bytes_used / self.bytes_moved if self.bytes_moved else 0.0

    @property
    def pattern(self) -> Pattern | None:
        """The access pattern of the first warp, such as a stride. None if no lane is active."""
        if not self.requests:
            return None
        return classify(self._addresses[0], self._itemsize, self._masks[0])

    def picture(self) -> Picture:
        """Draw the lanes of the first warp, and the sectors and cache lines that they touch.

        Returns
        -------
        coalesce.draw.Picture

        Raises
        ------
        ValueError
            No lane is active.
        """
        from coalesce import draw

        if not self.requests:
            raise ValueError("there is nothing to draw, because no lane is active")
        return draw.warp_access(
            self._addresses[0], self._itemsize, self._masks[0], warp_size=self._warp_size
        )

    def __str__(self) -> str:
        text = (
            f"{self.requests} request{'s' * (self.requests != 1)}, {self.sectors} "
            f"sector{'s' * (self.sectors != 1)} in {self.lines} line{'s' * (self.lines != 1)}"
        )
        pattern = self.pattern
        one_broadcast = pattern is not None and pattern.kind == "broadcast" and self.requests == 1
        if not one_broadcast:  # a broadcast uses few bytes of the sector, but this is no waste
            text += f", {self.efficiency:.1%} of the bytes used"
        return text if pattern is None else f"{text}. {pattern.text}"


def transactions(
    addresses: Any,
    itemsize: int = 4,
    mask: Any = None,
    gpu: str = "h200",
    *,
    warp_size: int = 32,
) -> Transactions:
    """Count what an access to memory costs: requests, sectors and lines.

    The access of a warp is one request. It moves the distinct 32-byte sectors that the active lanes
    of the warp touch. The simulator and the counters of a GPU follow the same rules.

    Parameters
    ----------
    addresses : array_like of int, shape (lanes,)
        The address of the first byte that each lane accesses. The first `warp_size` addresses
        belong to the first warp, the next ones to the second warp, and so on. If the last warp has
        fewer addresses than lanes, its other lanes are inactive.
    itemsize : int
        The number of bytes that each lane accesses, from 1 to 16.
    mask : array_like of bool, shape (lanes,), or int, optional
        The active lanes: a bool for each lane, or an int whose bit i stands for lane i. The default
        is all lanes.
    gpu : str
        The name of a simulated GPU: ``"h200"``, as in ``device="sim:h200"``. On all simulated
        GPUs, sectors have 32 bytes and cache lines have 128 bytes.
    warp_size : {32, 64}
        The number of lanes per warp. AMD GPUs can have 64; AMD calls its warps wavefronts.

    Returns
    -------
    Transactions

    Raises
    ------
    TypeError, ValueError
        The addresses or the mask are not integers, or have the wrong shape; or the GPU is unknown.

    Examples
    --------
    >>> lanes = np.arange(32)
    >>> coalesce.transactions(4 * lanes).sectors
    4
    >>> column = coalesce.transactions(512 * 4 * lanes)
    >>> column.sectors, column.lines, column.efficiency
    (32, 32, 0.125)
    >>> coalesce.transactions(4 * np.arange(64), warp_size=64).sectors_per_request
    8.0
    """
    _check_gpu(gpu)
    _check_warp_size(warp_size)
    itemsize = require.whole("itemsize", itemsize, 1, 16)
    numbers = _addresses(addresses)
    active = _active(mask, len(numbers))
    requests = sectors = lines = ideal = used = 0
    shown: list[tuple[int, ...]] = []
    masks: list[int] = []
    for first in range(0, len(numbers), warp_size):
        warp = numbers[first : first + warp_size]
        on = active[first : first + warp_size]
        if not on.any():
            continue
        touched = warp[on].tolist()
        wanted = np.unique(warp[on][:, None] + np.arange(itemsize, dtype=np.uint64))
        requests += 1
        sectors += len(model.sectors(touched, itemsize))
        lines += len(model.sectors(touched, itemsize, model.LINE_BYTES))
        ideal += model.packed_sectors(int(on.sum()), itemsize)
        used += len(wanted)
        shown.append(tuple(warp.tolist()) + (0,) * (warp_size - len(warp)))
        masks.append(sum(1 << lane for lane in np.flatnonzero(on).tolist()))
    return Transactions(
        requests,
        sectors,
        lines,
        ideal,
        used,
        sectors * model.SECTOR_BYTES,
        tuple(shown[:1]),
        tuple(masks[:1]),
        itemsize,
        warp_size,
    )


def _check_gpu(gpu: str) -> None:
    known = [name.removeprefix("sim:") for name in devices.SIMULATED]
    name = gpu.removeprefix("sim:") if isinstance(gpu, str) else gpu
    require.choice("gpu", name, (*known, "sim"))


def _check_warp_size(warp_size: int) -> None:
    if require.integer("warp_size", warp_size) not in (32, 64):
        raise ValueError(f"`warp_size` must be 32 or 64; got {warp_size!r}")


def _addresses(addresses: Any) -> np.ndarray[Any, np.dtype[np.uint64]]:
    array = require.as_array("addresses", addresses)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"`addresses` must be integers; got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(
            f"`addresses` must have one axis, with an address for each lane; got shape "
            f"{array.shape}"
        )
    # First, because it fails at once for an array that is too large, as of broadcast_to().
    converted = array.astype(np.uint64)
    if array.size and array.dtype.kind == "i" and array.min() < 0:
        raise ValueError(f"`addresses` must not be negative; got {array.min()}")
    return converted


def _active(mask: Any, lanes: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if mask is None:
        return np.ones(lanes, bool)
    if isinstance(mask, int | np.integer) and not isinstance(mask, bool):
        if not 0 <= mask < 1 << lanes:
            raise ValueError(
                f"`mask` must have bits only for lanes 0 to {lanes - 1}; got {mask:#x}"
            )
        return np.array([int(mask) >> lane & 1 for lane in range(lanes)], bool)
    flags = require.as_array("mask", mask)
    if flags.shape != (lanes,) or flags.dtype != bool:
        raise ValueError(
            f"`mask` must be an int or {lanes} bools, one for each lane; "
            f"got dtype {flags.dtype} of shape {flags.shape}"
        )
    return flags


def thread_index(threadIdx: Any, blockDim: int | Sequence[int]) -> Any:
    """Return the number of a thread in its block: x + y * blockDim.x + z * blockDim.x * blockDim.y.

    Parameters
    ----------
    threadIdx : int, (x, y, z) or array_like of shape (..., 1 to 3)
        The index of the thread. The last axis of an array has the coordinates x, y and z.
    blockDim : int or (x, y, z)
        The extents of the block.

    Returns
    -------
    int, or ndarray of shape (...)
        The number of the thread; the first thread of a block is 0. For an array of thread indices,
        an array of numbers.

    Raises
    ------
    ValueError
        The block has no such thread.
    LaunchError
        No GPU supports such a block.

    Examples
    --------
    >>> coalesce.thread_index((3, 1, 0), (16, 16))
    19
    """
    extents = _extents(blockDim)
    index = require.as_array("threadIdx", threadIdx)
    if index.dtype.kind not in "iu":
        raise TypeError(f"`threadIdx` must hold integers; got dtype {index.dtype}")
    if index.ndim == 0:
        index = index[None]
    if not 1 <= index.shape[-1] <= 3:
        raise ValueError(f"`threadIdx` must have one to three coordinates; got {threadIdx!r}")
    axes = index.shape[-1]
    if np.any(index < 0) or np.any(index >= np.array(extents[:axes])):
        raise ValueError(
            f"`threadIdx`: a block of {' x '.join(map(str, extents))} has no thread {threadIdx!r}"
        )
    strides = np.array([1, extents[0], extents[0] * extents[1]])[:axes]
    offsets = (index * strides).sum(axis=-1)
    return int(offsets) if offsets.ndim == 0 else offsets


def warp_of_thread(
    threadIdx: Any,
    blockDim: int | Sequence[int],
    *,
    warp_size: int = 32,
) -> tuple[Any, Any]:
    """Return the warp of a thread, and the lane of the thread in this warp.

    A warp has 32 consecutive threads, in the order of `thread_index`. For example, if a block has
    16 x 16 threads, each of its warps has the threads of two rows.

    Parameters
    ----------
    threadIdx, blockDim
        See `thread_index`.
    warp_size : {32, 64}
        The number of lanes per warp. AMD GPUs can have 64.

    Returns
    -------
    warp, lane : int, or ndarray
        The number of the warp in its block, and the number of the lane in its warp, both from 0.

    Examples
    --------
    >>> coalesce.warp_of_thread((3, 5, 0), (16, 16))
    (2, 19)
    """
    _check_warp_size(warp_size)
    number = thread_index(threadIdx, blockDim)
    return number // warp_size, number % warp_size


def _extents(block: Any) -> tuple[int, int, int]:
    block_extents = (
        tuple(block.tolist()) if isinstance(block, np.ndarray) and block.ndim == 1 else block
    )
    extents = geometry.extent("block", block_extents, "blockDim")
    geometry.check_block(extents, "blockDim")
    return extents
