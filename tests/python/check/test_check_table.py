"""The table of planted faults in docs/checks.md: compute-sanitizer ran the tests of each row."""

import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "checks.md"
# The reports of compute-sanitizer for the tests of each row. A name is that of a test function or
# of a planted fault. tools/sanitize_faults.py runs the tests in this file and writes it again.
# For a new test, add its name with the empty report {}.
SANITIZED = HERE.parents[2] / "docs" / "measured" / "sanitizer_h200.json"
ROWS = json.loads(SANITIZED.read_text(encoding="utf-8"))["rows"] if SANITIZED.exists() else {}
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
CORRECT = "nothing"  # the row of correct kernels

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")


def file_of(test: str) -> Path | None:
    """Return the file that has a test function or a planted fault."""
    text = f"def {test}(" if test.startswith("test_") else f'    "{test}": ('
    files = sorted(HERE.glob("test_check*.py"))
    return next((file for file in files if text in file.read_text(encoding="utf-8")), None)


def rows() -> list[list[str]]:
    table = PAGE.read_text(encoding="utf-8").partition("| planted fault |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def test_the_rows_are_those_that_are_tested() -> None:
    assert [CORRECT, *(row[0] for row in rows())] == list(ROWS)
    assert {len(row) for row in rows()} == {7}
    assert all(re.match("found|warning", row[1]) for row in rows())


def cell(row: str, tool: str) -> str:
    """Return a tool's cell: the number of the row's tests in which the tool reported an error."""
    tests = ROWS[row]
    if not all(tests.values()):
        return "not run"
    reported = [tools[tool]["first"] for tools in tests.values() if tools[tool]["errors"]]
    if not reported:
        return "-"
    if len(reported) < len(tests):
        return f"{len(reported)} of {len(tests)}"
    return "warning" if all(first.startswith("Warning") for first in reported) else "found"


def test_the_columns_of_compute_sanitizer_match_its_output() -> None:
    for row in rows():
        assert row[2:6] == [cell(row[0], tool) for tool in TOOLS]


def test_each_tool_ended_and_reported_nothing_for_a_correct_kernel() -> None:
    said = [tools[tool] for tests in ROWS.values() for tools in tests.values() for tool in tools]
    assert all(isinstance(tool["errors"], int) for tool in said)
    assert {cell(CORRECT, tool) for tool in TOOLS} == {"-"}


@pytest.mark.parametrize("row", ROWS)
def test_the_tests_exist(row: str) -> None:
    assert ROWS[row]
    assert all(map(file_of, ROWS[row]))
