"""coalesce.access: every pattern is compared with NumPy's indexing; its sectors are checked."""

import numpy as np
import pytest

import coalesce
from coalesce.catalogue.access import run_access

ORDERS = {
    "reversed": list(range(31, -1, -1)),
    "rotated": [(i + 5) % 32 for i in range(32)],
    "bits": [int(f"{i:05b}"[::-1], 2) for i in range(32)],
}


def test_vectors_at_addresses_that_are_no_multiples(device):
    x = coalesce.asarray(np.arange(9, dtype=np.float64), device=device)[1:]
    out = coalesce.zeros(9, np.float64, device=device)
    coalesce.access(x, pattern="vector", out=out[1:], device=device)
    assert out.get().tolist() == [0, *range(1, 9)]


def test_gather_by_any_integers(device):
    x = np.arange(100, dtype=np.float32)
    for kind in (np.int64, np.uint8, np.int16):
        index = np.array([7, 0, 99, 7], kind)
        np.testing.assert_array_equal(
            coalesce.access(x, pattern="gather", index=index, device=device), x[index]
        )
    with pytest.raises(ValueError, match=r"contains 1099511627776; .* from 0 to 99"):
        coalesce.access(x, pattern="gather", index=np.array([2**40]), device=device)


def test_indices_beyond_32_bits(device):
    """The arrays have gigabytes of zeros, but only the pages that the kernel touches use memory."""
    x = np.zeros(2**32 + 100, np.uint8)
    x[2**32 + 5] = 7
    result = coalesce.access(x, pattern="offset", offset=2**32, device=device)
    assert result[5] == 7
    assert result.sum() == 7
    x = x[: 40 * 2**26].reshape(40, 2**26)
    x[39, 3] = 9
    result = coalesce.access(x, pattern="aos", field=3, device=device)
    assert result.tolist() == [0] * 39 + [9]


# ---- costs: sectors of 32 bytes for each load of a full warp, as the hardware counts them ----


@pytest.mark.parametrize(
    ("sectors", "dtype", "pattern", "options"),
    [
        (4, np.float32, "offset", {"offset": 0}),
        (5, np.float32, "offset", {"offset": 1}),
        (4, np.float32, "offset", {"offset": 8}),
        (5, np.float32, "offset", {"offset": 31}),
        (4, np.float32, "stride", {"stride": 1}),
        (8, np.float32, "stride", {"stride": 2}),
        (16, np.float32, "stride", {"stride": 4}),
        (32, np.float32, "stride", {"stride": 8}),
        (32, np.float32, "stride", {"stride": 32}),
        (4, np.float32, "permuted", {}),
        (4, np.float32, "permuted", {"order": ORDERS["bits"]}),
        (1, np.float32, "broadcast", {}),
        (5, np.float32, "far_lane", {}),
        (1, np.float32, "vector", {"width": 1}),
        (2, np.float32, "vector", {"width": 2}),
        (4, np.float32, "vector", {"width": 4}),
        (8, np.float32, "vector", {"width": 8}),
        (16, np.float32, "vector", {"width": 16}),
        (1, np.uint8, "offset", {"offset": 0}),
        (2, np.float16, "offset", {"offset": 0}),
        (8, np.float64, "offset", {"offset": 0}),
        (9, np.float64, "offset", {"offset": 1}),
        (16, np.complex128, "offset", {"offset": 0}),
    ],
)
def test_sectors(sectors, dtype, pattern, options, on_simulator):
    x = np.zeros(4096 + options.get("offset", 0), dtype)
    result, run = run_access(x, pattern=pattern, **options, device=on_simulator, counts=True)
    counts = run.records[0][1].counts
    warps = result.nbytes // options.get("width", x.itemsize) // 32
    assert counts.global_load_requests == counts.global_store_requests == warps
    assert counts.global_load_sectors == sectors * warps


@pytest.mark.parametrize(("pattern", "sectors"), [("aos", 16), ("soa", 4)])
def test_sectors_of_structures(pattern, sectors, on_simulator):
    x = np.zeros((256, 4) if pattern == "aos" else (4, 256), np.float32)
    _, run = run_access(x, pattern=pattern, field=2, device=on_simulator, counts=True)
    counts = run.records[0][1].counts
    assert counts.global_load_sectors == sectors * counts.global_load_requests


@pytest.mark.parametrize(
    ("index", "sectors"),
    [
        (np.arange(32), 4),
        (np.arange(32)[::-1], 4),
        (np.zeros(32), 1),
        (np.arange(32) * 8, 32),
        (np.repeat(np.arange(4) * 8, 8), 4),
    ],
)
def test_a_gather_moves_the_sectors_of_its_indices(index, sectors, on_simulator):
    x = np.zeros(256, np.float32)
    options = {"index": index.astype(np.int32)}
    _, run = run_access(x, pattern="gather", **options, device=on_simulator, counts=True)
    counts = run.records[0][1].counts
    assert counts.global_load_requests == 2
    assert counts.global_load_sectors == sectors + 4  # 4 sectors are those of the indices


X = np.arange(64, dtype=np.float32)


@pytest.mark.parametrize(
    ("x", "options", "error", "message"),
    [
        (X, {"pattern": "strid"}, ValueError, "unknown pattern of access: 'strid'; .* 'stride'"),
        (X, {"pattern": "stride", "offset": 1}, ValueError, "'stride' has no option `offset`"),
        (
            X,
            {"pattern": "offset", "offset": 65},
            ValueError,
            "`offset` must be from 0 to 64; got 65",
        ),
        (X, {"pattern": "gather"}, ValueError, "`index` is missing"),
        (
            X,
            {"pattern": "gather", "index": np.array([64], np.int32)},
            ValueError,
            "`index` contains 64; its values must be from 0 to 63",
        ),
        (
            X,
            {"pattern": "gather", "index": np.array([-1], np.int32)},
            ValueError,
            "`index` contains -1",
        ),
        (X[:3], {"pattern": "vector"}, ValueError, "`x` has 12 bytes; the number of bytes must be"),
        (X, {"pattern": "aos"}, ValueError, r"`x` must have 2 dimensions \(n, fields\)"),
        (X[None], {"pattern": "stride"}, ValueError, r"`x` must have 1 dimension \(n,\)"),
        (X[None], {"pattern": "soa", "field": 1}, ValueError, "`field` must be 0; got 1"),
        (X, {"pattern": "stride", "out": X}, ValueError, r"`out` has shape \(64,\)"),
    ],
)
def test_refused(x, options, error, message):
    with pytest.raises(error, match=message):
        coalesce.access(x, **{"device": "sim", **options})
