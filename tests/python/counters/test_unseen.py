"""The kernels of tests/kernels/unseen_*.cu are correct: checks find no fault."""

import counter_cases
import pytest
import unseen_cases

import coalesce

pytestmark = pytest.mark.usefixtures("on_simulator")

LAUNCHES = unseen_cases.launches()
# Lanes write the same value to the same byte, in no defined order.
WARNED = {"sieve"}


@pytest.mark.parametrize("name", LAUNCHES)
def test_correct_kernels_have_no_findings(name: str) -> None:
    launch = LAUNCHES[name]
    kernel = coalesce.Kernel((counter_cases.case.KERNELS / launch.file).read_text(), launch.entry)
    findings = kernel.check(
        launch.grid, launch.block, *launch.arguments, shared_bytes=launch.shared_bytes
    )
    if name in WARNED:
        assert {finding.severity for finding in findings} == {"warning"}
    else:
        assert not findings, findings
