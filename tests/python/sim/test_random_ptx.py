"""Random straight-line PTX leaves the same bits as its machine code (random_ptx.py)."""

import pytest
import random_ptx

pytestmark = pytest.mark.usefixtures("machine_code")


@pytest.mark.parametrize("seed", [*range(10, 28), 7030, 7176])
def test_machine_code_agrees_with_the_ptx(seed: int) -> None:
    assert random_ptx.difference(seed) == ""
