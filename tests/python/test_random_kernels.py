"""Small random kernels leave the same results as machine code and as PTX (random_kernels.py)."""

from __future__ import annotations

import pytest
import random_kernels

pytestmark = pytest.mark.usefixtures("machine_code")


@pytest.mark.parametrize("seed", range(8))
def test_machine_code_agrees_with_the_ptx(seed: int) -> None:
    assert random_kernels.difference(seed) == ""
