"""Every lesson runs from top to bottom, and counts what its stored notebook says it counts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("jupytext", reason="needs the group `notebooks`")
pytest.importorskip("nbclient", reason="needs the group `notebooks`")
nbformat = pytest.importorskip("nbformat", reason="needs the group `notebooks`")

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def _make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_notebooks", NOTEBOOKS / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


make = _make()


def _printed(cell: Any) -> str:
    return "".join(o.get("text", "") for o in cell.outputs if o.output_type == "stream")


@pytest.mark.usefixtures("on_simulator")
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own libraries
@pytest.mark.parametrize("lesson", make.lessons(), ids=lambda lesson: lesson.stem)
def test_lesson(lesson: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # the stored outputs are the simulator's
    stored = nbformat.read(lesson.with_suffix(".ipynb"), as_version=4)
    ran = make.run(lesson)
    assert [c.source for c in ran.cells] == [c.source for c in stored.cells], (
        f"the notebook is older than {lesson.name}; run: python notebooks/make.py {lesson.stem}"
    )
    counting = [n for n, c in enumerate(ran.cells) if "counts" in c.metadata.get("tags", [])]
    assert counting, "a lesson counts something"
    for n in counting:
        assert _printed(ran.cells[n]), f"cell {n} is tagged `counts` and prints nothing"
        assert _printed(ran.cells[n]) == _printed(stored.cells[n])
