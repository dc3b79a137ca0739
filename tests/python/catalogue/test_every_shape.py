"""Calls with random shapes, dtypes, layouts and options are right; see every_shape.py."""

import datetime
import math

import every_shape
import pytest
import simulated_driver

SECONDS = 10 if simulated_driver.SIMULATED else 30


def test_calls_of_today(device: str) -> None:
    """Every day makes other calls. A message has the number that repeats its call."""
    first = datetime.datetime.now(datetime.timezone.utc).date().toordinal() * 100_000
    found = list(every_shape.failures(first, math.inf, SECONDS, device))
    assert not found, "\n".join(found)


def test_calls_that_went_wrong(device: str) -> None:
    """Vectors for an `out` at another address; K = 0: a stage was read, and a check crashed."""
    for number in (32059, 777001564, 73994800116):
        assert not every_shape.problem(every_shape.call(number, device), device)


@pytest.mark.usefixtures("on_simulator")
def test_on_the_simulated_driver() -> None:
    """Plans bind arrays in the memory of the host and of the GPU, of several layouts."""
    simulated_driver.run_tests(__file__)
