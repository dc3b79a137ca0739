"""The printed form of a Timing."""

import pytest

from coalesce.timing import Timing, milliseconds


def timing(**changes):
    fields = {
        "kernel_ms": 1.5,
        "spread": 0.02,
        "runs": 20,
        "h2d_ms": 0.0,
        "d2h_ms": 0.0,
        "gflops": 1234.5,
        "gbps": 99.9,
        "device": "cuda:0",
        "source": "measured",
    }
    return Timing(**{**fields, **changes})


def test_a_measured_time_shows_its_spread_and_runs():
    text = repr(timing())
    assert text == (
        "Timing(1.500 ms measured on cuda:0; spread 2.0% over 20 runs; 1234 GFLOP/s; 99.9 GB/s)"
    )


def test_a_modelled_time_says_so():
    text = repr(timing(source="modelled", device="sim:h200", runs=1, gflops=0.0))
    assert text == "Timing(1.500 ms modelled on sim:h200; 99.9 GB/s)"


def test_copies_and_several_kernels_show():
    text = repr(timing(h2d_ms=3.0, d2h_ms=0.25, parts=(("padded", 0.5), ("tiled", 1.0))))
    assert "3.000 ms to the device, 0.2500 ms back" in text
    assert "kernels padded 0.5000 ms + tiled 1.000 ms" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ms"),
        (12345.6, "12346 ms"),
        (123.456, "123.5 ms"),
        (1.23456, "1.235 ms"),
        (0.0123456, "0.0123 ms"),
        (0.00012345, "0.123 us"),
    ],
)
def test_milliseconds(value, text):
    assert milliseconds(value) == text
