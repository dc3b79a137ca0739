"""A lesson can measure its times on a GPU; here the simulator stands in for the GPU."""

import pytest

import coalesce
from coalesce import lessons
from coalesce.lessons import _measure, _times


@pytest.fixture
def gpu(device, monkeypatch):
    first = coalesce.devices()[0 if device == "cuda" else -1]
    monkeypatch.setattr(_times, "_gpu", lambda: first)
    return first


def test_measured_times_are_shown_next_to_recorded_times(gpu, check_html):
    t = lessons.times("matmul", ["naive", ("tiled", {"tile": 16})], n=64)
    assert list(t) == ["naive", "tiled, tile=16"]
    assert t["naive"] is t.here["naive"]
    assert t["naive"].source == ("measured" if gpu.kind == "cuda" else "modelled")
    assert f"measured here, on {gpu.description}" in repr(t)
    assert "ms here" in repr(t)
    check_html(t._repr_html_())


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("name", _measure.LAUNCHES)
def test_lesson_kernels_are_timed(name):
    t = lessons.times("lesson", [name], n=128)
    assert t[name].kernel_ms > 0
    assert t[name].gbps > 0
