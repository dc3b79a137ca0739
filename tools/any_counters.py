"""Compares the counts of the kernels in any folder with a GPU's counters.

    python tools/any_counters.py predict FOLDER... --out launches.json    # on any machine
    python tools/any_counters.py measure launches.json                    # with a GPU and ncu

`predict` launches each kernel as tools/any_files.py does, with the first block shape that causes no
fault. It stores the launch with all metrics that the package calls exact. `measure` makes the same
launch on a GPU under Nsight Compute and prints every metric that differs. Its exit status is 1 if a
metric differs. Kernels in which the check finds a fault, and kernels that read a clock, are left
out, because their work may change from run to run. Both steps need the same compiler.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import any_files
import record_counters

import coalesce
from coalesce.compile import nvrtc
from coalesce.profiling.hardware import exactness

SIZE = 32  # the value of every integer argument
AT_ONCE = 40  # the launches of one process; a fault on the GPU ends the process


def predicted(path: Path, how: any_files.How) -> Iterator[dict[str, Any]]:
    """Yield a launch of each kernel of a file that can be compared with a GPU."""
    try:
        with any_files._limited(300):
            kernels = any_files.kernels(path)
    except (coalesce.CoalesceError, ValueError, any_files._TooLong):
        return
    for kernel in kernels:
        try:
            launch = _launch_of(kernel, how)
        except (coalesce.CoalesceError, TypeError, ValueError):
            continue
        if launch:
            yield {"file": str(path), "entry": kernel.entry, "kernel": kernel.name, **launch}


def _launch_of(kernel: coalesce.Kernel, how: any_files.How) -> dict[str, Any]:
    if "%clock" in kernel.ptx or "globaltimer" in kernel.ptx:
        return {}
    for grid, block in any_files.SHAPES:
        checked = any_files.outcome(kernel, "check", (grid, block), how)
        if checked.error or checked.returned:
            continue
        given = any_files.arguments_of(kernel, how)
        shared = any_files.kernel_shared(kernel)
        try:
            with any_files._limited(how.seconds), contextlib.redirect_stdout(io.StringIO()):
                record = kernel.launch(
                    grid, block, *given, shared_bytes=shared, device="sim", counts=True
                )
        except any_files._TooLong:
            continue
        counts = record.counts
        if not counts.machine_code:
            return {}
        inexact = exactness.inexact(counts.table(), counts.metrics())
        exact = {name: v for name, v in counts.metrics().items() if name not in inexact}
        return {"grid": grid, "block": block, "exact": exact}
    return {}


def measure(file: Path, launches: list[dict[str, Any]]) -> int:
    """Compare with a GPU; return how many launches differ or could not be measured."""
    wrong = compared = made = 0
    for first in range(0, len(launches), AT_ONCE):
        some = launches[first : first + AT_ONCE]
        program = [__file__, "launch", str(file), "--first", str(first)]
        try:
            rows = record_counters.ncu_launches(
                program, record_counters.COUNTS, ["--cache-control", "none"]
            )
        except RuntimeError as error:
            wrong += len(some)
            print(f"launches {first} to {first + len(some) - 1} were not measured: {error}")
            continue
        made += len(rows)
        for row in rows:
            launch = some[row["index"]]
            ours, theirs = launch["exact"], row["metrics"]
            both = [name for name in ours if isinstance(theirs.get(name), int | float)]
            unlike = {
                name: (ours[name], theirs[name])
                for name in both
                if abs(ours[name] - theirs[name]) > (0.0051 if name.endswith(".pct") else 0)
            }
            compared += len(both)
            wrong += bool(unlike)
            if unlike:
                print(launch["file"], launch["kernel"], launch["grid"], launch["block"], unlike)
    print(
        f"{made} of {len(launches)} launches made; {compared} metrics called exact; "
        f"{wrong} launches differ or failed"
    )
    return wrong


def launch(launches: list[dict[str, Any]], how: any_files.How) -> Iterator[dict[str, Any]]:
    """Run the predicted launches on the GPU; yield the launches that were made."""
    for index, one in enumerate(launches):
        try:
            kernel = coalesce.Kernel(Path(one["file"]), one["entry"], device="cuda")
        except (OSError, ValueError, coalesce.CoalesceError) as error:
            print(f"{one['file']} {one['kernel']} cannot be launched: {error}", file=sys.stderr)
            continue
        given = any_files.arguments_of(kernel, how)
        shared = any_files.kernel_shared(kernel)
        kernel.launch(one["grid"], one["block"], *given, shared_bytes=shared)
        yield {"index": index, "kernel": one["kernel"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("predict", "measure", "launch"))
    parser.add_argument("paths", nargs="+", type=Path, help="folders or files; a file of launches")
    parser.add_argument("--out", type=Path, default=Path("launches.json"))
    parser.add_argument("--seconds", type=float, default=5, help="for one launch (5)")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--order", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    how = any_files.How(SIZE, any_files.ELEMENTS[0], options.seconds)
    version = "{}.{}".format(*nvrtc.nvrtc().version)
    if options.action == "predict":
        predictions: list[dict[str, Any]] = []
        for folder in options.paths:
            for path in [folder] if folder.is_file() else sorted(folder.rglob("*.cu")):
                predictions += predicted(path, how)
                options.out.write_text(json.dumps({"nvrtc": version, "launches": predictions}))
        print(f"{len(predictions)} launches in {options.out}")
        return 0
    (file,) = options.paths
    made = json.loads(file.read_text())
    if made["nvrtc"] != version:
        parser.error(f"{file} was predicted with NVRTC {made['nvrtc']}, not {version}")
    launches = made["launches"]
    if options.action == "measure":
        return 1 if measure(file, launches) else 0
    launches = launches[options.first : options.first + AT_ONCE]
    options.order.write_text(json.dumps(list(launch(launches, how))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
