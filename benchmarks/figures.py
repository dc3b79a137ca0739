"""Writes the figures that a benchmark prints to a file, too: the option --json FILE."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option --json to the options of a benchmark."""
    parser.add_argument("--json", type=Path, help="a file for the printed figures")


def write(figures: Any, path: Path | None) -> None:
    """Write the figures if the caller passed --json."""
    if path is not None:
        path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
