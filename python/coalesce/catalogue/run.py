"""Runs one call of an operation on a device: launches its kernels, and records their times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from coalesce import catalogue
from coalesce._core import ops
from coalesce.arrays import devices, foreign, simulated_memory
from coalesce.arrays.creation import to_device
from coalesce.arrays.device_array import DeviceArray
from coalesce.arrays.devices import Device
from coalesce.arrays.gpu_array import GpuArray
from coalesce.arrays.pointer import Pointer
from coalesce.catalogue.operands import Operand
from coalesce.common import require
from coalesce.common.memory import in_c_order
from coalesce.common.timing import Timing
from coalesce.launch.kernel import BaseKernel
from coalesce.launch.launch import Launch

if TYPE_CHECKING:
    from coalesce.launch.record import LaunchRecord
from coalesce.launch.run import run

# For each size of elements: a CUDA type for kernels that only copy the elements, and the NumPy
# dtype that corresponds to this type.
ELEMENTS: dict[int, tuple[str, np.dtype[Any]]] = {
    1: ("unsigned char", np.dtype(np.uint8)),
    2: ("unsigned short", np.dtype(np.uint16)),
    4: ("unsigned int", np.dtype(np.uint32)),
    8: ("unsigned long long", np.dtype(np.uint64)),
    16: ("uint4", np.dtype(np.uint32)),
}
REAL_NAME = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


# A function that launches a kernel in place of `launch.run.run`, to profile, trace or check it. Its
# arguments are the launch, and the variant that the kernel belongs to.
Launcher: TypeAlias = "Callable[[Launch, ops.Variant], LaunchRecord]"

# A function that returns an array in GPU memory. Its arguments are the shape and the dtype.
Scratch: TypeAlias = "Callable[[tuple[int, ...], np.dtype[Any]], GpuArray]"


class Run:
    """One call of an operation. It launches the kernels of the call, and records their times.

    Parameters
    ----------
    operands : sequence of Operand
        The arrays of the call, including `out`.
    device : str or Device, optional
        The device of the call. The default is the device of `operands`. For NumPy arrays, the
        default is the first GPU. Without a GPU, it is the simulator.
    timed : bool or int
        Whether to time the kernels. With True, runs are repeated until the median is stable. An int
        is the number of timed runs.
    counts : bool
        Whether the simulator counts requests and sectors.
    launcher : Launcher, optional
        A function that is called for each launch, instead of launching the kernel.
    scratch : Scratch, optional
        A function that allocates new arrays, for example for intermediate results. By default, new
        arrays are on the device of the call.
    """

    def __init__(
        self,
        operands: Sequence[Operand],
        *,
        device: Any = None,
        timed: bool | int = False,
        counts: bool = False,
        launcher: Launcher | None = None,
        scratch: Scratch | None = None,
    ) -> None:
        gpu_arrays = [o.array for o in operands if o.on_gpu]
        simulated = {o.passed.device: o for o in operands if in_simulated_memory(o)}
        if device is None and simulated and not gpu_arrays:
            device = next(iter(simulated))
        chosen = isinstance(device, Device)
        self.device = device if chosen else devices.resolve(device, gpu_arrays)
        for place, operand in simulated.items():
            if place != self.device.name:
                raise ValueError(
                    f"`{operand.name}` is an array in the memory of {place}, but the call runs on "
                    f"{self.device.name}; copy it: coalesce.asarray({operand.name}, "
                    f'device="{self.device.name}")'
                )
        self.on_gpu = self.device.kind == "cuda"
        if gpu_arrays and not self.on_gpu:
            on_gpu = next(o.name for o in operands if o.on_gpu)
            raise ValueError(
                f"`{on_gpu}` is a GPU array, but the call runs on "
                f"{self.device.name!r}, which cannot use GPU memory; copy the array to a NumPy "
                "array first"
            )
        self.multiprocessors = self.device.multiprocessors or 132
        self.work = (0.0, 0.0)  # the floating-point operations and the bytes of the whole call
        self._runs: int | Literal["auto"] | None = "auto" if timed else None
        if not isinstance(timed, bool):
            self._runs = timed
        self._counts = counts
        self._launcher = launcher
        self._scratch = scratch
        self.records: list[tuple[str, LaunchRecord]] = []
        self._own = 0

    def launch(
        self,
        entry: ops.Variant,
        extents: tuple[int, int],
        values: dict[str, Any],
        *,
        item_size: int,
        tile: int = 0,
        slices: int = 1,
        parts: int = 0,
        defines: tuple[str, ...] = (),
    ) -> None:
        """Launch a kernel of the catalogue.

        Parameters
        ----------
        entry : ops.Variant
            The variant with the kernel.
        extents : tuple of int
            Two numbers that determine the grid. For a matrix, they are its rows and columns. For
            n elements in one dimension, they are n and 1.
        values : dict
            The arguments of the kernel by name.
        item_size : int
            The size of an element in bytes.
        tile : int
            The size of the variant's tile, such as 32. It is 0 if the variant has no tile.
        slices : int
            The number of slices into which the sum over K is divided.
        parts : int
            The number of parts into which a block or cluster divides K. With 0, it is the variant's
            default.
        defines : tuple of str
            Macros for the compilation, such as "REAL=float".
        """
        if tile:
            defines = (*defines, f"TILE={tile}")
        kernel = compiled(entry, defines, self.device.name)
        grid, block, shared_bytes = entry.launch(
            *extents,
            tile=tile,
            item_size=item_size,
            multiprocessors=self.multiprocessors,
            slices=slices,
            parts=parts,
        )
        arguments = [_only_itself(values[name]) for name in entry.arguments]
        launch = Launch(kernel, self.device, grid, block, shared_bytes)
        launch = launch.bind(arguments, self.device)
        if entry.starts_early and self.on_gpu:
            launch.function.start_early()
        if self._launcher is not None:
            record = self._launcher(launch, entry)
        else:
            write_only = [name for name in entry.arguments if name in ("out", "sums")]
            record = run(launch, self._runs, self._counts, write_only)
        if entry.operation != "layout":
            self._own = len(self.records)
        self.records.append((entry.entry, record))

    @property
    def own(self) -> LaunchRecord:
        """The launch record of the operation's main kernel.

        An operation may launch other kernels before the main kernel, to prepare operands, and after
        the main kernel, to add up partial results.
        """
        return self.records[self._own][1]

    def scratch(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return an uninitialised array on the device of the call, for intermediate results."""
        if self._scratch is not None:
            return self._scratch(shape, dtype)
        if not self.on_gpu:
            return np.empty(shape, dtype)
        return DeviceArray.empty(shape, dtype, device=self.device)

    def unread(self, dtype: np.dtype[Any], instead: Any) -> Any:
        """Return an array for an argument that the kernel does not read.

        If the call is planned, it is `instead`, another array of the call, which needs no memory.
        """
        return self.scratch((1,), dtype) if self._scratch is None else instead

    def ready(self, operand: Operand, alignment: int = 1) -> Any:
        """Return an array in C order with the values of an operand.

        If a kernel can use the operand's array, the result is this array. Otherwise, it is a copy
        (see `Operand.usable_as_is`, which also explains `alignment`).
        """
        if operand.usable_as_is(alignment):
            return operand.array
        if not operand.on_gpu:
            return in_c_order(require.quoted(operand.name), operand.array, operand.dtype)
        array = operand.array
        if operand.dtype in REAL_NAME and operand.lies_in_columns:
            return self.transposed(operand.transposed(), "vectorized")
        return self.packed(array)

    def packed(self, array: GpuArray, out: Any = None) -> Any:
        """Copy a GPU array of one or two dimensions to an array in C order, and return this array.

        The copy goes to `out`, if it is passed.
        """
        result = self.scratch(array.shape, array.dtype) if out is None else out
        target = foreign.require_gpu_array(result)
        row_stride, col_stride = element_strides(array)
        item, memory, count = array.dtype.itemsize, array.whole(), math.prod(array.shape)
        cols = array.shape[-1]
        if array.contiguous:
            cols, row_stride, col_stride = count, count, 1
            whole = count * item // 16 * 16 // item
            if 0 < whole < count and array.address % 16 == 0 and target.address % 16 == 0:
                # Copy 16 bytes at a time, and the last elements apart.
                for begin, size in ((0, whole), (whole, count - whole)):
                    self.packed(array.part(begin, size), target.part(begin, size))
                return result
        width = item
        if col_stride == 1:  # copy several elements at once
            places = (array.address, target.address, cols * item, row_stride * item)
            width = next(w for w in (16, 8, 4, 2, 1) if w == item or not any(p % w for p in places))
        each = width // item
        element, of_size = ELEMENTS[width]
        self.launch(
            catalogue.find("layout", "contiguous"),
            (count // each, 1),
            {
                "x": memory.flat(of_size),
                "out": target.flat(of_size),
                "n": np.uint64(count // each),
                "cols": np.uint64(cols // each),
                "pitch": np.uint64(cols // each),
                "first": np.int64((array.address - memory.address) // width),
                "row_stride": np.int64(row_stride // each),
                "col_stride": np.int64(col_stride),
            },
            item_size=width,
            defines=(f"ELEMENT={element}",),
        )
        return result

    def launch_on_matrix(
        self, entry: ops.Variant, matrix: Operand | Any, values: dict[str, Any], name: str
    ) -> None:
        """Launch a kernel that reads a matrix: an operand, or an array of `scratch`.

        `name` is the kernel's parameter for the matrix. Some kernels read a GPU array with any
        distances between its rows and columns. Others need a copy.
        """
        rows, cols = matrix.shape
        defines: tuple[str, ...] = (f"REAL={REAL_NAME[matrix.dtype]}",)
        array, strides = matrix, (cols, 1)
        if isinstance(matrix, Operand):
            as_is = not matrix.on_gpu or matrix.lies_in_columns or matrix.usable_as_is()
            if "row_stride" in entry.arguments and not as_is:
                array, strides = matrix.array.part(0, 1), element_strides(matrix.array)
                defines = (*defines, "STRIDED")
            else:
                array = self.ready(matrix) if rows and cols else self.scratch((1,), matrix.dtype)
        values = {
            **values,
            name: array,
            "rows": np.int32(rows),
            "cols": np.int32(cols),
            "row_stride": np.int64(strides[0]),
            "col_stride": np.int64(strides[1]),
        }
        size = matrix.dtype.itemsize
        self.launch(entry, (rows, cols), values, item_size=size, defines=defines)

    def transposed(self, matrix: Operand | Any, variant: str = "padded", out: Any = None) -> Any:
        """Return the transpose of a matrix as a new array. A kernel of this package computes it.

        The matrix is an operand, or an array of `scratch`. The transpose is written to `out`, if it
        is passed.
        """
        result = self.scratch(matrix.shape[::-1], matrix.dtype) if out is None else out
        own = self._own
        entry = catalogue.find("transpose", variant)
        self.launch_on_matrix(entry, matrix, {"out": result}, "in")
        self._own = own
        return result

    def result(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        operands: Sequence[Operand],
        out: Operand | None,
        alignment: int = 1,
    ) -> Any:
        """Return the array that the kernel writes its result to.

        This is the array that the user passed as `out`, if a kernel can use this array (see
        `Operand.usable_as_is`) and if it does not overlap an operand. Otherwise, it is a new array.
        """
        if (
            out is not None
            and out.usable_as_is(alignment)
            and not any(overlap(out, o) for o in operands)
        ):
            return out.array
        if any(o.on_gpu for o in operands) or (out is not None and out.on_gpu):
            return self.scratch(shape, dtype)
        return np.empty(shape, dtype)

    def deliver(self, written: Any, operands: Sequence[Operand], out: Operand | None) -> Any:
        """Return the result of the call to the user. `written` is the array with the result.

        If the user passed `out`, this function copies `written` to `out`, and returns `out`. If the
        kernel wrote directly to `out`, nothing is copied. Without `out`, the function returns
        `written` as an array of the operands' library, such as CuPy.
        """
        if out is None:
            model = next((o.passed for o in operands if o.on_gpu), None)
            if model is None and any(in_simulated_memory(o) for o in operands):
                return to_device(written, self.device)
            return written if model is None else foreign.to_library_of(model, written)
        if written is not out.array:
            if out.on_gpu:
                self.packed(foreign.require_gpu_array(written), out.array)
            else:
                out.array[...] = written
                simulated_memory.define(out.array)
        return out.passed

    def timing(self) -> Timing:
        """Return the times of the call. Each time is the sum over all launches."""
        operations, moved_bytes = self.work
        records = [record for _, record in self.records]
        kernel_ms = sum(r.kernel_ms for r in records)
        no_time = next((r.no_time for r in records if r.no_time), "")
        rate = math.nan if no_time else 1e-6 / kernel_ms if kernel_ms > 0 else 0.0
        return Timing(
            kernel_ms=kernel_ms,
            spread=sum(r.spread * r.kernel_ms for r in records) / kernel_ms if kernel_ms else 0.0,
            runs=min((r.runs for r in records), default=0),
            h2d_ms=sum(r.h2d_ms for r in records),
            d2h_ms=sum(r.d2h_ms for r in records),
            gflops=operations * rate,
            gbps=moved_bytes * rate,
            device=self.device.name,
            source="measured" if self.on_gpu else "modelled",
            parts=tuple((name, r.kernel_ms) for name, r in self.records),
            no_time=no_time,
        )


def element_strides(array: GpuArray) -> tuple[int, int]:
    """Return the distances of rows and of columns, in elements. A vector is one row."""
    item = array.dtype.itemsize
    if any(stride % item for stride in array.strides):
        raise ValueError(
            f"a GPU array has strides {array.strides}, which are not multiples of its element "
            f"size, {item} bytes; make it contiguous first"
        )
    row_stride, col_stride = (stride // item for stride in (0, *array.strides)[-2:])
    return row_stride, col_stride


def _only_itself(value: Any) -> Any:
    """Return an argument that gives the kernel access only to a view, not to its base array."""
    return Pointer(value, 0) if isinstance(value, np.ndarray) else value


@cache
def compiled(entry: ops.Variant, defines: tuple[str, ...], device: str) -> BaseKernel:
    """Return the compiled kernel of the variant `entry`. `defines` are macros: "REAL=float".

    The kernel is compiled once for each set of macros and each device.
    """
    options = tuple(f"-D{define}" for define in defines)
    arch = "sm_90a" if entry.tensor_maps else None
    return BaseKernel(
        catalogue.read_kernel(entry.file), entry.entry, options=options, arch=arch, device=device
    )


def as_elements(array: Any, width: int) -> Any:
    """Return a view of `array` with elements of `width` bytes. Nothing is copied.

    The elements of the view are unsigned integers. With a width of 16 bytes, an element consists of
    four integers. Kernels that only copy elements use such a view, so that one kernel serves all
    dtypes.
    """
    dtype = ELEMENTS[width][1]
    if isinstance(array, np.ndarray):
        # Keep the shape if possible. From the shape, a profile knows that each row is a structure.
        return (array if array.itemsize == width else array.reshape(-1)).view(dtype)
    return foreign.require_gpu_array(array).flat(dtype)


def in_simulated_memory(operand: Operand) -> bool:
    """Return whether an operand is a `DeviceArray` of the simulator."""
    return not operand.on_gpu and foreign.is_device_array(operand.passed)


def overlap(a: Operand, b: Operand) -> bool:
    """Return whether two operands may share memory."""
    if a.on_gpu != b.on_gpu:
        return False
    if not a.on_gpu:
        return bool(np.may_share_memory(a.array, b.array))
    (a_low, a_high), (b_low, b_high) = a.array.span(), b.array.span()
    return bool(a_low < b_high and b_low < a_high)
