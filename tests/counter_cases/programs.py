"""Whole kernels that were not used to find the counting rules; tests/kernels/programs.cu."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from counter_cases.case import Case, launch, matrix, whole_numbers


def cases() -> Iterator[Case]:
    """Yield the cases of this set."""
    for entry, grid, block, arguments, shared in launches():
        yield launch(entry, "programs.cu", entry, grid, block, arguments, shared)


def launches() -> Iterator[tuple[str, Any, Any, tuple[Any, ...], int]]:
    """Yield entry, grid, block, arguments and dynamic shared bytes of each whole program."""
    n = 50_000
    f, g = matrix(1, n), matrix(2, n)
    out, ints, whole = np.zeros(n, np.float32), np.zeros(n, np.int32), whole_numbers(3, n, n)
    d = matrix(4, n, dtype="float64")
    pixels = whole_numbers(5, 120_000, 256, "uint8")

    blocks = -(-n // 256)
    yield "saxpy", blocks, 256, (n, np.float32(2), f, g.copy()), 0
    quads = (n // 4, np.float32(2), f, g.copy())
    yield "saxpy_vectors", -(-n // 1024), 256, quads, 0
    yield "complex_product", 40, 192, (d, d[::-1].copy(), np.zeros(n), n // 2), 0
    halves = [whole_numbers(seed, n, 15_000, "uint16").view(np.float16) for seed in (6, 7)]
    yield "half_axpy", 98, 256, (n // 2, *halves), 0
    yield "chunked_sum", 13, 128, (f, out, n, 31), 0

    yield "reduce", 24, 256, (f, out, n), 0
    yield "reduce_interleaved", blocks, 256, (f, out, n), 1024
    yield "reduce_groups", 20, 160, (d, np.zeros(1), n), 0
    yield "argmax", 16, 256, (f, np.zeros(1, np.uint64), n), 0
    yield "scan_warps", 98, 512, (whole, ints, np.zeros(98, np.int32), n), 0
    yield "compact", 1, 32, (whole, ints, np.zeros(1, np.int32), 30), 0

    a, x = matrix(8, 300, 160), matrix(9, 160)
    yield "matvec_warps", 75, 128, (a, x, out, 300, 160), 0
    yield "matvec_columns", 3, 128, (a, x, out, 300, 160), 0
    square = [matrix(seed, 192, 192) for seed in (10, 11)]
    yield "gemm_registers", (3, 3), 256, (*square, np.zeros((192, 192), np.float32), 192), 0
    yield "batched_3x3", 150, 288, (d, d[::-1].copy(), np.zeros(n), 4_777), 0
    yield "floyd_step", (2, 150), 128, (matrix(12, 150, 150), 150, 17), 0
    yield "softmax_rows", 60, 128, (f, out, 777), 0

    lengths = whole_numbers(13, 700, 70)
    first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns = whole_numbers(14, int(first[-1]), 700)
    yield "csr_warps", 88, 256, (first, columns, f, g, out, 700), 0
    yield "ell", 6, 128, (columns[: 700 * 20], f, g, out, 700, 20), 0
    # Every node has one predecessor, so that no two threads reach the same node.
    edges = np.argsort(whole_numbers(15, int(first[-1]), 1 << 30)).astype(np.int32)
    depth = np.where(whole_numbers(16, edges.size, 3) == 0, 0, -1).astype(np.int32)
    depth[edges[:200]] = 5
    yield "bfs_level", 3, 256, (first, edges, depth, np.zeros(1, np.int32), 0, 700), 0
    keys = whole_numbers(17, 20_000, 1 << 31, "uint32")
    table = np.zeros(4_099, np.uint32)
    for key in keys[:2_500]:
        slot = int(key) * 2654435761 % 2**32 % table.size
        while table[slot]:
            slot = (slot + 1) % table.size
        table[slot] = key
    yield "hash_lookup", 40, 128, (keys[:5_000], table, ints, 5_000, np.uint32(table.size)), 0
    ordered = [np.sort(whole_numbers(seed, 10_000, 100_000)) for seed in (18, 19)]
    yield "merge_path", 79, 128, (*ordered, ints, 10_000), 0

    yield "grey", (7, 25), (32, 8), (pixels, np.zeros(40_000, np.uint8), 200, 200), 0
    yield "invert", 118, 256, (pixels, pixels.copy(), 30_000), 0
    yield "box_blur", (7, 25), (32, 8), (pixels, np.zeros(40_000, np.uint8), 200, 200), 0
    yield "convolve_tiles", (13, 13), (16, 16), (f, out, 200, 200), 0
    yield "heat_3d", (2, 10), (32, 4), (f, out, 60, 40, 20), 0
    yield "mandelbrot", (10, 25), (16, 8), (np.zeros(30_000, np.uint8), 150, 200), 0
    yield "histogram_private", 12, 128, (pixels, np.zeros(256, np.int32), 20_000), 0

    yield "nbody_tiles", 4, 128, (f, np.zeros(n, np.float32), 512), 0
    yield "particles_aos", 28, 256, (f.copy(), 7_000, np.float32(0.1)), 0
    apart = [matrix(seed, 7_000) for seed in range(20, 26)]
    yield "particles_soa", 28, 256, (*apart, 7_000, np.float32(0.1)), 0
    yield "fft_256", 90, 128, (f, out), 0
    yield "pi_by_chance", 20, 128, (np.zeros(1, np.uint64), 50), 0
    yield "black_scholes", blocks, 256, (f, g, matrix(26, n), out, n), 0
    yield "dot_bytes", 10, 256, (whole, whole[::-1].copy(), np.zeros(1, np.int32), n), 0
    yield "crc_rows", 5, 64, (pixels, np.zeros(300, np.uint32), 50, 300), 0
    yield "odd_even_sort", 5, 128, (whole.copy(), 40), 1024
