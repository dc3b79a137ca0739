"""The public table of counters (docs/counters.md) beside the simulator."""

import importlib.util
import statistics
from pathlib import Path

import counter_cases
import pytest

from coalesce.profiling.hardware import exactness

DOCS = Path(__file__).parents[3] / "docs"
TIME = "gpu__time_duration.sum"


def load(name):
    spec = importlib.util.spec_from_file_location("counters", DOCS / "counters.py")
    loader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loader)
    return {row["case"]: row for row in loader.load(name)}


MEASURED, SIMULATED = load("counters_h200"), load("counters_simulated")
QUICK = [
    case
    for case in counter_cases.public.cases()
    if case.name.startswith("tensor_cores")
    or (case.name.startswith("holdout") and case.name.endswith("n=1000"))
    if "places_in_a_list" not in case.name  # the order of atomics decides where it stores
]


def test_the_size_of_the_table() -> None:
    """There are as many launches, kernels and metrics as the page says at least."""
    assert len(MEASURED) >= 250
    assert len({(row.get("file"), row["kernel"]) for row in MEASURED.values()}) >= 120
    assert all(len(row) > 2000 for row in MEASURED.values())
    assert {row["split"] for row in MEASURED.values()} == {"fitted", "never fitted"}
    for case, row in MEASURED.items():
        assert row["split"] == counter_cases.public.split(case)
        assert "file" not in row or (DOCS.parent / row["file"]).is_file()


def test_each_row_has_a_case() -> None:
    """The arguments of a launch are in the case that has its name."""
    cases = {case.name for case in counter_cases.public.cases()}
    assert {case.partition(" (prepared by")[0] for case in MEASURED} <= cases
    assert SIMULATED.keys() == {case for case in MEASURED if "(prepared by" not in case}


def test_modelled_times_of_the_table() -> None:
    """The errors stay as small as the page says. Run `docs/make_counters.py --simulate` anew."""
    off = [
        abs(SIMULATED[case][TIME] / row[TIME] - 1)
        for case, row in MEASURED.items()
        if row["split"] == "never fitted" and SIMULATED.get(case, {}).get(TIME)
    ]
    assert len(off) > 200
    assert statistics.median(off) < 0.08
    assert statistics.quantiles(off, n=10)[-1] < 0.25


@pytest.mark.usefixtures("on_simulator")
@pytest.mark.parametrize("case", QUICK, ids=[case.name for case in QUICK])
def test_counts(case: counter_cases.Case) -> None:
    """Counts that are called exact equal the GPU's. The table of the simulator is up to date."""
    ((_, record),) = case.run("sim", counts=True, timed=True)
    ours, theirs, stored = record.counts.metrics(), MEASURED[case.name], SIMULATED[case.name]
    both = ours.keys() & theirs.keys() - exactness.inexact(record.counts.table(), ours).keys()
    # With the full set, Nsight Compute estimates the sectors of L1 (docs/counters.md).
    both = {m for m in both if not m.startswith("l1tex__t_sectors")}
    assert len(both) > 50
    differ = {m: (ours[m], theirs[m]) for m in both if abs(ours[m] - theirs[m]) > 0.0051}
    assert not differ
    assert record.modelled.metrics()[TIME] == pytest.approx(stored[TIME], rel=1e-3)
