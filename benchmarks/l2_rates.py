"""How many sectors per cycle a multiprocessor exchanges with L2, alone or beside others.

    python benchmarks/l2_rates.py

Prints the sectors per cycle of each multiprocessor, for 1 to all multiprocessors with work. In the
upper half, each block accesses its own 128 KiB again and again, so L2 has the data. In the lower
half, each block reads 8 MiB from DRAM, or writes as much. The kernel itself counts the cycles, and
the slowest block counts. The constants of csrc/model/time.cpp are read off this table.
"""

from __future__ import annotations

import numpy as np
from gpu import need_gpu
from rich.console import Console
from rich.table import Table

import coalesce

SOURCE = """
enum Access { READ, WRITE, COPY, PARTS };  // PARTS: writes 4 bytes of each sector

template <int access>
__global__ void __launch_bounds__(1024)
    repeat(const float4* x, float4* y, long long* cycles, int vectors, int rounds) {
    const float4* from = x + size_t(blockIdx.x) * vectors;
    float4* to = y + size_t(blockIdx.x) * vectors;
    float sum = 0;
    __syncthreads();
    const long long start = clock64();
    for (int round = 0; round < rounds; ++round) {
        for (int first = threadIdx.x; first < vectors; first += 8 * 1024) {
            float4 values[8] = {};
            if (access == READ || access == COPY) {
                for (int i = 0; i < 8; ++i) values[i] = __ldcg(from + first + 1024 * i);
            }
            if (access == READ) {
                for (int i = 0; i < 8; ++i) sum += values[i].x + values[i].y + values[i].z;
            } else if (access == PARTS) {
                for (int i = 0; i < 4; ++i) to[first + threadIdx.x + 2048 * i].x = float(round);
            } else {
                for (int i = 0; i < 8; ++i) to[first + 1024 * i] = values[i];
            }
        }
    }
    if (sum == 1) y[0].x = sum;  // never true; without it, the compiler would remove the loads
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
}
"""
# The name of the access, and the sectors for each vector of 16 bytes.
ACCESSES = {"read": 0.5, "write": 0.5, "copy": 1.0, "write parts": 0.5}


def main() -> None:
    """Print the table."""
    need_gpu()
    gpu = coalesce.devices()[0]
    most = gpu.multiprocessors
    numbers = [n for n in (1, 2, 4, 8, 16, 33, 66, 99) if n < most] + [most]
    table = Table(title=f"Sectors per cycle and multiprocessor, {gpu.description}")
    for column in ("data", "access", *map(str, numbers)):
        table.add_column(column, justify="left" if column.isalpha() else "right")
    x = coalesce.zeros(most << 21, np.float32, device="cuda")
    y = coalesce.zeros(most << 21, np.float32, device="cuda")
    for data, vectors, rounds in (("in L2", 1 << 13, 200), ("in DRAM", 1 << 19, 1)):
        for number, (access, sectors) in enumerate(ACCESSES.items()):
            kernel = coalesce.Kernel(SOURCE, f"repeat<{number}>", device="cuda")
            row = []
            for blocks in numbers:
                cycles = coalesce.zeros(most, np.int64, device="cuda")
                if rounds > 1:  # brings the data to L2
                    kernel.launch(blocks, 1024, x, y, cycles, vectors, 1)
                else:  # removes the data from L2
                    coalesce.zeros(1 << 26, np.float32, device="cuda")
                kernel.launch(blocks, 1024, x, y, cycles, vectors, rounds)
                longest = np.asarray(cycles.get())[:blocks].max()
                row.append(f"{vectors * rounds * sectors / longest:.3f}")
            table.add_row(data, access, *row)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
