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

import numpy as np
import recording

import coalesce
from coalesce._core import cuda
from coalesce.benchmarking.gpu import copy_to_gpu, launches
from coalesce.benchmarking.gpu_peers import call_of
from coalesce.common.dtypes import to_bfloat16

OUT = Path(__file__).parents[1] / "docs" / "measured" / "units.json"
SIZE = 4096
WORKS = {  # for each row: the variant or library, and the dtype of the operands
    **{name: (name, "float32") for name in ("tma", "tensor_map", "split_k")},
    "cublas float32": ("cublas", "float32"),
    **{name: (name, "float32") for name in ("tf32x3", "tf32")},
    "bf16": ("bf16", "bfloat16"),
    "dmma": ("dmma", "float64"),
}
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
    parser.add_argument("--run", choices=WORKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        _multiply(*WORKS[options.run])
        return
    rows = {}
    for name in WORKS:
        recorded = _under_ncu(name)
        rows[name] = max(recorded, key=lambda launch: launch["gpu__time_duration.sum"])
        print(name, rows[name], flush=True)
    results = {
        **recording.header("units.py", options),
        "size": SIZE,
        "rows": rows,
    }
    recording.write(results, options.out)


def _multiply(name: str, dtype: str) -> None:
    real = np.dtype(np.float64 if dtype == "float64" else np.float32)
    matrices = np.random.default_rng(1).random((2, SIZE, SIZE), real) * 2 - 1
    if dtype == "bfloat16":
        matrices = to_bfloat16(matrices)
    a, b = (copy_to_gpu(matrix, "cuda:0") for matrix in matrices)
    out = coalesce.empty((SIZE, SIZE), real, device="cuda:0")
    if name == "cublas":
        calls = [call_of(name, (a, b), out, 0)]
    else:
        calls = [call for _, call in launches("matmul", (a, b), {"variant": name, "out": out})]
    for call in calls:
        call(0)
    cuda.Device(0).synchronize()


def _under_ncu(name: str) -> list[dict[str, Any]]:
    """Return the metrics of each launch of one product."""
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    command += ["--print-fp", "--metrics", ",".join(METRICS)]
    command += [sys.executable, __file__, "--run", name]
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
