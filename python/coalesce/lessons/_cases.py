"""The data of all exercises: tasks, launches, demands, test cases and hints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coalesce.common import require
from coalesce.lessons import _demands as demand
from coalesce.lessons._exercises import Case, Demand, Exercise, random

Array = NDArray[Any]


def exercise(name: str) -> Exercise:
    """Return the exercise with this name.

    Parameters
    ----------
    name : str
        The name of the exercise, such as ``"brighten"``. `exercises` returns all exercises.

    Returns
    -------
    Exercise

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
    return known[require.choice("name", name, known)]


def exercises() -> tuple[Exercise, ...]:
    """Return all exercises, in the order of the lessons.

    Returns
    -------
    tuple of Exercise

    Examples
    --------
    >>> coalesce.lessons.exercises()[0].name
    'add_arrays'
    """
    return _EXERCISES


# Each exercise has at least two cases. The accesses of the case with `even` are counted. The other
# case has an odd shape, and tests the edges. No size tests all edges: an index that is one too
# large is only found if a thread has it, and an incomplete warp only if there is one. So some
# exercises have more odd sizes.

_MORE_SIZES = {
    "copy_four": (3, 3003),  # the last group of four has three elements
    "count_positive": (31, 992),  # the last block has a warp without elements
    "warp_sums": (31, 992),
    "double_all": (100,),  # fewer elements than threads
    "histogram": (100,),
    "smooth": (5,),  # fewer elements than neighbours
}


def _empty(*shape: int) -> Array:
    return np.full(shape, np.nan, np.float32)


def _ceil(n: int, by: int) -> int:
    return -(-n // by)


def _image(even: bool) -> tuple[int, int]:
    return (128, 256) if even else (50, 70)


def _add_arrays(even: bool) -> Case:
    n = 8192 if even else 1000
    a, b, out = random(n), random(n)[::-1].copy(), _empty(n)
    return Case(_ceil(n, 256), 256, (a, b, out, n), out, a + b, 2 * n)


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


def _copy_four(even: bool, odd: int = 3001) -> Case:
    n = 8192 if even else odd
    x, out = random(n), _empty(n)
    return Case(_ceil(n, 1024), 256, (x, out, n), out, x)


def _pair_means(even: bool) -> Case:
    n = 8192 if even else 1000
    x, out = random(2 * n), _empty(n)
    return Case(_ceil(n, 256), 256, (x, out, n), out, x.reshape(n, 2).mean(axis=1), 2 * n)


def _grey(even: bool) -> Case:
    n = 8192 if even else 1000
    pixels, out = random(n, 3), _empty(n)
    weights = np.array([0.30, 0.59, 0.11], np.float32)
    return Case(_ceil(n, 256), 256, (pixels, out, n), out, pixels @ weights, 3 * n)


def _crop(even: bool) -> Case:
    rows, cols, width = (64, 96, 64) if even else (50, 90, 70)
    image, out = random(rows, cols), _empty(rows, width)
    grid = (_ceil(width, 32), _ceil(rows, 8))
    return Case(grid, (32, 8), (image, out, rows, cols, width), out, image[:, :width])


def _product(even: bool) -> Case:
    m, n, k = (64, 64, 64) if even else (40, 50, 33)
    a, b, out = random(m, k), random(k, n), _empty(m, n)
    return Case((_ceil(n, 32), _ceil(m, 32)), 1024, (a, b, out, m, n, k), out, a @ b)


def _gram(even: bool) -> Case:
    k, n = (32, 64) if even else (21, 40)
    x, out = random(k, n), _empty(n, n)
    x[0] *= np.linspace(0, 2, n, dtype=np.float32)
    return Case((_ceil(n, 16),) * 2, (16, 16), (x, out, k, n), out, x.T @ x)


def _pad(even: bool) -> Case:
    n = 64 if even else 50
    x, out = random(n, n), _empty(n)
    return Case(1, 64, (x, _empty(64 * 80), out, n), out, x.sum(axis=1), 2 * n * n)


def _square_product(even: bool, edge: int, odd: int) -> Case:
    n = 96 if even else odd
    a, b, out = random(n, n), random(n, n)[::-1].copy(), _empty(n, n)
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
    x, out = random(n), _empty(n)
    return Case(_ceil(n, 256), 256, (x, out, n), out, np.full(n, x.sum(dtype=np.float64)))


def _transpose(even: bool) -> Case:
    rows, cols = _image(even)
    image, out = random(rows, cols), _empty(cols, rows)
    grid = (_ceil(cols, 32), _ceil(rows, 32))
    return Case(grid, (32, 32), (image, out, rows, cols), out, image.T)


def _swizzle(even: bool) -> Case:
    del even
    x, out = random(32, 32), _empty(32, 32)
    return Case(1, (32, 32), (x, out), out, x.T)


def _mirror(even: bool) -> Case:
    rows, cols = _image(even)
    image, out = random(rows, cols), _empty(rows, cols)
    size = max(_ceil(rows, 16), _ceil(cols, 16))
    return Case((size, size), (16, 16), (image, out, rows, cols), out, image[:, ::-1])


def _row_means(even: bool) -> Case:
    rows, cols = (64, 256) if even else (50, 70)
    x, out = random(rows, cols), _empty(rows)
    return Case(_ceil(rows, 8), (32, 8), (x, out, rows, cols), out, x.mean(axis=1), x.size)


def _block_sums(even: bool) -> Case:
    n = 2048 if even else 1000
    x, out = random(n), _empty(_ceil(n, 256))
    parts = np.pad(x, (0, -n % 256)).reshape(-1, 256)
    return Case(_ceil(n, 256), 256, (x, out, n), out, parts.sum(axis=1), n)


def _prefix(even: bool) -> Case:
    n = 2048 if even else 1000
    x, out = random(n), _empty(n)
    parts = np.pad(x, (0, -n % 256)).reshape(-1, 256)
    return Case(_ceil(n, 256), 256, (x, out, n), out, parts.cumsum(axis=1).ravel()[:n])


def _polar(even: bool) -> Case:
    n = 4096 if even else 1000
    r, phi, out = random(n), 3 * random(n)[::-1], _empty(2, n)
    expected = np.stack([r * np.cos(phi), r * np.sin(phi)])
    return Case(_ceil(n, 128), 256, (r, phi.copy(), out, n), out, expected)


def _count_positive(even: bool, odd: int = 1000) -> Case:
    n = 8192 if even else odd
    x, out = random(n) - np.float32(0.4), np.full(_ceil(n, 32), -1, np.int32)
    x[::9] = 0  # which is not positive
    x[-1] = 1  # so that a lane behind the end that looks at the last element is found
    expected = (np.pad(x, (0, -n % 32)) > 0).reshape(-1, 32).sum(axis=1, dtype=np.int32)
    return Case(_ceil(n, 256), 256, (x, out, n), out, expected, n)


def _warp_sums(even: bool, odd: int = 1000) -> Case:
    n = 8192 if even else odd
    x, out = random(n), _empty(_ceil(n, 32))
    expected = np.pad(x, (0, -n % 32)).reshape(-1, 32).sum(axis=1)
    return Case(_ceil(n, 256), 256, (x, out, n), out, expected, n)


def _column_max(even: bool) -> Case:
    rows, cols = (128, 256) if even else (50, 70)
    x, out = random(rows, cols) - 1, _empty(cols)  # all are negative
    return Case(_ceil(cols, 32), (32, 8), (x, out, rows, cols), out, x.max(axis=0), x.size)


def _of_64(even: bool) -> Case:
    """Return a case: a square product. A block of 256 threads computes 64 x 64 elements."""
    n = 128 if even else 50
    a, b, out = random(n, n), random(n, n)[::-1].copy(), _empty(n, n)
    return Case((_ceil(n, 64),) * 2, 256, (a, b, out, n), out, a @ b, 2 * n**3 // 64)


def _register_tile(even: bool) -> Case:
    return _of_64(even)


def _turned_tile(even: bool) -> Case:
    return _of_64(even)


def _double_all(even: bool, odd: int = 10000) -> Case:
    n = 16384 if even else odd
    x, out = random(n), _empty(n)
    return Case(8, 256, (x, out, n), out, 2 * x)


def _histogram(even: bool, odd: int = 5000) -> Case:
    n = 16384 if even else odd
    values = (64 * random(n)).astype(np.int32)
    out = np.zeros(64, np.int32)
    counts = np.bincount(values, minlength=64).astype(np.int32)
    return Case(8, 256, (values, out, n), out, counts, n)


def _brighten(even: bool) -> Case:
    rows, cols = _image(even)
    image, out = random(rows, cols), _empty(rows, cols)
    arguments = (image, out, rows, cols, 1.5)
    return Case(_ceil(rows * cols, 256), 256, arguments, out, np.float32(1.5) * image)


def _rotate(even: bool) -> Case:
    rows, cols = _image(even)
    image, out = random(rows, cols), _empty(cols, rows)
    grid = (_ceil(cols, 32), _ceil(rows, 32))
    return Case(grid, (32, 32), (image, out, rows, cols), out, np.rot90(image, -1))


def _smooth(even: bool, odd: int = 1000) -> Case:
    n = 8192 if even else odd
    x, out = random(n), _empty(n)
    near = np.pad(x, 8, mode="edge")
    expected = np.lib.stride_tricks.sliding_window_view(near, 17).mean(axis=1)
    return Case(_ceil(n, 256), 256, (x, out, n), out, expected)


def _distances(even: bool) -> Case:
    n = 128 if even else 100
    x, y, out = random(n), random(n)[::-1].copy(), _empty(n, n)
    expected = abs(x[:, None] - y)
    return Case((_ceil(n, 32), _ceil(n, 64)), (32, 8), (x, y, out, n), out, expected)


def _votes(even: bool) -> Case:
    n = 8192 if even else 1000
    ballots, winner = (4 * random(16, n)).astype(np.int32), np.full(n, -1, np.int32)
    counts = (ballots == np.arange(4)[:, None, None]).sum(axis=1)
    expected = counts.argmax(axis=0).astype(np.int32)  # of several, the first
    return Case(_ceil(n, 256), 256, (ballots, winner, n), winner, expected, 16 * n)


def _exercise(
    lesson: int,
    make: Callable[..., Case],
    task: str,
    launch: str,
    demands: tuple[Demand, ...],
    *hints: str,
) -> Exercise:
    kinds = {"load", "store"}
    if demand.ATOMICS in demands:
        kinds |= {"atomic", "reduction"}
    name = make.__name__[1:]
    edges = tuple(partial(make, False, size) for size in _MORE_SIZES.get(name, ()))
    return Exercise(name, lesson, task, launch, demands, make, hints, edges, frozenset(kinds))


def task(make: Callable[[bool], Case], limits: Mapping[str, float]) -> Exercise:
    """Return a task of your own, with limits for the counts of its kernel.

    Parameters
    ----------
    make : callable
        ``make(even)`` returns a `Case`. Its name is the name of the kernel, and its docstring says
        what the kernel computes. The case with ``even=True`` is counted. Let the other one have an
        odd size, so that it tests the edges.
    limits : mapping of str to float
        The largest allowed values of metrics. The keys are names of `Profile.metrics`, such as
        ``"smsp__inst_executed.sum"``.

    Returns
    -------
    Exercise

    Raises
    ------
    TypeError
        `make` is no function, or returns no `Case`.

    Examples
    --------
    >>> def copy(even):
    ...     "copies an array."
    ...     n = 1024 if even else 1000
    ...     x, out = coalesce.lessons.random(n), np.full(n, np.nan, np.float32)
    ...     return coalesce.lessons.Case(4, 256, (x, out, n), out, x)
    >>> sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    >>> coalesce.lessons.task(copy, {sectors: 128}).demands
    ('l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum of at most 128',)
    """
    case = require.function("make", make, what="a function that returns a Case")(True)
    if not isinstance(case, Case):
        raise TypeError(f"`make` must return a lessons.Case; it returned {require.shown(case)}")
    if not isinstance(limits, Mapping):
        raise TypeError(
            f"`limits` must be a dict from metrics to numbers; got {require.shown(limits)}"
        )
    name = getattr(make, "__name__", "")
    if not name.isidentifier():
        raise ValueError(f"`make` must have the name of the kernel; its name is {name!r}")
    demands = tuple(
        demand.metric(
            require.text("limits", metric, what="a dict from the names of metrics"),
            require.finite(f"limits[{metric!r}]", most),
        )
        for metric, most in limits.items()
    )
    launch = f"grid {case.grid}, block {case.block}"
    kinds = frozenset({"load", "store", "atomic", "reduction", "async_copy"})
    return Exercise(name, None, make.__doc__ or name, launch, demands, make, (), (), kinds)


_BLOCKS_OF_64 = "blocks of 256 threads, each block 64 x 64 elements"
_IMAGE_BLOCKS = "blocks of 32 x 32 threads over the image's columns and rows"

_EXERCISES: tuple[Exercise, ...] = (
    _exercise(
        0,
        _add_arrays,
        "adds two arrays: out[i] = a[i] + b[i].",
        "one thread per element, blocks of 256",
        (*demand.GOOD, *demand.ONCE),
        "All blocks have the same threadIdx.x. Which variable tells a thread its block?",
        "The last block has threads without an element. What must they not do?",
    ),
    _exercise(
        0,
        _thread_number,
        "writes the number of each thread to out[z, y, x]: its place in the block's line of "
        "threads.",
        "one block of several layers",
        (demand.sectors("store", 4.5),),
        "Which of x, y and z changes fastest in the line of threads?",
        "A step of x adds 1 to the number, and a step of y adds blockDim.x. What does a step "
        "of z add?",
    ),
    _exercise(
        0,
        _which_warp,
        "writes the number of each thread's warp to warp[y, x].",
        "one block of width x height threads",
        (demand.sectors("store", 4.5),),
        "A warp is not a row. What is the thread's number in the line?",
        "Every 32 consecutive numbers of the line are a warp.",
    ),
    _exercise(
        1,
        _copy_four,
        "copies an array; each thread copies four elements.",
        "blocks of 256 threads, each block 1024 elements",
        (*demand.GOOD, *demand.ONCE),
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
            demand.repeats("load", "sectors", 1.25),
            *demand.ONCE,
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
        (*demand.GOOD, *demand.ONCE),
        "Is width a multiple of 32?",
        "What do the threads with col >= width write, and where is that in out?",
    ),
    _exercise(
        2,
        _product,
        "multiplies two matrices, out = a @ b.",
        "blocks of 1024 x 1 threads, each block 32 x 32 elements",
        (demand.sectors("load", 2.6), demand.sectors("store", 4.5)),
        "Do the lanes step along a row of the result, or down a column?",
        "threadIdx.x % 32 is the lane. Which index should follow it?",
    ),
    _exercise(
        2,
        _gram,
        "computes out = x.T @ x.",
        "blocks of 16 x 16 threads",
        demand.GOOD,
        "The loads are fine. Look at the store.",
        "The last index of out must follow threadIdx.x.",
    ),
    _exercise(
        2,
        _pad,
        "copies a matrix to `room`, where its rows may be longer, and adds up its rows there.",
        "one block of 64 threads",
        (demand.l1_passes(4.5), demand.repeats("load", "requests", 1.25)),
        "A load of `room` reads a column. In which banks of L1 are the words of a column?",
        "Word i of `room` is in bank i % 32. Which `length` puts neighbours of a column into "
        "different banks?",
    ),
    _exercise(
        3,
        _grey,
        "turns pixels of three floats (red, green, blue) into their brightness.",
        "one thread per pixel, blocks of 256",
        (
            demand.repeats("load", "sectors", 1.25),
            *demand.ONCE,
            demand.CONFLICTS,
        ),
        "The three loads visit the same sectors, each for a third of their bytes.",
        "Let the block load its 768 floats into shared memory, neighbouring lanes side by side.",
        "Each thread then reads its three floats there. Do lanes that are three words apart "
        "have bank conflicts?",
    ),
    _exercise(
        3,
        _barriers,
        "adds up all elements; each block loads them into shared memory, 256 at a time.",
        "blocks of 256 threads",
        (demand.CONFLICTS,),
        "What does a fast warp do while a slow one still adds?",
        "The tile is stored again in the next iteration. Who may still read it?",
    ),
    _exercise(
        3,
        _tiled,
        "multiplies two square matrices.",
        "blocks of 16 x 16 threads, one per element",
        (demand.loads_of_tiles(1.05), demand.sectors("store", 4.5), demand.CONFLICTS),
        "How often does a block load the same element of a?",
        "Load a tile of a and a tile of b into shared memory, one element per thread.",
        "Use two barriers per tile. Where a tile reaches beyond the matrix, store zeros.",
    ),
    _exercise(
        3,
        _corner,
        "multiplies a and b. The kernel gets the transpose of b, bt.",
        "blocks of 32 x 32 threads, one per element",
        (demand.loads_of_tiles(1.05), demand.sectors("load", 4.5), demand.CONFLICTS),
        "Loads of global memory are fine. How do the lanes read b_tile?",
        "Each lane reads b_tile[tx][k] from another row, and a row has 32 words. In which "
        "banks are these words?",
        "If a row has an odd number of words, the words of a column are in 32 different banks.",
    ),
    _exercise(
        4,
        _transpose,
        "transposes an image.",
        _IMAGE_BLOCKS,
        (*demand.GOOD, *demand.ONCE, demand.CONFLICTS),
        "Read along rows and write along rows. The order must change in between.",
        "Store the tile in shared memory, wait, and let the lanes read a column of it.",
        "The tile as a whole changes its place, too: blockIdx.x chooses the rows of the result.",
    ),
    _exercise(
        4,
        _swizzle,
        "transposes a tile of 32 x 32 elements through shared memory, without padding.",
        "one block of 32 x 32 threads",
        (demand.CONFLICTS, *demand.GOOD, demand.no_padding(4096)),
        "All elements of a column are in one bank. Store the elements of each row in another "
        "order.",
        "Store element (r, c) in column c ^ r.",
    ),
    _exercise(
        4,
        _mirror,
        "mirrors an image: out[r, c] = image[r, cols - 1 - c].",
        "blocks of 16 x 16 threads; the grid has as many blocks along x as along y",
        (*demand.GOOD, *demand.ONCE),
        "The reverse order costs nothing. But are neighbouring lanes in neighbouring columns, "
        "or in neighbouring rows?",
        "Let threadIdx.x count columns.",
    ),
    _exercise(
        5,
        _row_means,
        "computes the mean of each row.",
        "blocks of 32 x 8 threads, a warp per row",
        (demand.repeats("load", "requests", 1.25), demand.sectors("load", 4.5)),
        "31 lanes of each warp do nothing.",
        "Let lane l add the columns l, l + 32, ...",
        "Then add up the parts of the 32 lanes with __shfl_down_sync, in five steps.",
    ),
    _exercise(
        5,
        _block_sums,
        "adds up 256 elements per block.",
        "blocks of 256 threads",
        (demand.CONFLICTS, demand.repeats("load", "requests", 1.05)),
        "With s = 4 the lanes read part[0], part[8], part[16], ... In which banks are these words?",
        "Let the threads that add be neighbours, so that they access neighbouring words.",
        "Begin with s = 128: part[t] += part[t + s] for t < s.",
    ),
    _exercise(
        5,
        _column_max,
        "finds the largest element of each column.",
        "blocks of 32 x 8 threads, each block 32 columns",
        (
            demand.repeats("load", "requests", 1.25),
            demand.sectors("load", 4.5),
            demand.CONFLICTS,
        ),
        "Each warp reads a column, so its 32 lanes read from 32 rows.",
        "Let the lanes read 32 neighbouring columns, and let each warp read every eighth row.",
        "Combine the eight parts of a column in shared memory, part[8][32].",
    ),
    _exercise(
        5,
        _prefix,
        "computes prefix sums: out[i] is the sum of the elements of its block up to x[i].",
        "one thread per element, blocks of 256",
        (*demand.ONCE, demand.CONFLICTS, demand.instructions(150)),
        "How often does a block load x[first]? Let each thread load one element to shared memory.",
        "In steps s = 1, 2, 4, ..., let each thread with t >= s add part[t - s] to its own part.",
        "In one step, a thread reads what another thread changes. Read the value, wait, then add.",
    ),
    _exercise(
        6,
        _polar,
        "computes x = r cos(phi) in the first row of out, and y = r sin(phi) in the second row.",
        "two threads per point, blocks of 256",
        (demand.lanes(30), *demand.GOOD),
        "In which warps are the threads that compute x, and in which those that compute y?",
        "Let the first 128 threads of a block compute x, and the others y.",
    ),
    _exercise(
        6,
        _count_positive,
        "counts, for each warp, how many of its 32 elements are positive.",
        "one thread per element, blocks of 256",
        (demand.lanes(16), demand.repeats("load", "requests", 1.25)),
        "31 lanes of each warp do nothing. Let each lane look at one element.",
        "__ballot_sync(0xffffffff, condition) gives every lane a bit for each lane of its warp.",
        "__popc counts the bits of a number that are 1.",
    ),
    _exercise(
        6,
        _warp_sums,
        "adds up 32 elements per warp, in shared memory.",
        "one thread per element, blocks of 256",
        (demand.CONFLICTS, demand.repeats("load", "requests", 1.25)),
        "A lane reads what another lane of its warp has stored. Does anything make it wait?",
        "__syncthreads() makes the whole block wait. There is a barrier for the lanes of a warp.",
    ),
    _exercise(
        7,
        _register_tile,
        "multiplies two square matrices; each thread computes 16 elements.",
        _BLOCKS_OF_64,
        (demand.shared_words(0.41), demand.loads_of_tiles(1.05), demand.sectors("load", 4.5)),
        "For each k, a thread loads 16 words of a and 1 word of b. How many words would a "
        "square tile need?",
        "With 4 x 4 elements a thread needs 4 words of a and 4 of b for 16 multiply-adds.",
        "A block has 16 x 16 register tiles of 4 x 4 elements. Thread t computes tile (t / "
        "16, t % 16).",
    ),
    _exercise(
        7,
        _turned_tile,
        "multiplies two square matrices; the tile of a is stored transposed.",
        _BLOCKS_OF_64,
        (demand.CONFLICTS, demand.loads_of_tiles(1.05), demand.sectors("load", 4.5)),
        "For which k and which rows do the 32 lanes of a warp store elements, and in which "
        "banks are these?",
        (
            "Lane l stores the element with k = l % 16 of row r + l / 16. If a row of the tile "
            "has L words, this element is in bank (L * k + r + l / 16) mod 32."
        ),
        "Choose an L of 64 or more, so that the banks L * k and L * k + 1 (mod 32) are all "
        "different for k = 0 to 15.",
    ),
    _exercise(
        8,
        _brighten,
        "multiplies each pixel of an image by a gain.",
        "one thread per pixel, blocks of 256",
        (*demand.GOOD, *demand.ONCE),
        "Which index changes from lane to lane: row or col?",
        "Division and remainder have changed places.",
    ),
    _exercise(
        8,
        _rotate,
        "turns an image by 90 degrees, clockwise: out[c, rows - 1 - r] = image[r, c].",
        _IMAGE_BLOCKS,
        (*demand.GOOD, *demand.ONCE, demand.CONFLICTS),
        "Which side is strided, and what did lesson 4 do about it?",
        "A tile in shared memory is read along rows of the image, and written along rows of out.",
        "A column of the tile is a row of the result, in reverse order.",
    ),
    _exercise(
        8,
        _smooth,
        "writes the mean of each element and its 8 neighbours on both sides. Beyond the ends, "
        "the first or the last element is repeated.",
        "one thread per element, blocks of 256",
        (
            demand.repeats("load", "requests", 1.5),
            demand.repeats("load", "sectors", 1.5),
            demand.repeats("store", "requests", 1.25),
            demand.CONFLICTS,
        ),
        "How often is each element loaded?",
        "Neighbouring threads want nearly the same 17 elements.",
        "A block needs 256 elements, and 8 more at each end. Load each of them once, into "
        "shared memory.",
    ),
    _exercise(
        9,
        _double_all,
        "doubles each element.",
        "8 blocks of 256 threads, for an array of any length",
        (*demand.GOOD, *demand.ONCE),
        "Which elements does block 0 double? And block 1?",
        "Begin at the thread's number in the grid, and step by the number of all threads.",
    ),
    _exercise(
        9,
        _untiled,
        "multiplies two square matrices without shared memory.",
        "blocks of 16 x 16 threads, one per element; n is a multiple of 16",
        (demand.sectors("load", 2.6), demand.sectors("store", 4.5)),
        "How many products does one element of the result need, and how many does it get?",
        "Without shared memory, a thread must load the other 15 elements itself.",
    ),
    _exercise(
        9,
        _histogram,
        "counts how often each of 64 values occurs.",
        "8 blocks of 256 threads",
        (demand.ATOMICS, demand.repeats("load", "requests", 1.25)),
        "How many atomics of global memory does each element cost?",
        "Count in 64 integers of shared memory. Set them to 0, wait, count, wait, and add "
        "them to counts.",
    ),
    _exercise(
        11,
        _distances,
        "writes a table of distances: out[row, col] = |x[row] - y[col]|.",
        "blocks of 32 x 8 threads, each block 32 columns and 64 rows",
        (demand.loads_per_store(1.25), *demand.GOOD),
        "Which of the two loaded elements is the same for all 8 elements of a thread?",
        "Load y[col] once, before the loop. Does the compiler know that a store to out does not "
        "change y?",
    ),
    _exercise(
        11,
        _votes,
        "finds for each column which of the numbers 0 to 3 is most frequent in its 16 rows (of "
        "several, the smallest).",
        "one thread per column, blocks of 256",
        (demand.NO_LOCAL_MEMORY, *demand.GOOD, *demand.ONCE),
        "Which indices of `count` are known only at run time? There are two of them.",
        "Let the compiler know the index: for each k from 0 to 3, add 1 to count[k] if the ballot "
        "is k.",
        "For the most frequent number, keep the largest count in a variable of its own.",
    ),
)
