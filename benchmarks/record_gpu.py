"""Run the benchmarks that need a GPU, and write what they print to docs/measured/h200.txt.

    python benchmarks/record_gpu.py [--out FILE] [--commit NAME]

The first line of the file names the commit, the GPU and the date. docs/gpu_speed.md shows the file.
The figures are also in a JSON file beside it, for docs/make_goals.py.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

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
    found: dict[str, Any] = {
        "command": "python benchmarks/record_gpu.py",
        "commit": options.commit,
        "date": datetime.date.today().isoformat(),
        "gpu": gpu,
        "figures": {},
    }
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
        recorded = json.dumps(found, indent=1) + "\n"
        options.out.with_suffix(".json").write_text(recorded, encoding="utf-8")


if __name__ == "__main__":
    main()
