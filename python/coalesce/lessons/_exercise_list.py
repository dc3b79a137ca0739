"""The exercises of the lessons: tasks, launches, demands on the counts, cases and hints."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coalesce.common import checks
from coalesce.cxx import variables
from coalesce.lessons._exercises import Case, Demand, Exercise
from coalesce.profiling import Profile
from coalesce.profiling.advice import wasteful
from coalesce.profiling.rows import Access

Array = NDArray[Any]
Kind = Literal["load", "store"]
Quantity = Literal["requests", "sectors"]


def exercise(name: str) -> Exercise:
    """Return an exercise.

    Parameters
    ----------
    name : str
        ``"brighten"``, ...; `exercises` returns all.

    Raises
    ------
    ValueError
        There is no such exercise.

    Examples
    --------
    >>> coalesce.lessons.exercise("smooth").launch
    'one thread per element, blocks of 256'
    """
    known = {one.name: one for one in _EXERCISES}
    return known[checks.choice("name", name, known)]


def exercises() -> tuple[Exercise, ...]:
    """Return all exercises, in the order of the lessons."""
    return _EXERCISES


# Demands


def _sectors(kind: Kind, most: float) -> Demand:
    def judge(profile: Profile, case: Case) -> None:
        del case
        # Wider elements take more sectors per request; that is not waste.
        if not any(wasteful(a) for a in _global(profile, kind)):
            return
        if kind == "load":
            profile.assert_sectors_per_request(load=most)
        else:
            profile.assert_sectors_per_request(store=most)

    text = (
        f"{kind}s of global memory are coalesced, or take at most {most:g} sectors per request on "
        "average"
    )
    return Demand(text, judge)


def _no_conflicts(profile: Profile, case: Case) -> None:
    del case
    profile.assert_no_bank_conflicts()


def _global(profile: Profile, *kinds: str) -> list[Access]:
    return [a for a in profile.accesses() if a.space == "global" and a.kind in kinds]


_ONE_PASS = "one pass over the array takes"
_TILED = "blocks that load their rows of a and columns of b once take"


def _few(
    kind: Kind, quantity: Quantity, most: float, least: str, profile: Profile, case: Case
) -> None:
    """Raise AssertionError if the kernel loads or stores too often.

    The limit is `most` times the number of requests (or sectors) that the elements of the case
    take. `least` says what takes this number.
    """
    accesses = _global(profile, kind)
    found = sum(getattr(a, quantity) for a in accesses)
    elements = case.elements if kind == "load" and case.elements else case.out.size
    once = -(-elements // (32 if quantity == "requests" else 8))
    if found > most * once:
        message = (
            f"global {kind}s take {found:,} {quantity}, {least} {once:,}; "
            f"at most {most:g} times as many are allowed"
        )
        raise AssertionError("\n".join([message, *_reasons(accesses, quantity, once)]))


def _reasons(accesses: list[Access], quantity: Quantity, once: int) -> list[str]:
    """Return the lines of a message: where the accesses are, and why there are too many of them."""
    lines = [
        f"  {a.place}: {a.name}, {a.requests:,} requests, {a.per_request:.3g} sectors per request"
        for a in accesses
    ]
    lanes = sum(a.bytes / a.width for a in accesses) / sum(a.requests for a in accesses)
    if lanes < 16:
        verb = "is" if lanes == 1 else "are"
        return [*lines, f"    Only {lanes:.3g} of 32 lanes {verb} active on average."]
    if quantity == "sectors" and sum(a.requests for a in accesses) < 2 * once / 4:
        return [*lines, "    Several loads visit the same sectors, each for a part of their bytes."]
    repeated = (
        "    The same elements are accessed several times: by neighbouring threads, or by several "
        "blocks.\n    Let a block load each element once, into shared memory or a register."
    )
    return [*lines, repeated]


def _few_atomics(profile: Profile, case: Case) -> None:
    del case
    blocks = int(np.prod(profile.grid))
    accesses = _global(profile, "atomic", "reduction")
    found = sum(a.requests for a in accesses)
    if found > 4 * blocks:
        raise AssertionError(
            f"atomics on global memory take {found:,} requests; at most {4 * blocks} are allowed, "
            "4 for each block\n    Threads of a block count the same bins. Let each block count "
            "in shared memory first, and add its counts once."
        )


def _shared_words(most: float) -> Demand:
    """Return a demand for matrix products: few wavefronts of shared loads per multiply-add."""

    def judge(profile: Profile, case: Case) -> None:
        accesses = [a for a in profile.accesses() if (a.space, a.kind) == ("shared", "load")]
        found = sum(a.wavefronts for a in accesses)
        # The number of multiply-adds of all warps.
        steps = case.out.size * case.arguments[0].shape[1] / 32
        if found > most * steps:
            lines = [
                f"  {a.place}: {a.name}, {a.wavefronts / steps:.3g} wavefronts per multiply-add"
                for a in accesses
            ]
            message = (
                f"shared loads take {found / steps:.3g} wavefronts per multiply-add of a warp; "
                f"at most {most:g} are allowed"
            )
            advice = (
                "    A thread with R x C elements uses R + C words for R * C multiply-adds. Which "
                "R and C\n    load the fewest words for the same number of elements?"
            )
            if any(a.conflict > 1 for a in accesses):
                advice = (
                    "    Bank conflicts add wavefronts: the lanes of a warp read many rows of a "
                    "tile at once.\n    Which part of the thread's number should choose the row?"
                )
            raise AssertionError("\n".join([message, *lines, advice]))

    text = f"loads of shared memory take at most {most:g} wavefronts per multiply-add of a warp"
    return Demand(text, judge)


def _no_padding(most: int) -> Demand:
    """Demand that the shared arrays of the source are not larger than this."""

    def judge(profile: Profile, case: Case) -> None:
        del case
        arrays = variables.shared_arrays(profile.source)
        found = sum(math.prod(shape) * size for shape, size, _ in arrays.values())
        if found > most:
            raise AssertionError(
                f"shared memory takes {found:,} bytes; at most {most:,} are allowed\n    Padding "
                "makes the tile larger. Keep its size, and store the elements of a row in another "
                "order."
            )

    return Demand(f"shared memory of at most {most:,} bytes", judge)


_CONFLICTS = Demand("no bank conflicts in shared memory", _no_conflicts)
_ATOMICS = Demand("atomics on global memory take at most 4 requests per block", _few_atomics)


def _repeats(kind: Kind, quantity: Quantity, most: float) -> Demand:
    text = f"the {kind}s take at most {most:g} times the {quantity} of one pass over the array"
    return Demand(text, partial(_few, kind, quantity, most, _ONE_PASS))


def _loads_of_tiles(most: float) -> Demand:
    """Return a demand for matrix products: each block loads its part of the operands once."""
    text = (
        f"the loads take at most {most:g} times the requests of blocks that load their rows of a "
        "and columns of b once"
    )
    return Demand(text, partial(_few, "load", "requests", most, _TILED))


_ONCE = (_repeats("load", "requests", 1.25), _repeats("store", "requests", 1.25))
_GOOD = (_sectors("load", 4.5), _sectors("store", 4.5))

# Cases: `even` chooses the shape that is counted; the other one tests the edges.


def _random(*shape: int) -> Array:
    return np.random.default_rng(8).random(shape, dtype=np.float32)


def _empty(*shape: int) -> Array:
    return np.full(shape, np.nan, np.float32)


def _ceil(n: int, by: int) -> int:
    return -(-n // by)


def _image(even: bool) -> tuple[int, int]:
    return (128, 256) if even else (50, 70)


def _thread_number(even: bool) -> Case:
    x, y, z = (8, 4, 3) if even else (5, 3, 2)
    out = np.full((z, y, x), -1, np.int32)
    expected = np.arange(x * y * z, dtype=np.int32).reshape(z, y, x)
    return Case(1, (x, y, z), (out,), out, expected)


def _which_warp(even: bool) -> Case:
    width, height = (24, 5) if even else (10, 7)
    out = np.full((height, width), -1, np.int32)
    expected = (np.arange(width * height, dtype=np.int32) // 32).reshape(height, width)
    return Case(1, (width, height), (out, width, height), out, expected)


def _copy_four(even: bool) -> Case:
    n = 8192 if even else 3001
    x, out = _random(n), _empty(n)
    return Case(_ceil(n, 1024), 256, (x, out, n), out, x)


def _pair_means(even: bool) -> Case:
    n = 8192 if even else 1000
    x, out = _random(2 * n), _empty(n)
    return Case(_ceil(n, 256), 256, (x, out, n), out, x.reshape(n, 2).mean(axis=1), 2 * n)


def _grey(even: bool) -> Case:
    n = 8192 if even else 1000
    pixels, out = _random(n, 3), _empty(n)
    weights = np.array([0.30, 0.59, 0.11], np.float32)
    return Case(_ceil(n, 256), 256, (pixels, out, n), out, pixels @ weights, 3 * n)


def _crop(even: bool) -> Case:
    rows, cols, width = (64, 96, 64) if even else (50, 90, 70)
    image, out = _random(rows, cols), _empty(rows, width)
    grid = (_ceil(width, 32), _ceil(rows, 8))
    return Case(grid, (32, 8), (image, out, rows, cols, width), out, image[:, :width])


def _product(even: bool) -> Case:
    m, n, k = (64, 64, 64) if even else (40, 50, 33)
    a, b, out = _random(m, k), _random(k, n), _empty(m, n)
    return Case((_ceil(n, 32), _ceil(m, 32)), 1024, (a, b, out, m, n, k), out, a @ b)


def _gram(even: bool) -> Case:
    k, n = (32, 64) if even else (21, 40)
    x, out = _random(k, n), _empty(n, n)
    x[0] *= np.linspace(0, 2, n, dtype=np.float32)
    return Case((_ceil(n, 16),) * 2, (16, 16), (x, out, k, n), out, x.T @ x)


def _square_product(even: bool, edge: int, odd: int) -> Case:
    n = 96 if even else odd
    a, b, out = _random(n, n), _random(n, n)[::-1].copy(), _empty(n, n)
    return Case((_ceil(n, edge),) * 2, (edge, edge), (a, b, out, n), out, a @ b, 2 * n**3 // edge)


def _tiled(even: bool) -> Case:
    return _square_product(even, 16, 50)


def _untiled(even: bool) -> Case:
    return _square_product(even, 16, 48)


def _corner(even: bool) -> Case:
    case = _square_product(even, 32, 50)
    a, b, out, n = case.arguments
    return Case(case.grid, case.block, (a, b.T.copy(), out, n), out, case.expected, case.elements)


def _barriers(even: bool) -> Case:
    n = 1024 if even else 1000
    x, out = _random(n), _empty(n)
    return Case(_ceil(n, 256), 256, (x, out, n), out, np.full(n, x.sum(dtype=np.float64)))


def _transpose(even: bool) -> Case:
    rows, cols = _image(even)
    image, out = _random(rows, cols), _empty(cols, rows)
    grid = (_ceil(cols, 32), _ceil(rows, 32))
    return Case(grid, (32, 32), (image, out, rows, cols), out, image.T)


def _swizzle(even: bool) -> Case:
    del even
    x, out = _random(32, 32), _empty(32, 32)
    return Case(1, (32, 32), (x, out), out, x.T)


def _mirror(even: bool) -> Case:
    rows, cols = _image(even)
    image, out = _random(rows, cols), _empty(rows, cols)
    size = max(_ceil(rows, 16), _ceil(cols, 16))
    return Case((size, size), (16, 16), (image, out, rows, cols), out, image[:, ::-1])


def _row_means(even: bool) -> Case:
    rows, cols = (64, 256) if even else (50, 70)
    x, out = _random(rows, cols), _empty(rows)
    return Case(_ceil(rows, 8), (32, 8), (x, out, rows, cols), out, x.mean(axis=1), x.size)


def _block_sums(even: bool) -> Case:
    n = 2048 if even else 1000
    x, out = _random(n), _empty(_ceil(n, 256))
    parts = np.pad(x, (0, -n % 256)).reshape(-1, 256)
    return Case(_ceil(n, 256), 256, (x, out, n), out, parts.sum(axis=1), n)


def _column_max(even: bool) -> Case:
    rows, cols = (128, 256) if even else (50, 70)
    x, out = _random(rows, cols) - 1, _empty(cols)  # all are negative
    return Case(_ceil(cols, 32), (32, 8), (x, out, rows, cols), out, x.max(axis=0), x.size)


def _of_64(even: bool) -> Case:
    """A square product by blocks of 256 threads that compute 64 x 64 elements each."""
    n = 128 if even else 50
    a, b, out = _random(n, n), _random(n, n)[::-1].copy(), _empty(n, n)
    return Case((_ceil(n, 64),) * 2, 256, (a, b, out, n), out, a @ b, 2 * n**3 // 64)


def _register_tile(even: bool) -> Case:
    return _of_64(even)


def _turned_tile(even: bool) -> Case:
    return _of_64(even)


def _double_all(even: bool) -> Case:
    n = 16384 if even else 10000
    x, out = _random(n), _empty(n)
    return Case(8, 256, (x, out, n), out, 2 * x)


def _histogram(even: bool) -> Case:
    n = 16384 if even else 5000
    values = np.random.default_rng(8).integers(0, 64, n, dtype=np.int32)
    out = np.zeros(64, np.int32)
    counts = np.bincount(values, minlength=64).astype(np.int32)
    return Case(8, 256, (values, out, n), out, counts, n)


def _brighten(even: bool) -> Case:
    rows, cols = _image(even)
    image, out = _random(rows, cols), _empty(rows, cols)
    arguments = (image, out, rows, cols, 1.5)
    return Case(_ceil(rows * cols, 256), 256, arguments, out, np.float32(1.5) * image)


def _rotate(even: bool) -> Case:
    rows, cols = _image(even)
    image, out = _random(rows, cols), _empty(cols, rows)
    grid = (_ceil(cols, 32), _ceil(rows, 32))
    return Case(grid, (32, 32), (image, out, rows, cols), out, np.rot90(image, -1))


def _smooth(even: bool) -> Case:
    n = 8192 if even else 1000
    x, out = _random(n), _empty(n)
    near = np.pad(x, 8, mode="edge")
    expected = np.lib.stride_tricks.sliding_window_view(near, 17).mean(axis=1)
    return Case(_ceil(n, 256), 256, (x, out, n), out, expected)


def _exercise(
    lesson: int,
    make: Callable[[bool], Case],
    task: str,
    launch: str,
    demands: tuple[Demand, ...],
    *hints: str,
) -> Exercise:
    return Exercise(make.__name__[1:], lesson, task, launch, demands, make, hints)


_BLOCKS_OF_64 = "blocks of 256 threads, each block 64 x 64 elements"
_IMAGE_BLOCKS = "blocks of 32 x 32 threads over the image's columns and rows"

_EXERCISES: tuple[Exercise, ...] = (
    _exercise(
        0,
        _thread_number,
        "writes the number of each thread in the line of its block to out[z, y, x].",
        "one block of several layers",
        (_sectors("store", 4.5),),
        "Which of x, y and z runs fastest?",
        "x counts in steps of 1, y in steps of blockDim.x. And z?",
    ),
    _exercise(
        0,
        _which_warp,
        "writes the number of each thread's warp to warp[y, x].",
        "one block of width x height threads",
        (_sectors("store", 4.5),),
        "A warp is not a row. What is the thread's number in the line?",
        "Each 32 numbers of the line are a warp.",
    ),
    _exercise(
        1,
        _copy_four,
        "copies an array; each thread copies four elements.",
        "blocks of 256 threads, each block 1024 elements",
        (*_GOOD, *_ONCE),
        "In the first iteration, where are lanes 0, 1 and 2?",
        "Let a thread's four elements be far apart, so that the lanes' elements are side by side.",
        "In iteration j the block can copy the 256 elements that start at j * 256 of its part.",
    ),
    _exercise(
        1,
        _pair_means,
        "computes the mean of each pair of elements: out[i] = (x[2 * i] + x[2 * i + 1]) / 2.",
        "one thread per pair, blocks of 256",
        (
            _repeats("load", "sectors", 1.25),
            _repeats("load", "requests", 1.25),
            _repeats("store", "requests", 1.25),
        ),
        "The two loads visit the same sectors, each for half of their bytes.",
        "One load of 8 bytes per lane can take both elements.",
        "Read x as an array of float2: ((const float2*)x)[i] has the members x and y.",
    ),
    _exercise(
        2,
        _crop,
        "copies the first `width` columns of an image.",
        "blocks of 32 x 8 threads over the result's columns and rows",
        (*_GOOD, *_ONCE),
        "Does width divide by 32?",
        "What do the threads with col >= width write, and where is that in out?",
    ),
    _exercise(
        2,
        _product,
        "multiplies two matrices, out = a @ b.",
        "blocks of 1024 x 1 threads, each block 32 x 32 elements",
        (_sectors("load", 2.6), _sectors("store", 4.5)),
        "Do the lanes step along a row of the result, or down a column?",
        "threadIdx.x % 32 is the lane. Which index should follow it?",
    ),
    _exercise(
        2,
        _gram,
        "computes out = x.T @ x.",
        "blocks of 16 x 16 threads",
        _GOOD,
        "The loads are fine. Look at the store.",
        "The last index of out must follow threadIdx.x.",
    ),
    _exercise(
        3,
        _grey,
        "turns pixels of three floats (red, green, blue) into their brightness.",
        "one thread per pixel, blocks of 256",
        (
            _repeats("load", "sectors", 1.25),
            _repeats("load", "requests", 1.25),
            _repeats("store", "requests", 1.25),
            _CONFLICTS,
        ),
        "The three loads visit the same sectors, each for a third of their bytes.",
        "Let the block load its 768 floats side by side, into shared memory.",
        "Each thread then reads its three floats there. Is a step of three words a bank conflict?",
    ),
    _exercise(
        3,
        _barriers,
        "adds up all elements; each block loads them into shared memory, 256 at a time.",
        "blocks of 256 threads",
        (_CONFLICTS,),
        "What does a fast warp do while a slow one still adds?",
        "The tile is stored again in the next iteration. Who may still read it?",
    ),
    _exercise(
        3,
        _tiled,
        "multiplies two square matrices.",
        "blocks of 16 x 16 threads, one per element",
        (_loads_of_tiles(1.05), _sectors("store", 4.5), _CONFLICTS),
        "How often does a block load the same element of a?",
        "Load a tile of a and a tile of b into shared memory, one element per thread.",
        "Two barriers per tile. At the edge let the tile hold zeros.",
    ),
    _exercise(
        3,
        _corner,
        "multiplies a with b, whose columns are the rows of bt.",
        "blocks of 32 x 32 threads, one per element",
        (_loads_of_tiles(1.05), _sectors("load", 4.5), _CONFLICTS),
        "Loads of global memory are fine. How do the lanes read b_tile?",
        "b_tile[tx][k]: one row per lane, and a row has 32 words. In which bank is each?",
        "A row length that is odd in words puts a column into 32 banks.",
    ),
    _exercise(
        4,
        _transpose,
        "transposes an image.",
        _IMAGE_BLOCKS,
        (*_GOOD, *_ONCE, _CONFLICTS),
        "Read along rows and write along rows. The order must change in between.",
        "Store the tile in shared memory, wait, and let the lanes read a column of it.",
        "The tile changes its place, too: blockIdx.x chooses the rows of the result.",
    ),
    _exercise(
        4,
        _swizzle,
        "transposes a tile of 32 x 32 elements through shared memory, without padding.",
        "one block of 32 x 32 threads",
        (_CONFLICTS, *_GOOD, _no_padding(4096)),
        "All elements of a column are in one bank. Move each row's elements by another amount.",
        "Keep element (r, c) at column c ^ r.",
    ),
    _exercise(
        4,
        _mirror,
        "mirrors an image: out[r, c] = image[r, cols - 1 - c].",
        "blocks of 16 x 16 threads, as many along x as along y",
        (*_GOOD, *_ONCE),
        "A reversed order costs nothing. In which direction are neighbouring lanes apart?",
        "Let threadIdx.x count columns.",
    ),
    _exercise(
        5,
        _row_means,
        "computes the mean of each row.",
        "blocks of 32 x 8 threads, a warp per row",
        (_repeats("load", "requests", 1.25), _sectors("load", 4.5)),
        "31 lanes of each warp do nothing.",
        "Let lane l add the columns l, l + 32, ...",
        "__shfl_down_sync adds up the parts of the lanes in five steps.",
    ),
    _exercise(
        5,
        _block_sums,
        "adds up 256 elements per block.",
        "blocks of 256 threads",
        (_CONFLICTS, _repeats("load", "requests", 1.05)),
        "With s = 4 the lanes read part[0], part[8], part[16], ... In which banks?",
        "Let the threads that add stand side by side.",
        "Begin with s = 128: part[t] += part[t + s] for t < s.",
    ),
    _exercise(
        5,
        _column_max,
        "finds the largest element of each column.",
        "blocks of 32 x 8 threads, each block 32 columns",
        (_repeats("load", "requests", 1.25), _sectors("load", 4.5), _CONFLICTS),
        "A warp reads a column, so its lanes are in 32 rows.",
        "Let the lanes be 32 neighbouring columns, and each warp take every eighth row.",
        "Combine the eight parts of a column in shared memory, part[8][32].",
    ),
    _exercise(
        6,
        _double_all,
        "doubles each element.",
        "8 blocks of 256 threads, for an array of any length",
        (*_GOOD, *_ONCE),
        "Which elements does block 0 double? And block 1?",
        "Begin at the thread's number in the grid, and step by the number of all threads.",
    ),
    _exercise(
        6,
        _untiled,
        "multiplies two square matrices without shared memory.",
        "blocks of 16 x 16 threads, one per element; n is a multiple of 16",
        (_sectors("load", 2.6), _sectors("store", 4.5)),
        "How many products does one element of the result need, and how many does it get?",
        "Without shared memory, a thread must load the other 15 elements itself.",
    ),
    _exercise(
        6,
        _histogram,
        "counts how often each of 64 values occurs.",
        "8 blocks of 256 threads",
        (_ATOMICS, _repeats("load", "requests", 1.25)),
        "How many atomics of global memory does each element cost?",
        "Count in 64 integers of shared memory: set them to 0, wait, count, wait, add them.",
    ),
    _exercise(
        7,
        _register_tile,
        "multiplies two square matrices; each thread computes 16 elements.",
        _BLOCKS_OF_64,
        (_shared_words(0.41), _loads_of_tiles(1.05), _sectors("load", 4.5)),
        "For each k a thread loads 16 words of a and 1 of b. How many would a square tile need?",
        "With 4 x 4 elements a thread needs 4 words of a and 4 of b for 16 multiply-adds.",
        "t / 16 is the thread's row of tiles, t % 16 its column; a tile has 4 x 4 elements.",
    ),
    _exercise(
        7,
        _turned_tile,
        "multiplies two square matrices; the tile of a is stored transposed.",
        _BLOCKS_OF_64,
        (_CONFLICTS, _loads_of_tiles(1.05), _sectors("load", 4.5)),
        "Which k and which rows do the 32 lanes of a warp store, and in which banks are they?",
        "Lane l stores k = l % 16 of row r + l / 16. With rows of L words that is bank "
        "(L * k + r + l / 16) mod 32.",
        "Choose L, from 64 on, so that L * k + {0, 1} for k = 0 to 15 are 32 different banks.",
    ),
    _exercise(
        8,
        _brighten,
        "multiplies each pixel of an image by a gain.",
        "one thread per pixel, blocks of 256",
        (*_GOOD, *_ONCE),
        "Which of row and col follows the lane?",
        "Division and remainder have changed places.",
    ),
    _exercise(
        8,
        _rotate,
        "turns an image by 90 degrees, clockwise: out[c, rows - 1 - r] = image[r, c].",
        _IMAGE_BLOCKS,
        (*_GOOD, *_ONCE, _CONFLICTS),
        "Which side is strided, and what did lesson 4 do about it?",
        "A tile in shared memory is read along rows of the image, and written along rows of out.",
        "The tile's column ty is a row of the result, back to front.",
    ),
    _exercise(
        8,
        _smooth,
        "replaces each element by the mean of the 17 around it; the ends are repeated.",
        "one thread per element, blocks of 256",
        (
            _repeats("load", "requests", 1.5),
            _repeats("load", "sectors", 1.5),
            _repeats("store", "requests", 1.25),
            _CONFLICTS,
        ),
        "How often is each element loaded?",
        "Neighbouring threads want nearly the same 17 elements.",
        "The block needs 256 elements and 8 at each end. Load them once.",
    ),
)
