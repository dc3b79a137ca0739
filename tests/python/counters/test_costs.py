"""The variants cost what their first comments say: sectors and wavefronts per request.

Hardware counters give the same figures for the same kernels (full warps, float32).
"""

import numpy as np
import pytest

from coalesce.catalogue.products import run_matmul, run_sums, run_transpose

N = 64


def ratios(counts):
    """Return sectors per request (global loads, stores) and wavefronts per request (shared)."""

    def ratio(cost, requests):
        return cost / requests if requests else 0.0

    return (
        ratio(counts.global_load_sectors, counts.global_load_requests),
        ratio(counts.global_store_sectors, counts.global_store_requests),
        ratio(counts.shared_load_wavefronts, counts.shared_load_requests),
        ratio(counts.shared_store_wavefronts, counts.shared_store_requests),
    )


def matrix(n=N, dtype=np.float32):
    return np.ones((n, n), dtype)


@pytest.mark.parametrize(
    ("variant", "tile", "costs"),
    [
        ("naive", 32, (16.5, 32, 0, 0)),  # 32 for a, 1 for b
        ("naive_2d", 32, (2.5, 4, 0, 0)),  # 1 for a, 4 for b
        ("naive_2d", 16, (2, 4, 0, 0)),  # 2 for a (two rows), 2 for b (64 bytes of one row)
        ("coalesced", 32, (2.5, 4, 0, 0)),
        ("coalesced_swapped", 32, (16.5, 32, 0, 0)),
        ("transposed_b", 32, (16.5, 4, 0, 0)),
        ("untiled", 32, (2.5, 4, 0, 0)),
        # The assembler merges four loads of a_tile into one, which takes 2 wavefronts. For each of
        # these merged loads there are four loads of b_tile, with 1 wavefront each. So 5 loads take
        # 6 wavefronts: 6 / 5 = 1.2.
        ("tiled", 32, (4, 4, 1.2, 1)),
        ("tiled", 16, (4, 4, 1.2, 1)),
        ("tiled_transposed", 32, (4, 4, 17, 16.5)),
        ("corner_turned", 32, (4, 4, 17, 1)),
        ("corner_turned_padded", 32, (4, 4, 1.2, 1)),
    ],
)
def test_matmul(variant, tile, costs, on_simulator):
    a = matrix()
    _, run = run_matmul(a, a, variant=variant, tile=tile, device=on_simulator, counts=True)
    assert ratios(run.records[-1][1].counts) == costs


@pytest.mark.parametrize(
    ("variant", "costs", "shared_loads"),
    [
        ("blocktiled_1d", (4, 4, 5 / 3, 1), 24576),
        ("blocktiled_2d", (4, 32, 3.2, 1), 10240),
        ("vectorized", (16, 32, 5, 1.6), 4096),
        ("warptiled", (16, 16, 3, 1.6), 4096),
        ("pipelined", (0, 16, 3, 0), 4096),  # cp.async counts neither as a load nor as a store
    ],
)
def test_block_tiled_matmul(variant, costs, shared_loads, on_simulator):
    """The matrices are 128 x 128, a full block tile. `tiled` makes 81920 shared loads."""
    a = matrix(128)
    _, run = run_matmul(a, a, variant=variant, device=on_simulator, counts=True)
    counts = run.records[-1][1].counts
    assert ratios(counts) == costs
    assert counts.shared_load_requests == shared_loads


def test_a_tile_is_loaded_once_for_all_its_threads(on_simulator):
    a = matrix()
    _, tiled = run_matmul(a, a, variant="tiled", device=on_simulator, counts=True)
    _, untiled = run_matmul(a, a, variant="untiled", device=on_simulator, counts=True)
    loads = [run.records[0][1].counts.global_load_requests for run in (tiled, untiled)]
    assert loads == [2 * N**3 // 32 // 32, 2 * N**3 // 32]


@pytest.mark.parametrize(
    ("variant", "costs"),
    [
        ("copy", (4, 4, 0, 0)),
        ("naive_read", (4, 32, 0, 0)),
        ("naive_write", (32, 4, 0, 0)),
        ("tiled", (4, 4, 32, 1)),
        ("padded", (4, 4, 1, 1)),
        ("swizzled", (4, 4, 1, 1)),
    ],
)
def test_transpose(variant, costs, on_simulator):
    _, run = run_transpose(matrix(), variant=variant, device=on_simulator, counts=True)
    assert ratios(run.records[0][1].counts) == costs


def test_transpose_of_doubles(on_simulator):
    """A load of 32 doubles takes 2 wavefronts without conflicts, 32 from one bank."""
    costs = {}
    for variant in ("tiled", "padded", "swizzled"):
        a = matrix(dtype=np.float64)
        _, run = run_transpose(a, variant=variant, device=on_simulator, counts=True)
        costs[variant] = ratios(run.records[0][1].counts)[2:]
    assert costs == {"tiled": (32, 2), "padded": (2, 2), "swizzled": (2, 2)}


@pytest.mark.parametrize(
    ("operation", "variant", "sectors"),
    [
        ("row_sums", "thread_per_row", 32),
        ("row_sums", "block_per_row", 4),
        ("row_sums", "block_per_row_dynamic", 4),
        ("row_sums", "warp_per_row", 4),
        ("column_sums", "thread_per_column", 4),
        ("column_sums", "column_tiles", 4),
    ],
)
def test_sums(operation, variant, sectors, on_simulator):
    _, run = run_sums(operation, matrix(256), variant, device=on_simulator, counts=True)
    load, _, shared_load, shared_store = ratios(run.records[0][1].counts)
    assert load == sectors
    assert max(shared_load, shared_store) <= 1  # no bank conflicts
