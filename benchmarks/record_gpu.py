"""Run the benchmarks that need a GPU, and write what they print to docs/measured/h200.txt.

    python benchmarks/record_gpu.py [--out FILE] [--commit NAME]

The first line of the file names the commit, the GPU and the date. docs/gpu_speed.md shows the file.
The figures are also in a JSON file beside it, for docs/make_goals.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import recording

OUT = Path(__file__).parents[1] / "docs" / "measured" / "h200.txt"
LARGE = "--shapes 16384x16384 1000000x1000 1000x1000000 --operations transpose row_sums column_sums"
COMMANDS = (
    "numpy_products.py",
    "transfers.py",
    "launch_latency.py",
    f"kernels.py {LARGE} --variants copy padded vectorized block_per_row column_tiles",
    "kernels.py --shapes 16383x16385 8192x32768 --operations transpose --variants vectorized",
    "kernels.py",
)


def main() -> None:
    """Run all commands, and write the file after each of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    recording.add_options(parser, OUT)
    options = parser.parse_args()
    found: dict[str, Any] = {**recording.header("record_gpu.py", options), "figures": {}}
    gpu = found["gpu"]
    text = "commit {}, {}, driver {}, {}\n".format(
        found["commit"], gpu["name"], gpu["driver_version"], found["date"]
    )
    figures = Path(tempfile.mkdtemp()) / "figures.json"
    folder = Path(__file__).parent
    for command in COMMANDS:
        name, *arguments = command.split()
        words = [sys.executable, str(folder / name), *arguments, "--json", str(figures)]
        environment = {**os.environ, "COLUMNS": "100", "PYTHONUNBUFFERED": "1"}
        done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        printed = f"\n$ python benchmarks/{command}\n{done.stdout}"
        print(printed, flush=True)
        text += printed
        options.out.write_text(text, encoding="utf-8")
        found["figures"][command] = json.loads(figures.read_text(encoding="utf-8"))
        recording.write(found, options.out.with_suffix(".json"))


if __name__ == "__main__":
    main()
