"""The stepper shows the right variables of random kernels; see stepped_kernels.py."""

import pytest
import stepped_kernels

pytestmark = pytest.mark.usefixtures("on_simulator")


def test_variables_of_random_kernels() -> None:
    counts, errors = stepped_kernels.check([*range(40)])
    assert not errors, "\n".join(errors)
    assert counts["not shown"] <= 0.02 * counts["shown"]
