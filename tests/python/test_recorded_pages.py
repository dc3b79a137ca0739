"""Pages of the documentation show the figures that are recorded in docs/measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["kernels", "ladder", "programs"])
def test_page_is_up_to_date(name: str) -> None:
    words = [sys.executable, str(DOCS / f"make_{name}.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
