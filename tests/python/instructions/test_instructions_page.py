"""The page of instructions agrees with csrc/sim/ptx_analysis/ops.inc."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "make_instructions", DOCS / "make_instructions.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_up_to_date(generator: ModuleType) -> None:
    written = (DOCS / "instructions.md").read_text(encoding="utf-8")
    assert written == generator.page(), "run python docs/make_instructions.py"


def test_every_row_is_on_the_page(generator: ModuleType) -> None:
    rows = generator.TABLE.read_text(encoding="utf-8").count("\nCOALESCE_OPERATION(")
    assert rows > 200
    assert generator.page().count("\n| `") == rows
