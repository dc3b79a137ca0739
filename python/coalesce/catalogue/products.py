"""Runs matmul, transpose and the sums: checks their arguments, and launches their kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from coalesce import catalogue
from coalesce._core import ops
from coalesce.arrays.creation import to_device
from coalesce.catalogue import best, pack
from coalesce.catalogue.operands import (
    Operand,
    array,
    as_bits,
    is_bfloat16,
    output,
    same_dtype,
    tile_of,
)
from coalesce.catalogue.run import REAL_NAME, Run
from coalesce.common import require

# A NumPy array, or a GPU array of any library. The result has the same kind as the operands.
Array = Any

_MOST_INT = 2**31 - 1  # the number of elements that a 32-bit index can count


def run_matmul(
    a: Array,
    b: Array,
    *,
    variant: str = "tiled",
    alpha: float = 1.0,
    beta: float = 0.0,
    c: Array | None = None,
    out: Array | None = None,
    tile: int | None = None,
    **how: Any,
) -> tuple[Array, Run]:
    """Run `coalesce.matmul`. Return a pair: the result, and a `Run`.

    The `Run` has a record of each launch. `how` has arguments for the constructor of
    `Run`. The other parameters are those of `coalesce.matmul`.
    """
    entry = None if catalogue.is_best(variant) else catalogue.find("matmul", variant)
    if entry is not None:
        tile = tile_of(entry, tile)
    elif tile is not None:
        raise ValueError(
            f"variant 'best' chooses the tile itself; got tile={tile}. Leave out `tile`"
        )
    alpha, beta = require.number("alpha", alpha), require.number("beta", beta)
    bfloat16 = entry is not None and entry.preparation == "map_bfloat16"
    left = array("a", a, "(M, K)", "matmul", bfloat16=bfloat16)
    right = array("b", b, "(K, N)", "matmul", bfloat16=bfloat16)
    dtype = same_dtype(left, right)
    if is_bfloat16(dtype):
        dtype = np.dtype(np.float32)  # the dtype of the sums and of the result
    m, n, depth = product_extents(left, right)
    k = depth
    operands = [left, right]
    addend = _addend(c, beta, (m, n), left, dtype)
    if addend is not None:
        operands.append(addend)
    target = output(out, (m, n), dtype, "(M, N)", bfloat16=bfloat16)
    rounds = target is not None and target.dtype != dtype  # to bfloat16
    if target is not None and rounds:
        target = as_bits(target)

    run = Run([*operands, *([target] if target else [])], **how)
    # If both operands lie in columns, their transposes do not have to be copied. Their product is
    # the transpose of the result.
    turned = entry is None and addend is None and alpha != 0 and _lie_in_columns(left, right)
    if turned:
        left, right, m, n = right.transposed(), left.transposed(), n, m
    if entry is None:
        name, tile = best.of_matmul(m, n, k, dtype, run.device)
        entry = catalogue.find("matmul", name)
    catalogue.check_runs(entry, run.device, dtype)
    # A kernel reads an element of c only to compute the same element of the result.
    read = operands if addend is None or not _same_place(addend, target) else operands[:2]
    shape = (n, m) if turned else (m, n)
    written = run.result(shape, dtype if target is None else target.dtype, read, target)
    product = run.scratch((m, n), dtype) if turned else written
    if alpha == 0:
        k = 0  # this means K = 0: the kernel does not read a and b
    if rounds and not k:  # only this variant can write bfloat16, and it needs operands: use zeros
        alpha, k = 0.0, 1
        left, right = (_zeros(run, x.name, s) for x, s in ((left, (m, 1)), (right, (1, n))))
    if not k and entry.hopper:  # there is nothing to prepare, and no first stage to load
        entry, tile = catalogue.find("matmul", "tiled"), 0
    if m and n:
        unread = run.unread(dtype, written)
        others = [x for x in (addend, target) if x is not None]
        factors = _factors(run, entry, left, right, others) if k else {"a": unread, "b": unread}
        with np.errstate(over="ignore"):  # a scalar beyond float32 becomes an infinity, as in BLAS
            scalars = {"alpha": dtype.type(alpha), "beta": dtype.type(beta)}
        rest = {
            "c": unread if addend is None or beta == 0 else run.ready(addend),
            "out": product,
            **scalars,
        }
        # 64-bit indices slow the fastest variants by some percent, so they are used only if needed.
        index = "int" if max(m * depth, depth * n, m * n) <= _MOST_INT else "size_t"
        defines = [f"REAL={REAL_NAME[dtype]}", f"INDEX={index}"]
        if rounds:
            defines.append("BFLOAT16_RESULT")
        _launch_product(
            run, entry, tile or 0, (m, n, k), dtype, factors, rest, unread, tuple(defines)
        )
        if turned:
            run.transposed(product, "vectorized", written)
    run.work = product_work(m, n, k, left.dtype.itemsize, written.dtype.itemsize, adds=beta != 0)
    return run.deliver(written, operands, target), run


def _lie_in_columns(a: Operand, b: Operand) -> bool:
    """Return whether the transposes of two operands can be used as they are.

    It must also take less time to transpose the result than to transpose the operands.
    """
    fewer = a.shape[0] * b.shape[1] <= math.prod(a.shape) + math.prod(b.shape)
    return fewer and all(
        x.on_gpu and x.lies_in_columns and not x.usable_as_is() and x.transposed().usable_as_is()
        for x in (a, b)
    )


def _same_place(operand: Operand, out: Operand | None) -> bool:
    """Return whether two operands are the same contiguous array on a GPU."""
    return (
        out is not None
        and operand.on_gpu
        and out.on_gpu
        and operand.array.address == out.array.address
        and operand.dtype == out.dtype
        and operand.usable_as_is()
        and out.usable_as_is()
    )


def _is_prepared(entry: ops.Variant) -> bool:
    """Return whether a variant needs operands that catalogue/pack.py prepares."""
    return entry.preparation not in ("none", "transpose_b")


def _factors(
    run: Run, entry: ops.Variant, a: Operand, b: Operand, others: Sequence[Operand]
) -> dict[str, Any]:
    """Return the arguments a and b in the form that a kernel needs. `others` are other arrays."""
    if _is_prepared(entry):
        return pack.prepared(run, entry, a, b, others)
    if entry.preparation == "transpose_b":
        return {"a": run.ready(a), "b": _column_major(run, b)}
    return {"a": run.ready(a), "b": run.ready(b)}


def _launch_product(
    run: Run,
    entry: ops.Variant,
    tile: int,
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    factors: dict[str, Any],
    rest: dict[str, Any],
    unread: Any,
    defines: tuple[str, ...],
) -> None:
    """Launch the kernel of a product.

    Some variants divide K into slices. The kernel then computes a product for each slice, and a
    second kernel adds up the products.

    Parameters
    ----------
    shape : tuple of int
        M, N and K.
    factors, rest : dict
        The kernel's arguments by name: `a` and `b`; `c`, `out` and the scalars.
    unread : array
        An array to pass for `c` if the kernel does not read `c`.
    """
    m, n, k = shape
    parts, slices = 0, 1
    if "slices" in entry.arguments:
        parts, slices = best.division(m, n, k, tile, run.multiprocessors)
        defines = (*defines, f"PARTS={parts}")
    if (chosen := best.tile(entry.name, m, n, k, run.multiprocessors)) is not None:
        defines = (*defines, *chosen.defines())
    sums = rest
    if slices > 1:
        one, zero = dtype.type(1), dtype.type(0)
        products = run.scratch((slices, m, n), dtype)
        sums = {"c": unread, "out": products, "alpha": one, "beta": zero}
    extents = {"M": np.int32(m), "N": np.int32(n), "K": np.int32(k), "slices": np.int32(slices)}
    run.launch(
        entry,
        (m, n),
        {**factors, **sums, **extents},
        item_size=dtype.itemsize,
        tile=tile,
        slices=slices,
        parts=parts,
        defines=defines,
    )
    if slices > 1:
        run.launch(
            catalogue.find("layout", "add_slices"),
            (m * n, 1),
            {**rest, "x": products, "n": np.uint64(m * n), "slices": np.int32(slices)},
            item_size=dtype.itemsize,
        )


def run_transpose(
    a: Array,
    *,
    variant: str = "padded",
    out: Array | None = None,
    **how: Any,
) -> tuple[Array, Run]:
    """Run `coalesce.transpose`. Return a pair: the result, and a `Run`.

    The `Run` has a record of each launch. `how` has arguments for the constructor of
    `Run`. The other parameters are those of `coalesce.transpose`.
    """
    entry = catalogue.find("transpose", best.of_one_matrix(variant))
    operand = array("a", a, "(rows, cols)", "transpose")
    rows, cols = operand.shape
    shape = (rows, cols) if variant == "copy" else (cols, rows)
    names = ("in", "out")
    return _one_kernel(entry, operand, shape, names, out, 0, how, catalogue.is_best(variant))


def run_row_sums(
    a: Array, *, variant: str = "warp_per_row", shared: str = "static", **rest: Any
) -> tuple[Array, Run]:
    """Run `coalesce.row_sums`. Return a pair: the result, and a `Run`.

    The `Run` has a record of each launch. `rest` may contain `out` and the options of `Run`.
    """
    require.choice("shared", shared, ("static", "dynamic"))
    if shared == "dynamic":
        if variant not in ("block_per_row", "block_per_row_dynamic"):
            raise ValueError(
                "only variant 'block_per_row' has the option `shared`; got shared='dynamic' with "
                f"variant {variant!r}"
            )
        variant = "block_per_row_dynamic"
    return run_sums("row_sums", a, variant, **rest)


def run_column_sums(a: Array, *, variant: str = "column_tiles", **rest: Any) -> tuple[Array, Run]:
    """Run `coalesce.column_sums`. Return a pair: the result, and a `Run`.

    The `Run` has a record of each launch. `rest` may contain `out` and the options of `Run`.
    """
    return run_sums("column_sums", a, variant, **rest)


def run_sums(
    operation: Literal["row_sums", "column_sums"],
    a: Array,
    variant: str,
    out: Array | None = None,
    **how: Any,
) -> tuple[Array, Run]:
    """Compute the sums of the rows or of the columns of a matrix.

    Return a pair: the result, and a `Run` with a record of each launch. `how` has
    arguments for the constructor of `Run`.
    """
    entry = catalogue.find(operation, best.of_one_matrix(variant))
    operand = array("a", a, "(rows, cols)", operation)
    rows, cols = operand.shape
    shape = (rows,) if operation == "row_sums" else (cols,)
    names = ("x", "sums")
    return _one_kernel(entry, operand, shape, names, out, 1, how, catalogue.is_best(variant))


def _one_kernel(
    entry: ops.Variant,
    operand: Operand,
    shape: tuple[int, ...],
    names: tuple[str, str],
    out: Array | None,
    flops: int,
    how: dict[str, Any],
    by_best: bool,
) -> tuple[Array, Run]:
    """Run a kernel that reads one matrix and writes one array.

    `names` has the names of the kernel's parameters for the two arrays. With `by_best`, the kernel
    may be another one that fits the layout of the matrix.
    """
    rows, cols = operand.shape
    dtype = operand.dtype
    target = output(out, shape, dtype, "")
    run = Run([operand, *([target] if target else [])], **how)
    written = run.result(shape, dtype, [operand], target)
    run.work = one_pass_work(rows * cols, math.prod(shape), flops, dtype.itemsize)
    if by_best and operand.lies_in_columns and not operand.usable_as_is():
        # The transposed matrix lies in rows. Its rows are the columns, and it is the transpose.
        if entry.operation != "transpose":
            operand, rows, cols = operand.transposed(), cols, rows
            other = "row_sums" if entry.operation == "column_sums" else "column_sums"
            entry = catalogue.find(other, entry.name)
        elif not isinstance(written, np.ndarray):
            run.packed(operand.array.T, written)
            return run.deliver(written, [operand], target), run
    matrix: Any = operand
    while 0 not in shape:
        _, slices, _ = entry.launch(rows, cols, item_size=dtype.itemsize)[0]
        # The kernel leaves one sum for each slice of a row. The next pass adds up these sums.
        sliced = entry.operation == "column_sums" and slices > 1
        result = run.scratch((slices, cols), dtype) if sliced else written
        run.launch_on_matrix(entry, matrix, {names[1]: result}, names[0])
        if not sliced:
            break
        matrix, rows = result, slices
    return run.deliver(written, [operand], target), run


def _zeros(run: Run, name: str, shape: tuple[int, int]) -> Operand:
    """Return a matrix of zeros: in GPU memory if the call runs on a GPU, else a NumPy array."""
    zeros = np.zeros(shape, np.float32)
    return array(name, to_device(zeros, run.device) if run.on_gpu else zeros, "(M, N)", "matmul")


def product_extents(a: Operand, b: Operand) -> tuple[int, int, int]:
    """Return M, N and K of the product of an M x K matrix `a` and a K x N matrix `b`.

    If the shapes do not match, raise ValueError.
    """
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"`a` has shape {a.shape} and `b` has shape {b.shape}; "
            "`a` must have as many columns as `b` has rows"
        )
    return a.shape[0], b.shape[1], a.shape[1]


def product_work(
    m: int, n: int, k: int, item_size: int, result_size: int, *, adds: bool = False
) -> tuple[float, float]:
    """Return a pair: the number of floating-point operations of a product, and the moved bytes.

    An M x K matrix is multiplied by a K x N matrix. The bytes are counted as if each operand is
    read once and the result is written once. If `adds` is True, a matrix `c` is added to the
    product, and `c` is also read once. An element of the operands has `item_size` bytes, and an
    element of the result has `result_size` bytes.
    """
    moved = (m * k + k * n) * item_size + m * n * (2 if adds else 1) * result_size
    return 2.0 * m * n * k, float(moved)


def one_pass_work(read: int, written: int, flops: int, item_size: int) -> tuple[float, float]:
    """Return a pair: the floating-point operations of a transpose or a sum, and the moved bytes.

    A transpose or a sum reads `read` elements and writes `written` elements, each of them once.
    `flops` is the number of floating-point operations for each element that is read. `item_size` is
    the size of an element in bytes.
    """
    return float(flops * read), float((read + written) * item_size)


def _addend(
    c: Any, beta: float, shape: tuple[int, int], a: Operand, dtype: np.dtype[Any]
) -> Operand | None:
    """Check the matrix `c`. It must have the shape and the dtype of the result.

    The dtype of the result is the dtype of `a`, or float32 if `a` is bfloat16.
    """
    if c is None:
        if beta != 0:
            raise ValueError(
                f"`c` is missing: `beta` is {beta}, so the result contains beta * c; pass `c`, or "
                "leave out `beta`"
            )
        return None
    addend = array("c", c, "(M, N)", "matmul")
    same_dtype(replace(a, dtype=dtype), addend)
    if addend.shape != shape:
        raise ValueError(
            f"`c` has shape {addend.shape}; it must have the shape of the result, (M, N) = {shape}"
        )
    return addend


def _column_major(run: Run, b: Operand) -> Any:
    """Return the transpose of b in C order. If b is in Fortran order, nothing is copied."""
    turned = b.transposed()
    return turned.array if turned.usable_as_is() else run.transposed(b)
