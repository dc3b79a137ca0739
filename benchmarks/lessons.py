"""Measure on a GPU every time that the lessons and the documentation show.

    python benchmarks/lessons.py [--out python/coalesce/lessons/h200.json]
    python benchmarks/lessons.py --counters    # needs no GPU

Writes the file that `coalesce.lessons` reads. The file holds milliseconds of each variant, measured
by CUDA events with the arrays on the GPU. It also holds the bandwidth of the access patterns for
several strides, offsets and widths. The script takes a minute or two on a large GPU. Only this
script writes the file.

The lessons also show counters of Nsight Compute. The script copies them from the recording in
tests/data, and the ladder of lesson 10 from docs/measured. With ``--counters``, it does nothing
else.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cost_model
from gpu import need_gpu

import coalesce
from coalesce.compile import nvrtc
from coalesce.lessons import _measure, _recording
from coalesce.plots import Sweep

OUT = Path(__file__).parents[1] / "python" / "coalesce" / "lessons" / "h200.json"
LADDER = Path(__file__).parents[1] / "docs" / "measured" / "ladder.json"
COUNTERS = Path(__file__).parents[1] / "tests" / "data" / "models_h200.json"
SHOWN = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "gpu__time_duration.sum",
    "warm gpu__time_duration.sum",
    "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed",
    "l1tex__t_sector_hit_rate.pct",
    "launch__occupancy_limit_blocks",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_warps",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "smsp__average_warp_latency_per_inst_issued.ratio",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
)
STALLS = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
REASONS = ("barrier", "dispatch_stall", "lg_throttle", "long_scoreboard", "math_pipe_throttle")
REASONS += ("mio_throttle", "not_selected", "selected", "short_scoreboard")
TILES: dict[str, list[dict[str, Any]]] = {"tiled": [{}, {"tile": 16}]}
SUM_SIZES = (256, 1024, 4096, 16384)
# Rows of a multiple of 32 words put a column into one bank of L1. Rows with one word more do not.
ROW_LENGTHS = (512, 513, 4097)
COLUMN_READERS = (
    ("matmul", "naive"),
    ("matmul", "coalesced"),
    ("matmul", "tiled"),
    ("row_sums", "thread_per_row"),
    ("column_sums", "thread_per_column"),
    ("transpose", "naive_write"),
    ("transpose", "padded"),
)


def wanted() -> Iterator[tuple[str, str, dict[str, Any], int]]:
    """Yield what is timed: operation, variant, options and size."""
    for variant in coalesce.variants("matmul"):
        if variant.dtype in ("", "float32"):
            for options in TILES.get(variant.name, [{}]):
                yield "matmul", variant.name, options, 4096
    for n in ROW_LENGTHS:
        for operation, name in COLUMN_READERS:
            yield operation, name, {}, n
    for n in (4096, 16384):
        for variant in coalesce.variants("transpose").names:
            yield "transpose", variant, {}, n
    for n in SUM_SIZES:
        for operation in ("row_sums", "column_sums"):
            for variant in coalesce.variants(operation).names:
                yield operation, variant, {}, n
    for name in ("once", "again"):
        yield "lesson", name, {}, 1 << 24
    for name in ("padding 0", "padding 1"):
        yield "lesson", name, {}, 4096


def main() -> None:
    """Measure and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--counters", action="store_true", help="only copy counters and ladder")
    options = parser.parse_args()
    if options.counters:
        known = json.loads(options.out.read_text(encoding="utf-8"))
        copied = {"counters": counters(), "ladder": ladder()}
        options.out.write_text(_text(known | copied), encoding="utf-8")
        return
    status = need_gpu()
    gpu = coalesce.devices()[0]
    major, minor = nvrtc.nvrtc().version
    started = time.monotonic()

    times = []
    for operation, variant, chosen, n in wanted():
        timing = _measure.measure(operation, variant, n, chosen, gpu.name)
        times.append(_recording.row_of(operation, variant, chosen, n, timing))
        print(f"{operation:12} {_recording.label(variant, chosen):22} {n:9} {timing}", flush=True)
    sweeps = []
    for pattern in ("stride", "offset", "vector"):
        sweeps.append(_recording.sweep_row(Sweep.run(pattern, device=gpu)))
        print(f"sweep of {pattern}: {sweeps[-1]['gbps']}", flush=True)

    results = {
        "gpu": gpu.description,
        "driver": status.driver,
        "nvrtc": f"{major}.{minor}",
        "coalesce": coalesce.__version__,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "command": "python benchmarks/lessons.py",
        "times": times,
        "sweeps": sweeps,
        "counters": counters(),
        "ladder": ladder(),
    }
    options.out.write_text(_text(results), encoding="utf-8")
    print(f"{options.out}: {len(times)} times in {time.monotonic() - started:.0f} s")


def counters() -> list[dict[str, Any]]:
    """Return the counters of square float32 problems of 512 and 4096, a dict for each variant."""
    recorded = json.loads(COUNTERS.read_text(encoding="utf-8"))
    metrics = [*SHOWN, *(STALLS.format(reason) for reason in REASONS)]
    rows = []
    for launch in recorded["launches"]:
        operation, _, rest = launch["case"].partition("/")
        for n in (512, 4096):
            sizes = (f"{n}x{n} float32", f"{n}x{n}x{n} float32")
            if rest in [f"{launch['kernel']} {size}" for size in sizes]:
                values = dict(zip(recorded["metrics"], launch["values"], strict=True))
                row = {"operation": operation, "variant": launch["kernel"], "n": n}
                rows.append(row | {"counters": {name: values[name] for name in metrics}})
    return rows


def ladder() -> dict[str, Any]:
    """Return what lesson 10 shows of the recorded ladder, and the main loops of two kernels."""
    recorded = json.loads(LADDER.read_text(encoding="utf-8"))
    loops = {}
    for variant in ("tma", "tensor_map"):
        listing = cost_model.compiled(coalesce.source("matmul", variant), arch="sm_90a")
        loop = cost_model.loop_cost(cost_model.main_loop(listing))
        loops[variant] = {
            "ffmas": loop.ffmas,
            "instructions": loop.instructions,
            "cycles": loop.cycles,
        }
    return {
        "gpu": recorded["gpu"]["name"],
        "driver": recorded["gpu"]["driver_version"],
        **{name: recorded[name] for name in ("date", "nvrtc", "cublas")},
        "compiler": cost_model.compiler(),
        "loops": loops,
        "shapes": [_product(benchmark) for benchmark in recorded["shapes"]],
        "tensor_cores": [_product(benchmark) for benchmark in recorded["tensor_cores"]],
    }


def _product(benchmark: dict[str, Any]) -> dict[str, Any]:
    """Return the shape M, N, K of a recorded product, and the times and errors of its kernels."""
    a, b = (array["shape"] for array in benchmark["arrays"])
    return {
        "shape": [a[0], b[1], a[1]],
        "dtype": benchmark["arrays"][0]["dtype"],
        "out": benchmark["options"].get("out"),
        "rungs": {
            row["variant"]: {
                "ms": row["timing"]["kernel_ms"],
                "tflops": row["timing"]["gflops"] / 1000,
                "norm": row["norm_error"],
            }
            for row in benchmark["rows"]
        },
    }


def _text(results: dict[str, Any]) -> str:
    """Write JSON with a line for each time, so that a new recording can be reviewed."""
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in results.items() if k not in _LISTS]
    for name in _LISTS:
        rows = ",\n".join("  " + json.dumps(row) for row in results[name])
        lines.append(f"{json.dumps(name)}: [\n{rows}\n ]")
    return "{\n " + ",\n ".join(lines) + "\n}\n"


_LISTS = ("times", "sweeps", "counters")


if __name__ == "__main__":
    main()
