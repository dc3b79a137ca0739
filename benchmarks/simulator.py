"""How fast the simulator is: multiply-adds per second of the tiled matmul, on this machine.

    python benchmarks/simulator.py [--n 1024] [--tile 32] [--repeats 3]

Prints the best of the repeats, for one host thread and for all, with and without counting, on every
instruction set of this machine. Also prints the memory that the process uses besides its arrays.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys

import numpy as np
from rich.console import Console
from rich.table import Table

import coalesce
from coalesce import _core
from coalesce.benchmarking.calls import processor
from coalesce.compile import nvrtc
from coalesce.launch.kernel import BaseKernel
from coalesce.launch.launch import Launch
from coalesce.launch.simulated import simulate


def measure(n: int, tile: int, repeats: int) -> dict[tuple[str, int], float]:
    """Return multiply-adds per second by (what is observed, host threads)."""
    source = coalesce.source("matmul", "tiled")
    compiled = nvrtc.compile_cuda(source, arch="sm_90", options=(f"-DTILE={tile}",))
    kernel = BaseKernel(compiled.ptx, device="sim")
    random = np.random.default_rng(0)
    a, b = random.random((2, n, n), np.float32)
    out = np.empty_like(a)
    blocks = -(-n // tile)
    launch = Launch.of(kernel, (blocks, blocks), (tile, tile))
    launch = launch.bind([a, b, a, out, n, n, n, 1.0, 0.0])
    cores = len(os.sched_getaffinity(0))
    rates = {}
    for counts in (False, True):
        for workers in sorted({1, cores}):
            best = min(
                simulate(launch, counts=counts, workers=workers).host_ms for _ in range(repeats)
            )
            rates["counting" if counts else "plain", workers] = n**3 / best * 1e3
    error = np.abs(out[:8] - a[:8].astype(np.float64) @ b).max() / n
    assert error < 1e-4, f"the product is wrong: {error}"
    return rates


def report(n: int, tile: int, repeats: int) -> None:
    """Measure with this process's instruction set and print."""
    table = Table(title=f"{_core.sim.instruction_set()}: tiled matmul, {n}^3, tile {tile}, float32")
    table.add_column("observer")
    table.add_column("host threads", justify="right")
    table.add_column("multiply-adds/s", justify="right")
    for (observer, workers), rate in measure(n, tile, repeats).items():
        table.add_row(observer, str(workers), f"{rate:.3g}")
    console = Console()
    console.print(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    arrays = 3 * n * n * 4 / 2**20
    console.print(f"arrays {arrays:.0f} MiB, peak memory of the process {peak:.0f} MiB")


def main() -> None:
    """Run once for each instruction set, each time in a new process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--tile", type=int, default=32, choices=(8, 16, 32))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--this-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.this_process:
        report(options.n, options.tile, options.repeats)
        return
    cores = len(os.sched_getaffinity(0))
    print(f"{processor()} ({cores} usable), Python {platform.python_version()}")
    best = _core.sim.instruction_set()
    levels = ["generic", "v3", "v4"]
    for level in levels[: levels.index(best) + 1]:
        environment = {**os.environ, "COALESCE_ISA_LEVEL": level}
        subprocess.run([sys.executable, *sys.argv, "--this-process"], env=environment, check=True)


if __name__ == "__main__":
    main()
