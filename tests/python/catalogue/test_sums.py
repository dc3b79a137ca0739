"""coalesce.row_sums and coalesce.column_sums: every variant compared with NumPy in float64."""

import numpy as np
import pytest

import coalesce

CASES = [
    (operation, variant)
    for operation in ("row_sums", "column_sums")
    for variant in coalesce.variants(operation).names
]
SHAPES = [(1, 1), (64, 64), (300, 5), (5, 300), (1, 1000), (1000, 1), (9, 257), (0, 4), (4, 0)]


def assert_sums(operation, result, a):
    axis = 1 if operation == "row_sums" else 0
    exact = a.astype(np.float64).sum(axis=axis)
    bound = np.abs(a.astype(np.float64)).sum(axis=axis)
    eps = np.finfo(a.dtype).eps
    assert result.shape == exact.shape
    assert result.dtype == a.dtype
    allowed = 4 * eps * np.sqrt(a.shape[axis] + 1) * bound + 1e-300
    np.testing.assert_array_less(np.abs(result - exact), allowed)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("operation", "variant"), CASES)
def test_sums(operation, variant, shape, dtype, device, random):
    a = random.normal(size=shape).astype(dtype)
    assert_sums(operation, getattr(coalesce, operation)(a, variant=variant, device=device), a)


@pytest.mark.parametrize(("operation", "variant"), CASES)
def test_nan_stays_in_its_row_or_column(operation, variant, device):
    a = np.ones((50, 50), np.float32)
    a[7, 7] = np.nan
    result = getattr(coalesce, operation)(a, variant=variant, device=device)
    assert np.isnan(result[7])
    assert (np.delete(result, 7) == 50).all()


@pytest.mark.parametrize(("operation", "variant"), CASES)
def test_the_same_bits_in_every_run(operation, variant, device, random):
    a = random.normal(size=(300, 700)).astype(np.float32)
    sums = [getattr(coalesce, operation)(a, variant=variant, device=device) for _ in range(3)]
    assert sums[0].tobytes() == sums[1].tobytes() == sums[2].tobytes()


# Inputs of n numbers. In the second, large numbers cancel. The third has numbers of all sizes. In
# the fourth, a sum in sequence always rounds in the same direction.
HARD = {
    "positive": lambda random, n: random.random(n),
    "alternating": lambda random, n: random.random(n) * np.resize([1, -1], n),
    "of all sizes": lambda random, n: random.normal(size=n) * 10.0 ** random.uniform(-6, 6, n),
    "nearly one": lambda _, n: np.full(n, 1 + 2.0**-20),
}


@pytest.mark.parametrize("n", [1000, 60_000])
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("operation", ["row_sums", "column_sums"])
def test_as_accurate_as_pairwise_sums(operation, name, n, device, random):
    """The error does not grow with n, as that of NumPy's pairwise sum, and unlike a loop's."""
    values = np.array([HARD[name](random, n) for _ in range(4)], np.float32)
    exact = values.astype(np.float64).sum(axis=1)
    unit = 2.0**-24 * np.abs(values.astype(np.float64)).sum(
        axis=1
    )  # one rounding of the largest sum

    def errors(sums):
        return (np.abs(sums - exact) / unit).max()

    a = values if operation == "row_sums" else np.ascontiguousarray(values.T)
    result = getattr(coalesce, operation)(a, variant="vectorized", device=device)
    assert errors(result) < 4
    assert errors(values.sum(axis=1)) < 4
    if name == "nearly one" and n > 1000:
        assert errors(np.cumsum(values, axis=1)[:, -1]) > 4


@pytest.mark.parametrize("shared", ["static", "dynamic"])
def test_shared_memory_of_block_per_row(shared, dtype, device):
    a = np.ones((3, 1000), dtype)
    result = coalesce.row_sums(a, variant="block_per_row", shared=shared, device=device)
    np.testing.assert_array_equal(result, [1000, 1000, 1000])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda a: coalesce.row_sums(a, variant="warp_per_row", shared="dynamic"),
            ValueError,
            "only variant 'block_per_row' has the option `shared`",
        ),
        (
            lambda a: coalesce.column_sums(a, variant="thread_per_row"),
            ValueError,
            "unknown variant of column_sums: 'thread_per_row'",
        ),
        (lambda a: coalesce.row_sums(a, out=np.ones(3, np.float32)), ValueError, "`out` has shape"),
    ],
)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(np.ones((2, 3), np.float32))
