"""Record how busy the units of a GPU are during a product, with Nsight Compute: for docs/ladder.md.

    python benchmarks/units.py [--out docs/measured/units.json] [--commit NAME]

Each rung and cuBLAS multiply two 4096 x 4096 matrices once. If a product has several launches, the
longest one is recorded. The script needs a GPU, `ncu`, and permission to read counters.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import recording
from gpu import Gpu
from products import Product

OUT = Path(__file__).parents[1] / "docs" / "measured" / "units.json"
SIZE = 4096
WORKS = [  # variant (or cuBLAS' kind of product), its tile, dtype of the operands
    *(("tma", 0, "float32"), ("tensor_map", 0, "float32"), ("split_k", 128, "float32")),
    *(("cublas float32", 0, "float32"), ("tf32x3", 0, "float32"), ("tf32", 0, "float32")),
    *(("bf16", 0, "bfloat16"), ("dmma", 0, "float64")),
]
STALLS = (
    *("barrier", "dispatch_stall", "lg_throttle", "long_scoreboard", "math_pipe_throttle"),
    *("mio_throttle", "no_instruction", "not_selected", "short_scoreboard", "sleeping", "wait"),
)
METRICS = (
    "gpu__time_duration.sum",
    "sm__cycles_active.avg",
    "sm__cycles_elapsed.max",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__inst_executed.sum",
    "smsp__inst_executed_pipe_fma.sum",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    *(f"smsp__average_warps_issue_stalled_{stall}_per_issue_active.ratio" for stall in STALLS),
)


def main() -> None:
    """Record and write the file. Under ncu, where this script starts itself, multiply once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    recording.add_options(parser, OUT)
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        _multiply(*WORKS[options.run])
        return
    rows = {}
    for number, (name, _, _) in enumerate(WORKS):
        launches = _under_ncu(number)
        rows[name] = max(launches, key=lambda launch: launch["gpu__time_duration.sum"])
        print(name, rows[name], flush=True)
    found = {
        **recording.header("units.py", options),
        "size": SIZE,
        "rows": rows,
    }
    recording.write(found, options.out)


def _multiply(name: str, tile: int, dtype: str) -> None:
    gpu = Gpu()
    product = Product(gpu, SIZE, SIZE, SIZE, dtype)
    work = product.cublas() if name.startswith("cublas") else product.rung(name, tile)
    if work is not None:
        work()
    gpu.synchronize()


def _under_ncu(number: int) -> list[dict[str, Any]]:
    """Return the metrics of each launch of one product."""
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    command += ["--print-fp", "--metrics", ",".join(METRICS)]
    command += [sys.executable, __file__, "--run", str(number)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    rows = list(csv.DictReader(lines[first:]))[1:]  # the first row holds the units
    return [
        {"kernel": row["Kernel Name"]} | {key: float(row[key].replace(",", "")) for key in METRICS}
        for row in rows
    ]


if __name__ == "__main__":
    main()
