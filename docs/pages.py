"""Writes a page that a script makes from recorded figures."""

from __future__ import annotations

import sys
from pathlib import Path


def write(page: str, target: Path) -> None:
    """Write a page. With --check, stop with an error if the page is not up to date."""
    if "--check" not in sys.argv[1:]:
        target.write_text(page, encoding="utf-8")
    elif target.read_text(encoding="utf-8") != page:
        sys.exit(f"{target} is not up to date: run python {sys.argv[0]}")
