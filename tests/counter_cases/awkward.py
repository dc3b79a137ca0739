"""Cases that are easy to count wrong; tests/kernels/awkward*.cu."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from counter_cases.case import Case, launch, matrix, whole_numbers


def _floats(size: int, seed: int = 1) -> np.ndarray:
    return matrix(seed, size)


def launches() -> Iterator[tuple[str, Any, Any, tuple[Any, ...], int]]:
    """Yield entry, grid, block, arguments and dynamic shared bytes of each awkward launch."""
    n = 1000
    f, g, h = _floats(4096), _floats(4096, 2), _floats(4096, 3)
    out = np.zeros(4096, np.float32)
    index = whole_numbers(4, 4096, n)
    ints = np.zeros(4096, np.int32)
    d, dd = matrix(5, 2048, dtype="float64"), np.zeros(2048)
    raw, raw_out = whole_numbers(6, 16384, 256, "uint8"), np.zeros(16384, np.uint8)
    longs = whole_numbers(7, 2048, 1 << 40, "uint64")

    for block in ((32, 8), (24, 5), (16, 16), (7, 9), (1, 64), (100, 1)):
        grid = (-(-77 // block[0]), -(-45 // block[1]))
        yield "rows_2d", grid, block, (f, out, 45, 77), 0
        yield "columns_2d", grid, block, (f, out, 45, 77), 0
        yield "stencil_5", grid, block, (f, out, 45, 77), 0
    for block in ((8, 4, 4), (5, 3, 7), (33, 2, 1), (1, 1, 40), (3, 3, 3)):
        grid = tuple(-(-extent // b) for extent, b in zip((20, 13, 11), block, strict=True))
        yield "volume_3d", grid, block, (f, out, 20, 13, 11), 0
    yield "grid_stride", 3, 96, (f, out, n), 0
    yield "grid_stride", 2, 33, (f, out, n), 0
    yield "one_thread", 5, 1, (f, out, 100), 0
    types = {
        "u8": (raw, raw_out), "u16": (raw.view(np.uint16), raw_out.view(np.uint16)),
        "float": (f, out), "double": (d, dd),
        "float4": (f, out),
    }  # fmt: skip
    for name, (source, target) in types.items():
        for start, stop in ((0, 0), (1, 0), (0, 1), (3, 5)):
            yield f"shifted<{name}>", 8, 125, (source, target, 900, start, stop), 0
    for entry in ("aos_12", "aos_12_copy", "aos_16", "aos_16_aligned", "aos_20", "aos_20_field"):
        target = ints if entry == "aos_20_field" else out
        source = raw.view(np.int32) if entry.startswith("aos_20") else f
        yield entry, 7, 100, (source, target, 650), 0
    yield "bit_fields", 8, 128, (raw, n), 0
    yield "bytes_in_words", 3, 96, (raw, raw_out, n), 0
    yield "vector_parts", 8, 128, (f, out, n), 0
    yield "vector_cast", 2, 128, (f, out, n), 0
    yield "halves", 8, 128, (raw.view(np.float16), raw_out.view(np.float16), n), 0
    yield "bools", 8, 128, (whole_numbers(8, n, 2, "bool"), f, out, n), 0

    yield "odd_even", 9, 113, (f, g, out, n), 0
    sparse = f.copy()
    sparse[64:160] = 0  # in some warps, no lane takes the branch
    sparse[320:352] = 1  # in one warp, all lanes take the branch
    for flag in (f, sparse):
        yield "short_if", 8, 128, (flag, g, out, n), 0
        yield "short_if_else", 8, 128, (flag, g, h, out, n), 0
        yield "nested_if", 8, 128, (flag, g, out, n), 0
        yield "select", 8, 128, (flag, g, h, out, n), 0
    for entry in ("short_circuit", "switch_four", "trip_counts", "gather_scatter"):
        yield entry, 8, 128, (index, f, out, n), 0
    yield "search", 8, 128, (np.sort(index[:n]), index[n:], ints, n), 0
    yield "first_match", 8, 128, (index, f, ints, n), 0
    yield "warp_off", 4, 256, (f, out, n), 0
    yield "last_thread", 4, 256, (f, out, n), 0
    yield "broadcasts", 8, 128, (f, out, n), 0
    lengths = whole_numbers(9, 300, 12)
    first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    yield "sparse_rows", 3, 128, (first, index, g, f, out, 300), 0
    for entry in ("twice", "interleaved"):
        yield entry, 8, 128, (f.copy(), out, n), 0
    yield "unrolled", 2, 128, (f, out, n), 0
    yield "index_64", 8, 128, (d, dd, np.uint64(n), np.uint64(3)), 0
    yield "read_only", 8, 128, (f, g, out, n), 0
    yield "cache_hints", 8, 128, (f, out, 992), 0
    yield "volatiles", 8, 128, (f.copy(), ints, n), 0
    yield "constants", 8, 128, (f, out, n), 0
    yield "module_variables", 8, 128, (out, n), 0
    table = np.arange(16, dtype=np.int32).tobytes()
    yield "table_parameter", 8, 128, (table, index, ints, n), 0

    yield "local_array", 8, 128, (f, index, out, n), 0
    yield "local_bytes", 8, 128, (raw, index, raw_out, n), 0
    yield "local_doubles", 8, 128, (d, index, dd, n), 0
    yield "local_vectors", 8, 128, (f, index, out, n), 0
    yield "local_divergent", 8, 128, (index, ints, n), 0
    yield "calls", 8, 128, (f, out, n), 0

    for name, (source, target) in types.items():
        for pad in (0, 1):
            size = 40 if name != "float4" else 31
            blocks = -(-size // 32)
            yield (
                f"tile_transposed<{name},{pad}>",
                (blocks, blocks),
                (32, 8),
                (source, target, size),
                0,
            )
        for stride in (1, 2, 3, 8, 32):
            yield f"shared_stride<{name}>", 2, 96, (source, target, stride, 900), 0
    for entry in ("shared_vectors", "bodies"):
        yield (
            entry,
            16 if entry == "bodies" else 8,
            64 if entry == "bodies" else 128,
            (f, out, n),
            0,
        )
    yield "shared_structs", 11, 96, (f, out, n), 0
    yield "reversed_dynamic", 8, 128, (f, out, n), 512
    for entry in ("scan", "scan_tree", "reduce_shrinking", "reduce_volatile", "convolution"):
        yield entry, 8, 128, (f, out, n), 0
    yield "bitonic", 3, 256, (f.copy(), n), 0
    yield "shuffles", 8, 128, (f, out, n), 0
    yield "shuffles", 3, 336, (f, out, n), 0
    yield (
        "register_tiles",
        (2, 2),
        (16, 16),
        (matrix(1, 128, 128), matrix(2, 128, 128), np.zeros((128, 128), np.float32), 128),
        0,
    )
    yield "life", (3, 6), (32, 8), (raw, raw_out, 45, 77), 0
    yield "either_space", 8, 128, (f, out, n), 0
    for width in (4, 8, 16):
        yield f"async_tile<{width}>", 2, 128, (f, out, n), 0

    yield "count_all", 8, 128, (ints, n), 0
    yield "count_some", 8, 128, (f, ints, n), 0
    yield "append", 1, 32, (f, out, ints, n), 0
    yield "sum_int", 8, 128, (index, ints, n), 0
    yield "sum_float", 8, 128, (f, out, n), 0
    yield "sum_double", 8, 128, (d, dd, n), 0
    yield "sum_long", 8, 128, (longs, np.zeros(1, np.uint64), n), 0
    yield "min_max", 8, 128, (index, ints, n), 0
    yield "inc_dec", 8, 128, (ints.view(np.uint32), n), 0
    yield "scatter_add", 8, 128, (index, f, out, n), 0
    yield "histogram_global", 8, 128, (index, ints, n), 0
    yield "histogram_shared", 3, 128, (index, ints, n), 0
    yield "exchange", 8, 128, (index, ints, ints.copy(), n), 0
    yield "compare_swap", 8, 128, (index, ints, ints.copy(), n), 0
    yield "half_atomics", 8, 128, (np.zeros(8192, np.float16), np.zeros(8192, np.float16), n), 0
    yield "few_lanes", 8, 128, (f, out, n), 0
    yield "shared_counters", 8, 128, (index, ints, n), 0
    yield "shared_append", 8, 128, (f, out, n), 0


def cases() -> Iterator[Case]:
    """Yield the cases of this set."""
    seen: dict[str, int] = {}
    for entry, grid, block, arguments, shared in launches():
        seen[entry] = seen.get(entry, 0) + 1
        yield launch(f"{entry} #{seen[entry]}", "awkward.cu", entry, grid, block, arguments, shared)
