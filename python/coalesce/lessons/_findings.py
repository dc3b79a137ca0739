"""Sentences about the findings that `Kernel.check` reports for the exercises.

A sentence names the mistake that probably causes a finding. It is stored under the name of the
exercise and the kind of the finding. Races are of two kinds: "writes" if both accesses write, else
"race" (or "lockstep", if both are in one warp). A kind may name the array or the memory: "writes of
out", "race in shared". If the source of the kernel contains "float2", the kind of a misaligned
access is "misaligned with float2".

If an exercise has no sentence for a finding, `for_any_exercise` returns one.
"""

from __future__ import annotations

import re

from coalesce.check import Finding
from coalesce.cxx.declarations import bare

_OVERLAP = (
    "Two threads compute the same element: their parts of the result overlap. How many elements "
    "does a thread compute along each axis, and how far apart do the parts of two neighbouring "
    "threads begin?"
)
_SAME_WORK = (
    "Several threads double the same elements. Does the start of the loop depend on blockIdx.x, "
    "and does its step count the threads of all blocks?"
)
_SAME_POINT = (
    "Two threads write the same element. Each block has 128 points of its own, and each point "
    "needs one thread for x and one for y: which points have these two threads?"
)
_TILE_READ = (
    "A thread reads what another one has stored. What makes it wait until that store has happened?"
)
_TWO_BARRIERS = (
    "A tile is stored by all threads and read by all threads. Which barrier comes between the "
    "stores and the loads, and which one before the next tile is stored?"
)
_NOT_STORED = (
    "This element of the tile was never stored. At the edge of the matrix store a 0; a thread "
    "without an element of out must store, too."
)
_EDGE = "At the edge some threads have no element. Which condition must their index meet?"
_BELOW = "This index is negative. Which part of it is too small for this thread, or is subtracted?"
_SAME_ELEMENT = (
    "Several threads write the same element. Which threads are they, and which part of the index, "
    "or which condition, should tell them apart?"
)
_ANY: dict[str, str] = {
    "out_of_bounds in global": "The index is too large for this thread. Compute it by hand: which "
    "part is wrong, or which condition is missing?",
    "out_of_bounds in shared": "How many elements has this array along each axis? Compute the "
    "index for this thread by hand.",
    "writes": _SAME_ELEMENT,
    "race": "A thread reads an element that another thread writes. What makes it wait?",
    "lockstep": "A lane reads an element that another lane of its warp writes. What makes it wait?",
    "uninitialized": "No thread has written this element before. Which thread should, and does it?",
    "barrier": "All threads of the block must reach this barrier. Which of them leave before it, "
    "or take another branch?",
    "warp_mask": "All lanes that the mask names must execute this function. Which of them leave "
    "before it, or take another branch?",
}
_EARLY_RETURN = (
    "Your kernel has a `return` before __syncthreads(). A thread that returns there stores nothing "
    "in the tile, but other threads need its element. What must all threads do before they return?"
)

_IN_AN_IF = (
    "A __syncthreads() of your kernel is inside an `if`. All threads of the block must reach the "
    "same barrier. Put the barrier after the `if`, and only the store or the load inside."
)

FINDINGS: dict[str, dict[str, str]] = {
    "add_arrays": {
        "writes": "Several blocks compute the same elements. Which variable tells a thread its "
        "block?",
        "out_of_bounds": _EDGE,
    },
    "pad": {
        "out_of_bounds of room": "`room` has 64 * 80 floats. How long may a row be, if 64 rows "
        "must fit?",
        "writes of room": "Rows of `room` overlap. A row of the matrix has n floats, so `length` "
        "must be at least n.",
    },
    "prefix": {
        "race": "A thread reads an element that another thread changes in the same step. Read the "
        "value before the barrier, and add it after the barrier.",
        "lockstep": "Lanes read elements that other lanes change in the same step. Read the value "
        "before the barrier, and add it after the barrier.",
        "out_of_bounds in shared": "part[t - s] exists only for t >= s.",
    },
    "polar": {"writes": _SAME_POINT},
    "count_positive": {
        "writes": "Several lanes write the same count. One lane of each warp is enough.",
        "out_of_bounds": _EDGE,
        "warp_mask": "The mask must name exactly the lanes that reach __ballot_sync. Let all 32 "
        "lanes reach it. Which condition can be a part of the vote instead?",
    },
    "warp_sums": {
        "lockstep": "Lanes of a warp read what other lanes have stored. They may do this only "
        "after a barrier of the warp.",
        "race": "A thread reads what another warp has stored. A warp needs only its own 32 parts.",
        "out_of_bounds": _EDGE,
    },
    "copy_four": {
        "writes": "Two threads copy the same element. How many elements does a block copy in one "
        "iteration, and how many in all four?",
        "out_of_bounds": "n is no multiple of 1024, so not every thread has four elements. Which "
        "index must be less than n?",
    },
    "pair_means": {
        "out_of_bounds": "x has 2 * n elements, and out has n. What must each index be less than?",
        "out_of_bounds of x with float2": "An index of a float2 array counts pairs. Is yours still "
        "twice as large, or does a thread without a pair load one?",
        "misaligned": "A vector must begin at a multiple of its own size. Does your index count "
        "vectors or floats?",
        "misaligned with float2": "A float2 must begin at a multiple of 8 bytes. Does your index "
        "count pairs?",
    },
    "grey": {
        "race": _TILE_READ,
        "uninitialized": "256 pixels are 768 floats. How many must each thread of the block load? "
        "And does a thread without a pixel compute one?",
        "out_of_bounds of pixels": "A pixel is three floats. With what must an index into pixels "
        "be compared?",
        "out_of_bounds in shared": "A pixel is three floats. How large must the tile be?",
    },
    "crop": {
        "same_value": _SAME_ELEMENT,
        "writes": "Threads with col >= width write, too, and out[row * width + col] is then in the "
        "next row. How many columns does out have?",
        "out_of_bounds": "Rows of out have `width` elements, and rows of image have `cols`. Which "
        "of them is in your index?",
    },
    "product": {
        "out_of_bounds": "Which index is too large here: k, row or col? k is less than K, and M "
        "and N are no multiples of 32.",
    },
    "gram": {"out_of_bounds": "x has K rows and N columns. Which of them does your index count?"},
    "barriers": {"race": _TWO_BARRIERS},
    "tiled": {"race": _TWO_BARRIERS, "uninitialized": _NOT_STORED, "out_of_bounds": _EDGE},
    "corner": {"race": _TWO_BARRIERS, "uninitialized": _NOT_STORED, "out_of_bounds": _EDGE},
    "transpose": {
        "uninitialized": "No thread has stored this element: its place is outside the image. Two "
        "things must be mirrored: the block's place in the image, and the thread's place in the "
        "tile. Are both, and is the condition of the store about out?",
        "race": _TILE_READ,
        "out_of_bounds": "out has `cols` rows and `rows` columns. What must each index be "
        "compared with?",
    },
    "swizzle": {
        "race": _TILE_READ,
        "out_of_bounds in shared": "A row of the tile has 32 columns. Which rule moves the "
        "elements of a row to other columns, but never out of the row?",
    },
    "mirror": {
        "out_of_bounds of image": "Column 0 of out takes column cols - 1 of image. Which one does "
        "your index give?"
    },
    "row_means": {
        "same_value": _SAME_ELEMENT,
        "writes": "Several lanes write the same element of out. Which lane has the whole sum?",
        "out_of_bounds": _EDGE,
    },
    "block_sums": {
        "race": "A thread adds an element that another warp has changed. What makes it wait in "
        "each iteration?",
        "lockstep": "Lanes of a warp read elements that other lanes change in the same iteration. "
        "Which threads may add with this s?",
        "out_of_bounds of x": _EDGE,
        "out_of_bounds in shared": "part has 256 elements. Which threads may add with this s?",
    },
    "column_max": {
        "race": _TILE_READ,
        "out_of_bounds of x": _EDGE,
        "out_of_bounds of out": _EDGE,
    },
    "double_all": {"writes": _SAME_WORK},
    "untiled": {"out_of_bounds": _EDGE},
    "histogram": {
        "uninitialized": "Shared memory is not 0 at the start of a kernel. Who sets it to 0, and "
        "when?",
        "race": "Several threads count in the same element. Is each increment atomic, and do all "
        "threads wait between setting to 0, counting and adding?",
        "writes": "Several threads count in the same element. Is each increment atomic?",
        "out_of_bounds of values": _EDGE,
        "out_of_bounds": "There are 64 bins and 256 threads. Which threads may access a bin by "
        "their own number?",
    },
    "register_tile": {
        "writes of out": _OVERLAP,
        "race": _TWO_BARRIERS,
        "uninitialized": _NOT_STORED,
        "out_of_bounds": _EDGE,
    },
    "turned_tile": {"race": _TWO_BARRIERS, "uninitialized": _NOT_STORED, "out_of_bounds": _EDGE},
    "brighten": {"out_of_bounds": _EDGE},
    "distances": {
        "out_of_bounds": "x and y have n elements each. Which index of a thread is too large: row "
        "or col?",
        "writes": "Two threads compute the same element. How many rows does a block compute, "
        "and how far apart are the rows of a thread?",
    },
    "votes": {
        "out_of_bounds": "A ballot is a number from 0 to 3, and ballots has 16 rows of n elements. "
        "Which of your indices is too large?",
        "uninitialized": "An element of a local array is read before it has a value. Does each "
        "count begin with 0?",
    },
    "rotate": {
        "race": _TILE_READ,
        "uninitialized": "No thread has stored this element, as its place is outside the image. "
        "Which element of the image does the thread's element of out come from?",
        "out_of_bounds": "out has `cols` rows and `rows` columns. Row 0 of image becomes the last "
        "column, rows - 1. Which column does your index give?",
    },
    "smooth": {
        "race": _TILE_READ,
        "uninitialized": "A block needs 256 elements and 8 at each end, and it has 256 threads. "
        "Who loads the last 16?",
        "out_of_bounds of x": "The window reaches beyond the ends of the array. Which element "
        "takes the place of one that does not exist?",
    },
}


def sentences(name: str, finding: Finding, array: str, source: str) -> list[str]:
    """Return sentences about the mistake that causes a finding in this exercise: often one.

    `name` is the name of the exercise. `array` is the exercise's name of the argument that is
    accessed, or "". `source` is the source of the reader's kernel.
    """
    keys = _keys(finding, array)
    if "float2" in source:
        keys = [key for plain in keys for key in (f"{plain} with float2", plain)]
    known = FINDINGS.get(name, {})
    result = [known[key] for key in keys if key in known][:1]
    if result in ([_EDGE], [_NOT_STORED]) and _returns_before_a_barrier(source):
        result.append(_EARLY_RETURN)
    kinds = ("race", "barrier", "uninitialized")
    if finding.kind in kinds and _BARRIER_IN_AN_IF.search(bare(source)):
        result.append(_IN_AN_IF)
    return result


def for_any_exercise(finding: Finding) -> list[str]:
    """Return a sentence about a finding that holds in every exercise, in a list, or no sentence."""
    if _negative(finding):
        return [_BELOW]
    return [_ANY[key] for key in _keys(finding, "") if key in _ANY][:1]


def _negative(finding: Finding) -> bool:
    return finding.kind == "out_of_bounds" and finding.offset < 0


def _keys(finding: Finding, array: str) -> list[str]:
    """Return the keys of sentences about a finding, the most special one first."""
    places = [f" of {array}", f" in {finding.space}"]
    if not _negative(finding):  # a sentence about any index is about one that is too large
        places.append("")
    return [f"{kind}{place}" for kind in _kinds(finding) for place in places]


def _kinds(finding: Finding) -> list[str]:
    """Return the kinds under which sentences about a finding are stored, the best first."""
    if finding.kind not in ("race", "same_value", "lockstep"):
        return [finding.kind]
    both = (finding.first, finding.second)
    if all(access is not None and access.what == "write" for access in both):
        return [finding.kind, "writes"] if finding.kind == "same_value" else ["writes"]
    return [finding.kind, "race"]


_BARRIER_IN_AN_IF = re.compile(r"\bif\s*\([^;{}]*\)\s*(\{[^{}]*)?__syncthreads\b")


def _returns_before_a_barrier(source: str) -> bool:
    return re.search(r"\breturn\b.*\b__syncthreads\b", bare(source), re.DOTALL) is not None
