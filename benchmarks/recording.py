"""What recordings of benchmarks share: their options, and a header that says what was measured."""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
from pathlib import Path
from typing import Any

from gpu import state

from coalesce.compile import nvrtc


def commit() -> str:
    """Return the short name of the checkout's commit, or nothing outside of a Git checkout."""
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def add_options(parser: argparse.ArgumentParser, out: Path) -> None:
    """Add the options --out and --commit. `out` is the default file."""
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--commit", default=commit(), help="what is measured (default: Git's HEAD)")


def header(script: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the first entries of a recording: the command, the commit, the date, the machine."""
    return {
        "command": f"python benchmarks/{script}",
        "commit": options.commit,
        "date": datetime.date.today().isoformat(),
        "gpu": state(),
        "nvrtc": "{}.{}".format(*nvrtc.nvrtc().version),
    }


def write(record: dict[str, Any], path: Path) -> None:
    """Write a recording as JSON."""
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
