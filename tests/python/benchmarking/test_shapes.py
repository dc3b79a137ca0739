"""`coalesce bench shapes`: products of random shapes."""

import math

import pytest

from coalesce.benchmarking import shapes
from coalesce.cli import main
from coalesce.common.errors import DeviceUnavailable


def test_shapes_are_random_and_repeatable() -> None:
    drawn = shapes.random_shapes(7, 100)
    assert drawn == shapes.random_shapes(7, 100)
    assert drawn != shapes.random_shapes(8, 100)
    extents = [n for shape in drawn for n in shape]
    assert min(extents) >= shapes.LEAST
    assert max(extents) <= shapes.MOST
    assert all(n % 16 == 0 for shape in drawn[::2] for n in shape)
    middle = sorted(extents)[len(extents) // 2]
    assert 200 < middle < 500  # the geometric mean of the limits is 315


def test_the_summary_has_the_lowest_ratios() -> None:
    timed = [
        shapes.ShapeTimes((16, n, 32), "split_k", kernels, 4.0, 8.0, cupy, 1e-7)
        for n, kernels, cupy in ((1, 2.0, 16.0), (2, 8.0, 4.0))
    ]
    text = shapes.summary(timed, worst=1)
    assert "relative to cuBLAS: geometric mean 1.000, 50% at least 1, worst 0.50" in text
    assert "relative to CuPy: geometric mean 1.000, 50% at least 1, worst 0.50" in text
    assert text.count("16 x 2 x 32") == 2
    assert "16 x 1 x 32" not in text
    without_cupy = [shapes.ShapeTimes((16, 1, 32), "tma", 2.0, 4.0, math.nan, math.nan, 1e-7)]
    assert "CuPy:" not in shapes.summary(without_cupy)


def test_shapes_need_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "shapes", "--seed", "2", "--device", "sim"]) == 1
    assert "random shapes can only be timed on a GPU" in capsys.readouterr().err
    with pytest.raises(DeviceUnavailable, match="runs on sim:h200"):
        shapes.measure(1, 1, "sim")
