"""Draw docs/pictures, the pictures of the README and of the documentation, with the package.

Run ``python docs/make_pictures.py`` in an environment with coalesce and matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import recorded_ladder

import coalesce
from coalesce import draw, plots
from coalesce.draw import Picture
from coalesce.plots.axes import MIDDLE, _style

PICTURES = Path(__file__).with_name("pictures")
BULK_COPIES = ("tma", "tensor_map")
LANES = np.arange(32)
N = 512  # the rows and columns of square matrices


def accesses() -> Iterator[tuple[str, Picture]]:
    """Yield one warp's access to global memory in each pattern."""
    random = np.random.default_rng(2024)
    for name, title, index in (
        ("contiguous", "x[i]", LANES),
        ("misaligned", "x[i + 1]", LANES + 1),
        ("stride_2", "x[2 * i]", 2 * LANES),
        ("column", f"x[i * {N}], a column of a {N} x {N} matrix", N * LANES),
        ("broadcast", "x[10]", 0 * LANES + 10),
        ("gather", "x[index[i]]", random.integers(0, 4000, 32)),
        ("structure", "x[i].y, of struct { float x, y, z; }", 3 * LANES + 1),
    ):
        yield f"warp_{name}", draw.warp_access(4 * index, 4, title=title, array="x")


def banks() -> Iterator[tuple[str, Picture]]:
    """Yield one warp's access to a column of a tile in shared memory."""
    column = "tile[tx][k] of float tile[32][32]: a column"
    yield "banks_column", draw.bank_board(4 * 32 * LANES, 4, title=column)
    padded = "tile[tx][k] of float tile[32][33]: one column of padding"
    yield "banks_padded", draw.bank_board(4 * 33 * LANES, 4, rows="words", title=padded)


def tile_phases(n: int = 8, tile: int = 4) -> Picture:
    """Draw both phases of a small tiled product: the loads of each thread of block (1, 0)."""
    source = coalesce.source("matmul", "tiled")
    kernel = coalesce.Kernel(source, "tiled", device="sim", options=[f"-DTILE={tile}"])
    a, b, out = (np.ones((n, n), np.float32) for _ in range(3))
    scalars = (np.int32(n),) * 3 + (np.float32(1), np.float32(0))
    grid = (n // tile, n // tile)
    trace = kernel.trace(grid, (tile, tile), a, b, a[:1, 0], out, *scalars, blocks=[(1, 0)])
    # loads from global memory, and stores that fill the tiles
    loads = (trace.space == "global") != (trace.kind == "store")
    return draw.steps(
        trace[loads],
        shapes={"a_tile": (tile, tile), "b_tile": (tile, tile)},
        label="phase {}",
        cells="thread",
        title=f"tiled, {n} x {n} matrices, {tile} x {tile} tiles: block (1, 0), threads as y,x",
        headline="Each thread loads one cell of a and one of b, and all use both tiles",
    )


def step_tiles(n: int = 8, tile: int = 4) -> Picture:
    """Draw the contents of shared memory in each phase of a small tiled product, from a stepper."""
    source = coalesce.source("matmul", "tiled")
    kernel = coalesce.Kernel(source, "tiled", device="sim", options=[f"-DTILE={tile}"])
    a = np.arange(n * n, dtype=np.float32).reshape(n, n)
    b = -a
    scalars = (np.int32(n),) * 3 + (np.float32(1), np.float32(0))
    grid = (n // tile, n // tile)
    cells = list(np.ndindex(tile, tile))
    frames = {}
    arguments = (a, b, a[:1, 0], np.zeros_like(a), *scalars)
    with kernel.step(grid, (tile, tile), *arguments, of_block=(1, 0)) as stepper:
        while stepper.next_barrier():
            if stepper.barriers % 2 == 0:  # the tiles were used
                continue
            frames[f"phase {stepper.barriers // 2}"] = [
                draw.Matrix(
                    name,
                    (tile, tile),
                    cells,
                    [f"{value:g}" for value in stepper.shared[name].flat],
                    memory="shared",
                )
                for name in ("a_tile", "b_tile")
            ]
    return draw.matrices(
        frames,
        title=f"tiled: a counts 0, 1, 2 ... {n * n - 1}, b is -a; {tile} x {tile} tiles",
        headline="What block (1, 0) has in shared memory when it multiplies",
    )


def draw_variants() -> None:
    """Save the plot of the variants; every run gives the same file."""
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "coalesce"})
    a = np.ones((N, N), np.float32)
    every = coalesce.variants("matmul")
    variants = [v.name for v in every if not v.hopper or v.name in BULK_COPIES]
    profiles = {v: coalesce.profile("matmul", a, a, variant=v) for v in variants}
    figure = variants_beside(profiles).figure
    figure.savefig(PICTURES / "variants.svg", metadata={"Date": None})


def variants_beside(profiles: dict[str, coalesce.Profile]) -> Any:
    """Draw the matmul variants: the counted cost of each, and its speed beside cuBLAS.

    The speeds come from docs/measured/ladder.json. Sectors of bulk copies count as loaded, too.
    """
    import matplotlib.pyplot as plt

    record = recorded_ladder.read("ladder")
    ladder = recorded_ladder.at_ladder(record)
    speeds = {name.split()[0]: row.tflops for name, row in ladder.rungs.items()}
    rungs = [rung for rung in profiles if rung in speeds]
    loads = (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",
    )
    wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    steps = N**3 / 32  # multiply-adds, each of a whole warp
    panels = {
        "sectors of global memory\nper multiply-add of a warp": {
            rung: sum(profiles[rung].metrics().get(name, 0) for name in loads) / steps
            for rung in rungs
        },
        "wavefronts of shared memory\nper multiply-add of a warp": {
            rung: profiles[rung].metrics()[wavefronts] / steps for rung in rungs
        },
        f"TFLOP/s on an {record['gpu']['name']},\nN = 4096": {rung: speeds[rung] for rung in rungs},
    }
    with plt.rc_context(_style("transparent")):
        size = (3.4 * len(panels), 0.9 + 0.27 * len(rungs))
        _, axes = plt.subplots(1, len(panels), sharey=True, figsize=size, layout="constrained")
        for panel, (label, values) in zip(axes, panels.items(), strict=True):
            fast = values if label.startswith("TFLOP/s") else ()
            write = "{:.3g}" if not fast else "{:.1f}"
            plots.bars(values, label=label, format=write, highlight=fast, ax=panel)
            panel.set_xlim(0, 1.3 * max(values.values()))
    library = ladder.library.tflops
    axes[-1].axvline(library, linestyle="--", linewidth=1.2, color=MIDDLE)
    _note(axes[-1], f"cuBLAS {library:.1f}", (library, 0), -4, "right")
    return axes[0]


def _note(panel: Any, text: str, at: tuple[float, float], points: float, side: str) -> None:
    """Write a small grey text at a distance of some points from a position."""
    look = {"ha": side, "va": "center", "fontsize": "small", "color": MIDDLE}
    panel.annotate(text, at, (points, 0), textcoords="offset points", **look)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    tiles = {"tile_phases": tile_phases(), "step_tiles": step_tiles()}
    block = {"block_24x5": draw.thread_block((24, 5))}
    for name, picture in (*accesses(), *banks(), *tiles.items(), *block.items()):
        picture.save(PICTURES / f"{name}.svg")
    draw_variants()


if __name__ == "__main__":
    main()
