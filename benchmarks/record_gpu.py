"""Run the benchmarks that need a GPU, and write what they print to docs/measured/h200.txt.

    python benchmarks/record_gpu.py [--out FILE] [--commit NAME]

The first lines of the file name the commit, the GPU and the date. docs/gpu_speed.md shows the file.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
from pathlib import Path

from commit import commit
from gpu import state

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
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--commit", default=commit(), help="what is measured (default: Git's HEAD)")
    options = parser.parse_args()
    gpu = state()
    text = (
        f"commit {options.commit}, {gpu['name']}, driver {gpu['driver_version']}, "
        f"{datetime.date.today()}\n"
    )
    folder = Path(__file__).parent
    for command in COMMANDS:
        name, *arguments = command.split()
        words = [sys.executable, str(folder / name), *arguments]
        environment = {**os.environ, "COLUMNS": "100", "PYTHONUNBUFFERED": "1"}
        done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        printed = f"\n$ python benchmarks/{command}\n{done.stdout}"
        print(printed, flush=True)
        text += printed
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
