"""Small random kernels leave the same results as machine code and as PTX (random_kernels.py)."""

import pytest
import random_kernels

pytestmark = pytest.mark.usefixtures("machine_code")


# 9017: F2I of a half that is a number. 70002: all lanes of a warp add up after groups were formed.
@pytest.mark.parametrize("seed", [*range(8), 9017, 70002])
def test_machine_code_and_checks_agree_with_the_ptx(seed: int) -> None:
    assert random_kernels.difference(seed) == ""
