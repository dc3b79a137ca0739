"""The commit that a benchmark measures."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit() -> str:
    """Return the short name of the checkout's commit, or nothing outside of a Git checkout."""
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
