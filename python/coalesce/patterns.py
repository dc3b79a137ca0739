"""The operation `access` copies an array. You choose in which pattern a kernel reads the array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import numpy as np

from coalesce.check import Findings
from coalesce.common.timing import Timing
from coalesce.operations import Array, call_operation

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _AccessOptions(TypedDict, total=False):
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
    **options: Unpack[_AccessOptions],
) -> Array: ...
@overload
def access(
    x: Array,
    *,
    pattern: str,
    return_timing: Literal[True],
    check: Literal[False] = False,
    **options: Unpack[_AccessOptions],
) -> tuple[Array, Timing]: ...
@overload
def access(
    x: Array,
    *,
    pattern: str,
    return_timing: Literal[False] = False,
    check: Literal[True],
    **options: Unpack[_AccessOptions],
) -> tuple[Array, Findings]: ...
@overload
def access(
    x: Array,
    *,
    pattern: str,
    return_timing: bool = False,
    check: bool = False,
    **options: Unpack[_AccessOptions],
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
    that the lanes of a warp read. The table shows the result as a NumPy expression. The last column
    shows how many 32-byte sectors one load of a warp touches, if an element has 4 bytes.

    =============  =======================================================  ======================
    pattern        result                                                   sectors per load
    =============  =======================================================  ======================
    ``offset``     ``x[offset:]``                                           4 if aligned, else 5
    ``stride``     ``x[::stride]``                                          4 * stride, at most 32
    ``permuted``   ``x[32 * w:][order]`` for each warp w                    4
    ``broadcast``  ``np.repeat(x[::32], 32)[:len(x)]``                      1
    ``gather``     ``x[index]``                                             depends on index
    ``far_lane``   x, but lane 31 reads ``distance`` elements further       5
    ``vector``     x, with loads of `width` bytes                           width
    ``aos``        ``x[:, field]``                                          4 * fields
    ``soa``        ``x[field]``                                             4
    =============  =======================================================  ======================

    Parameters
    ----------
    x : array of shape (n,), elements of 1, 2, 4, 8 or 16 bytes
        A NumPy array or a GPU array. For ``aos`` (array of structures), its shape is (n, fields).
        For ``soa`` (structure of arrays), it is (fields, n).
    pattern : str
        One of ``variants("access").names``.
    offset : int, default 1
        How many elements at the start of x are not copied: an integer from 0 to n.
    stride : int, default 2
        The distance in elements between the elements of neighbouring lanes, at least 1.
    order : sequence of 32 int, default 31 to 0
        A permutation of 0 to 31. Lane i reads element ``order[i]`` of the 32 elements of its warp.
        If the last warp has fewer than 32 elements, these are not permuted.
    index : array of shape (m,), int32
        The elements to read, each from 0 to n - 1. If `index` is a NumPy array, its values are
        checked. The values of a GPU array are not checked. The load of the index itself takes one
        more request, of 4 sectors.
    distance : int, default n // 2
        For ``far_lane``: if lane 31 of a warp would read ``x[i]``, it reads
        ``x[(i + distance) % n]`` instead.
    width : int, default 16
        The number of bytes per load: 1, 2, 4, 8 or 16. The size of x in bytes must be a multiple of
        `width`.
    field : int, default 0
        The field to read from each structure.
    out : array
        The array for the result. It has the shape of the result and the dtype of x. It may overlap
        x.
    device, return_timing, check
        See `matmul`.

    Returns
    -------
    array with one axis
        `out`, or a new array. It is a GPU array if x is a GPU array, else a NumPy array.
    Timing
        Only with ``return_timing=True``. `gbps` counts the bytes of the result twice: once as read
        and once as written. The other bytes of the touched sectors do not count.
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
    return call_operation("access", (x,), options, device, return_timing, check)
