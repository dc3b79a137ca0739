"""Prepares the operands for the fast variants of matmul.

Some kernels need a matrix in another order, with aligned rows, or with rounded elements. Some
kernels need tensor maps. A tensor map describes a matrix to the hardware unit that copies tiles
(TMA).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coalesce import catalogue
from coalesce._core import ops, sim
from coalesce.catalogue.best import shared_tiles
from coalesce.catalogue.operands import Operand, as_bits, is_bfloat16
from coalesce.catalogue.run import ELEMENTS, Run, as_elements, overlap
from coalesce.launch.tensor_map import TensorMap

_ROWS, _STAGE, _ZEROS = 128, 32, 256  # the same constants as in csrc/kernels/layout/02_packed.cu
_COLS = 256  # the columns of a tile in 16_tma.cu and 18_tensor_map.cu
PARTIAL = _ROWS * _COLS  # the largest number of partial sums that a block passes to another block

# For each kernel and array: the type of the elements, and the box of the array's tensor map. The
# box has the rows and columns that one copy reads.
_BOXES: dict[str, dict[str, tuple[str, tuple[int, int]]]] = {
    "tensor_map": {"a": ("float32", (128, 32)), "b": ("float32", (32, 256))},
    "bf16": {"a": ("bfloat16", (128, 64)), "b": ("bfloat16", (64, 64))},
    "tf32": {"a": ("tfloat32", (64, 32)), "b": ("tfloat32", (32, 32))},
    "tf32x3": {
        "a": ("tfloat32", (128, 32)),
        "low": ("float32", (128, 32)),
        "b": ("float32", (32, 32)),
    },
    "dmma": {"a": ("float64", (64, 16)), "b": ("float64", (16, 16))},
}


def prepared(
    run: Run, entry: ops.Variant, a: Operand, b: Operand, others: Sequence[Operand]
) -> dict[str, Any]:
    """Return the kernel arguments that the variant `entry` needs for the operands `a` and `b`.

    The result is a dict from the names of arguments to their values: ``{"a": ..., "b": ...,
    "a_map": ...}``. "a" and "b" are the operands, or rounded or reordered copies of the operands.
    "a_map" is the tensor map of `a`, if the kernel needs one. `run` is the `Run` object of this
    `matmul` call; the object allocates the copies. `others` are the other arrays of the call (`c`
    and `out`), if the caller passed them.
    """
    if entry.preparation == "pack_a":
        arrays = _strips(run, a, run.multiprocessors)
        arrays["b"], pitch = _aligned(run, b, (a, *others), wider=False)
        return {**arrays, "b_cols": np.int32(pitch)}
    if entry.preparation == "map_bfloat16":
        a_rows, b_rows = _bfloat16(run, a, (b, *others)), _bfloat16(run, b, (a, *others))
    else:
        a_rows, b_rows = _aligned(run, a, (b, *others)), _aligned(run, b, (a, *others))
    arrays = {"a": a_rows[0], "b": b_rows[0]}
    layouts = {"a": (a.shape, a_rows[1]), "b": (b.shape, b_rows[1])}
    if entry.preparation == "map_rest":
        arrays["low"], pitch = _tf32_rest(run, a)
        layouts["low"] = (a.shape, pitch)
    if "whole" in entry.arguments:
        arrays.update(_shared_tiles(run, a, b))
    return {**arrays, **_maps(entry.name, layouts)}


def _maps(kernel: str, layouts: dict[str, tuple[tuple[int, ...], int]]) -> dict[str, TensorMap]:
    """Return the tensor maps of a kernel's arrays.

    `layouts` has the shape and the pitch of each array. The pitch is the distance between the
    starts of two neighbouring rows, in elements.
    """
    maps = {}
    for name, (element, box) in _BOXES[kernel].items():
        (rows, cols), pitch = layouts[name]
        item = {"bfloat16": 2, "float64": 8}.get(element, 4)
        swizzle = sim.SWIZZLE_128 if box[1] * item == 128 else 0
        maps[f"{name}_map"] = TensorMap(name, element, (rows, cols), (pitch * item,), box, swizzle)
    return maps


def _strips(run: Run, a: Operand, blocks: int) -> dict[str, Any]:
    """Copy `a` into strips of rows, in the order in which the blocks of the kernel read it.

    Return the copy and two other arguments: memory in which blocks exchange partial sums, and flags
    that say which of these sums are ready.
    """
    m, k = a.shape
    depth = -(-k // _STAGE) * _STAGE
    strips = run.scratch((-(-m // _ROWS) * _ROWS * depth + _ZEROS,), a.dtype)
    ready = run.scratch((blocks,), np.dtype(np.int32))
    values = {
        "x": run.ready(a),
        "out": strips,
        "ready": ready,
        "rows": np.int32(m),
        "cols": np.int32(k),
        "depth": np.int32(depth),
        "blocks": np.int32(blocks),
    }
    run.launch(catalogue.find("layout", "packed"), (m, k), values, item_size=4)
    return {"a": strips, "partial": run.scratch((blocks * PARTIAL,), a.dtype), "ready": ready}


def _shared_tiles(run: Run, a: Operand, b: Operand) -> dict[str, Any]:
    """Decide which tiles of a product several blocks compute together. Return the arguments.

    `whole` is the number of tiles that one block computes alone. Several blocks share each of the
    other tiles. Each of them computes some stages (parts of K) of the tile, and they add up their
    results in `partial`.
    """
    blocks, stages = run.multiprocessors, -(-a.shape[1] // _STAGE)
    tiles = -(-a.shape[0] // _ROWS) * -(-b.shape[1] // _COLS)
    divided = shared_tiles(tiles, stages, blocks)
    ready = run.scratch((blocks if divided else 1,), np.dtype(np.int32))
    if divided:
        values = {"x": ready, "n": np.uint64(blocks)}
        run.launch(catalogue.find("layout", "zeros"), (blocks, 1), values, item_size=4)
    partial = run.scratch((blocks * PARTIAL if divided else 1,), a.dtype)
    return {"whole": np.int32(tiles - divided), "partial": partial, "ready": ready}


def _aligned(
    run: Run, operand: Operand, others: Sequence[Operand], wider: bool = True
) -> tuple[Any, int]:
    """Return an operand with aligned rows, and its pitch.

    An aligned row begins at a multiple of 16 bytes. If the rows are not aligned, a copy is made.
    The pitch is the distance between the starts of two neighbouring rows, in elements. With
    `wider`, elements of another array may lie between the rows of the result.
    """
    (rows, cols), item = operand.shape, operand.dtype.itemsize
    width = 16 // item
    if wider and operand.on_gpu and not operand.usable_as_is():
        row_bytes, col_bytes = operand.array.strides
        whole_rows = col_bytes == item and row_bytes >= cols * item and row_bytes % 16 == 0
        if whole_rows and operand.array.address % 16 == 0:
            return operand.array.whole(), row_bytes // item
    elements = run.ready(operand, alignment=16)
    if cols % width == 0:
        if not operand.on_gpu and any(overlap(operand, other) for other in others):
            # Arrays that share memory on the host also share it on the GPU, at the same distance.
            # So the operand may begin at an unaligned address there. A copy does not share memory,
            # and begins at an aligned address.
            elements = np.array(elements)
        return elements, cols
    pitch = -(-cols // width) * width
    result = run.scratch((rows, pitch), operand.dtype)
    values = {
        "x": as_elements(elements, item),
        "out": as_elements(result, item),
        "n": np.uint64(rows * pitch),
        "cols": np.uint64(cols),
        "pitch": np.uint64(pitch),
        "first": np.int64(0),
        "row_stride": np.int64(cols),
        "col_stride": np.int64(1),
    }
    defines = (f"ELEMENT={ELEMENTS[item][0]}",)
    entry = catalogue.find("layout", "contiguous")
    run.launch(entry, (rows * pitch, 1), values, item_size=item, defines=defines)
    return result, pitch


def _bfloat16(run: Run, operand: Operand, others: Sequence[Operand]) -> tuple[Any, int]:
    """Return an operand in bfloat16, and its pitch. The rows of the result are aligned.

    The elements are bfloat16 numbers, but the dtype of the result is uint16. If the operand is
    float32, its elements are rounded to bfloat16.
    """
    if is_bfloat16(operand.dtype):
        return _aligned(run, as_bits(operand), others)
    rows, cols = operand.shape
    pitch = -(-cols // 8) * 8
    result = run.scratch((rows, pitch), np.dtype(np.uint16))
    return _rounded(run, operand, "bfloat16", "out", result), pitch


def _tf32_rest(run: Run, a: Operand) -> tuple[Any, int]:
    """Return the rounding errors of `a`: what is lost if its elements are rounded to TF32.

    Each is the difference of an element and the rounded element, and is rounded to TF32 itself.
    Also return the pitch of the result, whose rows are aligned.
    """
    rows, cols = a.shape
    pitch = -(-cols // 4) * 4
    return _rounded(run, a, "tf32_rest", "rest", run.scratch((rows, pitch), a.dtype)), pitch


def _rounded(run: Run, operand: Operand, kernel: str, name: str, result: Any) -> Any:
    rows, pitch = result.shape
    values = {
        "x": run.ready(operand),
        name: result,
        "rows": np.int32(rows),
        "cols": np.int32(operand.shape[1]),
        "pitch": np.int32(pitch),
    }
    run.launch(catalogue.find("layout", kernel), (rows, pitch), values, item_size=4)
    return result
