"""Random kernels with many types leave the same results as with g++ (typed_kernels.py)."""

import datetime
import shutil
import time

import pytest
import typed_kernels

pytestmark = [
    pytest.mark.usefixtures("machine_code"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]


SECONDS = 30


# In one of the kernels of seed 106, LEA subtracts a zero, and its carry is needed.
@pytest.mark.parametrize("seed", [2, 106])
def test_results_are_those_of_the_host(seed: int) -> None:
    assert typed_kernels.differences(seed, shapes=1) == []


# In the machine code of seed 2001, lanes wait at WARPSYNC.ALL before a barrier for lanes
# that end early and wait at a BSYNC.
@pytest.mark.parametrize("seed", [1, 3, 2001])
def test_all_modes_with_early_returns(seed: int) -> None:
    assert typed_kernels.differences(seed, shapes=1, ends=True) == []


def test_kernels_of_today() -> None:
    """Every day makes other kernels. A message has the seed that repeats them."""
    first = datetime.datetime.now(datetime.timezone.utc).date().toordinal() * 100
    end, seed = time.monotonic() + SECONDS, first
    while time.monotonic() < end:
        assert typed_kernels.differences(seed, shapes=1, ends=seed % 2 == 0) == [], seed
        seed += 1
