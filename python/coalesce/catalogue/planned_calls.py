"""Plans operations on a GPU, and executes the plans.

A plan is the list of the steps of a call. For NumPy arrays, these are the copies to the GPU, the
launches and the copy of the result. A call with NumPy arrays also needs a workspace: memory on the
GPU for copies of the arrays. For GPU arrays, the steps are only launches. A plan is made once. Then
all calls with the same shapes, layouts and options execute it, in C++
(csrc/cuda/launch/planned_call.hpp).

`_Planner` makes a plan. It calls the function of the operation with arrays that have made-up
addresses. Launches are only recorded, not executed.

For GPU arrays, `cuda.GpuCalls` finds the plan, binds the arrays to it and enqueues the launches, in
C++ (csrc/bindings/gpu_calls.hpp). It calls Python only to make a plan.

For large products of NumPy arrays with ``variant="best"``, the plan divides the rows of `a` into
slabs. While the GPU multiplies one slab, the next slabs of `a` are copied to the GPU, and earlier
slabs of the result are copied back. If `b` is large, K is also divided, into parts: some columns of
`a` and as many rows of `b`. The GPU multiplies the first part, and then adds the products of the
other parts. So it can start when the first part is there, and only the last part is in slabs.
Products of GPU arrays are not divided. The kernel for a slab may add up the terms in another order
than the kernel for the whole matrix. So the result for NumPy arrays may differ from the result for
GPU arrays in the last bits.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from coalesce import catalogue
from coalesce._core import cuda, ops
from coalesce.arrays import devices, foreign, waiting
from coalesce.arrays.copies import empty_on_host
from coalesce.arrays.device_array import DeviceArray
from coalesce.arrays.devices import Device
from coalesce.arrays.gpu_array import GpuArray, c_strides
from coalesce.catalogue import best
from coalesce.catalogue.table import OPERATIONS
from coalesce.common.errors import LaunchError
from coalesce.launch import gpu
from coalesce.launch.launch import Launch
from coalesce.launch.record import LaunchRecord
from coalesce.launch.tensor_map import TensorMap

_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
_OPTION_TYPES = frozenset((str, int, float, type(None)))
_MOST_PLANS = 256
_ALIGNMENT = 256  # each array in a workspace begins at a multiple of this number of bytes
# During planning, arrays have made-up addresses. The workspace begins at _BASE. The caller's GPU
# array number i begins at (i + 2) * _BASE, plus the remainder of its address modulo _LOAD. Kernels
# load up to 16 bytes at once, so this remainder decides whether an array must be copied first.
_BASE = 1 << 40
_LOAD = 16
# The number of rows of a slab is a multiple of this number, the height of the kernels' tiles.
_TILE_ROWS = 128
# The product is divided into slabs if `a` and the result have at least this number of bytes. For
# smaller ones, the overlap of copies saves less time than the additional launches take.
_SLABS_FROM = 16 << 20
_MOST_SLABS = 8
# K is divided into parts if `b` has at least this number of bytes. To multiply a part of 8192 x
# 8192 matrices on an H200 takes nearly twice as long as to copy it, so the second part is twice as
# large as the first one. The last part can start when its rows of `b` are there. More parts would
# take longer, because each part after the first one reads and writes the whole result.
_PARTS_FROM = 128 << 20
_PARTS = (0, 3 / 32, 9 / 32, 1)  # where parts begin and end, relative to K
_MOST_SLABS_OF_PARTS = 16
_PART_ROWS = 32  # the boundaries of parts are multiples of this number, the steps of a stage
_MOST_ROW_BYTES = 4 << 20  # a row of `a` must fit into a slot of the copies


@dataclass(frozen=True)
class _Plan:
    call: Any  # a cuda.PlannedCall
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    in_slabs: bool = False


_plans: OrderedDict[Any, _Plan] = OrderedDict()


def run(
    operation: str, arrays: Sequence[Any], options: Mapping[str, Any], device: Any
) -> tuple[Any, Any]:
    """Execute the plan of a call. If there is no plan yet, make it.

    Return a pair: the result, and the device. If the call cannot be planned, the result is None.
    Then the caller must run the operation without a plan. The second item of the pair is the
    `Device` that was chosen for the call, or the argument `device` if none was chosen yet.

    A call can be planned under these conditions:

    - It runs on a GPU.
    - All arrays have the dtype float32 or float64 in this machine's byte order.
    - Either all arrays are contiguous NumPy arrays, or all are GPU arrays with one current stream.
    - A GPU array `out` is contiguous and does not overlap another array.
    """
    result = _gpu_calls.run(operation, tuple(arrays), options, device)
    if result is not None:
        return result, device
    out, c = options["out"], options.get("c")
    operands = tuple(arrays) if c is None else (*arrays, c)
    rest = []
    for name, value in options.items():
        if name != "out" and name != "c":
            # A bool is refused, because True and 1 would be the same key.
            if type(value) not in _OPTION_TYPES:
                return None, device
            rest.append(value)
    return _on_host_arrays((operation, out is None, c is None, *rest), operands, options, device)


def _on_host_arrays(
    key: tuple[Any, ...], operands: tuple[Any, ...], options: Mapping[str, Any], device: Any
) -> tuple[np.ndarray[Any, Any] | None, Any]:
    """Run a call with NumPy arrays, as `run` does. If there is an array `c`, `operands` has it."""
    out = options["out"]
    passed = operands if out is None else (*operands, out)
    layouts: list[Any] = []
    for array in passed:
        if type(array) is not np.ndarray:
            return None, device
        layouts += array.shape, array.strides, array.dtype
    chosen = devices.resolve(device)
    if chosen.kind != "cuda":
        return None, chosen
    key = (*key, chosen.name, *layouts)
    plan = _plans.get(key)
    if plan is None:
        if not all(map(_can_be_planned, passed)) or not (out is None or out.flags.c_contiguous):
            return None, chosen
        plan = _remember(key, _planned(key[0], operands, dict(options), chosen))
    if out is not None:
        if not out.flags.writeable:
            return None, chosen
        # Without slabs, all operands are copied before anything is written to `out`.
        if plan.in_slabs and any(np.may_share_memory(out, operand) for operand in operands):
            return None, chosen
    result = empty_on_host(plan.shape, plan.dtype) if out is None else out
    report = _Waiting(chosen)
    try:
        plan.call.run((*operands, result), report)
    finally:
        report.close()
    return result, chosen


def _remember(key: Any, plan: _Plan) -> _Plan:
    """Keep a plan for later calls, and return it."""
    _plans[key] = plan
    if len(_plans) > _MOST_PLANS:
        _plans.popitem(last=False)
    return plan


def _can_be_planned(array: np.ndarray[Any, Any]) -> bool:
    """Whether there can be a plan for arrays with the shape, strides and dtype of this array."""
    dtype = array.dtype
    return dtype in _DTYPES and dtype.isnative and array.flags.forc and array.size > 0


def _described(array: Any) -> GpuArray | None:
    """Return the description of a GPU array, or None if there is none."""
    try:
        return foreign.find_gpu_array(array)
    except (TypeError, ValueError, LaunchError):
        return None  # the call without a plan raises the error and names the argument


def _gpu_plan(
    operation: str, arrays: Sequence[Any], options: Mapping[str, Any], device: Any
) -> tuple[Any, tuple[int, ...], np.dtype[Any], Callable[[Any], Any]] | None:
    """Make a plan for a call with GPU arrays. If the call cannot be planned, return None.

    The result has the `cuda.PlannedCall`, the shape and the dtype of the call's result, and a
    function that makes an array for the result. The argument of this function is the first operand.
    """
    passed = [*arrays, *(x for x in (options.get("c"), options["out"]) if x is not None)]
    described = list(map(_described, passed))
    gpu_arrays = [x for x in described if x is not None and all(step >= 0 for step in x.strides)]
    chosen = devices.resolve(device, arrays)
    if chosen.kind != "cuda" or any(x.ordinal != chosen.ordinal for x in gpu_arrays):
        return None
    if len(gpu_arrays) < len(passed):
        return None
    plan = _planned_on_gpu(operation, gpu_arrays, dict(options), chosen)
    make = DeviceArray.maker(plan.shape, plan.dtype, chosen)

    def empty(model: Any) -> Any:
        made = make()
        return made if type(model) is DeviceArray else foreign.to_library_of(model, made)

    return plan.call, plan.shape, plan.dtype, empty


_gpu_calls = cuda.GpuCalls(_gpu_plan, _described)


class _Waiting:
    """Shows which kernel runs, if a call takes long. C++ calls this object every 100 ms or so."""

    __slots__ = ("_context", "_device", "_report")

    def __init__(self, device: Device) -> None:
        self._device = device
        self._context: Any = None
        self._report: Any = None

    def __call__(self) -> None:
        if self._context is None:
            self._context = waiting.wait_reporter(cuda.Device(self._device.ordinal))
            self._report = self._context.__enter__()
        if self._report is not None:
            self._report(0, 1)

    def close(self) -> None:
        if self._context is not None:
            self._context.__exit__(None, None, None)


class _Planner:
    """Records the steps of a call, and assigns memory of the workspace to each array."""

    def __init__(self, device: Device, begins: Sequence[int] = ()) -> None:
        self._device = device
        self._begins = begins  # the made-up addresses of the caller's GPU arrays
        self._steps: list[tuple[str, tuple[Any, ...]]] = []
        self._end = 0  # the number of bytes of the workspace that are in use
        self.size = 0  # the largest value of `_end` so far: the size of the workspace

    def place(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> GpuArray:
        """Return a new array in a part of the workspace that no other array uses."""
        begin = self._end
        size = math.prod(shape) * dtype.itemsize
        self._end += -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT
        self.size = max(self.size, self._end)
        strides = c_strides(shape, dtype.itemsize)
        ordinal = self._device.ordinal
        return GpuArray(_BASE + begin, shape, strides, dtype.str[1:], ordinal, None, False, self)

    def _place(self, array: GpuArray) -> Any:
        """Return the place of an array in the form that `cuda.PlannedCall` takes.

        For an array in the workspace, this is its offset there. Otherwise it is a pair: the number
        of the caller's GPU array, and an offset in this array.
        """
        number = array.address // _BASE - 2
        return (
            array.address - _BASE if number < 0 else (number, array.address - self._begins[number])
        )

    def mark(self) -> int:
        """Return the number of bytes of the workspace that are in use.

        `release` takes this number, and frees all memory that was assigned after this call.
        """
        return self._end

    def release(self, mark: int) -> None:
        self._end = mark

    def like(self, array: np.ndarray[Any, Any]) -> GpuArray:
        """Return an array in the workspace with the shape, dtype and strides of a host array.

        The host array must be contiguous.
        """
        return replace(self.place(array.shape, array.dtype), strides=array.strides)

    def copy(self, direction: str, number: int, array: GpuArray, at: int = 0) -> None:
        """Append a copy between a host array and `array`, an array in the workspace.

        `direction` is "to_device" or "to_host". `number` is the position of the host array among
        the arrays of the call. The copy begins at byte `at` of the host array.
        """
        step = number, at, array.address - _BASE, array.bytes
        self._steps.append((direction, step))

    def copy_columns(self, number: int, array: GpuArray, at: int, pitch: int) -> None:
        """Append a copy of some columns of a host array to `array`, an array in the workspace.

        A row of the host array has `pitch` bytes. The other parameters are those of `copy`.
        """
        step = number, at, array.address - _BASE, array.bytes, array.strides[0], pitch
        self._steps.append(("to_device", step))

    def launch(self, launch: Launch, _variant: ops.Variant) -> LaunchRecord:
        """Append a launch to the steps of the call, instead of launching. This is a `Launcher`."""
        function = gpu.admitted(launch)
        by_name = dict(zip((p.name for p in launch.parameters), launch.arguments, strict=True))
        arguments: list[Any] = []
        for value in launch.arguments:
            if isinstance(value, TensorMap):
                matrix = by_name[value.of]
                assert isinstance(matrix, GpuArray)
                arguments.append((self._place(matrix), *value.of_matrix))
            elif isinstance(value, GpuArray):
                arguments.append(self._place(value))
            else:
                arguments.append(value)
        step = function, launch, arguments
        self._steps.append(("launch", step))
        return LaunchRecord(source="measured", device=self._device.name)

    def call(self, what: str, **options: bool) -> Any:
        """Return a `cuda.PlannedCall` with all steps.

        `what` names its memory in error messages. csrc/cuda/launch/planned_call.hpp explains the
        options.
        """
        call = cuda.PlannedCall(self._device.ordinal, self.size, what, **options)
        append: dict[str, Callable[..., None]] = {
            "to_device": call.to_device,
            "to_host": call.to_host,
            "launch": call.launch,
        }
        for kind, step in self._steps:
            append[kind](*step)
        return call


def _planned(
    operation: str,
    operands: Sequence[np.ndarray[Any, Any]],
    options: dict[str, Any],
    device: Device,
) -> _Plan:
    """Make a plan. `operands` are the arrays of the call, including `c` if it was passed."""
    planner = _Planner(device)
    places = [planner.like(array) for array in operands]
    out = options.pop("out")
    with_c = options.get("c") is not None
    if with_c:
        options["c"] = places[-1]
    if out is not None:
        options["out"] = planner.place(out.shape, out.dtype)
    how = {"device": device, "launcher": planner.launch, "scratch": planner.place}

    slab = _slab_rows(operation, operands if out is None else (*operands, out), options)
    if slab:
        result = _in_slabs(planner, places, slab, options, how)
    else:
        for number, place in enumerate(places):
            planner.copy("to_device", number, place)
        result, _ = OPERATIONS[operation].function(
            *(places[:-1] if with_c else places), **options, **how
        )
        planner.copy("to_host", len(operands), result)
    # The kernels of "best" write each element of the result once, with coalesced stores. So they
    # can write to the host's memory.
    pinned = not slab and options.get("variant") == catalogue.BEST
    what = f"the arrays of {operation}"
    call = planner.call(what, overlap=bool(slab), pinned_result=pinned)
    return _Plan(call, result.shape, result.dtype, in_slabs=bool(slab))


def _planned_on_gpu(
    operation: str, arrays: Sequence[GpuArray], options: dict[str, Any], device: Device
) -> _Plan:
    """Make a plan for a call with GPU arrays.

    `arrays` are the operands, then `c` and `out`, if the caller passed them. Without `out`, a call
    with the plan needs one more array: the result.
    """
    begins = [(i + 2) * _BASE + x.address % _LOAD for i, x in enumerate(arrays)]
    if options["out"] is None:
        begins.append((len(arrays) + 2) * _BASE)  # the result, which is aligned
    numbered = [
        replace(x, address=begin, owner=None) for x, begin in zip(arrays, begins, strict=False)
    ]
    places = list(numbered)
    if options["out"] is not None:
        options["out"] = places.pop()
    if options.get("c") is not None:
        options["c"] = places.pop()
    function = OPERATIONS[operation].function

    def planned(out: GpuArray | None) -> tuple[_Planner, GpuArray]:
        planner = _Planner(device, begins)
        how = {"device": device, "launcher": planner.launch, "scratch": planner.place}
        result, _ = function(*places, **{**options, "out": out}, **how)
        return planner, result

    planner, result = planned(options["out"])
    if options["out"] is None:  # now the shape and dtype of the result are known: plan again
        out = replace(result, address=begins[-1])
        planner, result = planned(out)
    call = planner.call(f"scratch memory of {operation}")
    return _Plan(call, result.shape, result.dtype)


def _in_slabs(
    planner: _Planner,
    places: Sequence[GpuArray],
    slab: int,
    options: Mapping[str, Any],
    how: Mapping[str, Any],
) -> GpuArray:
    """Record the steps of a product in slabs of rows. Return its result in the workspace."""
    a, b = places[:2]
    (m, k), n = a.shape, b.shape[1]
    variant, tile = best.of_matmul(m, n, k, a.dtype, how["device"])
    keywords = {**options, **how, "variant": variant, **({"tile": tile} if tile else {})}
    result: GpuArray = keywords.pop("out", None) or planner.place((m, n), a.dtype)
    c, mark = options.get("c"), planner.mark()
    bounds = _part_bounds(variant, b, k)
    item = a.item_bytes
    for begin, end in pairwise(bounds):
        part = _rows(b, begin, end - begin)
        planner.copy("to_device", 1, part, part.address - b.address)
        # The columns of `a` in this part lie in the workspace without gaps.
        columns = replace(
            a,
            address=a.address + m * begin * item,
            shape=(m, end - begin),
            strides=c_strides((m, end - begin), item),
        )
        in_slabs = end == k or (begin == 0 and c is not None)
        for first in range(0, m, slab if in_slabs else m):
            rows, out = (_rows(x, first, slab if in_slabs else m) for x in (columns, result))
            at = first * a.strides[0] + begin * item
            if part.shape == b.shape:
                planner.copy("to_device", 0, rows, at)
            else:
                planner.copy_columns(0, rows, at, a.strides[0])
            if begin > 0:  # add to the product of the earlier parts
                keywords["c"], keywords["beta"] = out, 1.0
            elif c is not None:
                keywords["c"] = _rows(c, first, slab)
                planner.copy("to_device", 2, keywords["c"], keywords["c"].address - c.address)
            OPERATIONS["matmul"].function(rows, part, out=out, **keywords)
            if end == k:
                planner.copy("to_host", len(places), out, out.address - result.address)
            planner.release(mark)  # later launches come later, on the same stream
    return result


def _part_bounds(variant: str, b: GpuArray, k: int) -> list[int]:
    """Return where the parts of K begin and end. Without parts, it is [0, k]."""
    # These variants multiply parts without copies of them, if their rows are aligned.
    in_place = catalogue.find("matmul", variant).preparation == "map_both"
    aligned = k * b.item_bytes % 16 == 0 and b.contiguous
    fits = k * b.item_bytes <= _MOST_ROW_BYTES
    if not in_place or not aligned or not fits or b.bytes < _PARTS_FROM:
        return [0, k]
    return sorted({*(round(k * x / _PART_ROWS) * _PART_ROWS for x in _PARTS[:-1]), k})


def _slab_rows(
    operation: str, operands: Sequence[np.ndarray[Any, Any]], options: Mapping[str, Any]
) -> int:
    """Return the number of rows in a slab of `a`, or 0 if the product is not divided into slabs."""
    if operation != "matmul" or options["variant"] != catalogue.BEST:
        return 0
    a, b = operands[:2]
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or options["tile"] is not None:
        return 0  # running the operation raises the error
    m, n = a.shape[0], b.shape[1]
    by_rows = [a, *operands[2:]]  # a, and c and out if there are any
    if any(x.shape != (m, n) or x.dtype != a.dtype for x in by_rows[1:]):
        return 0
    if not all(x.flags.c_contiguous for x in by_rows):
        return 0
    if a.nbytes + m * n * a.itemsize < _SLABS_FROM:
        return 0
    rows = -(-m // (_MOST_SLABS if b.nbytes < _PARTS_FROM else _MOST_SLABS_OF_PARTS))
    rows = -(-rows // _TILE_ROWS) * _TILE_ROWS
    return rows if rows < m else 0


def _rows(array: GpuArray, first: int, count: int) -> GpuArray:
    """Return some rows of a C-ordered matrix."""
    rows, cols = array.shape
    return replace(
        array,
        address=array.address + first * array.strides[0],
        shape=(min(count, rows - first), cols),
    )
