"""The matrix operations: product, transpose and sums. Each has several variants to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, overload

from coalesce.catalogue import planned_calls
from coalesce.catalogue.table import OPERATIONS
from coalesce.check import Findings
from coalesce.check import run as check_run
from coalesce.common import require
from coalesce.common.timing import Timing

if TYPE_CHECKING:
    from typing_extensions import Unpack

# A NumPy array, or a GPU array of any library. The result is of the same kind as the operands.
Array: TypeAlias = Any

# The overloads below say what is returned with `return_timing` or `check`. This class has the
# options that all overloads of an operation share.


class _Common(TypedDict, total=False):
    variant: str
    out: Array | None
    device: Any


class _Matmul(_Common, total=False):
    alpha: float
    beta: float
    c: Array | None
    tile: int | None


class _RowSums(_Common, total=False):
    shared: Literal["static", "dynamic"]


@overload
def matmul(
    a: Array,
    b: Array,
    *,
    return_timing: Literal[False] = False,
    check: Literal[False] = False,
    **options: Unpack[_Matmul],
) -> Array: ...
@overload
def matmul(
    a: Array,
    b: Array,
    *,
    return_timing: Literal[True],
    check: Literal[False] = False,
    **options: Unpack[_Matmul],
) -> tuple[Array, Timing]: ...
@overload
def matmul(
    a: Array,
    b: Array,
    *,
    return_timing: Literal[False] = False,
    check: Literal[True],
    **options: Unpack[_Matmul],
) -> tuple[Array, Findings]: ...
@overload
def matmul(
    a: Array,
    b: Array,
    *,
    return_timing: bool = False,
    check: bool = False,
    **options: Unpack[_Matmul],
) -> Any: ...
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
        A NumPy array or a GPU array. It need not be contiguous, and M, N and K may be 0. Some
        variants take only one of the dtypes. The variant ``"bf16"`` also takes bfloat16, a dtype
        that the package ml_dtypes adds to NumPy. With ``"bf16"``, c is float32, and the result is
        float32, too, unless you pass an `out` of dtype bfloat16.
    b : array of shape (K, N), with the dtype of `a`
        Some variants need b in column-major (Fortran) order; see the table that `variants` returns.
        If b has another order, a kernel transposes it first. The timing includes this kernel.
    variant : str
        One of ``variants("matmul").names``, or ``"best"``: the fastest variant that does not round
        its operands. ``"bf16"`` rounds the operands to 8 significant bits, and ``"tf32"`` to 11.
        ``"tf32x3"`` has about the accuracy of float32, but infinities become NaN.
        With ``"best"``, a large NumPy array is multiplied in several groups of rows, and a GPU
        array as a whole. So the last bits of the result may differ between NumPy arrays and GPU
        arrays. Repeated calls with the same arguments give exactly the same result.
    alpha, beta : float
        Scalars as in BLAS. If alpha is 0, a and b are not read. If beta is 0, c is not read, so
        a NaN in c has no effect.
    c : array of shape (M, N), with the dtype of `a`
        The array that `beta` multiplies. It is needed if beta is not 0. The array changes only if
        you also pass it as `out`.
    out : array of shape (M, N), with the dtype of `a`
        The array for the result. It may overlap the other arrays. For ``"bf16"``, its dtype is
        float32 or bfloat16.
    device : str or Device, optional
        Where the kernel runs: ``"cuda"``, ``"cuda:1"``, ``"sim"`` or ``"sim:h200"``. The default is
        the first GPU. Without a GPU, it is the simulator.
    tile : int, optional
        The number of rows and columns of a block's tile: 8, 16 or 32. The default is 32.
    return_timing : bool
        Whether to also return a `Timing`. The kernel then runs several times, to measure the time.
    check : bool
        Whether to check the kernel on the simulator, as `Kernel.check` does, and also return
        `Findings`. It cannot be combined with `return_timing`.

    Returns
    -------
    array of shape (M, N)
        `out`, or a new array. The new array is a GPU array if an operand is a GPU array, else a
        NumPy array.
    Timing
        Only with ``return_timing=True``.
    Findings
        Only with ``check=True``.

    Raises
    ------
    TypeError
        An argument is not an array, the variant does not take its dtype, or the dtypes differ.
    ValueError
        The shapes do not match, or there is no such variant or tile.
    DeviceUnavailable
        There is no such device.

    Examples
    --------
    >>> a = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> coalesce.matmul(a, a.T, variant="naive", device="sim")
    array([[ 5., 14.],
           [14., 50.]], dtype=float32)
    """
    options = {
        "variant": variant,
        "alpha": alpha,
        "beta": beta,
        "c": c,
        "out": out,
        "tile": tile,
    }
    return call_operation("matmul", (a, b), options, device, return_timing, check)


@overload
def transpose(
    a: Array,
    *,
    return_timing: Literal[False] = False,
    check: Literal[False] = False,
    **options: Unpack[_Common],
) -> Array: ...
@overload
def transpose(
    a: Array,
    *,
    return_timing: Literal[True],
    check: Literal[False] = False,
    **options: Unpack[_Common],
) -> tuple[Array, Timing]: ...
@overload
def transpose(
    a: Array,
    *,
    return_timing: Literal[False] = False,
    check: Literal[True],
    **options: Unpack[_Common],
) -> tuple[Array, Findings]: ...
@overload
def transpose(
    a: Array,
    *,
    return_timing: bool = False,
    check: bool = False,
    **options: Unpack[_Common],
) -> Any: ...
def transpose(
    a: Array,
    *,
    variant: str = "padded",
    out: Array | None = None,
    device: Any = None,
    return_timing: bool = False,
    check: bool = False,
) -> Any:
    """Return the transpose of a matrix, as a new array.

    Parameters
    ----------
    a : array of shape (rows, cols), float32 or float64
        A NumPy array or a GPU array. It need not be contiguous, and rows and cols may be 0.
    variant : str
        One of ``variants("transpose").names``, or ``"best"``, the fastest variant. The variant
        ``"copy"`` is for comparison. It does not transpose: it returns a copy of shape
        (rows, cols).
    out : array of shape (cols, rows), with the dtype of `a`
        The array for the result. It may overlap `a`.
    device : str or Device, optional
        See `matmul`.
    return_timing : bool
        Whether to also return a `Timing`. The kernel then runs several times, to measure the time.
    check : bool
        Whether to check the kernel on the simulator, as `Kernel.check` does, and also return
        `Findings`. It cannot be combined with `return_timing`.

    Returns
    -------
    array of shape (cols, rows)
        `out`, or a new C-contiguous array of the same kind as `a`.
    Timing
        Only with ``return_timing=True``. `gbps` counts the bytes read plus the bytes written.
    Findings
        Only with ``check=True``.

    Raises
    ------
    TypeError, ValueError, DeviceUnavailable
        See `matmul`.

    Examples
    --------
    >>> coalesce.transpose(np.eye(2, 3, dtype=np.float32), variant="swizzled").shape
    (3, 2)
    """
    options = {"variant": variant, "out": out}
    return call_operation("transpose", (a,), options, device, return_timing, check)


@overload
def row_sums(
    a: Array,
    *,
    return_timing: Literal[False] = False,
    check: Literal[False] = False,
    **options: Unpack[_RowSums],
) -> Array: ...
@overload
def row_sums(
    a: Array,
    *,
    return_timing: Literal[True],
    check: Literal[False] = False,
    **options: Unpack[_RowSums],
) -> tuple[Array, Timing]: ...
@overload
def row_sums(
    a: Array,
    *,
    return_timing: Literal[False] = False,
    check: Literal[True],
    **options: Unpack[_RowSums],
) -> tuple[Array, Findings]: ...
@overload
def row_sums(
    a: Array,
    *,
    return_timing: bool = False,
    check: bool = False,
    **options: Unpack[_RowSums],
) -> Any: ...
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
        A NumPy array or a GPU array. It need not be contiguous. The sum of an empty row is 0.
    variant : str
        One of ``variants("row_sums").names``, or ``"best"``, the fastest variant.
    shared : {"static", "dynamic"}
        An option of ``variant="block_per_row"``. With ``"static"``, the kernel declares the size of
        its shared memory. With ``"dynamic"``, the launch sets the size, as in the variant
        ``"block_per_row_dynamic"``.
    out : array of shape (rows,), with the dtype of `a`
        The array for the result.
    device, return_timing, check
        See `matmul`.

    Returns
    -------
    array of shape (rows,)
        The sums. The kernel adds in the dtype of `a`, and the sums have this dtype.
    Timing
        Only with ``return_timing=True``.
    Findings
        Only with ``check=True``.

    Raises
    ------
    TypeError, ValueError, DeviceUnavailable
        See `matmul`.

    Examples
    --------
    >>> coalesce.row_sums(np.ones((2, 5), np.float32))
    array([5., 5.], dtype=float32)
    """
    options = {"variant": variant, "shared": shared, "out": out}
    return call_operation("row_sums", (a,), options, device, return_timing, check)


@overload
def column_sums(
    a: Array,
    *,
    return_timing: Literal[False] = False,
    check: Literal[False] = False,
    **options: Unpack[_Common],
) -> Array: ...
@overload
def column_sums(
    a: Array,
    *,
    return_timing: Literal[True],
    check: Literal[False] = False,
    **options: Unpack[_Common],
) -> tuple[Array, Timing]: ...
@overload
def column_sums(
    a: Array,
    *,
    return_timing: Literal[False] = False,
    check: Literal[True],
    **options: Unpack[_Common],
) -> tuple[Array, Findings]: ...
@overload
def column_sums(
    a: Array,
    *,
    return_timing: bool = False,
    check: bool = False,
    **options: Unpack[_Common],
) -> Any: ...
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
        A NumPy array or a GPU array. It need not be contiguous. The sum of an empty column is 0.
    variant : str
        One of ``variants("column_sums").names``, or ``"best"``, the fastest variant.
    out : array of shape (cols,), with the dtype of `a`
        The array for the result.
    device, return_timing, check
        See `matmul`.

    Returns
    -------
    array of shape (cols,)
        The sums. The kernel adds in the dtype of `a`, and the sums have this dtype.
    Timing
        Only with ``return_timing=True``.
    Findings
        Only with ``check=True``.

    Raises
    ------
    TypeError, ValueError, DeviceUnavailable
        See `matmul`.

    Examples
    --------
    >>> coalesce.column_sums(np.ones((2, 5), np.float32))
    array([2., 2., 2., 2., 2.], dtype=float32)
    """
    options = {"variant": variant, "out": out}
    return call_operation("column_sums", (a,), options, device, return_timing, check)


def call_operation(
    operation: str,
    arrays: Sequence[Any],
    options: Mapping[str, Any],
    device: Any,
    return_timing: bool,
    check: bool,
) -> Any:
    """Run an operation for one of the public functions, such as `matmul`.

    Return the result. With `return_timing` or `check`, return a pair: the result, and a `Timing` or
    `Findings`.
    """
    if return_timing is False and check is False:
        planned, device = planned_calls.run(operation, arrays, options, device)
        if planned is not None:
            return planned
    require.flag("return_timing", return_timing)
    if require.flag("check", check):
        if return_timing:
            raise ValueError(
                "check=True and return_timing=True cannot be combined: a checked run is not timed"
            )
        return check_run.of_operation(operation, arrays, device, options)
    result, run = OPERATIONS[operation].run(arrays, options, device=device, timed=return_timing)
    return (result, run.timing()) if return_timing else result
