"""How fast a GPU's L2 executes atomics, on the same addresses or on spread addresses.

    python benchmarks/atomics.py

Prints nanoseconds of the whole GPU per sector that was sent. If lanes of a warp access the same
element, each lane sends a sector of its own. Lanes that access different elements of one sector
send this sector together. The constants of csrc/model/atomics.hpp are read off this table. CUDA
events measure the times. The time of a launch of one warp is subtracted.
"""

from __future__ import annotations

import numpy as np
from gpu import need_gpu
from rich.console import Console
from rich.table import Table

import coalesce

SOURCE = """
template <class T, int pattern>
__global__ void add(T* places, int repeats, unsigned spread) {
    const unsigned lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    unsigned chance = (warp * 32 + lane) * 2654435761u;
    for (int i = 0; i < repeats; ++i) {
        chance = chance * 1664525u + 1013904223u;
        const unsigned line = 128 / sizeof(T);
        if (pattern == 0 && lane == 0) atomicAdd(places + warp % spread * line, T(1));
        if (pattern == 1) atomicAdd(places + warp % spread * line, T(1));
        if (pattern == 2) atomicAdd(places + lane % spread, T(1));
        if (pattern == 3) atomicAdd(places + (chance >> 8) % spread, T(1));
    }
}
"""
BLOCKS, THREADS, REPEATS = 528, 256, 16
# The pattern, its spread, its name, and the number of sectors that a warp sends each time.
PATTERNS = [
    (0, 1, "one place, a lane a warp", 1),
    (0, 2, "2 lines, a lane a warp", 1),
    (0, 8, "8 lines, a lane a warp", 1),
    (0, 64, "64 lines, a lane a warp", 1),
    (1, 1, "one place, all lanes", 32),
    (1, 8, "8 lines, all lanes of a warp one place", 32),
    (2, 8, "8 places next to each other, 4 lanes each", 4),
    (3, 1 << 20, "random ones of a million", 32),
]


def main() -> None:
    """Print the table."""
    need_gpu()
    gpu = coalesce.devices()[0].description
    table = Table(title=f"Atomics, {gpu}", title_justify="left")
    for column in ("type", "pattern", "ms", "ns a sector"):
        table.add_column(column, justify="right" if column[0] in "mn" else "left")
    for name, dtype in {"int": "int32", "float": "float32", "double": "float64"}.items():
        places = coalesce.zeros(1 << 20, dtype, device="cuda")
        for pattern, spread, what, sectors in PATTERNS:
            kernel = coalesce.Kernel(SOURCE, f"add<{name}, {pattern}>", device="cuda")
            arguments = (places, REPEATS, np.uint32(spread))
            alone = kernel.launch(1, 32, *arguments, runs="auto").kernel_ms
            ms = kernel.launch(BLOCKS, THREADS, *arguments, runs="auto").kernel_ms
            if name == "double" and pattern == 2:  # 8 neighbouring doubles fill two sectors
                sectors *= 2
            sent = BLOCKS * THREADS // 32 * REPEATS * sectors
            table.add_row(name, what, f"{ms:.4f}", f"{1e6 * (ms - alone) / sent:.4f}")
    Console().print(table)


if __name__ == "__main__":
    main()
