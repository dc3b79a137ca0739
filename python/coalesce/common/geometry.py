"""Checks the grid, the block and the shared memory of a launch before anything runs.

The limits are the same on the simulator and on every GPU since compute capability 3.0. Their source
is the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". Other limits
depend on the registers and the shared memory of a kernel. These other limits are not checked here.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from coalesce.common import require, words
from coalesce.common.errors import LaunchError

Extent = tuple[int, int, int]

MOST_THREADS = 1024
_LIMITS = {
    "grid": (2**31 - 1, 65535, 65535),
    "block": (1024, 1024, 64),
}


def extent(kind: Literal["grid", "block"], value: Any, name: str = "") -> Extent:
    """Return the size of a grid or a block as (x, y, z).

    `value` is an int, or a tuple or list of one to three ints. A missing y or z is 1. `name` is the
    name of the value in error messages. By default, it is `kind`.

    Raises TypeError for any other value, and LaunchError for a size beyond CUDA's limits.
    """
    name = name or kind
    items = value if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(items) <= 3:
        raise TypeError(
            f"`{name}` must have one to three extents (x, y, z); got {require.shown(value)}"
        )
    numbers = [
        require.integer(f"{name}.{axis}", item) for axis, item in zip("xyz", items, strict=False)
    ]
    x, y, z = (*numbers, 1, 1)[:3]
    for axis, number, most in zip("xyz", (x, y, z), _LIMITS[kind], strict=True):
        if number < 1:
            raise LaunchError(f"`{name}.{axis}` is {number}; it must be at least 1")
        if number > most:
            raise LaunchError(f"`{name}.{axis}` is {number}; CUDA allows at most {most}")
    return x, y, z


def check_block(block: Extent, name: str = "block") -> None:
    """Raise LaunchError for a block with more threads than any GPU supports."""
    threads = block[0] * block[1] * block[2]
    if threads > MOST_THREADS:
        shape = " x ".join(str(number) for number in block if number > 1)
        raise LaunchError(
            f"`{name}`: {shape} = {threads} threads are too many; a block has at most "
            f"{MOST_THREADS}"
        )


def launch_of(key: Any) -> tuple[Extent, Extent, int, int | None]:
    """Return the grid, block, dynamic shared memory (bytes) and stream of ``kernel[key]``.

    `key` is the tuple in the square brackets: (grid, block), (grid, block, shared_bytes) or
    (grid, block, shared_bytes, stream). Without `shared_bytes`, the kernel has no dynamic shared
    memory (0 bytes). Without `stream`, the stream is None.
    """
    if not isinstance(key, tuple) or not 2 <= len(key) <= 4:
        raise TypeError(
            "a kernel is launched as kernel[grid, block](...), kernel[grid, block, shared_bytes]"
            "(...) or kernel[grid, block, shared_bytes, stream](...); "
            f"got kernel[{require.shown(key)}]"
        )
    grid, block = extent("grid", key[0]), extent("block", key[1])
    check_block(block)
    shared_bytes = shared(key[2] if len(key) > 2 else 0)
    return grid, block, shared_bytes, stream(key[3] if len(key) > 3 else None)


def shared(value: Any) -> int:
    """Check a size of dynamic shared memory in bytes, and return it as an int."""
    number = require.integer("shared_bytes", value)
    if number < 0:
        raise LaunchError(f"`shared_bytes` is {number}; it must not be negative")
    if number > 2**31 - 1:
        raise LaunchError(f"`shared_bytes` is {number}; no GPU has that much shared memory")
    return number


def stream(value: Any) -> int | None:
    """Return the handle of a stream as an int. For None, return None.

    `value` is a handle, or a stream object of CuPy, PyTorch, Numba or cuda-python. The handles 0
    and 1 mean CUDA's legacy default stream, and 2 means the default stream of the calling thread.
    None means the current stream of the library that the arrays come from.
    """
    if value is None:
        return None
    with require.reading("stream", value):
        handle = _handle(value)
    if handle is None:
        return None
    try:
        number = require.integer("stream", handle)
    except TypeError:
        raise TypeError(
            "`stream` must be a stream of CuPy, PyTorch, Numba or cuda-python, or its handle; "
            f"got {require.shown(value)}"
        ) from None
    if not 0 <= number < 2**64:
        raise ValueError(f"`stream` is {number}, which is not the handle of a stream")
    return 0 if number == 1 else number  # 0 and 1 both name the legacy default stream


def _handle(value: Any) -> Any:
    """Return the handle of another library's stream. Any other value is returned unchanged."""
    if hasattr(value, "__cuda_stream__"):
        stream = value.__cuda_stream__
        return (stream() if callable(stream) else stream)[1]
    if hasattr(value, "cuda_stream"):
        return value.cuda_stream  # PyTorch
    if hasattr(value, "ptr"):
        return value.ptr  # CuPy
    if hasattr(value, "handle"):
        handle = getattr(value.handle, "value", value.handle)  # Numba
        return 0 if handle is None else handle
    return value


def block_numbers(
    blocks: Any, grid: Extent, name: str = "blocks"
) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the linear numbers of the chosen blocks in ascending order, without duplicates.

    The linear number of a block is x + grid.x * (y + grid.y * z). `blocks` names one block or
    several blocks:

    - one block: its linear number, such as 7, or its blockIdx as a tuple, such as (3, 1)
    - several blocks: a list, a range or an array of such numbers or blockIdx, such as [0, (3, 1)]

    Raises TypeError for any other value, and ValueError for a block that the grid does not have.
    """
    chosen = [blocks] if isinstance(blocks, tuple) else require.one_or_several(name, blocks)
    numbers = sorted({_block_number(block, grid, name) for block in chosen})
    if not numbers:
        raise ValueError(f"`{name}` is empty; pass at least one block")
    return np.array(numbers, np.uint64)


def _block_number(block: Any, grid: Extent, name: str) -> int:
    """Return the linear number of a block, from this number or from its blockIdx."""
    if isinstance(block, tuple | list | np.ndarray):
        if not 1 <= len(block) <= 3:
            raise TypeError(
                f"`{name}`: a block has one to three coordinates (x, y, z); "
                f"got {require.shown(block)}"
            )
        what = f"a coordinate of a block in `{name}`"
        index = [require.integer(what, item) for item in block] + [0, 0]
        if any(not 0 <= i < n for i, n in zip(index, grid, strict=False)):
            raise ValueError(
                f"`{name}`: there is no block {tuple(index[:3])} in a grid of {grid[0]} x "
                f"{grid[1]} x {grid[2]} blocks"
            )
        return index[0] + grid[0] * (index[1] + grid[1] * index[2])
    number = require.integer(name, block)
    count = grid[0] * grid[1] * grid[2]
    if not 0 <= number < count:
        known = words.numbers_of("the grid's", "block", count)
        raise ValueError(f"`{name}`: there is no block {number}; {known}")
    return number
