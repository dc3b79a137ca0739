"""How benchmarks/programs.py decides whether a program's results are right."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
CHECK = (
    "import sys; text = sys.stdin.read(); print('compared with 6'); sys.exit(text.strip() != '6')"
)


@pytest.fixture
def programs(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import programs

    return programs


@pytest.mark.parametrize(
    ("out", "status", "failure", "expected"),
    [
        ("Test passed", 0, False, "verified"),
        ("sum: 3", 0, False, "ran"),
        ("Test FAILED", 0, False, "wrong"),
        ("Test passed", 1, False, "wrong"),
        ("sum: 3", 0, True, "wrong"),
        ("an error, as expected; test passed", 0, True, "verified"),
    ],
)
def test_outcome(programs, tmp_path, out, status, failure, expected):
    (tmp_path / "main.cu").write_text("int main() {}\n")
    case = programs.Case("suite", "name", tmp_path, ["main.cu"])
    assert programs.outcome(case, out, "", status, failure)["outcome"] == expected


@pytest.mark.parametrize(("out", "expected"), [("6\n", "verified"), ("7\n", "mismatch")])
def test_a_command_compares(programs, tmp_path, out, expected):
    case = programs.Case(
        "suite", "name", tmp_path, ["main.cu"], verify=[sys.executable, "-c", CHECK]
    )
    row = programs.outcome(case, out, "", 0, False)
    assert row["outcome"] == expected
    assert row["how" if expected == "verified" else "why"] == "compared with 6"


def test_list(programs, tmp_path):
    file = tmp_path / "list.json"
    file.write_text('[{"suite": "s", "name": "n", "folder": "f", "sources": ["a.cu"]}]')
    (case,) = programs.cases(file)
    assert (case.key, case.folder, case.arguments) == ("s/n", Path("f"), [])
