"""coalesce.transpose: every variant gives exact results for every shape and layout."""

import numpy as np
import pytest

import coalesce


def test_bits_are_kept(device):
    a = np.array([[np.nan, -0.0], [np.inf, 1e-45]], np.float32)
    result = coalesce.transpose(a, device=device)
    np.testing.assert_array_equal(result.view(np.uint32), np.ascontiguousarray(a.T).view(np.uint32))


def test_out_may_be_the_operand(device):
    a = np.arange(70 * 70, dtype=np.float32).reshape(70, 70)
    before = a.copy()
    assert coalesce.transpose(a, out=a, device=device) is a
    np.testing.assert_array_equal(a, before.T)
    b = before.copy()
    view = b.T
    coalesce.transpose(b, out=view, device=device)
    np.testing.assert_array_equal(view, before.T)


def test_timing(device):
    a = np.ones((64, 128), np.float32)
    _, timing = coalesce.transpose(a, return_timing=True, device=device)
    assert timing.gbps == pytest.approx(2 * a.nbytes / timing.kernel_ms / 1e6)
    assert timing.gflops == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"a": np.ones(3, np.float32)}, ValueError, r"`a` must have 2 dimensions \(rows, cols\)"),
        ({"a": np.ones((3, 3), int)}, TypeError, r"`a` has dtype int64; transpose\(\) takes"),
        ({"variant": "pad"}, ValueError, "did you mean 'padded'"),
        (
            {"out": np.ones((2, 3), np.float32)},
            ValueError,
            r"`out` has shape \(2, 3\); .* result, \(3, 2\)",
        ),
    ],
)
def test_refused(options, error, message):
    with pytest.raises(error, match=message):
        coalesce.transpose(**{"a": np.ones((2, 3), np.float32), "device": "sim", **options})
