"""The table of planted faults in docs/checks.md: every row has the tests that are listed here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "checks.md"
# The reports of compute-sanitizer for each test. tools/sanitize_faults.py wrote the file.
SANITIZED = HERE.parents[2] / "docs" / "measured" / "sanitizer_h200.json"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")

# Each row has a file and then test functions, or names of planted faults (in quotes).
TESTS = {
    "access outside an array, before its start, through a null pointer": (
        "test_check_memory.py",
        "test_reads_past_the_end",
        '"an element before the first"',
        '"an element past the last"',
        '"a null pointer"',
    ),
    "misaligned access": ("test_check_memory.py", '"an address in the middle of an element"'),
    "access outside shared or local memory": (
        "test_check_memory.py",
        "test_shared_memory_out_of_bounds",
        "test_local_memory_out_of_bounds",
    ),
    "access from one shared array into the next": (
        "test_check_memory.py",
        "test_from_one_shared_array_into_the_next",
    ),
    "write to a read-only array": ("test_check_memory.py", '"an array that is const"'),
    "pointer into a freed array": ("test_check.py", "test_a_freed_array"),
    "read of uninitialised global memory": ("test_check_memory.py", "test_undefined_global_memory"),
    "read of uninitialised shared or local memory": (
        "test_check_memory.py",
        '"shared memory"',
        '"a local array"',
        '"the local array of a function"',
    ),
    "race in shared memory: `__syncthreads()` missing, also where the answer is right": (
        "test_check_races.py",
        '"no barrier after filling a tile"',
        '"no barrier before a tile is filled again"',
        "test_a_race_with_a_right_result_is_found",
    ),
    "lanes of one warp that rely on lockstep": (
        "test_check_races.py",
        '"lanes that rely on lockstep"',
        '"a volatile sum in lockstep"',
    ),
    "asynchronous copy that is not waited for": (
        "test_check_races.py",
        '"a copy that nobody waits for"',
        '"a copy that only its own thread waited for"',
    ),
    "race in global memory, within a block or between blocks": (
        "test_check_races.py",
        '"blocks that add to one element"',
        '"neighbours read while they are written"',
        "test_blocks_race_in_either_order",
    ),
    "`__threadfence()` missing, or of too small a scope, before a flag; a lock without fences": (
        "test_check_races.py",
        '"the last block without a fence"',
        '"a lock without fences"',
    ),
    "race between an atomic and a plain access": (
        "test_check_races.py",
        '"an atomic against a plain read"',
    ),
    "atomics of block scope, used between blocks": (
        "test_check_races.py",
        '"atomics of block scope between blocks"',
    ),
    "two threads write different values to one element": (
        "test_check_races.py",
        '"two blocks that write one element"',
    ),
    "two threads write the same value to one element": (
        "test_check_races.py",
        '"two blocks that write one value"',
    ),
    "read through the read-only cache of what the kernel writes": (
        "test_check_races.py",
        '"the read-only cache of an array that is written"',
    ),
    "barrier that some threads do not reach": (
        "test_check_warps.py",
        "test_a_barrier_that_some_threads_miss",
        "test_a_barrier_that_whole_warps_miss",
        "test_a_barrier_that_threads_miss_in_their_last_round",
    ),
    "threads of a block at different barriers": (
        "test_check_warps.py",
        "test_threads_that_wait_at_different_barriers",
    ),
    "barrier after some threads of the block have returned": (
        "test_check_warps.py",
        "test_a_barrier_after_threads_have_left",
        "test_an_early_return_in_a_loop",
    ),
    "shuffle, vote or match whose mask names lanes that do not execute it, or omits its caller": (
        "test_check_warps.py",
        "test_a_shuffle_that_lanes_miss",
        "test_a_vote_and_a_match_that_lanes_miss",
        "test_a_mask_without_the_calling_lane",
    ),
    "shuffle from a lane that does not execute the shuffle": (
        "test_check_warps.py",
        "test_a_shuffle_from_an_inactive_lane",
    ),
}


def rows() -> list[list[str]]:
    table = PAGE.read_text(encoding="utf-8").partition("| planted fault |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")
def test_the_rows_are_those_that_are_tested() -> None:
    assert [row[0] for row in rows()] == list(TESTS)
    assert {len(row) for row in rows()} == {7}
    assert all(re.match("found|warning", row[1]) for row in rows())


def cell(row: str, tool: str) -> str:
    """Return a tool's cell: the number of the row's tests in which the tool reported an error."""
    tests = json.loads(SANITIZED.read_text(encoding="utf-8"))["rows"][row]
    reported = [tools[tool]["first"] for tools in tests.values() if tools[tool]["errors"]]
    if not reported:
        return "-"
    if len(reported) < len(tests):
        return f"{len(reported)} of {len(tests)}"
    return "warning" if all(first.startswith("Warning") for first in reported) else "found"


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")
def test_the_columns_of_compute_sanitizer_match_its_output() -> None:
    assert {row[0]: row[2:6] for row in rows()} == {
        row: [cell(row, tool) for tool in TOOLS] for row in TESTS
    }


@pytest.mark.skipif(not SANITIZED.exists(), reason="the documentation is not here")
def test_every_planted_fault_was_run_under_compute_sanitizer() -> None:
    recorded = json.loads(SANITIZED.read_text(encoding="utf-8"))["rows"]
    assert {row: set(tests) for row, tests in recorded.items() if row != "nothing"} == {
        row: {test.strip('"') for test in tests} for row, (_, *tests) in TESTS.items()
    }
    # Each tool ended and reported nothing for a correct kernel.
    said = [
        tools[tool] for tests in recorded.values() for tools in tests.values() for tool in TOOLS
    ]
    assert all(isinstance(tool["errors"], int) for tool in said)
    assert not any(
        tool["errors"]
        for tests in [recorded["nothing"]]
        for tools in tests.values()
        for tool in tools.values()
    )


@pytest.mark.parametrize("row", TESTS)
def test_the_tests_exist(row: str) -> None:
    file, *names = TESTS[row]
    text = next(HERE.parent.glob(f"*/{file}")).read_text(encoding="utf-8")
    for name in names:
        assert (f"    {name}: (" if name.startswith('"') else f"def {name}(") in text
