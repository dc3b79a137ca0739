"""The kernels of tests/kernels/ordinary.cu give the same results as machine code and as PTX."""

from __future__ import annotations

import numpy as np
import ordinary_cases
import pytest

from coalesce.arrays import devices
from coalesce.simulate.prepared import prepare

pytestmark = pytest.mark.usefixtures("machine_code")


def results(entry: str, *options: str) -> list[np.ndarray]:
    """Return the arrays that the PTX leaves and those that the machine code leaves."""
    kernel = ordinary_cases.kernel(entry, *options)
    assert kernel._program(devices.resolve("sim")).why_ptx(entry) == ""
    left = []
    for counts in (False, True):
        a, o = ordinary_cases.arguments(entry)
        prepare(kernel, 1, 64, [a, o]).run(counts=counts, workers=1)
        left.append(o)
    return left


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("entry", ordinary_cases.ELEMENTS)
def test_ordinary_kernels_run_as_machine_code(entry):
    plain, counted = results(entry)
    assert plain.any()
    np.testing.assert_array_equal(plain, counted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "entry", [entry for entry, element in ordinary_cases.ELEMENTS.items() if element == "float"]
)
def test_ordinary_kernels_with_fast_functions(entry):
    np.testing.assert_array_equal(*results(entry, "-use_fast_math", "-fmad=false"))
