"""The kernels of tests/kernels/ordinary.cu give the same results as machine code and as PTX."""

from __future__ import annotations

import ordinary_cases
import pytest
from both_ways import both_ways

pytestmark = pytest.mark.usefixtures("machine_code")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("entry", ordinary_cases.ELEMENTS)
def test_ordinary_kernels_run_as_machine_code(entry):
    kernel = ordinary_cases.kernel(entry)
    _, out = both_ways(kernel, 1, 64, *ordinary_cases.arguments(entry), workers=1)
    assert out.any()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "entry", [entry for entry, element in ordinary_cases.ELEMENTS.items() if element == "float"]
)
def test_ordinary_kernels_with_fast_functions(entry):
    kernel = ordinary_cases.kernel(entry, "-use_fast_math", "-fmad=false")
    both_ways(kernel, 1, 64, *ordinary_cases.arguments(entry), workers=1)
