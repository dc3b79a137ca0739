"""Matrix product, transposition and sums, each by the variant you name."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from coalesce import catalogue
from coalesce.catalogue.operands import Operand, array, output, same_dtype, tile_of
from coalesce.catalogue.run import REAL_NAME, Run, called
from coalesce.common import checks

# A NumPy array, or a GPU array of any library; what comes out is of the kind that went in.
Array = Any

_MOST_INT = 2**31 - 1  # elements that an index of 32 bits can count


def matmul(
    a: Array,
    b: Array,
    *,
    variant: str = "tiled",
    alpha: float = 1.0,
    beta: float = 0.0,
    c: Array | None = None,
    out: Array | None = None,
    device: Any = None,
    tile: int | None = None,
    return_timing: bool = False,
    check: bool = False,
) -> Any:
    """Multiply two matrices: ``alpha * a @ b + beta * c``.

    Parameters
    ----------
    a : array of shape (M, K), float32 or float64
        NumPy or GPU array in any layout. Any extent may be 0.
    b : array of shape (K, N), of the dtype of `a`
        Variants that want b column-major (`variants` says which) use a Fortran-ordered b as it
        lies and otherwise transpose it first, with a kernel that counts into the time.
    variant : str
        One of ``variants("matmul").names``.
    alpha, beta : float
        Scalars with the meaning they have in BLAS: with alpha 0, a and b are not read; with beta 0,
        c is not read, so a NaN in it does not show.
    c : array of shape (M, N), of the dtype of `a`
        Needed where beta is not 0; never written.
    out : array of shape (M, N), of the dtype of `a`
        Where to put the result; may overlap the other arrays.
    device : str or Device, optional
        ``"cuda"``, ``"cuda:1"``, ``"sim"``, ``"sim:h200"``. By default the GPU if there is one,
        otherwise the simulator.
    tile : int, optional
        Edge of a block's tile: 8, 16 or 32 (the default).
    return_timing : bool
        Whether to time the kernel, by repeating it, and return a `Timing` too.
    check : bool
        Whether to run on the simulator with checks, as `Kernel.check` does, and return `Findings`
        too; not together with `return_timing`.

    Returns
    -------
    array of shape (M, N)
        `out`, or a new array: NumPy for NumPy operands, on the GPU where one of them is.
    Timing
        Only with ``return_timing=True``.
    Findings
        Only with ``check=True``.

    Raises
    ------
    TypeError
        An argument is no array, or its dtype is not float32 or float64, or dtypes differ.
    ValueError
        Shapes do not fit, or there is no such variant or tile.
    DeviceUnavailable
        There is no such device.

    Examples
    --------
    >>> a = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> coalesce.matmul(a, a.T, variant="naive", device="sim")
    array([[ 5., 14.],
           [14., 50.]], dtype=float32)
    """
    options: dict[str, Any] = {"variant": variant, "alpha": alpha, "beta": beta, "tile": tile}
    return called(
        lambda where: run_matmul(a, b, c=c, out=out, device=where, timed=return_timing, **options),
        device,
        return_timing,
        check,
    )


def run_matmul(
    a: Array,
    b: Array,
    *,
    variant: str = "tiled",
    alpha: float = 1.0,
    beta: float = 0.0,
    c: Array | None = None,
    out: Array | None = None,
    device: Any = None,
    tile: int | None = None,
    timed: bool | int = False,
    counts: bool = False,
) -> tuple[Array, Run]:
    """Do what `matmul` does and return the launches too."""
    entry = catalogue.find("matmul", variant)
    tile = tile_of(entry, tile)
    alpha, beta = checks.number("alpha", alpha), checks.number("beta", beta)
    left = array("a", a, "(M, K)", "matmul")
    right = array("b", b, "(K, N)", "matmul")
    dtype = same_dtype(left, right)
    m, n, k = product_extents(left, right)
    # 64-bit indices cost the fastest rungs some percent: only where 32 bits cannot count a matrix.
    index = "int" if max(m * k, k * n, m * n) <= _MOST_INT else "size_t"
    operands = [left, right]
    addend = _addend(c, beta, (m, n), left)
    if addend is not None:
        operands.append(addend)
    target = output(out, (m, n), dtype, "(M, N)")

    run = Run(device, [*operands, *([target] if target else [])], timed=timed, counts=counts)
    written = run.result((m, n), dtype, operands, target)
    if alpha == 0:
        k = 0  # a sum of no products: a and b are not read
    if m and n:
        b_ready = _column_major(run, right) if entry.prepares_b else run.ready(right)
        unread = run.scratch((1,), dtype)
        with np.errstate(over="ignore"):  # a scalar beyond float32 becomes an infinity, as in BLAS
            scalars = {"alpha": dtype.type(alpha), "beta": dtype.type(beta)}
        run.launch(
            "matmul",
            variant,
            (m, n),
            {
                "a": run.ready(left) if k else unread,
                "b": b_ready if k else unread,
                "c": unread if addend is None or beta == 0 else run.ready(addend),
                "out": written,
                "M": np.int32(m),
                "N": np.int32(n),
                "K": np.int32(k),
                **scalars,
            },
            item_size=dtype.itemsize,
            tile=tile,
            defines=(f"REAL={REAL_NAME[dtype]}", f"INDEX={index}"),
        )
    run.work = product_work(m, n, k, dtype.itemsize, adds=beta != 0)
    return run.deliver(written, operands, target), run


def transpose(
    a: Array,
    *,
    variant: str = "padded",
    out: Array | None = None,
    device: Any = None,
    return_timing: bool = False,
    check: bool = False,
) -> Any:
    """Transpose a matrix into new memory.

    Parameters
    ----------
    a : array of shape (rows, cols), float32 or float64
        NumPy or GPU array in any layout. Any extent may be 0.
    variant : str
        One of ``variants("transpose").names``. ``"copy"``, the yardstick, does not transpose: it
        returns a copy of shape (rows, cols).
    out : array of shape (cols, rows), of the dtype of `a`
        Where to put the result; may overlap `a`.
    device : str or Device, optional
        As in `matmul`.
    return_timing : bool
        Whether to time the kernel, by repeating it, and return a `Timing` too.
    check : bool
        Whether to run on the simulator with checks, as `Kernel.check` does, and return `Findings`
        too; not together with `return_timing`.

    Returns
    -------
    array of shape (cols, rows)
        `out`, or a new C-contiguous array of the kind of `a`.
    Timing
        Only with ``return_timing=True``. `gbps` counts bytes read and bytes written.
    Findings
        Only with ``check=True``.

    Raises
    ------
    TypeError, ValueError, DeviceUnavailable
        As `matmul`.

    Examples
    --------
    >>> coalesce.transpose(np.eye(2, 3, dtype=np.float32), variant="swizzled").shape
    (3, 2)
    """
    return called(
        lambda where: run_transpose(a, variant=variant, out=out, device=where, timed=return_timing),
        device,
        return_timing,
        check,
    )


def run_transpose(
    a: Array,
    *,
    variant: str = "padded",
    out: Array | None = None,
    device: Any = None,
    timed: bool | int = False,
    counts: bool = False,
) -> tuple[Array, Run]:
    """Do what `transpose` does and return the launches too."""
    catalogue.find("transpose", variant)
    source = array("a", a, "(rows, cols)", "transpose")
    rows, cols = source.shape
    shape = (rows, cols) if variant == "copy" else (cols, rows)
    return _one_kernel(
        "transpose", variant, source, shape, ("in", "out"), out, device, timed, counts, flops=0
    )


def row_sums(
    a: Array,
    *,
    variant: str = "warp_per_row",
    shared: Literal["static", "dynamic"] = "static",
    out: Array | None = None,
    device: Any = None,
    return_timing: bool = False,
    check: bool = False,
) -> Any:
    """Add up each row of a matrix.

    Parameters
    ----------
    a : array of shape (rows, cols), float32 or float64
        NumPy or GPU array in any layout. A row of no elements has the sum 0.
    variant : str
        One of ``variants("row_sums").names``.
    shared : {"static", "dynamic"}
        Of ``variant="block_per_row"``: whether its shared memory has a size fixed in the kernel or
        given by the launch (the variant ``"block_per_row_dynamic"``).
    out : array of shape (rows,), of the dtype of `a`
        Where to put the result.
    device, return_timing, check
        As in `matmul`.

    Returns
    -------
    array of shape (rows,)
        Sums in the dtype of `a`, added up in that precision.
    Timing
        Only with ``return_timing=True``.
    Findings
        Only with ``check=True``.

    Raises
    ------
    TypeError, ValueError, DeviceUnavailable
        As `matmul`.

    Examples
    --------
    >>> coalesce.row_sums(np.ones((2, 5), np.float32))
    array([5., 5.], dtype=float32)
    """
    checks.choice("shared", shared, ("static", "dynamic"))
    if shared == "dynamic":
        if variant not in ("block_per_row", "block_per_row_dynamic"):
            raise ValueError(
                f"shared belongs to variant 'block_per_row'; got shared='dynamic' with {variant!r}"
            )
        variant = "block_per_row_dynamic"
    return called(
        lambda where: run_sums("row_sums", a, variant, out, where, timed=return_timing),
        device,
        return_timing,
        check,
    )


def column_sums(
    a: Array,
    *,
    variant: str = "column_tiles",
    out: Array | None = None,
    device: Any = None,
    return_timing: bool = False,
    check: bool = False,
) -> Any:
    """Add up each column of a matrix.

    Parameters
    ----------
    a : array of shape (rows, cols), float32 or float64
        NumPy or GPU array in any layout. A column of no elements has the sum 0.
    variant : str
        One of ``variants("column_sums").names``.
    out : array of shape (cols,), of the dtype of `a`
        Where to put the result.
    device, return_timing, check
        As in `matmul`.

    Returns
    -------
    array of shape (cols,)
        Sums in the dtype of `a`, added up in that precision.
    Timing
        Only with ``return_timing=True``.
    Findings
        Only with ``check=True``.

    Raises
    ------
    TypeError, ValueError, DeviceUnavailable
        As `matmul`.

    Examples
    --------
    >>> coalesce.column_sums(np.ones((2, 5), np.float32))
    array([2., 2., 2., 2., 2.], dtype=float32)
    """
    return called(
        lambda where: run_sums("column_sums", a, variant, out, where, timed=return_timing),
        device,
        return_timing,
        check,
    )


def run_sums(
    operation: Literal["row_sums", "column_sums"],
    a: Array,
    variant: str,
    out: Array | None = None,
    device: Any = None,
    *,
    timed: bool | int = False,
    counts: bool = False,
) -> tuple[Array, Run]:
    """Do what `row_sums` and `column_sums` do and return the launches too."""
    catalogue.find(operation, variant)
    source = array("a", a, "(rows, cols)", operation)
    rows, cols = source.shape
    shape = (rows,) if operation == "row_sums" else (cols,)
    return _one_kernel(
        operation, variant, source, shape, ("x", "sums"), out, device, timed, counts, flops=1
    )


def _one_kernel(
    operation: str,
    variant: str,
    source: Operand,
    shape: tuple[int, ...],
    names: tuple[str, str],
    out: Array | None,
    device: Any,
    timed: bool | int,
    counts: bool,
    flops: int,
) -> tuple[Array, Run]:
    """Run a kernel of one matrix in and one array out; `names` are its two pointers."""
    rows, cols = source.shape
    dtype = source.dtype
    target = output(out, shape, dtype, "")
    run = Run(device, [source, *([target] if target else [])], timed=timed, counts=counts)
    written = run.result(shape, dtype, [source], target)
    if 0 not in shape:
        run.launch(
            operation,
            variant,
            (rows, cols),
            {
                names[0]: run.ready(source) if rows and cols else run.scratch((1,), dtype),
                names[1]: written,
                "rows": np.int32(rows),
                "cols": np.int32(cols),
            },
            item_size=dtype.itemsize,
            defines=(f"REAL={REAL_NAME[dtype]}",),
        )
    run.work = pass_work(rows * cols, math.prod(shape), flops, dtype.itemsize)
    return run.deliver(written, [source], target), run


def product_extents(a: Operand, b: Operand) -> tuple[int, int, int]:
    """Return M, N and K of a product."""
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"a has shape {a.shape} and b has shape {b.shape}; "
            "the columns of a and the rows of b must be as many"
        )
    return a.shape[0], b.shape[1], a.shape[1]


def product_work(
    m: int, n: int, k: int, item_size: int, *, adds: bool = False
) -> tuple[float, float]:
    """Return the floating-point operations and the bytes of a product, each operand read once."""
    elements = m * k + k * n + m * n * (2 if adds else 1)
    return 2.0 * m * n * k, float(elements * item_size)


def pass_work(read: int, written: int, flops: int, item_size: int) -> tuple[float, float]:
    """Return the same of one pass over an array, with so many operations an element."""
    return float(flops * read), float((read + written) * item_size)


def _addend(c: Any, beta: float, shape: tuple[int, int], a: Operand) -> Operand | None:
    if c is None:
        if beta != 0:
            raise ValueError(f"c is missing: beta is {beta}, and beta * c is part of the result")
        return None
    addend = array("c", c, "(M, N)", "matmul")
    same_dtype(a, addend)
    if addend.shape != shape:
        raise ValueError(f"c has shape {addend.shape}; the result (M, N) has shape {shape}")
    return addend


def _column_major(run: Run, b: Operand) -> Any:
    """Return b^T row by row: b's own memory where it is Fortran-ordered, else transposed."""
    turned = b.transposed()
    return turned.array if turned.row_by_row() else run.transposed(b)
