"""Draw docs/pictures: the pictures of the README and of these pages, by the package itself.

Run it in an environment that has coalesce and matplotlib: ``python docs/make_pictures.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np

import coalesce
from coalesce import draw, plots
from coalesce.draw import Matrix, Picture

PICTURES = Path(__file__).with_name("pictures")
LANES = np.arange(32)
N = 512  # of square matrices


def accesses() -> Iterator[tuple[str, Picture]]:
    """One warp's access to global memory, pattern by pattern."""
    random = np.random.default_rng(2024)
    far = np.where(LANES == 31, 100_000, LANES)
    for name, title, index, width in (
        ("contiguous", "x[i]", LANES, 4),
        ("misaligned", "x[i + 1]", LANES + 1, 4),
        ("stride_2", "x[2 * i]", 2 * LANES, 4),
        ("column", f"x[i * {N}], a column of a {N} x {N} matrix", N * LANES, 4),
        ("broadcast", "x[10]", 0 * LANES + 10, 4),
        ("far_lane", "x[i], but the last lane far away", far, 4),
        ("reversed", "x[31 - i]", 31 - LANES, 4),
        ("gather", "x[index[i]]", random.integers(0, 4000, 32), 4),
        ("float4", "((float4*)x)[i]", LANES, 16),
        ("structure", "x[i].y, of struct { float x, y, z; }", 3 * LANES + 1, 4),
    ):
        addresses = width * index if width == 4 else width * LANES
        yield f"warp_{name}", draw.warp_access(addresses, width, title=title, array="x")
    yield (
        "warp_partial",
        draw.warp_access(4 * LANES, 4, LANES % 2 == 0, title="if (i % 2 == 0) x[i]", array="x"),
    )
    lanes = np.arange(64)
    yield (
        "wavefront_amd",
        draw.warp_access(
            8 * lanes, 4, title="x[2 * i] by 64 lanes, lines of 64-byte sectors", sector_bytes=64
        ),
    )


def banks() -> Iterator[tuple[str, Picture]]:
    """One warp's access to a tile in shared memory."""
    row, column, padded = 4 * LANES, 4 * 32 * LANES, 4 * 33 * LANES
    yield "banks_row", draw.bank_board(row, 4, title="tile[k][tx] of float tile[32][32]: a row")
    yield (
        "banks_column",
        draw.bank_board(column, 4, title="tile[tx][k] of float tile[32][32]: a column"),
    )
    yield (
        "banks_padded",
        draw.bank_board(
            padded,
            4,
            rows="words",
            title="tile[tx][k] of float tile[32][33]: one column of padding",
        ),
    )
    yield "banks_broadcast", draw.bank_board(0 * LANES, 4, title="tile[ty][k]: one word for all")
    yield "banks_float4", draw.bank_board(16 * LANES, 16, title="((float4*)tile)[tx]")


def matmuls() -> Iterator[tuple[str, Picture]]:
    """What a warp of a matrix product touches at each step."""
    naive = {
        f"k = {k}": [
            Matrix("a", (N, N), [(lane, k) for lane in LANES]),
            Matrix("b", (N, N), [(k, 0)] * 32),
        ]
        for k in range(3)
    }
    naive["at the end"] = [Matrix("out", (N, N), [(lane, 0) for lane in LANES])]
    yield (
        "matmul_naive",
        draw.matrices(naive, title="naive: sum += a[row * K + k] * b[k * N + col]"),
    )
    coalesced = {
        f"k = {k}": [
            Matrix("a", (N, N), [(0, k)] * 32),
            Matrix("b", (N, N), [(k, lane) for lane in LANES]),
        ]
        for k in range(3)
    }
    coalesced["at the end"] = [Matrix("out", (N, N), [(0, lane) for lane in LANES])]
    yield (
        "matmul_coalesced",
        draw.matrices(coalesced, title="coalesced: the same line, lanes along a row"),
    )
    yield "matrix_column", draw.matrix_cells((N, N), [(lane, 5) for lane in LANES])
    yield "tile_phases", tile_phases()


def tile_phases(n: int = 8, tile: int = 4) -> Picture:
    """Both phases of a tiled product, and what each thread of block (1, 0) loads."""
    threads = [(ty, tx) for ty in range(tile) for tx in range(tile)]
    names = [f"{ty},{tx}" for ty, tx in threads]
    rows = [ty for ty, _ in threads]

    def loaded(name: str, row: int, col: int) -> Matrix:
        cells = [(row + ty, col + tx) for ty, tx in threads]
        return Matrix(name, (n, n), cells, names, rows, boxes=[(row, col, tile, tile)], note="")

    def shared(name: str) -> Matrix:
        return Matrix(name, (tile, tile), threads, names, rows, memory="shared")

    out = Matrix("out", (n, n), boxes=[(0, tile, tile, tile)], note="the block's tile")
    frames = {
        f"phase {p}": [
            loaded("a", 0, p * tile),
            loaded("b", p * tile, tile),
            shared("a_tile"),
            shared("b_tile"),
            out,
        ]
        for p in range(n // tile)
    }
    return draw.matrices(
        frames,
        title=f"tiled, block (1, 0): {n} x {n} matrices, {tile} x {tile} tiles; in cells, ty,tx",
        headline="Each thread loads one cell of a and one of b, and all threads use both tiles",
    )


def blocks() -> Iterator[tuple[str, Picture]]:
    """The warps of a block."""
    for block in ((24, 5), (16, 16), (8, 8, 2)):
        yield "block_" + "x".join(map(str, block)), draw.thread_block(block)


def draw_plots() -> None:
    """Save the plots, the same in every run."""
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "coalesce"})
    a = np.ones((N, N), np.float32)
    variants = coalesce.variants("matmul").names
    profiles = {v: coalesce.profile("matmul", a, a, variant=v) for v in variants}
    for name, axes in (
        ("sweep_stride", plots.sweep("stride", theme="transparent")[0]),
        ("sweep_offset", plots.sweep("offset", theme="transparent")[0]),
        ("ladder_sectors", plots.ladder(profiles, of="sectors", theme="transparent")),
        ("ladder_time", plots.ladder(profiles, theme="transparent")),
    ):
        axes.figure.savefig(PICTURES / f"{name}.svg", metadata={"Date": None})


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for pictures in (accesses(), banks(), matmuls(), blocks()):
        for name, picture in pictures:
            picture.save(PICTURES / f"{name}.svg")
    draw_plots()


if __name__ == "__main__":
    main()
