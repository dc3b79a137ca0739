"""The launches of tests/kernels/unseen_*.cu.

These kernels were not used to find the counting rules or to fit the models.

Most launches are large enough to keep a GPU busy; some are tiny. The executed instructions do not
depend on the order of threads.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np


class Launch(NamedTuple):
    """A kernel's file and name, and its launch parameters."""

    file: str
    entry: str
    grid: Any
    block: Any
    arguments: tuple[Any, ...]
    shared_bytes: int = 0


# The entry, grid, block, arguments and dynamic shared bytes.
Rows = Iterator[tuple[str, Any, Any, tuple[Any, ...], int]]


@cache
def launches() -> dict[str, Launch]:
    """Return each launch by its kernel's name; a second launch has " #2" appended."""
    by_name: dict[str, Launch] = {}
    for file, rows in FILES.items():
        for entry, *rest in rows():
            again = sum(launch.entry == entry for launch in by_name.values())
            name = f"{entry} #{again + 1}" if again else entry
            by_name[name] = Launch(file, entry, *rest)
    return by_name


@cache
def _random() -> np.ndarray:
    return np.random.PCG64(1).random_raw(1 << 22)


@cache
def _random_floats() -> np.ndarray:
    return ((_random() >> np.uint64(40)) / 2.0**24).astype(np.float32)


def floats(start: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers in [0, 1): a slice of numbers that all launches share."""
    stretch = _stretch(_random_floats(), start, int(np.prod(shape)))
    return stretch.astype(dtype).reshape(shape)


def wholes(start: int, size: int, below: int, dtype: str = "int32") -> np.ndarray:
    """Random integers from 0 to `below` - 1: a slice of numbers that all launches share."""
    return (_stretch(_random(), start, size) % np.uint64(below)).astype(dtype)


def _stretch(numbers: np.ndarray, start: int, size: int) -> np.ndarray:
    first = 10_007 * start
    if first + size > numbers.size:
        raise ValueError(f"{size} numbers from {first} on; there are {numbers.size}")
    return numbers[first : first + size]


def zeros(*shape: int) -> np.ndarray:
    """Return an array for the floats that a kernel writes."""
    return np.zeros(shape, np.float32)


def blocks(threads: int, block: int) -> int:
    """Return the number of blocks for this many threads."""
    return -(-threads // block)


def halves(seed: int, size: int) -> np.ndarray:
    """Return random halves from 0 to 1."""
    return floats(seed, size).astype(np.float16)


def integers(size: int) -> np.ndarray:
    """Return an array for the integers that a kernel writes."""
    return np.zeros(size, np.int32)


def starts(lengths: np.ndarray) -> np.ndarray:
    """Return the start of each piece, and the end of the last piece."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def _learning() -> Rows:
    pixels = floats(1, 2 * 8 * 56 * 56)
    weights, bias = floats(2, 16 * 8 * 9) - 0.5, floats(3, 16)
    results = zeros(2 * 16 * 56 * 56)
    yield "conv2d_nchw", (4, 4, 32), (16, 16), (pixels, weights, bias, results, 8, 56, 56, 16), 0
    n = 128 * 28 * 28
    columns = zeros(9 * n)
    yield "im2col", blocks(n, 256), 256, (n, floats(4, n), 28, 28, 3, 1, 1, 28, 28, columns), 0
    n = 8 * 64 * 28 * 28
    maps, pooled, places = floats(4, n * 4), zeros(n), np.zeros(n, np.int64)
    yield "max_pool<float>", blocks(n, 256), 256, (n, maps, 64, 56, 56, 28, 28, pooled, places), 0

    maps = floats(5, 8 * 64 * 784)
    yield "batch_norm_stats", 64, (32, 8), (maps, zeros(64), zeros(64), 8, 64, 784), 0
    rows, gamma, beta = floats(6, 5000, 512), floats(7, 512), floats(8, 512)
    yield "layer_norm_warp<512>", 1250, (32, 4), (rows, zeros(5000, 512), gamma, beta, 5000), 0
    rows, weights = floats(9, 2000, 1000) - 0.5, floats(10, 1000)
    yield "rms_norm_block", 2000, 256, (rows, weights, zeros(2000 * 1001), 1000), 0

    q, k, v = (floats(seed, 8 * 150 * 64) for seed in (11, 12, 13))
    scale = np.float32(0.125)
    yield "attention_scores", (3, 150, 8), 64, (q, k, zeros(8 * 150 * 150), 150, 64, scale), 256
    yield "attention_online", 100, 128, (q, k, v, zeros(400 * 32), 100), 0
    positions = wholes(14, 2000, 2048)
    yield "rotary", 2000, 128, (halves(15, 2000 * 512), positions, 8, 32), 0
    ids, table = wholes(16, 6000, 5000, "int64"), floats(17, 5000, 300)
    yield "embedding", 6000, 96, (ids, table, zeros(6000, 300), 300, int(ids[3])), 0
    ids, gradient = wholes(18, 8000, 2000, "int64"), floats(19, 8000, 64)
    yield "embedding_backward", 2000, (64, 4), (ids, gradient, zeros(2000, 64), 8000, 64), 0

    logits, target = floats(20, 2000, 1000) * 8, wholes(21, 2000, 1000)
    yield "cross_entropy", 500, 128, (logits, target, zeros(2000), 1000, 2000), 0
    yield "cross_entropy", 1, 64, (logits, target, zeros(400), 10, 2), 0
    gates, cells = floats(22, 256 * 4000) * 4 - 2, floats(23, 256 * 1000)
    yield "lstm_cell", (8, 256), 128, (gates, cells, zeros(256_000), zeros(256_000), 1000), 0
    n = 600_000
    state = [floats(seed, n) for seed in (24, 25, 26, 27)]
    adam = np.array([1e-3, 0.9, 0.999, 1e-8, 0.01], np.float32).tobytes() + np.int32(7).tobytes()
    yield "adam_step", 1000, 256, (*state, adam, n), 0
    bits = wholes(28, 2000 * 600, 0x4080, "uint16")  # the bits of bfloat16 values from 0 to 4
    yield "bias_gelu", 1000, 128, (bits, bits[::-1][:600].copy(), bits.copy(), 2000, 300), 0
    rows = floats(29, 2400, 500)
    yield "top4", 600, (32, 4), (rows, zeros(9600), integers(9600), 2400, 500), 0


def _matrices() -> Rows:
    w, x = wholes(30, 4000 * 512, 1 << 31), wholes(31, 512, 1 << 31)
    scales = floats(32, 4000)
    eighth = np.float32(0.125)
    yield "int8_matvec", 500, (32, 8), (w, x, scales, eighth, zeros(4000), 4000, 2048), 0
    a, b = halves(33, 200 * 150), halves(34, 150 * 180)
    c = np.zeros(200 * 180, np.float16)
    yield "half_matmul", (12, 13), (16, 16), (a, b, c, 200, 180, 150), 0
    a, b = floats(35, 240 * 80 * 2), floats(36, 80 * 200 * 2)
    yield "complex_matmul", (10, 40), (20, 6), (a, b, zeros(240 * 200 * 2), 240, 200, 80), 0
    a, b, c = (floats(37 + i, n, dtype="float64") for i, n in enumerate((15_000, 13_000, 19_500)))
    sizes = (150, 130, 100)
    yield "dgemm_tiled<16>", (10, 9), (16, 16), (*sizes, 1.5, a, b, 0.5, c), 0
    a, b = floats(40, 512, 64), floats(41, 64, 512)
    yield "sgemm_double_buffered", (8, 8), 128, (a, b, zeros(512, 512), 512, 512, 64), 0
    a, x = floats(42, 2400, 1024), floats(43, 1024)
    yield "row_dot_async", 2400, 128, (a, x, zeros(2400), 1024), 0

    shape, axes = (12, 40, 16, 12, 5), (4, 2, 0, 3, 1)
    strides = [int(np.prod(shape[axis + 1 :])) for axis in axes]
    layout = np.array([5, *(shape[axis] for axis in axes), *strides], np.int32).tobytes()
    n = int(np.prod(shape))
    yield "permute", n // 256, 256, (floats(44, n), zeros(n), layout, np.uint64(n)), 0
    volume = floats(45, 110, 70, 130, dtype="float64")
    results = np.zeros(130 * 70 * 110)
    yield "transpose_xyz_zyx", (9, 7, 70), (16, 16), (volume, results, 130, 70, 110), 0

    n = 300_000
    row, column = np.sort(wholes(46, n, 30_000)), wholes(47, n, 30_000)
    values, x = floats(48, n, dtype="float64"), floats(49, 30_000, dtype="float64")
    yield "spmv_coo", 400, 256, (n, row, column, values, x, np.zeros(30_000)), 0
    n = 60_000
    first = starts(wholes(50, n, 20))
    column, values = wholes(51, int(first[-1]), n), floats(52, int(first[-1]))
    x = floats(53, n)
    yield "spmv_csr_scalar", blocks(n, 128), 128, (n, first, column, values, x, zeros(n)), 0
    yield "spmv_csr_scalar", 1, 50, (41, first, column, values, x, zeros(n)), 0
    systems, right = floats(54, 96_000, dtype="float64"), floats(55, 24_000, dtype="float64")
    yield "solve_4x4", 63, 96, (systems, right, np.zeros(24_000), 6000), 0
    lower = floats(56, 500, 24, 24)
    positive = (lower + lower.transpose(0, 2, 1)) / 2 + 24 * np.eye(24, dtype=np.float32)
    yield "cholesky_batched", 500, 32, (positive, 24), 0
    a, b, c, d = (floats(seed, 150_000) for seed in (57, 58, 59, 60))
    given = (a, b + 3, c, d)
    yield "thomas", 47, 64, (*given, zeros(150_000), zeros(150_000), 50, 3000), 0
    given = tuple(part[:40_000].astype(np.float64) for part in given)
    yield "cyclic_reduction", 400, 100, (*given, np.zeros(40_000)), 3200


def _algorithms() -> Rows:
    n = 400_000
    order = np.argsort(wholes(61, n, 1 << 40, "int64"), kind="stable")
    following = np.full(n, -1, np.int32)
    following[order[:-1]] = order[1:]
    ranks = (following >= 0).astype(np.int32)
    given = (following, ranks, integers(n), integers(n), n)
    yield "list_rank", blocks(n, 256), 256, given, 0
    buckets, entries = _chains(wholes(62, 20_000, 1 << 31, "uint32"), 16_384)
    queries = (entries["key"][wholes(63, n, 20_000)] + wholes(64, n, 2)).astype(np.uint32)
    given = (buckets, entries.view(np.int32), queries, integers(n), n)
    yield "chained_hash_find", blocks(n, 128), 128, (*given, np.uint32(16_383)), 0
    keys = wholes(65, 100_000, 20_000)
    tree = _tree(wholes(66, 4000, 20_000))
    yield "tree_find", 300, 128, (tree, 0, keys, integers(100_000), 100_000), 0
    ordered = np.sort(wholes(67, n, 60_000, "int64"))
    wanted, counts = keys.astype(np.int64), np.zeros(100_000, np.int64)
    yield "count_equal", 782, 128, (ordered, n, wanted, counts, 100_000), 0

    keys = wholes(68, 1 << 20, 1 << 32, "uint32")
    yield "radix_count", 1024, 256, (keys, integers(16 * 1024), (1 << 20) - 7, 4), 0
    yield "bitonic_warp", 4096, 256, (keys,), 0
    keys = keys[:n]
    digits = np.full(blocks(n, 128) * 128, 16)
    digits[:n] = keys >> 8 & 15
    each = np.stack([(digits.reshape(-1, 128) == digit).sum(axis=1) for digit in range(16)])
    offsets = starts(each.ravel())[:-1]
    yield "radix_scatter", blocks(n, 128), 128, (keys, offsets, np.zeros(n, np.uint32), n, 8), 0
    yield "prescan", n // 512, 256, (zeros(n), floats(69, n), zeros(n // 512), 512), 527 * 4
    keys = np.sort(wholes(70, n, 50_000))
    yield "segmented_sum", blocks(n, 256), 256, (keys, floats(71, n), zeros(50_000), n), 0
    x, low, high = floats(72, n), np.float32(0.25), np.float32(0.6)
    kept = np.add.reduceat((x >= low) & (x < high), np.arange(0, n, 256), dtype=np.int64)
    offsets = starts(kept)
    yield "keep_between", offsets.size - 1, 256, (x, zeros(n), offsets, n, low, high), 0
    shorts = wholes(73, 800_000, 1 << 16, "uint16").view(np.int16)
    yield "sort_eights", 782, 128, (shorts, 100_000), 0
    yield "sort_eights", 1, 33, (shorts, 30), 0

    n = 150_000
    points, centers = floats(74, n, 3), floats(75, 20, 3)
    given = (points, centers, integers(n), zeros(60), integers(20), n, 20)
    yield "kmeans", blocks(n, 256), 256, given, 0
    flags = np.zeros(2500, np.bool_)
    given = (floats(76, 2500, 2), integers(2500), flags, 2500, np.float32(0.05), 20)
    yield "dbscan_core", blocks(2500, 96), 96, given, 0
    n = 50_000
    first = starts(wholes(77, n, 60))
    edges = wholes(78, int(first[-1]), n)
    frontier = np.unique(wholes(79, 10_000, n)).astype(np.int32)
    distance = np.where(wholes(80, n, 3) == 0, 2, 0xFFFFFFFF).astype(np.uint32)
    given = (frontier, frontier.size, first, edges, distance, np.uint32(3))
    yield "expand_frontier", blocks(frontier.size, 8), 256, given, 0
    pairs, parents = wholes(81, 600_000, n), wholes(82, n, n)
    parents = np.minimum(parents, np.arange(n)).astype(np.int32)
    yield "hook_components", 2344, 128, (pairs, parents, parents.copy(), 300_000), 0
    first = starts(wholes(83, n, 17))
    sources = wholes(84, int(first[-1]), n)
    degrees = np.maximum(np.bincount(sources, minlength=n), 1).astype(np.int32)
    rank, given = floats(85, n), (first, sources, degrees)
    yield "pagerank", blocks(n, 256), 256, (*given, rank, zeros(n), zeros(1), n), 0


def _chains(keys: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the heads of a hash table's chains and its entries (key, value, next)."""
    buckets = np.full(size, -1, np.int32)
    entries = np.zeros(keys.size, [("key", np.uint32), ("value", np.int32), ("next", np.int32)])
    for at, key in enumerate(keys.tolist()):
        h = (key ^ key >> 16) * 0x85EBCA6B & 0xFFFFFFFF
        slot = (h ^ h >> 13) & size - 1
        entries[at] = key, at, buckets[slot]
        buckets[slot] = at
    return buckets, entries


def _tree(keys: np.ndarray) -> np.ndarray:
    """Return a search tree with inserted keys: the key, value, left and right of each node."""
    nodes: list[list[int]] = []
    for key in keys.tolist():
        at = 0 if nodes else -1
        while at >= 0 and nodes[at][0] != key:
            side = 2 if key < nodes[at][0] else 3
            if nodes[at][side] < 0:
                nodes[at][side] = len(nodes)
                break
            at = nodes[at][side]
        if at < 0 or nodes[at][0] != key:
            nodes.append([key, 3 * key, -1, -1])
    return np.array(nodes, np.int32)


def _integers() -> Rows:
    letters = np.frombuffer(b"ACGT", np.int8)
    text = letters[wholes(90, 800_000, 4)]
    yield "smith_waterman", 150, 100, (text, text[200:], integers(150), 100, 120), 0
    raw = letters.view(np.uint8)[wholes(91, 150_000, 4)]
    yield "edit_distance", 47, 64, (raw, raw[5:].copy(), integers(3000), 3000, 24), 0
    n = text.size
    yield "find_pattern", blocks(n, 256), 256, (text, n, integers(n), integers(1)), 0
    table, lines = _table(3000)
    given = (table, lines, 3000, integers(3000), integers(3000))
    yield "csv_fields", 24, 128, given, 0
    n = 500_000
    bytes_ = wholes(92, 3 * n, 256, "uint8")
    yield "base64", blocks(n, 192), 192, (bytes_, np.zeros(4 * n, np.int8), n), 0
    yield "base64", 1, 64, (bytes_, np.zeros(4 * n, np.int8), 50), 0
    bytes_ = wholes(93, 2_400_000, 256, "uint8")
    yield "utf8_length", 400, 128, (bytes_.view(np.uint32), 150_000, integers(1)), 0

    n = 1_200_000
    runs = np.repeat(bytes_, bytes_ % 7)[:n]
    heads = np.zeros(blocks(n, 32), np.uint32)
    yield "run_heads", blocks(n, 256), 256, (runs, heads, integers(blocks(n, 256)), n), 0
    n = 300_000
    symbols = wholes(94, n, 256, "uint8") & wholes(95, n, 256, "uint8")
    lengths = 3 + np.arange(256) // 26
    codes = (lengths << 24 | wholes(96, 256, 1 << 24) >> 24 - lengths).astype(np.uint32)
    offsets = starts(lengths[symbols])
    packed = np.zeros(int(offsets[-1]) // 32 + 2, np.uint32)
    yield "pack_codes", blocks(n, 128), 128, (symbols, codes, offsets[:-1], packed, n), 0
    n, size = 300_000, np.uint32(2_000_003)
    keys, words = wholes(97, n, 1 << 32, "uint32"), np.zeros(62_501, np.uint32)
    yield "bloom_add", blocks(n, 256), 256, (keys, words, n, size), 0
    words = wholes(98, 62_501, 1 << 32, "uint32") | wholes(99, 62_501, 1 << 32, "uint32")
    yield "bloom_query", blocks(n, 256), 256, (keys, words, np.zeros(n, np.uint8), n, size), 0
    words = wholes(100, 96 * 6400, 1 << 32, "uint32")
    yield "transpose_bits", 2400, 256, (words, np.zeros_like(words), 96, 6400), 0

    n = 20_000
    yield "collatz", blocks(n, 128), 128, (1000, n, integers(n), integers(1)), 0
    primes = np.array([p for p in range(2, 700) if all(p % d for d in range(2, p))], np.int32)
    yield "sieve", 110, 128, (primes, primes.size, 4096, integers(1)), 4096
    n = 20_000
    limbs = [wholes(seed, 32 * n, 1 << 32, "uint32") for seed in (101, 102)]
    limbs[1][::3] = ~limbs[0][::3]
    results = np.zeros(32 * n, np.uint32), np.zeros(n, np.uint32)
    yield "big_add", 2500, 256, (*limbs, *results, n), 0
    n = 4000
    bases, exponents = wholes(103, n, 1 << 60, "uint64"), keys[:n]
    modulus = np.uint64(1_000_000_007)
    yield "mod_pow", 63, 64, (bases, exponents, np.zeros(n, np.uint64), modulus, n), 0
    yield "queens", 6, 128, (9, integers(729)), 0
    yield "sudoku_singles", 1000, (9, 9), (_sudokus(1000), integers(1000)), 0
    messages = keys[: 8 * 30_000]
    yield "sha256", 469, 64, (messages, np.zeros_like(messages), 30_000), 0


def _table(lines: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a text with a number of lines of fields, some quoted, and the start of each line."""
    parts = iter(wholes(104, 100_000, 1 << 20).tolist())
    texts = []
    for _ in range(lines):
        fields = [str(next(parts)) for _ in range(next(parts) % 9 + 1)]
        quoted = [f'"{f},{f}"' if int(f) % 5 == 0 else f for f in fields]
        texts.append(",".join(quoted) + "\n")
    text = np.frombuffer("".join(texts).encode(), np.int8)
    return text, starts(np.array([len(line) for line in texts]))


def _sudokus(puzzles: int) -> np.ndarray:
    """Return puzzles with about half of their cells empty."""
    row, column = np.divmod(np.arange(81), 9)
    solved = (3 * (row % 3) + row // 3 + column) % 9
    cells = (solved + np.arange(puzzles)[:, None]) % 9 + 1
    given = wholes(105, puzzles * 81, 100).reshape(puzzles, 81)
    return np.where(given < 50, cells, 0).astype(np.uint8)


def _pictures() -> Rows:
    bytes_ = wholes(110, 2_400_000, 256, "uint8")
    given = (bytes_, 640, 480, np.zeros(999 * 750 * 3, np.uint8), 999, 750)
    yield "resize_bilinear", (32, 94), (32, 8), given, 0
    yield "sobel", (34, 58), (32, 16), (bytes_, np.zeros(800_000, np.uint8), 1000, 800), 0
    shorts = bytes_.view(np.uint16)
    yield "median_3x3", (76, 67), (16, 12), (shorts, np.zeros_like(shorts), 1201, 800, 1216), 0
    bins = np.zeros(64, np.uint32)
    yield "histogram_warps", 400, 192, (bytes_, bins, 600_000), 0
    picture = floats(111, 640, 1024)
    yield "dct8x8", (32, 80), (8, 8, 4), (picture, zeros(640, 1024), 1024), 0

    yield "trace", (80, 45), (8, 8), (np.zeros(640 * 360 * 4, np.uint8), 640, 360), 0
    n = 150_000
    vertices, faces = floats(112, 50_000, 3), wholes(113, 3 * n, 50_000)
    yield "face_normals", blocks(n, 128), 128, (vertices, faces, zeros(3 * n), n), 0
    matrices = [floats(seed, 12).tobytes() for seed in (114, 115)]
    yield "skin_vertices", blocks(n, 256), 256, (floats(116, n, 7), zeros(n, 7), *matrices, n), 0
    yield "skin_vertices", 3, 7, (floats(116, n, 7), zeros(n, 7), *matrices, 19), 0
    n = 400_000
    x, y = wholes(117, n, 256), wholes(118, n, 256)
    sprites = x | y << 10 | wholes(119, n, 1 << 12) << 20
    walls = np.where(bytes_[: 256 * 256] < 60, 1, 0).astype(np.uint8)
    yield "move_sprites", blocks(n, 128), 128, (sprites.astype(np.int32), walls, n), 0
    z, y, x = np.meshgrid(*(np.arange(extent) for extent in (90, 101, 130)), indexing="ij")
    volume = ((x - 70) ** 2 + (y - 45) ** 2 + (z - 40) ** 2).astype(np.float32)
    cases, limit = np.zeros(volume.size, np.uint8), np.float32(900)
    given = (volume, cases, integers(1), 130, 101, 90, limit)
    yield "classify_cubes", (17, 26, 23), (8, 4, 4), given, 0


def _science() -> Rows:
    n = 120 * 90 * 60
    yield "divergence", (18, 18, 20), (7, 5, 3), (floats(120, n, 3), zeros(n), 120, 90, 60), 0
    u, f = floats(121, 800, 1000), floats(122, 800, 1000)
    given = (u, f, zeros(800, 1000), np.zeros(1), 1000, 800)
    yield "jacobi_tile", (63, 50), (16, 16), given, 0
    u, f = floats(123, 700, 1000, dtype="float64"), floats(124, 700, 1000, dtype="float64")
    yield "gauss_seidel", (16, 175), (33, 4), (u, f, 1000, 700, 1), 0
    waves = [floats(seed, 16, 192, 256) for seed in (125, 126, 127)]
    yield "wave_3d", (8, 24), (32, 8), (*waves, 256, 192, 16), 0
    cells = 500 * 300
    solid = wholes(128, cells, 10) == 0
    given = (floats(129, 9 * cells) + 0.5, zeros(9 * cells), solid, 500, 300)
    yield "lattice_boltzmann", (8, 300), 64, given, 0
    cells = 900 * 600
    given = (floats(130, cells, 2), floats(131, cells), zeros(cells), 900, 600, np.float32(6))
    yield "advect", (19, 200), (48, 3), given, 0

    n = 6000
    positions, neighbours = floats(132, n, 4) * 10, wholes(133, 24 * n, n)
    few = np.minimum(wholes(134, n, 30), 24).astype(np.int32)
    limits = np.float32(10), np.float32(9)
    yield "lennard_jones", 47, 128, (positions, neighbours, few, zeros(n, 3), n, *limits), 0
    n = 200_000
    charged = floats(135, n, 2), floats(136, n)
    yield "deposit_charge", 400, 128, (*charged, zeros(128, 128), n, 128), 0
    spins = [(wholes(seed, 1000 * 500, 2) * 2 - 1).astype(np.int8) for seed in (137, 138)]
    given = (*spins, 1000, 500, 1, np.float32(0.3), np.uint32(9))
    yield "ising", (16, 125), (32, 8), given, 0
    maze, n = wholes(139, 48 * 48, 256, "uint8"), 5000
    yield "random_walk", 40, 128, (maze, 48, n, 100, integers(2 * n), integers(1)), 0

    n = 300_000
    yield "philox_normal", blocks(n, 256), 256, (zeros(4 * n), n, bytes(range(8))), 0
    market = [np.float32(value) for value in (100, 105, 0.03, 0.2, 1)]
    yield "asian_option", 625, 128, (np.zeros(1), 80_000, 8, *market), 0
    strikes = 50 + 100 * floats(140, 150)
    odds = [np.float32(value) for value in (100, 1.01, 0.51, 0.9999)]
    yield "binomial_put", 150, 128, (strikes, zeros(150), *odds), 0
    yield "binomial_put", 1, 20, (strikes, zeros(150), *odds), 0

    samples = floats(141, 500, 50, dtype="float64")
    given = (samples, floats(142, 50, dtype="float64"), np.zeros((50, 50)), 500, 50)
    yield "covariance", (50, 50), 64, given, 0
    n = 60_000
    yield "short_row_stats", 3750, 128, (floats(143, n, 27), zeros(2 * n), n, 27), 0
    n = 700_000
    signal, result = floats(144, n), zeros(n)
    yield "moving_average", blocks(n, 256), 256, (signal, result, n, 25), 280 * 4
    yield "moving_average", 1, 96, (signal, result, 90, 7), 102 * 4
    n = 200_000
    x, y, weight = (floats(seed, n, dtype="float64") for seed in (145, 146, 147))
    given = (x, y, weight, np.zeros(1600), n, 40)
    yield "histogram_2d", blocks(n, 128), 128, given, 0
    box = np.array([2**31 - 1] * 3 + [-(2**31)] * 3, np.int32)
    yield "bounding_box", 300, 256, (floats(148, 500_000, 3), box, 500_000), 0
    n = 2_000_000
    given = (floats(149, n), zeros(500), np.zeros(1, np.uint32), zeros(1), n)
    yield "sum_in_one", 500, 256, given, 0


FILES = {
    "unseen_learning.cu": _learning,
    "unseen_matrices.cu": _matrices,
    "unseen_algorithms.cu": _algorithms,
    "unseen_integers.cu": _integers,
    "unseen_pictures.cu": _pictures,
    "unseen_science.cu": _science,
}
