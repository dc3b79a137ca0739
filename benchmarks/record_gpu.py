"""Run the benchmarks that need a GPU, and write what they print to docs/measured/h200.txt.

    python benchmarks/record_gpu.py [--out FILE] [--commit NAME] [--continue]

The first line of the file names the commit, the GPU and the date. docs/gpu_speed.md shows the file.
The figures are also in a JSON file beside it, for docs/make_goals.py. If a run was stopped before
it had run all cases, --continue runs the others.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import recording

OUT = Path(__file__).parents[1] / "docs" / "measured" / "h200.txt"
CUPY = ",cupy" if importlib.util.find_spec("cupy") else ""
COPIES = "memcpy" + (CUPY and ",cupy_copy")
VARIANTS = {
    "transpose": f"copy,padded,vectorized,{COPIES}",
    "row_sums": "block_per_row,vectorized",
    "column_sums": "column_tiles,vectorized",
}
LARGE = ("16384x16384", "1000000x1000", "1000x1000000")
CASES = (
    *(
        f"matmul --size {size} --whole-calls --runs {runs}"
        for size, runs in ((64, 900), (1024, 9), (4096, 9), (8192, 9))
    ),
    *(f"copies --size {mebibytes << 18} --runs 7" for mebibytes in (1, 16, 64, 256, 1024)),
    "launch --runs 9",
    *(
        f"{operation} --shape {shape} --variants {names}{CUPY} --repeats auto"
        for operation, names in VARIANTS.items()
        for shape in LARGE
    ),
    *(
        f"transpose --shape {shape} --variants vectorized,{COPIES} --repeats auto"
        for shape in ("16383x16385", "8192x32768")
    ),
    *(f"{operation} --size 4096 --repeats auto" for operation in VARIANTS),
)


def main() -> None:
    """Run `coalesce bench` for all cases, and write the files after each of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    recording.add_options(parser, OUT)
    parser.add_argument("--continue", action="store_true", dest="again", help="keep the figures")
    options = parser.parse_args()
    record: dict[str, Any] = {**recording.header("record_gpu.py", options), "figures": {}}
    text = _first_line(record)
    if options.again:
        record = json.loads(options.out.with_suffix(".json").read_text(encoding="utf-8"))
        before, text = text, options.out.read_text(encoding="utf-8")
        if not text.startswith(before):
            raise SystemExit(f"{options.out} begins with another line than: {before}")
    figures = Path(tempfile.mkdtemp()) / "figures.json"
    environment = {**os.environ, "COLUMNS": "100"}
    for case in CASES:
        command = f"coalesce bench {case}"
        if command in record["figures"]:
            continue
        words = [sys.executable, "-m", *command.split(), "--json", str(figures)]
        started = time.perf_counter()
        done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        printed = f"\n$ {command}\n{done.stdout}"
        print(f"{printed}({time.perf_counter() - started:.1f} s)", flush=True)
        text += printed
        record["figures"][command] = json.loads(figures.read_text(encoding="utf-8"))
        options.out.write_text(text, encoding="utf-8")
        recording.write(record, options.out.with_suffix(".json"))


def _first_line(record: dict[str, Any]) -> str:
    gpu = record["gpu"]
    return "commit {}, {}, driver {}, {}\n".format(
        record["commit"], gpu["name"], gpu["driver_version"], record["date"]
    )


if __name__ == "__main__":
    main()
