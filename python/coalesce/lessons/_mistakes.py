"""The wrong results of common mistakes in the exercises, each with a sentence about the mistake.

If a reader's kernel computes one of these wrong results, the check shows the sentence. The sentence
names the mistake, and often asks a question. It does not give the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Mistakes = Iterator[tuple[str, Array]]


def results(name: str, arguments: Sequence[Any], expected: Array) -> list[tuple[str, Array]]:
    """Return the common mistakes in exercise `name`, as (sentence, wrong result) pairs.

    The sentence describes a mistake. The wrong result is what a kernel with this mistake computes
    from `arguments`. `expected` is the right result.
    """
    known = _RESULTS.get(name)
    return [] if known is None else list(known(arguments, expected))


def _add_arrays(arguments: Sequence[Any], _: Array) -> Mistakes:
    a, b, *_rest = arguments
    yield "These are the differences. The sums are wanted.", a - b
    yield "These are the products. The sums are wanted.", a * b
    yield (
        "Only the first block's elements are computed.",
        np.where(np.arange(a.size) < 256, a + b, np.nan),
    )


def _pad(arguments: Sequence[Any], _: Array) -> Mistakes:
    x = arguments[0]
    yield "These are the sums of the columns. A thread has a row.", x.sum(axis=0)
    yield "The last element of each row is missing in its sum.", x[:, :-1].sum(axis=1)


def _prefix(arguments: Sequence[Any], expected: Array) -> Mistakes:
    x, n = arguments[0], expected.size
    parts = np.pad(x, (0, -n % 256)).reshape(-1, 256)
    sums = parts.cumsum(axis=1)
    yield "The element itself is missing: out[i] must include x[i].", (sums - parts).ravel()[:n]
    yield "These are the sums of the blocks. out[i] ends at x[i].", np.repeat(sums[:, -1], 256)[:n]
    yield "The sums run over the whole array. They begin again in each block.", x.cumsum()
    for last in (32, 64, 128):
        short = sums.copy()
        short[:, last:] -= sums[:, :-last]
        yield (
            f"Each sum has at most {last} elements. With which s must the loop end?",
            short.ravel()[:n],
        )


def _polar(arguments: Sequence[Any], expected: Array) -> Mistakes:
    r, phi, *_rest = arguments
    yield "x and y have changed places: x = r cos(phi).", expected[::-1]
    for same in (np.cos, np.sin):
        yield "x needs cos, and y needs sin.", np.stack([r * same(phi)] * 2)
    yield "The radius is missing: x = r cos(phi).", np.stack([np.cos(phi), np.sin(phi)])
    for row, name in enumerate("xy"):
        half = np.full_like(expected, np.nan)
        half[row] = expected[row]
        yield f"Only {name} is written. Which threads compute the other coordinate?", half
    places = np.arange(r.size) % 128
    yield (
        "Only half of the points are computed. A block has 128 points.",
        np.where(places < 64, expected, np.nan),
    )


def _count_positive(arguments: Sequence[Any], expected: Array) -> Mistakes:
    x = arguments[0]
    n = x.size - (expected.size - 1) * 32  # elements of the last warp
    lanes = np.full(expected.shape, 32, np.int32)
    lanes[-1] = n
    yield "These are the other elements: those that are not positive.", lanes - expected
    yield "A lane without an element has voted, too.", expected + (32 - lanes)
    bits = np.pad(x, (0, -x.size % 32)).reshape(-1, 32) > 0
    votes = (bits * 2 ** np.arange(32, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
    yield (
        "These are the votes, a bit for each lane. How many of the bits are 1?",
        votes.view(np.int32),
    )
    yield "This is the vote of lane 0 alone.", bits[:, 0].astype(np.int32)
    zeros = np.pad(x, (0, -x.size % 32), constant_values=1).reshape(-1, 32) == 0
    yield "Zeros are counted, too. They are not positive.", expected + zeros.sum(axis=1)


def _warp_sums(arguments: Sequence[Any], _: Array) -> Mistakes:
    x = arguments[0]
    parts = np.pad(x, (0, -x.size % 32)).reshape(-1, 32)
    for count in (1, 2, 8, 16):
        verb = "is" if count == 1 else "are"
        yield (
            f"Only {count} of the 32 elements {verb} in each sum. Which steps does the loop need?",
            parts[:, :count].sum(axis=1),
        )
    yield "The elements with odd numbers are missing.", parts[:, ::2].sum(axis=1)


def _distances(arguments: Sequence[Any], expected: Array) -> Mistakes:
    x, y, *_rest = arguments
    signed = x[:, None] - y
    yield "The differences have signs. Distances are not negative: fabsf.", signed
    yield "The differences have signs. Distances are not negative: fabsf.", -signed
    yield "x and y have changed places: x belongs to the row.", expected.T
    yield "These are squares. The distance is |x[row] - y[col]|.", signed**2
    few = np.arange(len(x)) % 64 < 8
    yield (
        "Only the first 8 of each 64 rows are computed. How many elements has a thread?",
        np.where(few[:, None], expected, np.nan),
    )


def _votes(arguments: Sequence[Any], _: Array) -> Mistakes:
    ballots = arguments[0]
    counts = (ballots == np.arange(4)[:, None, None]).sum(axis=1)
    yield (
        "Of several numbers that are equally frequent, take the smallest. When may `best` change?",
        3 - counts[::-1].argmax(axis=0),
    )
    yield "This is how often the number occurs. The number itself is wanted.", counts.max(axis=0)
    yield "These are the least frequent numbers.", counts.argmin(axis=0)
    for rows in (1, 8, 15):
        some = (ballots[:rows] == np.arange(4)[:, None, None]).sum(axis=1)
        yield f"Only {rows} of the 16 rows are counted.", some.argmax(axis=0)


def _thread_number(_: Sequence[Any], expected: Array) -> Mistakes:
    depth, height, width = expected.shape
    z, y, x = np.indices(expected.shape)
    yield (
        (
            "Your formula counts z fastest and x slowest. In CUDA x must run fastest: which "
            "factor does x then have?"
        ),
        z + depth * (y + height * x),
    )
    yield (
        (
            "Your formula counts y faster than x. In CUDA x must run fastest. How many threads "
            "does a step of y pass?"
        ),
        y + height * (x + width * z),
    )
    yield "Your numbers begin at 1. Which number has the first thread of the block?", expected + 1
    yield (
        "You multiplied z by the square of the width. How many rows does a layer have?",
        x + width * (y + width * z),
    )
    yield (
        "All layers have the same numbers: z is missing. How many threads does a layer have?",
        x + width * y,
    )
    for factor in (1, width, height):
        yield (
            "A step of z must pass a whole layer. How many threads are in a layer?",
            x + width * y + factor * z,
        )
    yield (
        "You multiplied y by the height. A step of y passes one row. How long is a row?",
        x + height * (y + width * z),
    )
    yield (
        "You multiplied y by the height. A step of y passes one row. How long is a row?",
        x + height * y + width * height * z,
    )


def _which_warp(_: Sequence[Any], expected: Array) -> Mistakes:
    height, width = expected.shape
    t = np.arange(expected.size).reshape(expected.shape)
    y, x = t // width, t % width
    yield "A row got a warp of its own. Warps are cut from the line of threads.", y
    yield (
        "This is the lane, the remainder of the division by 32. The warp is the quotient.",
        t % 32,
    )
    yield (
        "You divided by 8, the number of floats in a sector. How many threads are in a warp?",
        t // 8,
    )
    yield "Your warps are numbered from 1. Which number has the first warp?", t // 32 + 1
    for size in (16, 64):
        yield f"You divided by {size}. How many threads are in a warp?", t // size
    yield "You rounded up. In which warp is thread 1 of the line?", (t + 31) // 32
    yield "You let y run fastest. In the line of threads x runs fastest.", (x * height + y) // 32
    yield (
        (
            "You divided x alone, which is always less than 32 here. Which number do you need for "
            "a thread in the line?"
        ),
        x // 32,
    )
    yield "You divided by the width of the block. A warp has 32 threads in any block.", t // width
    yield "This is the thread's number in the line. In which warp is it?", t


def _copy_four(arguments: Sequence[Any], _: Array) -> Mistakes:
    x = arguments[0]
    i = np.arange(x.size)
    for count in (1, 2, 3):
        verb = "is" if count == 1 else "are"
        sentence = f"Only {count} of the four elements of each thread {verb} copied. "
        sentence += "How often must the loop run?"
        yield sentence, np.where(i % 1024 < 256 * count, x, np.nan)
        yield sentence, np.where(i % 4 < count, x, np.nan)
    sentence = "out[i] is x[i {} 1]. The load and the store need the same index."
    yield sentence.format("-"), np.roll(x, 1)
    yield sentence.format("+"), np.roll(x, -1)


def _pair_means(arguments: Sequence[Any], expected: Array) -> Mistakes:
    x = arguments[0]
    n = expected.size
    yield "These are the sums of the pairs. A mean of two is half of the sum.", 2 * expected
    yield "Only the first element of each pair is used.", x[0::2]
    yield (
        "You paired x[i] with x[i + 1]. The next pair then begins one element later, not two.",
        (x[:n] + x[1 : n + 1]) / 2,
    )
    yield (
        "You paired an element of the first half of x with one of the second.",
        (x[:n] + x[n:]) / 2,
    )


def _grey(arguments: Sequence[Any], expected: Array) -> Mistakes:
    pixels = arguments[0]
    red, green, blue = 0.30, 0.59, 0.11
    yield "Red and blue have changed places.", pixels @ np.array([blue, green, red], np.float32)
    yield "All colours have the same weight, but each has its own.", pixels.mean(axis=1)
    yield "The colours are added without their weights.", pixels.sum(axis=1)
    flat, n = pixels.ravel(), expected.size
    planes = flat.reshape(3, n)
    yield (
        (
            "You read three planes: all red values first, then all green ones. In this array the "
            "three colours of a pixel are neighbours."
        ),
        red * planes[0] + green * planes[1] + blue * planes[2],
    )
    near = np.stack([flat[:n], flat[1 : n + 1], flat[2 : n + 2]], axis=1)
    yield (
        "Neighbouring pixels begin one float apart in your index. How many floats is a pixel?",
        near @ np.array([red, green, blue], np.float32),
    )


def _crop(arguments: Sequence[Any], expected: Array) -> Mistakes:
    image, (rows, width) = arguments[0], expected.shape
    row, col = np.indices((rows, width))
    yield (
        "You used the row length of out for image. How many floats apart are two rows of image?",
        image.ravel()[row * width + col],
    )
    yield "These are the last columns of image. The first ones are wanted.", image[:, -width:]


def _product(arguments: Sequence[Any], _: Array) -> Mistakes:
    a, b = arguments[:2]
    (m, k), n = a.shape, b.shape[1]
    yield from _sums(a, b)
    by_columns_a, by_columns_b = a.reshape(k, m).T, b.reshape(n, k).T
    yield (
        "You read a by columns, with M elements from one to the next. How long is a row of a?",
        by_columns_a @ b,
    )
    yield (
        "You read b by columns, with K elements from one to the next. How long is a row of b?",
        a @ by_columns_b,
    )


def _sums(a: Array, b: Array) -> Mistakes:
    """Yield products a @ b in which a part of each sum is missing."""
    yield (
        "The last product of each sum is missing. Where does the loop over k end?",
        a[:, :-1] @ b[:-1],
    )
    yield (
        "The first product of each sum is missing. Where does the loop over k begin?",
        a[:, 1:] @ b[1:],
    )
    yield (
        "Each element has only the last product. Does the sum grow, or is it replaced?",
        np.outer(a[:, -1], b[-1]),
    )


def _gram(arguments: Sequence[Any], expected: Array) -> Mistakes:
    x = arguments[0]
    yield from _sums(x.T, x)
    k, n = x.shape
    swapped = x.reshape(n, k).T
    for first, second in ((swapped, x), (x, swapped), (swapped, swapped)):
        yield (
            (
                "You read x as N rows of K elements, but x has K rows. Which of k and the column "
                "chooses the row?"
            ),
            first.T @ second,
        )
    short = x.ravel()[np.add.outer(k * np.arange(k), np.arange(n))]  # rows of K elements
    for first, second in ((short, x), (x, short), (short, short)):
        yield (
            (
                "In your index of x, a step of k passes K elements. How many elements does a row "
                "of x have?"
            ),
            first.T @ second,
        )
    sentence = "out[i, j] is the product of columns i and j {} 1. Which column does the store name?"
    yield sentence.format("-"), np.roll(expected, 1, axis=1)
    yield sentence.format("+"), np.roll(expected, -1, axis=1)
    squares = (x * x).sum(axis=0)
    for sentence, result in (
        ("Both factors come from column j. Which two columns meet in out[i, j]?", squares),
        ("One factor is missing: this adds up a column of x.", x.sum(axis=0)),
    ):
        yield sentence, np.broadcast_to(result, (squares.size,) * 2)
        yield sentence.replace("column j", "column i"), np.tile(result[:, None], squares.size)


def _tiles(edge: int, transposed: bool = False) -> Callable[[Sequence[Any], Array], Mistakes]:
    """Return the mistakes of a tiled product, whose loop over k covers `edge` values per tile."""

    def mistakes(arguments: Sequence[Any], _: Array) -> Mistakes:
        a, b, n = arguments[0], arguments[1], len(arguments[0])
        b = b.T if transposed else b
        yield "The product is b @ a. The order of the factors matters.", b @ a
        yield (
            "b is taken as its transpose: row and column have changed places in an index.",
            a @ b.T,
        )
        yield (
            "a is taken as its transpose: row and column have changed places in an index.",
            a.T @ b,
        )
        yield (
            "Elements at the same place are multiplied. A product needs a row and a column.",
            a * b,
        )
        starts = range(0, n, edge)
        steps = np.arange(n)
        places = steps % edge
        for mask, sentence in (
            (places != edge - 1, "The last step of each tile is missing in the sums."),
            (places != 0, "The first step of each tile is missing in the sums."),
            (places < edge // 2, "The second half of each tile is missing in the sums."),
            (steps >= starts[-1], "Only the last tile is in the sums. Is the sum set to 0 again?"),
            (steps < edge, "Only the first tile is in the sums. Does the loop over the tiles end?"),
            (steps >= edge, "The first tile is missing in the sums."),
            (
                steps < n // edge * edge,
                (
                    f"The last tile is missing in the sums: n is no multiple of {edge}, and the "
                    "division rounds down."
                ),
            ),
        ):
            if not mask.all():
                more = f" A tile has {edge} steps of k." if "of each tile" in sentence else ""
                yield sentence + more, a[:, mask] @ b[mask]
        replaced = "Does the sum grow, or is it replaced?"
        if n % edge == 0:
            last = np.outer(a[:, -1], b[-1])
            yield f"Each element has only the last product. {replaced}", last
        else:  # the last product is that of the zeros beyond the edge
            zeros = "All elements are 0, as the tiles are beyond the edge."
            yield f"{zeros} {replaced} And is it stored?", np.zeros_like(a)
        for name, left, right in (
            ("a", _transpose_tiles(a, edge), b),
            ("b", a, _transpose_tiles(b, edge)),
        ):
            yield (
                f"The tile of {name} is transposed: its indices differ between store and load.",
                left @ right,
            )
        if n % edge == 0:
            i, j = np.indices((n, n))
            yield (
                f"Each element got one product per tile instead of {edge}.",
                np.asarray(sum(a[i, k + j % edge] * b[k + i % edge, j] for k in starts)),
            )

    return mistakes


def _transpose_tiles(matrix: Array, edge: int) -> Array:
    """Return a square matrix with each tile transposed. Incomplete tiles are padded with zeros."""
    n = len(matrix)
    count = -(-n // edge)
    tiles = np.pad(matrix, (0, count * edge - n)).reshape(count, edge, count, edge)
    turned: Array = tiles.transpose(0, 3, 2, 1).reshape(count * edge, count * edge)
    return turned[:n, :n]


def _barriers(arguments: Sequence[Any], expected: Array) -> Mistakes:
    x = arguments[0]
    parts = np.pad(x, (0, -x.size % 256)).reshape(-1, 256).sum(axis=1)
    yield (
        "Each block has only the sum of its own 256 elements. The sum of all elements is wanted.",
        np.repeat(parts, 256)[: expected.size],
    )
    yield (
        "Only the last 256 elements are in the sum. Is the sum set to 0 again?",
        np.full(expected.shape, parts[-1]),
    )
    yield (
        "Only the first 256 elements are in the sum. When does the loop end?",
        np.full(expected.shape, parts[0]),
    )


def _transpose(arguments: Sequence[Any], _: Array) -> Mistakes:
    yield (
        "The result is the image itself. Row and column must change places in one index: in which?",
        arguments[0],
    )


def _swizzle(arguments: Sequence[Any], _: Array) -> Mistakes:
    x = arguments[0]
    r, c = np.indices(x.shape)
    yield (
        (
            "Only one of the two accesses to the tile is swizzled. If the store moves an element "
            "to another column, where must the load look for it?"
        ),
        x[c, r ^ c],
    )
    yield "The tile is swizzled, but not transposed: which lane reads which row?", x


def _mirror(arguments: Sequence[Any], _: Array) -> Mistakes:
    image = arguments[0]
    yield "This is the image itself. Which column of image belongs to column 0 of out?", image
    yield (
        "The rows are in reverse order instead of the columns. Which index must run backwards?",
        image[::-1],
    )
    (rows, cols), (row, col) = image.shape, np.indices(image.shape)
    yield (
        "You multiplied the row by `rows`. How many elements does a row of image have?",
        image.ravel()[np.minimum(row * rows + cols - 1 - col, image.size - 1)],
    )


def _row_means(arguments: Sequence[Any], _: Array) -> Mistakes:
    x = arguments[0]
    rows, cols = x.shape
    sums = x.sum(axis=1)
    lanes = np.arange(cols) % 32
    yield "These are the sums of the rows. A mean is divided by the number of elements.", sums
    yield "You divided by the number of rows. How many elements does a row have?", sums / rows
    yield "You divided by 32, the number of lanes. How many elements does a row have?", sums / 32
    yield (
        "Only the part of lane 0 is in the mean. How do the other 31 parts get there?",
        x[:, lanes == 0].sum(axis=1) / cols,
    )
    for count in (16, 8, 2):
        yield (
            (
                f"Only the parts of {count} lanes are in the mean. Which steps does the addition "
                "of the 32 parts need?"
            ),
            x[:, lanes < count].sum(axis=1) / cols,
        )
    whole = cols // 32 * 32
    if whole < cols:
        yield (
            "The last columns are missing: the number of columns is no multiple of 32.",
            x[:, :whole].sum(axis=1) / cols,
        )
    for step in (1, 8, 16):
        visits = (np.arange(lane, cols, step) for lane in range(32))
        weights = np.bincount(np.concatenate(list(visits)), minlength=cols)
        yield (
            (
                f"With a step of {step}, several lanes add the same elements. How many "
                "lanes share a row?"
            ),
            x @ weights / cols,
        )


def _block_sums(arguments: Sequence[Any], expected: Array) -> Mistakes:
    x = arguments[0]
    parts = np.pad(x, (0, -x.size % 256)).reshape(-1, 256)
    for count in (1, 2, 64, 128, 255):
        verb = "is" if count == 1 else "are"
        yield (
            (
                f"Only the first {count} of 256 elements {verb} in each sum. With which s must the "
                "loop begin, and with which must it end?"
            ),
            parts[:, :count].sum(axis=1),
        )
    yield (
        "Half of the elements are missing: those with odd numbers. With which s must the loop end?",
        parts[:, ::2].sum(axis=1),
    )
    yield (
        "Each block has the sum of the whole array.",
        np.full(expected.shape, parts.sum()),
    )


def _column_max(arguments: Sequence[Any], _: Array) -> Mistakes:
    x = arguments[0]
    warps = np.arange(len(x)) % 8
    yield "This is the smallest element of each column, not the largest.", x.min(axis=0)
    yield "This is the sum of each column, not the largest element.", x.sum(axis=0)
    yield (
        (
            "A column with negative elements only has the maximum 0. With which value must the "
            "comparison begin?"
        ),
        np.maximum(x.max(axis=0), 0),
    )
    for count in range(1, 8):
        verb = "is" if count == 1 else "are"
        yield (
            f"Only {count} of the 8 parts of each column {verb} compared.",
            x[warps < count].max(axis=0),
        )
    steps = np.arange(len(x))
    for step in (16, 32, 64):
        yield (
            f"A warp moves on by {step} rows, so rows are left out. How many warps share a column?",
            x[steps % step < 8].max(axis=0),
        )


def _double_all(arguments: Sequence[Any], _: Array) -> Mistakes:
    x = arguments[0]
    yield "Each element is squared. Its double is wanted.", x * x
    yield "This is a copy of x. Its double is wanted.", x


def _histogram(arguments: Sequence[Any], _: Array) -> Mistakes:
    values = arguments[0]
    places = np.arange(values.size) // 256
    yield (
        "Only the elements of block 0 are counted.",
        np.bincount(values[places % 8 == 0], minlength=64),
    )
    yield (
        "Each block counts only its first 256 elements. How does a thread reach the next ones?",
        np.bincount(values[places < 8], minlength=64),
    )
    yield (
        "All blocks count the same elements. With which i does each block begin?",
        8 * np.bincount(values[places % 8 == 0], minlength=64),
    )
    yield (
        "Several blocks count the same elements. By how much must i grow if 8 blocks share them?",
        np.bincount(values, np.minimum(places + 1, 8), 64),
    )


def _brighten(arguments: Sequence[Any], _: Array) -> Mistakes:
    image = arguments[0]
    yield "The image is copied, but not multiplied by the gain.", image
    yield "The gain is added. It is a factor.", image + np.float32(arguments[-1])


def _rotate(arguments: Sequence[Any], _: Array) -> Mistakes:
    image = arguments[0]
    yield (
        "The image is turned counterclockwise. Which row becomes the last column?",
        np.rot90(image),
    )
    yield (
        "The image is transposed, not turned: out is mirrored. Which index must run backwards?",
        image.T,
    )
    yield "The image is turned by 180 degrees, not by 90.", image[::-1, ::-1]


def _smooth(arguments: Sequence[Any], _: Array) -> Mistakes:
    x = arguments[0]
    n = x.size
    windows = np.lib.stride_tricks.sliding_window_view
    near = windows(np.pad(x, 8, mode="edge"), 17)
    where = "The window goes from i - 8 to i + 8."
    yield f"The last element of the window is missing. {where}", near[:, :-1].sum(axis=1) / 17
    yield f"The first element of the window is missing. {where}", near[:, 1:].sum(axis=1) / 17
    yield (
        f"You took 16 elements and not 17. {where}",
        near[:, :-1].mean(axis=1),
    )
    yield "You divided by 16. How many elements does the window have?", near.sum(axis=1) / 16
    yield "These are the sums. A mean is divided by the number of elements.", near.sum(axis=1)
    ahead = windows(np.pad(x, (0, 16), mode="edge"), 17).mean(axis=1)
    yield f"Your window begins at element i. {where}", ahead
    behind = windows(np.pad(x, (16, 0), mode="edge"), 17).mean(axis=1)
    yield f"Your window ends at element i. {where}", behind
    zeros = windows(np.pad(x, 8), 17)
    ends = "Beyond the ends of the array the first and the last element are repeated."
    yield f"You added zeros beyond the ends. {ends}", zeros.mean(axis=1)
    i = np.arange(n)
    inside = np.minimum(i, 8) + np.minimum(n - 1 - i, 8) + 1
    yield f"You left out what is beyond the ends. {ends}", zeros.sum(axis=1) / inside
    for mode, sentence in (
        ("edge", "repeated the elements at the ends of each block"),
        ("constant", "added zeros at the ends of each block"),
    ):
        parts = [
            windows(np.pad(x[k : k + 256], 8, mode=mode), 17).mean(axis=1)  # type: ignore[call-overload]
            for k in range(0, n, 256)
        ]
        yield (
            f"You {sentence}. There the window reaches into the neighbouring block's elements.",
            np.concatenate(parts),
        )


_RESULTS: dict[str, Callable[[Sequence[Any], Array], Mistakes]] = {
    "add_arrays": _add_arrays,
    "pad": _pad,
    "prefix": _prefix,
    "polar": _polar,
    "count_positive": _count_positive,
    "warp_sums": _warp_sums,
    "distances": _distances,
    "votes": _votes,
    "thread_number": _thread_number,
    "which_warp": _which_warp,
    "copy_four": _copy_four,
    "pair_means": _pair_means,
    "grey": _grey,
    "crop": _crop,
    "product": _product,
    "gram": _gram,
    "barriers": _barriers,
    "tiled": _tiles(16),
    "corner": _tiles(32, transposed=True),
    "transpose": _transpose,
    "swizzle": _swizzle,
    "mirror": _mirror,
    "row_means": _row_means,
    "block_sums": _block_sums,
    "column_max": _column_max,
    "double_all": _double_all,
    "untiled": _tiles(16),
    "histogram": _histogram,
    "register_tile": _tiles(16),
    "turned_tile": _tiles(16),
    "brighten": _brighten,
    "rotate": _rotate,
    "smooth": _smooth,
}
