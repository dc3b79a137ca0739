"""Pages of the documentation show the figures that are recorded in docs/measured."""

from __future__ import annotations

import json
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
    assert f"Each of {launches:,} launches" in page
    for name in ("README.md", "CHANGELOG.md"):
        text = (DOCS.parent / name).read_text(encoding="utf-8")
        assert re.search(rf"\b{round(launches, -2):,}\s+launches", text), name


def test_figures_in_the_sentences_of_lesson_7() -> None:
    """Sentences cannot compute their figures from the recording, as the tables of the lesson do."""
    ladder = json.loads((DOCS / "measured" / "ladder.json").read_text(encoding="utf-8"))
    ms = {}
    for recorded in ladder["shapes"]:
        a, b = (array["shape"] for array in recorded["arrays"])
        rows = {row["variant"]: row["timing"]["kernel_ms"] for row in recorded["rows"]}
        ms[a[0], b[1], a[1]] = rows
    speed = {name: 2e-9 * 4096**3 / time for name, time in ms[4096, 4096, 4096].items()}
    register_tile = speed["blocktiled_2d"] / speed["tiled"]
    peak = 132 * 4 * 32 * 2 * 1.98 / 1000  # TFLOP/s: lesson 7 computes it in the same way
    wide = ms[16384, 128, 2048]
    fastest = min((name for name in wide if name != "cublas"), key=wide.__getitem__)
    ahead = wide["cublas"] / wide[fastest] - 1
    assert fastest.startswith("split_k")
    sentences = [
        f"`naive`, which reaches {speed['naive'] / speed['cublas']:.0%} of the speed of cuBLAS",
        f"but it is only {speed['warptiled'] / speed['vectorized'] - 1:.0%} faster",
        f"`pipelined` is {speed['pipelined'] / speed['naive']:.0f} times as fast as `naive`",
        f"`blocktiled_2d` is {register_tile:.1f} times as fast as `tiled`",
        f"`split_k` is faster than cuBLAS by {ahead:.0%}",
        f"`tensor_map` reaches {speed['tensor_map'] / peak:.0%} of the peak",
        f"An H200 computes {peak:.1f} TFLOP/s",
    ]
    lesson = DOCS.parent / "notebooks" / "07_from_1_percent_to_past_cublas.py"
    text = re.sub(r"\s+(# )?", " ", lesson.read_text(encoding="utf-8")).replace(" %", "%")
    assert [sentence for sentence in sentences if sentence not in text] == []
