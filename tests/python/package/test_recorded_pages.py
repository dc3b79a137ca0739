"""Pages of the documentation show the figures that are recorded in docs/measured."""

import re
import subprocess
import sys
from pathlib import Path

import counter_cases
import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("name", ["goals", "kernels", "ladder", "programs"])
def test_page_is_up_to_date(name: str) -> None:
    words = [sys.executable, str(DOCS / f"make_{name}.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_number_of_compared_launches() -> None:
    """The page of comparisons has the number; README and CHANGELOG round it to hundreds."""
    sets = ("shipped", "awkward", "programs", "unseen", "patterns")
    launches = sum(len(list(counter_cases.SETS[name]())) for name in sets)
    page = (DOCS / "accuracy.md").read_text(encoding="utf-8")
    assert f"Each of {launches:,} launches" in page, "run docs/make_accuracy.py"
    for name in ("README.md", "CHANGELOG.md"):
        text = (DOCS.parent / name).read_text(encoding="utf-8")
        assert re.search(rf"\b{round(launches, -2):,}\s+launches", text), name
