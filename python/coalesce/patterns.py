"""Access patterns: copies that read their source in a given order, to see its cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import numpy as np

from coalesce.check import Findings
from coalesce.common.timing import Timing
from coalesce.operations import Array, called

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _Access(TypedDict, total=False):
    offset: int | None
    stride: int | None
    order: Sequence[int] | np.ndarray[Any, Any] | None
    index: Any
    distance: int | None
    width: int | None
    field: int | None
    out: Array | None
    device: Any


@overload
def access(
    x: Array,
    *,
    pattern: str,
    return_timing: Literal[False] = False,
    check: Literal[False] = False,
    **options: Unpack[_Access],
) -> Array: ...
@overload
def access(
    x: Array,
    *,
    pattern: str,
    return_timing: Literal[True],
    check: Literal[False] = False,
    **options: Unpack[_Access],
) -> tuple[Array, Timing]: ...
@overload
def access(
    x: Array,
    *,
    pattern: str,
    return_timing: Literal[False] = False,
    check: Literal[True],
    **options: Unpack[_Access],
) -> tuple[Array, Findings]: ...
@overload
def access(
    x: Array,
    *,
    pattern: str,
    return_timing: bool = False,
    check: bool = False,
    **options: Unpack[_Access],
) -> Any: ...
def access(
    x: Array,
    *,
    pattern: str,
    offset: int | None = None,
    stride: int | None = None,
    order: Sequence[int] | np.ndarray[Any, Any] | None = None,
    index: Any = None,
    distance: int | None = None,
    width: int | None = None,
    field: int | None = None,
    out: Any = None,
    device: Any = None,
    return_timing: bool = False,
    check: bool = False,
) -> Any:
    """Copy elements of x. The pattern decides which element each thread reads.

    Thread i writes ``out[i]``, so stores are always contiguous. The patterns differ in the elements
    that the lanes of a warp read. The table shows the result in NumPy's terms, and the 32-byte
    sectors that a load of a warp touches, for 4-byte elements.

    =============  =======================================================  ======================
    pattern        result                                                   sectors per load
    =============  =======================================================  ======================
    ``offset``     ``x[offset:]``                                           4 if aligned, else 5
    ``stride``     ``x[::stride]``                                          4 * stride, at most 32
    ``permuted``   each 32 elements as ``x[32 * w:][order]``                4
    ``broadcast``  ``np.repeat(x[::32], 32)[:len(x)]``                      1
    ``gather``     ``x[index]``                                             depends on index
    ``far_lane``   x, but every 32nd element ``distance`` further on        5
    ``vector``     x, by loads of `width` bytes                             width
    ``aos``        ``x[:, field]``                                          4 times the fields
    ``soa``        ``x[field]``                                             4
    =============  =======================================================  ======================

    Parameters
    ----------
    x : array of shape (n,), elements of 1, 2, 4, 8 or 16 bytes
        NumPy or GPU array. For ``aos`` of shape (n, fields), for ``soa`` (fields, n).
    pattern : str
        One of ``variants("access").names``.
    offset : int, default 1
        The number of elements to skip, at most n.
    stride : int, default 2
        The number of elements from one lane to the next, at least 1.
    order : sequence of 32 int, default reversed
        A permutation of 0 to 31: the element of the warp that each lane reads. A last warp with
        fewer than 32 elements is not permuted.
    index : array of shape (m,), int32
        The elements to gather, each from 0 to n - 1 (checked for NumPy arrays). Loading the index
        itself takes one more request of 4 sectors.
    distance : int, default n // 2
        The last lane of each warp reads the element that is this many elements after its own. The
        start of x follows the end of x.
    width : int, default 16
        Bytes per load: 1, 2, 4, 8 or 16. The size of x in bytes must be a multiple of it.
    field : int, default 0
        The field of the structure to read.
    out : array
        The array for the result, with its shape and the dtype of x. It may overlap x.
    device, return_timing, check
        As for `matmul`.

    Returns
    -------
    array of shape (n,), or of the pattern's length
        `out`, or a new array of the same kind as x.
    Timing
        Only with ``return_timing=True``. `gbps` counts the bytes of the result twice: once as read
        and once as written. Other bytes of the sectors do not count.
    Findings
        Only with ``check=True``.

    Raises
    ------
    TypeError
        x is not an array, or an option has the wrong type.
    ValueError
        An option is out of range or belongs to another pattern, or there is no such pattern.
    DeviceUnavailable
        There is no such device.

    Examples
    --------
    >>> coalesce.access(np.arange(10, dtype=np.float32), pattern="stride", stride=3)
    array([0., 3., 6., 9.], dtype=float32)
    """
    options = {
        "pattern": pattern,
        "out": out,
        "offset": offset,
        "stride": stride,
        "order": order,
        "index": index,
        "distance": distance,
        "width": width,
        "field": field,
    }
    return called("access", (x,), options, device, return_timing, check)
