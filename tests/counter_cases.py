"""The launches whose counters are recorded on a GPU and predicted by the simulator.

A `Case` is a name and a function that runs it on a device. `record_counters.py` runs a set of cases
under Nsight Compute; the tests and docs/make_accuracy.py run the same ones on the simulator. All
data come from seeds, so both see the same addresses.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import unseen_cases

import coalesce
from coalesce.catalogue.table import OPERATIONS

KERNELS = Path(__file__).parent / "kernels"

# (name of the entry, LaunchRecord) of each launch: preparations first, the kernel itself last.
Launches = list[tuple[str, Any]]


@dataclass(frozen=True)
class Case:
    """Launches to count: `run(device, counts=..., timed=...)` makes them and returns them."""

    name: str
    run: Callable[..., Launches]


def matrix(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    """Random numbers in [0, 1), the same for a seed everywhere."""
    raw = np.random.PCG64(seed).random_raw(int(np.prod(shape)))
    return ((raw >> np.uint64(40)) / 2.0**24).astype(dtype).reshape(shape)


def whole_numbers(seed: int, size: int, below: int, dtype: str = "int32") -> np.ndarray:
    """Random integers from 0 to `below` - 1."""
    return (np.random.PCG64(seed).random_raw(size) % np.uint64(below)).astype(dtype)


# The patterns of `access` that are recorded: options, and whether x is a matrix of fields.
ACCESS: list[tuple[str, dict[str, Any]]] = [
    ("offset", {"offset": 1}),
    ("offset", {"offset": 8}),
    ("stride", {"stride": 2}),
    ("stride", {"stride": 3}),
    ("stride", {"stride": 8}),
    ("stride", {"stride": 32}),
    ("permuted", {}),
    ("broadcast", {}),
    ("gather", {}),
    ("far_lane", {}),
    ("vector", {"width": 1}),
    ("vector", {"width": 2}),
    ("vector", {"width": 4}),
    ("vector", {"width": 8}),
    ("vector", {"width": 16}),
    ("aos", {"field": 1}),
    ("soa", {"field": 1}),
]


# Kernels that came after the recordings: their counters are still to be recorded.
LATER = {
    ("matmul", "tma"),
    ("matmul", "split_k"),
}


def shipped(
    m: int, k: int, n: int, dtype: str = "float32", tiles: tuple[int, ...] = (32,)
) -> Iterator[Case]:
    """Every shipped kernel: products of (m, k) and (k, n), the others on (m, n) or m * n."""
    size = f"{m}x{k}x{n} {dtype}"
    for variant in (v for v in coalesce.variants("matmul") if ("matmul", v.name) not in LATER):
        for tile in tiles if variant.tiles else (32,):
            options = {"variant": variant.name, **({"tile": tile} if variant.tiles else {})}

            def product(device: Any, options: Any = options, **how: bool) -> Any:
                a, b = matrix(1, m, k, dtype=dtype), matrix(2, k, n, dtype=dtype)
                return OPERATIONS["matmul"].run((a, b), options, device=device, **how)[1]

            shown = "" if tile == 32 else f" tile={tile}"
            yield _case(f"matmul/{variant.name} {size}{shown}", product)
    for operation in ("transpose", "row_sums", "column_sums"):
        for variant in coalesce.variants(operation):
            if (operation, variant.name) in LATER:
                continue

            def whole(
                device: Any, operation: str = operation, name: str = variant.name, **how: bool
            ) -> Any:
                a = matrix(1, m, n, dtype=dtype)
                options = {"variant": name}
                return OPERATIONS[operation].run((a,), options, device=device, **how)[1]

            yield _case(f"{operation}/{variant.name} {m}x{n} {dtype}", whole)
    for pattern, options in ACCESS:

        def read(device: Any, pattern: str = pattern, options: Any = options, **how: bool) -> Any:
            count = m * n
            x, extra = matrix(1, count, dtype=dtype), {}
            if pattern == "gather":
                extra["index"] = whole_numbers(3, count, count)
            elif pattern == "aos":
                x = x[: count // 4 * 4].reshape(-1, 4)
            elif pattern == "soa":
                x = x[: count // 4 * 4].reshape(4, -1)
            elif pattern == "vector":
                x = x[: count * x.itemsize // 16 * 16 // x.itemsize]
            chosen = {"pattern": pattern, **options, **extra}
            return OPERATIONS["access"].run((x,), chosen, device=device, **how)[1]

        shown = "".join(f" {key}={value}" for key, value in options.items())
        yield _case(f"access/{pattern} {m * n} {dtype}{shown}", read)


def _case(name: str, run: Callable[..., Any]) -> Case:
    return Case(name, lambda device, **how: run(device, **how).records)


def exact_shipped() -> Iterator[Case]:
    """Every shipped kernel at sizes that are and are not multiples of a tile, in both dtypes."""
    for dtype in ("float32", "float64"):
        yield from shipped(128, 128, 128, dtype, tiles=(8, 16, 32))
        yield from shipped(500, 300, 77, dtype)


def models() -> Iterator[Case]:
    """Every shipped kernel at the sizes that the models of caches and time are held against."""
    for n in (512, 1024, 2048, 4096):
        yield from shipped(n, n, n)
    for n in (1024, 2048):
        yield from (c for c in shipped(n, n, n, tiles=(16,)) if "tile=" in c.name)


def _floats(size: int, seed: int = 1) -> np.ndarray:
    return matrix(seed, size)


def _awkward() -> Iterator[tuple[str, Any, Any, tuple[Any, ...], int]]:
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
    sparse[64:160] = 0  # whole warps without a lane that takes the branch
    sparse[320:352] = 1  # and one where all lanes do
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


@cache
def _kernel(file: str, entry: str, device: Any) -> coalesce.Kernel:
    return coalesce.Kernel((KERNELS / file).read_text(), entry, device=device)


def awkward() -> Iterator[Case]:
    """Kernels that are easy to count wrong; tests/kernels/awkward.cu."""
    seen: dict[str, int] = {}
    for entry, grid, block, arguments, shared in _awkward():
        seen[entry] = seen.get(entry, 0) + 1
        yield _launch(
            f"{entry} #{seen[entry]}", "awkward.cu", entry, grid, block, arguments, shared
        )


def programs() -> Iterator[Case]:
    """Whole kernels that the rules of counting were not made from; tests/kernels/programs.cu."""
    for entry, grid, block, arguments, shared in launches_of_programs():
        yield _launch(entry, "programs.cu", entry, grid, block, arguments, shared)


def launches_of_programs() -> Iterator[tuple[str, Any, Any, tuple[Any, ...], int]]:
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
    # Every node has one that leads to it, so that no two threads reach one node.
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


def together() -> Iterator[Case]:
    """Kernels whose lanes do different things in one instruction; tests/kernels/together.cu."""
    for entry, grid, block, arguments, shared in launches_together():
        yield _launch(entry, "together.cu", entry, grid, block, arguments, shared)


def launches_together() -> Iterator[tuple[str, Any, Any, tuple[Any, ...], int]]:
    """Yield entry, grid, block, arguments and dynamic shared bytes of each of these kernels."""
    source = (KERNELS / "together.cu").read_text()
    for entry in re.findall(r"^KERNEL\((\w+)\)", source, re.MULTILINE):
        words = whole_numbers(3, 2 * 96, 1 << 32, "uint32")
        words[::10] %= 50
        words[[7, 38]] = 0, 2**32 - 1
        out = np.zeros(8 * 2 * 96, np.uint32)
        yield entry, 2, 96, (words, out), 4 * 96 if "dynamic" in entry else 0


def slow_paths() -> Iterator[Case]:
    """Functions that branch on extreme operands; tests/kernels/slow_paths.cu."""
    seen: Counter[str] = Counter()
    for entry, grid, block, arguments, shared in launches_of_slow_paths():
        seen[entry] += 1
        name = f"{entry} #{seen[entry]}"
        yield _launch(name, "slow_paths.cu", entry, grid, block, arguments, shared)


def _extremes(seed: int, size: int, dtype: str) -> np.ndarray:
    """Ordinary numbers, of all exponents, and after every eighth a special one."""
    limits = np.finfo(dtype)
    special = np.array(
        [0, -0.0, np.inf, -np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal, -2,
         limits.tiny / 3, -limits.tiny / 5, limits.max / 2, limits.tiny * 2.5, 1],
        dtype,
    )  # fmt: skip
    with np.errstate(over="ignore"):
        numbers = 2 ** ((matrix(seed, size, dtype="float64") - 0.5) * 2 * limits.maxexp)
    numbers[1::2] = 4 * matrix(seed + 1, size // 2, dtype="float64")
    numbers[::8] = special[whole_numbers(seed + 2, size // 8, special.size)]
    return numbers.astype(dtype)


def launches_of_slow_paths() -> Iterator[tuple[str, Any, Any, tuple[Any, ...], int]]:
    """Yield entry, grid, block, arguments and dynamic shared bytes of each of these launches."""
    source = (KERNELS / "slow_paths.cu").read_text()
    n = 768
    for entry, element in re.findall(r"^FUNCTION\((\w+), (\w+),", source, re.MULTILINE):
        dtype = {"float": "float32", "double": "float64"}[element]
        ordinary = [1 + matrix(seed, n, dtype=dtype) for seed in (1, 2)]
        extreme = [_extremes(seed, n, dtype) for seed in (3, 6)]
        for values in (ordinary, extreme):
            yield entry, n // 128, 128, (*values, np.zeros(n, dtype), n - 3), 0
    bodies = matrix(9, 96, 3, dtype="float64")
    yield "forces", 3, 32, (bodies, np.zeros_like(bodies), 96), 0


def unseen() -> Iterator[Case]:
    """Whole kernels that neither rules nor models were made from; tests/kernels/unseen_*.cu."""
    for name, launch in unseen_cases.launches().items():
        yield _launch(name, *launch)


def _launch(
    name: str, file: str, entry: str, grid: Any, block: Any, arguments: Any, shared: int = 0
) -> Case:
    def run(device: Any, counts: bool = False, timed: bool = False) -> Launches:
        kernel = _kernel(file, entry, device)
        # The arguments are shared between cases, so what a launch writes goes to copies.
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        record = kernel.launch(
            grid, block, *given, shared_bytes=shared, counts=counts, runs="auto" if timed else None
        )
        return [(kernel.name, record)]

    return Case(name, run)


IDLE = 0xFFFFFFFF  # in a table of patterns.cu: the lane takes no part
SHARED_BYTES = 16384
LANE = np.arange(32)


def _orders() -> dict[str, np.ndarray]:
    """Which element each lane accesses, by what the pattern is called."""
    reverse_bits = np.array([int(f"{lane:05b}"[::-1], 2) for lane in LANE])
    orders = {f"stride {s}": LANE * s for s in (0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 32, 33, 64)}
    orders |= {
        "reversed": LANE[::-1],
        "neighbours swapped": LANE ^ 1,
        "bits reversed": reverse_bits,
        "halves swapped": LANE ^ 16,
        "quarters swapped": LANE ^ 8,
        "times 5": LANE * 5 % 32,
        "one moved": np.where(LANE == 9, 40, LANE),
        "last far": np.where(LANE == 31, 500, LANE),
        "shifted": LANE + 1,
        "shifted 3": LANE + 3,
    }
    for shared in (2, 4, 8, 16):
        orders[f"{shared} neighbours share"] = LANE // shared
        orders[f"every {shared} repeat"] = LANE % shared
        orders[f"{shared} neighbours share, stride 32"] = LANE // shared * 32
        orders[f"every {shared} repeat, stride 32"] = LANE % shared * 32
        orders[f"{shared} neighbours share, stride 9"] = LANE // shared * 9
        orders[f"every {shared} repeat, stride 17"] = LANE % shared * 17
    orders["two halves, same banks"] = LANE % 16 + LANE // 16 * 32
    orders["four quarters, same banks"] = LANE % 8 + LANE // 8 * 32
    orders["pairs, same banks"] = LANE // 2 + LANE % 2 * 32
    orders["fours, same banks"] = LANE // 4 + LANE % 4 * 32
    orders["even lanes alike"] = np.where(LANE % 2 == 0, 0, LANE)
    orders["low half alike"] = np.where(LANE < 16, 3, LANE)
    return orders


def _masks() -> dict[str, np.ndarray]:
    masks = {
        "even lanes": LANE % 2 == 0,
        "odd lanes": LANE % 2 == 1,
        "low half": LANE < 16,
        "high half": LANE >= 16,
        "first 7": LANE < 7,
        "lanes 5 to 20": (LANE >= 5) & (LANE <= 20),
        "lane 0": LANE == 0,
        "lane 17": LANE == 17,
        "every fourth": LANE % 4 == 0,
        "all but lane 13": LANE != 13,
    }
    return masks | {f"quarter {q}": q == LANE // 8 for q in range(4)}


def tables(width: int, memory: int = SHARED_BYTES, rounds: int = 4) -> dict[str, np.ndarray]:
    """Byte offsets of 32 lanes, aligned to `width` and below `memory`, by name; IDLE for none.

    Structured patterns first, then `rounds` random ones with all lanes and `rounds` with some for
    each of several spreads.
    """
    found: dict[str, np.ndarray] = {}
    for name, order in _orders().items():
        found[name] = order * width % memory
    for name, mask in _masks().items():
        for stride in (1, 2, 32):
            found[f"stride {stride}, {name}"] = np.where(mask, LANE * stride * width % memory, IDLE)
    raw = iter(np.random.PCG64(width).random_raw(20000).tolist())
    for spread in (4 * width, 16 * width, 64 * width, 2048, memory):
        for trial in range(rounds):
            offsets = np.array([next(raw) % (spread // width) * width for _ in LANE])
            some = np.array([next(raw) % 3 > 0 for _ in LANE])
            found[f"random in {spread} #{trial}"] = offsets
            found[f"random in {spread}, some lanes #{trial}"] = np.where(some, offsets, IDLE)
    return {name: offsets.astype(np.uint32) for name, offsets in found.items()}


def sharing(width: int) -> dict[str, np.ndarray]:
    """Patterns in which lanes 1 or 2 apart share addresses: what a wide shared load may merge."""
    found: dict[str, np.ndarray] = {}
    raw = iter(np.random.PCG64(100 + width).random_raw(20000).tolist())
    partners = {"pairs": LANE & ~1, "alternate pairs": LANE & ~2, "fours": LANE & ~3}
    for spread in (16 * width, 2048):
        for name, leader in partners.items():
            for trial in range(3):
                each = np.array([next(raw) % (spread // width) * width for _ in LANE])
                other = np.array([next(raw) % (spread // width) * width for _ in LANE])
                some = np.array([next(raw) % 4 > 0 for _ in LANE])
                shared = each[leader]
                title = f"{name} in {spread}"
                found[f"{title} #{trial}"] = shared
                found[f"{title}, some lanes #{trial}"] = np.where(some, shared, IDLE)
                found[f"{title}, even lanes #{trial}"] = np.where(LANE % 2 == 0, shared, IDLE)
                found[f"{title}, one alone #{trial}"] = np.where(LANE == 21, other, shared)
                found[f"{title}, low half #{trial}"] = np.where(LANE < 16, shared, other)
                found[f"{title}, two quarters #{trial}"] = np.where(LANE % 16 < 8, shared, other)
    return {name: offsets.astype(np.uint32) for name, offsets in found.items()}


def close(width: int, rounds: int = 6) -> dict[str, np.ndarray]:
    """Random patterns with many lanes in a sector."""
    raw = iter(np.random.PCG64(200 + width).random_raw(20000).tolist())
    found = {}
    for spread in (64, 128, 256, 512, 1024, 2048):
        for trial in range(rounds):
            offsets = np.array([next(raw) % (spread // width) * width for _ in LANE])
            some = np.array([next(raw) % 2 > 0 for _ in LANE])
            found[f"close in {spread} #{trial}"] = offsets
            found[f"close in {spread}, some lanes #{trial}"] = np.where(some, offsets, IDLE)
    return {name: offsets.astype(np.uint32) for name, offsets in found.items()}


WIDTHS = (1, 2, 4, 8, 16)
# What is done atomically, its bytes, and whether the result is asked for ("atom") or not ("red").
ATOMICS = [
    ("AddU32", 4, "false"), ("AddU32", 4, "true"), ("AddOne", 4, "false"), ("AddOne", 4, "true"),
    ("MaxU32", 4, "false"), ("ExchU32", 4, "true"), ("CasU32", 4, "true"),
    ("AddF32", 4, "false"), ("AddF32", 4, "true"),
    ("AddU64", 8, "false"), ("CasU64", 8, "true"), ("AddF64", 8, "false"),
]  # fmt: skip
BRIEF = (
    "stride 0|stride 1|stride 2|stride 3|stride 8|stride 32|reversed|last far|shifted|one moved"
    "|[24] neighbours share|every [48] repeat|8 neighbours share, stride 32|fours, same banks"
    "|every 8 repeat, stride 32|even lanes alike|stride 1, (even lanes|high half|lane 17)"
    "|stride 32, (first 7|quarter 2)|random in .*#0"
)


def patterns_of_one_access() -> Iterator[Case]:
    """One access of one warp in every pattern; tests/kernels/patterns.cu."""
    for space in ("shared", "global"):
        for kind in ("load", "store"):
            for width in WIDTHS:
                all_of_them = space == "shared" and width >= 8
                rows = tables(width) if all_of_them else brief(tables(width))
                yield from _patterns(f"{space}_{kind}<{width}>", rows)
        for name, width, returning in ATOMICS:
            yield from _patterns(f"{space}_atomic<{name},{returning}>", brief(tables(width)))
        for name in ("AddU64,false", "CasU64,true") if space == "global" else ("CasU64,true",):
            yield from _patterns(f"{space}_atomic<{name}>", close(8))
        yield from _patterns(f"{space}_atomic<AddU32,true>", close(4, rounds=2))
    for width in (8, 16):
        yield from _patterns(f"shared_load<{width}>", sharing(width))
    for width, past_l1 in ((4, "false"), (8, "false"), (16, "false"), (16, "true")):
        rows = brief(tables(width))
        aligned = rows["stride 1"]
        entry = f"async_copy<{width},{past_l1}>"
        yield from _patterns(entry, rows, target=aligned)
        for name, target in rows.items():
            if IDLE not in target and "random" not in name:
                yield from _patterns(entry, {f"to {name}": aligned}, target=target)
        both = list(close(width, rounds=1).items())
        for (name, source), (other, target) in zip(both[::2], both[-2::-2], strict=True):
            yield from _patterns(entry, {f"{name} to {other}": source}, target=target)


def launches_of_patterns() -> Iterator[tuple[str, Any, Any, tuple[Any, ...], int]]:
    """Yield entry, grid, block, arguments and dynamic shared bytes, a random pattern for each."""
    entries = {
        f"{space}_{kind}<{width}>": width
        for space in ("shared", "global")
        for kind in ("load", "store")
        for width in WIDTHS
    }
    for name, width, returning in ATOMICS:
        entries |= {f"{s}_atomic<{name},{returning}>": width for s in ("shared", "global")}
    for width, past_l1 in ((4, "false"), (8, "false"), (16, "false"), (16, "true")):
        entries[f"async_copy<{width},{past_l1}>"] = width
    for entry, width in entries.items():
        rows = tables(width)
        spread = f"random in {16 * width}"
        table = np.stack([rows[f"{spread}, some lanes #0"], rows["stride 1"]])
        data = whole_numbers(3, SHARED_BYTES, 200, "int8")
        yield entry, 1, 32, (table, data, np.zeros(32, np.uint32), 0), 0


def loads_of_many_lines() -> Iterator[Case]:
    """One load of a warp from as many lines as lanes, in many steps; tests/kernels/patterns.cu."""
    for width in (4, 8, 16):
        for name, table in tables_of_lines(width).items():
            data, out = np.zeros(MANY_LINES_BYTES, np.int8), np.zeros(32, np.uint32)
            yield _launch(
                f"global_load<{width}> {name}",
                "patterns.cu",
                f"global_load<{width}>",
                1,
                32,
                (table[np.newaxis], data, out, 0),
            )


MANY_LINES_BYTES = 1 << 21


def tables_of_lines(width: int) -> dict[str, np.ndarray]:
    """Byte offsets of 32 lanes in lines of 128 bytes, a bank of its own for each, by name."""
    own_bank = LANE * width % 128
    found = {
        f"lines {step} apart": LANE * step for step in (*range(1, 37), 48, 63, 64, 65, 127, 128)
    }
    found |= {f"{n} lines": LANE % n for n in range(1, 32)}
    raw = iter(np.random.PCG64(300 + width).random_raw(4096).tolist())
    for bits in range(5, 15):
        for trial in range(4):
            lines = np.array([next(raw) % (1 << bits) for _ in LANE])
            found[f"random in {1 << bits} lines #{trial}"] = lines
    return {
        name: (lines * 128 + own_bank).astype(np.uint32)[:32]
        for name, lines in found.items()
        if lines.max() * 128 < MANY_LINES_BYTES
    }


def brief(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The most telling patterns."""
    return {name: row for name, row in rows.items() if re.fullmatch(BRIEF, name)}


def _patterns(
    entry: str, rows: dict[str, np.ndarray], target: np.ndarray | None = None
) -> Iterator[Case]:
    data, out = np.zeros(SHARED_BYTES, np.int8), np.zeros(32, np.uint32)
    for name, row in rows.items():
        table = np.stack([row, row if target is None else target])
        yield _launch(f"{entry} {name}", "patterns.cu", entry, 1, 32, (table, data, out, 0))


def load(path: Path) -> dict[str, Any]:
    """Read a recording; each of its launches gets "metrics", a dict by Nsight Compute's names."""
    recording: dict[str, Any] = json.loads(path.read_text())
    for launch in recording["launches"]:
        values = zip(recording["metrics"], launch.pop("values"), strict=True)
        launch["metrics"] = {name: value for name, value in values if value is not None}
    return recording


SETS: dict[str, Callable[[], Iterator[Case]]] = {
    "shipped": exact_shipped,
    "models": models,
    "awkward": awkward,
    "programs": programs,
    "unseen": unseen,
    "patterns": patterns_of_one_access,
    "tag_sets": loads_of_many_lines,
    "together": together,
    "slow_paths": slow_paths,
}
