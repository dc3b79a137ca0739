"""Chooses the variant for ``variant="best"``: the one whose predicted time is shortest.

For products, there are three cases:

- float32 on GPUs of compute capability 9.0 or newer: this module predicts the time of `tensor_map`,
  and of `split_k` with each tile and each division of K. On GPUs newer than 9.0, which cannot run
  "tensor_map", a call uses "tma" instead.
- float64 on GPUs of compute capability 9.0, if M, N and K are at least 16: the variant is "dmma",
  which uses tensor cores.
- All other cases, and all products on the simulator: the variant is "tiled" if M or N is below 64,
  and "pipelined" otherwise.

"best" never chooses a variant that rounds its operands.

The predictions follow what the kernels do. A block of `split_k` computes a tile, in steps of k. The
multiprocessor with the most blocks decides how long the kernel takes. Its time for a step is the
larger of two times: the latency of a step, and the time for the multiply-adds of all of its blocks.
To this, the start of a block and its stores are added. Each is a constant in `best.json`, in
microseconds. The program benchmarks/best.py measures products of random shapes, and fits the
constants to the times.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from coalesce import catalogue
from coalesce.arrays.devices import Device

_MB = 4e-6  # megabytes of an element
_LEAST_DMMA = 16  # the least M, N and K of a product by "dmma"


@dataclass(frozen=True)
class Form:
    """A form of `split_k`: a tile, a number of parts of K, and the constants of its time.

    Attributes
    ----------
    tile, parts : int
        The kernel's TILE and PARTS.
    resident : int
        The number of blocks that a multiprocessor has at once.
    start, wave : float
        The time of a launch, and of the start and the end of a block.
    latency, step : float
        The least time of a step of k, and the time that the multiply-adds of a block take.
    store, store_unaligned : float
        The time to store a megabyte, if rows are aligned to 16 bytes or not.
    unaligned : float
        The share by which rows of an odd length lengthen a step.
    lone : float
        The blocks by which the busiest multiprocessor exceeds its share, if few blocks start when
        the first ones end: the blocks of a multiprocessor end together, and so the places of one
        multiprocessor are free for the next blocks.
    """

    tile: int
    parts: int
    resident: int
    start: float
    wave: float
    latency: float
    step: float
    store: float
    store_unaligned: float
    unaligned: float
    lone: float

    def time(self, m: int, n: int, k: int, slices: int, multiprocessors: int) -> float:
        """Return the predicted time of the kernel in microseconds, without adding up slices."""
        rows, cols, cluster, stage = _tile_of(self.tile, self.parts)
        blocks = -(-m // rows) * -(-n // cols) * cluster * slices
        stages = -(-k // stage)
        steps = -(-stages // (cluster * slices)) * stage
        odd = 0.0 if n % 4 == 0 else 0.5 if n % 2 == 0 else 1.0
        work = self._busiest(blocks, multiprocessors) * self.step * (1 + self.unaligned * odd)
        store = self.store + odd * (self.store_unaligned - self.store)
        return (
            self.start
            + self.wave * max(1, blocks / (self.resident * multiprocessors))
            + steps * math.sqrt(math.hypot(self.latency**2, work**2))
            + m * n * slices * _MB * store
        )

    def _busiest(self, blocks: int, multiprocessors: int) -> float:
        """Return how many blocks the multiprocessor with the most blocks has."""
        most = -(-blocks // multiprocessors)
        if (self.tile, self.parts) == (32, 2):
            most += most % 2  # a block has two warps, and uses two of the four schedulers
        waves = (blocks - 1) // (self.resident * multiprocessors)
        left = blocks - waves * self.resident * multiprocessors
        return most + self.lone / waves if waves and left <= multiprocessors else most


def _tile_of(tile: int, parts: int) -> tuple[int, int, int, int]:
    """Return the rows and columns of a tile, the blocks of a cluster, and the steps of a stage."""
    cluster = 2 if parts == 8 else 1
    return min(tile, 64), tile, cluster, (16 if tile == 128 else 8) * parts // cluster


def of_matmul(m: int, n: int, k: int, dtype: np.dtype[Any], device: Device) -> tuple[str, int]:
    """Return the best variant, and its tile, for the product of an M x K and a K x N matrix.

    For example, the result is ``("tiled", 32)``. If the variant has no tile, the tile is 0.
    """
    hopper = device.kind == "cuda" and device.compute_capability >= (9, 0)
    tensor_maps = device.kind == "cuda" and device.compute_capability == (9, 0)
    if dtype == np.float32 and hopper and m and n:
        multiprocessors = device.multiprocessors or 132
        time, tile, _, _ = _divided(m, n, k, 0, multiprocessors)
        if time <= time_of_tensor_map(m, n, k, multiprocessors, constants().tensor_map):
            return "split_k", tile
        return ("tensor_map" if tensor_maps else "tma"), 0
    if dtype == np.float64 and tensor_maps and min(m, n, k) >= _LEAST_DMMA:
        return "dmma", 0
    return ("pipelined", 0) if min(m, n) >= 64 else ("tiled", 32)


def division(m: int, n: int, k: int, tile: int, multiprocessors: int) -> tuple[int, int]:
    """Return how `split_k` with this tile divides K: the kernel's PARTS, and the slices."""
    return _divided(m, n, k, tile, multiprocessors)[2:]


@dataclass(frozen=True)
class Tile:
    """A tile of a kernel on tensor cores, and the cycles that it takes.

    Attributes
    ----------
    rows, cols : int
        The kernel's BLOCK_ROWS and BLOCK_COLS.
    cycles : int
        The time of a stage. It is the longer of two times: that of the tensor cores, and that of
        the copies from L2, at 64 bytes in a cycle. For narrow tiles, it is some percent more.
    """

    rows: int
    cols: int
    cycles: int

    def time(self, m: int, n: int, stages: int, multiprocessors: int) -> int:
        """Return the predicted cycles of a product."""
        tiles = -(-m // self.rows) * -(-n // self.cols)
        return -(-tiles // multiprocessors) * (stages * self.cycles + self.rows * self.cols // 16)

    def defines(self) -> tuple[str, ...]:
        """Return the macros with which the kernel is compiled."""
        return f"BLOCK_ROWS={self.rows}", f"BLOCK_COLS={self.cols}"


# For each kernel whose tile can be chosen: the steps of k of a stage, and the tiles.
_TILES = {
    "bf16": (
        64,
        (Tile(128, 256, 1024), Tile(128, 192, 800), Tile(128, 128, 540), Tile(128, 64, 400)),
    ),
    "tf32": (32, (Tile(256, 128, 1210), Tile(128, 128, 750), Tile(64, 128, 560))),
    "dmma": (16, (Tile(128, 128, 2048), Tile(128, 64, 1090), Tile(64, 64, 580))),
}


def tiles_of(kernel: str) -> tuple[Tile, ...]:
    """Return the tiles of a kernel, or nothing if its tile cannot be chosen."""
    return _TILES[kernel][1] if kernel in _TILES else ()


def tile(kernel: str, m: int, n: int, k: int, multiprocessors: int) -> Tile | None:
    """Return the best tile of a kernel. If the kernel has only one tile, return None."""
    if kernel not in _TILES:
        return None
    steps, tiles = _TILES[kernel]
    return min(tiles, key=lambda each: each.time(m, n, -(-k // steps), multiprocessors))


def of_one_matrix(variant: str) -> str:
    """Replace "best" by "vectorized". Return any other name unchanged.

    For transposes and sums, "vectorized" is the fastest variant for every shape.
    """
    return "vectorized" if catalogue.is_best(variant) else variant


def possible_slices(m: int, n: int, k: int, form: Form, multiprocessors: int) -> list[int]:
    """Return the numbers of slices of K that are considered.

    A slice has work for every group. There are at most twice as many blocks as run at a time: more
    slices would only have to be added up.
    """
    rows, cols, cluster, stage = _tile_of(form.tile, form.parts)
    blocks = -(-m // rows) * -(-n // cols) * cluster
    least = max(stage * cluster, constants().least_slice)
    most = min(k // least, 2 * form.resident * multiprocessors // blocks)
    return [slices for slices in constants().slices if slices <= max(1, most)]


def time_to_add(m: int, n: int, slices: int, known: Constants) -> float:
    """Return the predicted time in microseconds of the second launch, which adds up slices."""
    return known.add + known.add_mb * (slices + 1) * m * n * _MB if slices > 1 else 0.0


@lru_cache(256)
def _divided(
    m: int, n: int, k: int, tile: int, multiprocessors: int
) -> tuple[float, int, int, int]:
    """Return the shortest time of `split_k`, and its tile, PARTS and slices.

    If `tile` is 0, every tile is considered.
    """
    known = constants()
    return min(
        (
            form.time(m, n, k, slices, multiprocessors) + time_to_add(m, n, slices, known),
            form.tile,
            form.parts,
            slices,
        )
        for form in known.forms
        if tile in (0, form.tile)
        for slices in possible_slices(m, n, k, form, multiprocessors)
    )


def time_of_tensor_map(
    m: int, n: int, k: int, multiprocessors: int, c: Mapping[str, float]
) -> float:
    """Return the predicted time of `tensor_map` in microseconds, with all of its launches."""
    stages, tiles = -(-k // 32), -(-m // 128) * -(-n // 256)
    divided = shared_tiles(tiles, stages, multiprocessors)
    own = -(-(tiles - divided) // multiprocessors) * stages + divided * stages / multiprocessors
    copied = [rows * cols for rows, cols in ((m, k), (k, n)) if cols % 4]
    return (
        c["start"]
        + c["stage"] * own
        + c["store" if n % 4 == 0 else "store_unaligned"] * -(-tiles // multiprocessors)
        + sum(c["copy"] + c["copy_mb"] * _MB * elements for elements in copied)
        + (c["divided"] + c["share"] * multiprocessors / divided if divided else 0)
    )


def shared_tiles(tiles: int, stages: int, blocks: int) -> int:
    """Return how many tiles of `tensor_map` several blocks compute together.

    Each tile has a number of `stages` of K. Tiles are shared only if this saves at least two
    stages.
    """
    left = tiles % blocks
    if left == 0 or (blocks - left) * stages < 2 * blocks:
        return 0
    return left + (blocks if tiles >= blocks else 0)


@dataclass(frozen=True)
class Constants:
    """The contents of `best.json`.

    Attributes
    ----------
    forms : tuple of Form
        The forms of `split_k`.
    slices : tuple of int
        The numbers of slices that are considered.
    least_slice : int
        The fewest steps of k of a slice.
    add, add_mb : float
        The time of the launch that adds up slices, and its time for each megabyte.
    tensor_map : dict
        The constants of `tensor_map`: the time of a launch, of a stage, of the stores of a tile if
        rows are aligned or not, of a copy of an operand and of a megabyte of it, of the division of
        tiles, and of each block that shares a tile.
    """

    forms: tuple[Form, ...]
    slices: tuple[int, ...]
    least_slice: int
    add: float
    add_mb: float
    tensor_map: dict[str, float]


@cache
def constants() -> Constants:
    """Return the contents of `best.json`."""
    path = Path(__file__).with_name("best.json")
    read = json.loads(path.read_text(encoding="utf-8"))
    del read["gpu"]
    read["forms"] = tuple(Form(**form) for form in read["forms"])
    return Constants(**{**read, "slices": tuple(read["slices"])})
