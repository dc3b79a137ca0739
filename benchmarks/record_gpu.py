"""Run the benchmarks that need a GPU, and write what they print to docs/measured/h200.txt.

    python benchmarks/record_gpu.py [--out FILE] [--commit NAME]

The first line of the file names the commit, the GPU and the date. docs/gpu_speed.md shows the file.
The figures are also in a JSON file beside it, for docs/make_goals.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import recording

OUT = Path(__file__).parents[1] / "docs" / "measured" / "h200.txt"
SCRIPTS = ("numpy_products.py", "transfers.py", "launch_latency.py")
CUPY = ",cupy" if importlib.util.find_spec("cupy") else ""
COPIES = "memcpy" + (CUPY and ",cupy_copy")
VARIANTS = {
    "transpose": f"copy,padded,vectorized,{COPIES}",
    "row_sums": "block_per_row,vectorized",
    "column_sums": "column_tiles,vectorized",
}
LARGE = ("16384x16384", "1000000x1000", "1000x1000000")
COMMANDS = (
    *(f"python benchmarks/{script}" for script in SCRIPTS),
    *(
        f"coalesce bench {operation} --shape {shape} --variants {names}{CUPY} --repeats auto"
        for operation, names in VARIANTS.items()
        for shape in LARGE
    ),
    *(
        f"coalesce bench transpose --shape {shape} --variants vectorized,{COPIES} --repeats auto"
        for shape in ("16383x16385", "8192x32768")
    ),
    *(f"coalesce bench {operation} --size 4096 --repeats auto" for operation in VARIANTS),
)


def main() -> None:
    """Run all commands, and write the file after each of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    recording.add_options(parser, OUT)
    options = parser.parse_args()
    record: dict[str, Any] = {**recording.header("record_gpu.py", options), "figures": {}}
    gpu = record["gpu"]
    text = "commit {}, {}, driver {}, {}\n".format(
        record["commit"], gpu["name"], gpu["driver_version"], record["date"]
    )
    figures = Path(tempfile.mkdtemp()) / "figures.json"
    folder = Path(__file__).parents[1]
    for command in COMMANDS:
        program, *arguments = command.split()
        start = ["-m", "coalesce"] if program == "coalesce" else []
        words = [sys.executable, *start, *arguments, "--json", str(figures)]
        environment = {**os.environ, "COLUMNS": "100", "PYTHONUNBUFFERED": "1"}
        done = subprocess.run(
            words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        printed = f"\n$ {command}\n{done.stdout}"
        print(printed, flush=True)
        text += printed
        options.out.write_text(text, encoding="utf-8")
        record["figures"][command] = json.loads(figures.read_text(encoding="utf-8"))
        recording.write(record, options.out.with_suffix(".json"))


if __name__ == "__main__":
    main()
