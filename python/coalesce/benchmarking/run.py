"""Runs the variants of an operation, records their times, and compares the results with NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from coalesce import catalogue
from coalesce._core import cuda
from coalesce.arrays import devices, foreign
from coalesce.arrays.creation import empty
from coalesce.arrays.devices import Device
from coalesce.arrays.peaks import peaks_of
from coalesce.benchmarking import gpu_peers, names
from coalesce.benchmarking.calls import WHOLE_CALLS
from coalesce.benchmarking.candidates import Candidate, compare, info_of, rows_of, times_of
from coalesce.benchmarking.clock import L2, GpuClock, Repeats
from coalesce.benchmarking.gpu import copy_to_gpu, launches
from coalesce.benchmarking.names import RowRequest
from coalesce.benchmarking.peers import COPIES, check_peer, run_numpy, run_on_gpu
from coalesce.benchmarking.result import Benchmark
from coalesce.benchmarking.rounds import Runs
from coalesce.catalogue import operands as catalogue_operands
from coalesce.catalogue import products, table
from coalesce.catalogue.operands import Operand
from coalesce.catalogue.reference import Reference, reference
from coalesce.catalogue.run import Run
from coalesce.common import require
from coalesce.common.dtypes import code_of, dtype_name, from_bfloat16
from coalesce.common.progress import Report, reporter
from coalesce.common.timing import Timing
from coalesce.common.words import plural
from coalesce.launch.launch import on_host

# A function that returns the arrays for a variant. Its argument is the name of the variant.
Operands = Callable[[str], Sequence[Any]]

_AXES = {"a": "(rows, cols)", "b": "(K, N)"}


@dataclass(frozen=True)
class BenchmarkSettings:
    """The settings of a benchmark. See `coalesce.benchmark`."""

    runs: Runs = "auto"
    verify: bool = True
    progress: bool | Report | None = None
    l2: L2 = "kept"
    repeats: Repeats = 1

    def check(self) -> None:
        """If a setting is wrong, raise TypeError or ValueError."""
        require.runs(self.runs)
        require.flag("verify", self.verify)
        require.choice("l2", self.l2, ("kept", "flushed"))
        repeats = self.repeats
        if repeats == "auto" and isinstance(repeats, str):
            pass
        elif isinstance(repeats, str):
            raise ValueError(f'`repeats` must be a positive int or "auto"; got {repeats!r}')
        else:
            require.whole("repeats", repeats, 1, 2**31 - 1)
        if repeats != 1 and self.l2 == "flushed":
            raise ValueError(
                "l2='flushed' cannot be combined with `repeats`, because L2 is not flushed between "
                "the repeats of a run; leave out `repeats` or `l2`"
            )


@dataclass
class _Gpu:
    """A GPU that variants run on, its clock, and the arrays that were copied to its memory."""

    device: Device
    clock: GpuClock
    copies: dict[int, Any] = field(default_factory=dict)

    def array(self, operand: Operand) -> Any:
        """Return an operand in GPU memory: the user's array, or a copy of it in C order."""
        if operand.on_gpu:
            return operand.passed
        if id(operand.passed) not in self.copies:
            host = np.ascontiguousarray(host_array(operand.passed, operand.dtype))
            self.copies[id(operand.passed)] = copy_to_gpu(host, self.device.name)
        return self.copies[id(operand.passed)]

    def contiguous(self, operand: Operand) -> Any:
        """Return an operand in GPU memory in C order without gaps."""
        if operand.on_gpu and not operand.usable_as_is():
            return copy_to_gpu(np.ascontiguousarray(host_array(operand.passed)), self.device.name)
        return self.array(operand)

    def option(self, name: str, value: Any) -> Any:
        """Return the value of an option. An array is copied to GPU memory, as an operand is."""
        return value if np.isscalar(value) else self.array(catalogue_operands.operand(name, value))


def benchmark(
    operation: str,
    operands: Operands,
    variants: Sequence[str] | None,
    device: Any,
    options: Mapping[str, Any],
    settings: BenchmarkSettings,
) -> Benchmark:
    """Run the variants of an operation, and record their times. See `coalesce.benchmark`."""
    catalogue.check_operation(operation, WHOLE_CALLS)
    settings.check()
    options = {name: value for name, value in options.items() if value is not None}
    chosen = names.row_requests(operation, variants, options)
    checked = {one.name: checked_operands(operation, operands(one.variant)) for one in chosen}
    first = checked[chosen[0].name]
    gpu_arrays = [o.array for o in first if o.on_gpu]
    where = devices.resolve(_device_of(first, device), gpu_arrays)
    for one in chosen:
        if one.is_peer:
            check_peer(one.variant, operation, where)
            _check_plain(one.variant, checked[one.name], options)

    on_gpu = where.kind == "cuda" and {one.name for one in chosen} != {"numpy"}
    gpu = _Gpu(where, GpuClock(where, settings.l2)) if on_gpu else None
    candidates: list[Candidate] = []
    exact: dict[str, Reference] = {}
    with reporter(settings.progress, f"timing {operation}", "variants") as report:
        for done, one in enumerate(chosen):
            if report is not None:
                report(done, len(chosen))
            run = _run_peer if one.is_peer else _run_variant
            candidate, result = run(
                operation, one, checked[one.name], where, options, settings, gpu
            )
            if settings.verify:
                _verify(candidate, one, result, operation, checked[one.name], options, exact)
            candidates.append(candidate)
        times, state = times_of(candidates, where, settings.runs)
        if report is not None:
            report(len(chosen), len(chosen))
    peaks = peaks_of(where, first[0].dtype)
    return Benchmark(
        operation=operation,
        arrays=[info_of(operand) for operand in first],
        device=where,
        rows=rows_of(candidates, times, peaks),
        peaks=peaks,
        options=_options_to_show(options),
        l2=settings.l2,
        gpu_state=state,
    )


def _options_to_show(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without `c`, and with the dtype of `out` in place of the array."""
    shown = {name: value for name, value in options.items() if name not in ("c", "out")}
    if "out" in options:
        out = catalogue_operands.operand("out", options["out"])
        shown["out"] = dtype_name(code_of(out.dtype))
    return shown


def _run_peer(
    operation: str,
    one: RowRequest,
    operands: Sequence[Operand],
    device: Device,
    options: Mapping[str, Any],
    settings: BenchmarkSettings,
    gpu: _Gpu | None,
) -> tuple[Candidate, Any]:
    """Run a library once. Return the candidate and the result."""
    name, repeats = one.name, 1
    if name in gpu_peers.NAMES:
        assert gpu is not None
        arrays = [gpu.contiguous(operand) for operand in operands]
        out = _result_of_peer(operation, operands, options, gpu)
        call = gpu_peers.call_of(name, arrays, out, device.ordinal)
        _invalidate(out)
        call(0)
        result = host_array(out)
        batch, repeats = gpu.clock.batch([call], settings.repeats)
    else:
        on_host = [host_array(o.passed, o.dtype) for o in operands]
        if name == "numpy":
            result, batch = run_numpy(operation, on_host)
        else:
            assert gpu is not None
            result, batch, repeats = run_on_gpu(
                name, operation, on_host, device, gpu.clock, settings.repeats
            )
    where = "cpu" if name == "numpy" else device.name
    timing = Timing(0.0, 0.0, 0, 0.0, 0.0, 0.0, 0.0, where, "measured")
    work = work_of_library(operation, operands, result.dtype.itemsize)
    return Candidate(name, timing, work, batch, repeats), result


def _invalidate(out: Any) -> None:
    """Overwrite an array, so that a result of an earlier variant does not count as a new one."""
    memory = catalogue_operands.operand("out", out).array
    if isinstance(memory, np.ndarray):
        if not memory.flags.writeable:
            return  # the operation says what is wrong
        memory.view(f"u{memory.itemsize}")[...] = 2 ** (8 * memory.itemsize) - 1  # NaN
    else:
        cuda.Device(memory.ordinal).fill(memory.address, 0xFF, memory.bytes)


def _result_of_peer(
    operation: str, operands: Sequence[Operand], options: Mapping[str, Any], gpu: _Gpu
) -> Any:
    """Return the array in GPU memory that a library writes to."""
    if "out" in options:
        return gpu.option("out", options["out"])
    dtype = operands[0].dtype
    if catalogue_operands.is_bfloat16(dtype):
        dtype = np.dtype(np.float32)
    shape = operands[0].shape  # of the driver's copy
    if operation == "matmul":
        shape = (operands[0].shape[0], operands[1].shape[1])
    return empty(shape, dtype, device=gpu.device.name)


def _run_variant(
    operation: str,
    one: RowRequest,
    operands: Sequence[Operand],
    device: Device,
    options: Mapping[str, Any],
    settings: BenchmarkSettings,
    gpu: _Gpu | None,
) -> tuple[Candidate, Any]:
    """Run a variant once. Return the candidate and the result."""
    variant_options = _options(operation, one, options)
    if "out" in variant_options:
        _invalidate(variant_options["out"])
    array, run = _run(operation, variant_options, [o.passed for o in operands], device, settings)
    if not run.records:
        raise table.no_launch_error("time", operation, (o.shape for o in operands))
    modelled = run.own.modelled
    candidate = Candidate(one.name, run.timing(), bound=None if modelled is None else modelled.why)
    result = host_array(array)
    if gpu is not None:
        steps = launches(
            operation,
            [gpu.array(operand) for operand in operands],
            {option: gpu.option(option, value) for option, value in variant_options.items()},
        )
        candidate.work = run.work
        calls = [call for _, call in steps]
        candidate.batch, candidate.repeats = gpu.clock.batch(calls, settings.repeats)
        if candidate.repeats == 1 or len(steps) == 1:
            candidate.parts = tuple(kernel for kernel, _ in steps)
    return candidate, result


def _verify(
    candidate: Candidate,
    one: RowRequest,
    result: np.ndarray[Any, Any],
    operation: str,
    operands: Sequence[Operand],
    options: Mapping[str, Any],
    exact: dict[str, Reference],
) -> None:
    """Compare a result with NumPy's. `exact` has the results that NumPy computed before."""
    variant = "copy" if one.name in COPIES else one.variant
    key = {"access": one.name, "transpose": variant if variant == "copy" else ""}.get(operation, "")
    if key not in exact:
        on_host = [_as_numeric(host_array(o.passed, o.dtype)) for o in operands]
        all_options = _on_host({**options, **one.options})
        exact[key] = reference(operation, variant, on_host, all_options)
    numbers = _as_numeric(result)
    tolerance = exact[key].tolerance(
        numbers.dtype, one.variant, operands=operands[0].dtype, result=result.dtype
    )
    compare(candidate, exact[key], numbers, tolerance)


def _run(
    operation: str,
    options: Mapping[str, Any],
    arrays: Sequence[Any],
    device: Device,
    settings: BenchmarkSettings,
) -> tuple[Any, Run]:
    """Run a variant on the user's arrays.

    On a GPU, this call measures the copies to the GPU and back. On the simulator, it models the
    time.
    """
    timed: bool | int = 1 if device.kind == "cuda" or settings.runs == "auto" else settings.runs
    return table.operation(operation).run(arrays, options, device=device, timed=timed)


def _options(operation: str, one: RowRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a variant has, and the choice of the variant."""
    definition = table.operation(operation)
    common = {o: v for o, v in options.items() if definition.takes(one.variant, o)}
    return {definition.choice: one.variant, **common, **one.options}


def work_of_library(
    operation: str, operands: Sequence[Operand], result_size: int
) -> tuple[float, float]:
    """Return how many floating-point operations `operation` needs, and how many bytes it moves.

    `operation` is "matmul", "transpose", "row_sums" or "column_sums".
    """
    item_size = operands[0].dtype.itemsize
    rows, cols = operands[0].shape
    if operation == "matmul":
        return products.product_work(*products.product_extents(*operands), item_size, result_size)
    written = {"transpose": rows * cols, "row_sums": rows, "column_sums": cols}[operation]
    return products.one_pass_work(rows * cols, written, int(operation != "transpose"), item_size)


def _check_plain(peer: str, operands: Sequence[Operand], options: Mapping[str, Any]) -> None:
    """Check that a library can compute with these arrays and options."""
    for option in ("alpha", "beta", "c"):
        if option in options:
            raise ValueError(
                f"variant {peer!r} computes only a @ b; leave out `{option}`, or leave out {peer!r}"
            )
    dtype = operands[0].dtype
    if peer == "cublas_tf32" and dtype != np.float32:
        passed = dtype_name(code_of(dtype))
        raise TypeError(f"the operands have dtype {passed}; variant {peer!r} takes only float32")
    if peer in gpu_peers.NAMES:
        return
    if "out" in options:
        raise ValueError(f"variant {peer!r} has no option `out`; omit the option or the variant")
    if catalogue_operands.is_bfloat16(dtype):
        raise TypeError(
            f"the operands have dtype bfloat16, which variant {peer!r} does not take; leave out "
            "this variant"
        )


def checked_operands(operation: str, arrays: Sequence[Any]) -> list[Operand]:
    """Check the operands, which are the same for all variants, and return them."""
    definition = table.operation(operation)
    names = definition.arrays
    if len(arrays) != len(names):
        raise TypeError(
            f"a benchmark of {operation} takes {definition.operands}; "
            f"got {plural(len(arrays), 'array')}"
        )
    if operation == "access":
        return [catalogue_operands.operand("x", arrays[0])]
    operands = [
        catalogue_operands.array(
            name, array, _AXES[name], operation, bfloat16=operation == "matmul"
        )
        for name, array in zip(names, arrays, strict=True)
    ]
    catalogue_operands.same_dtype(*operands)
    if operation == "matmul":
        products.product_extents(*operands)
    if not all(math.prod(o.shape) for o in operands):
        raise table.no_launch_error("time", operation, (o.shape for o in operands))
    return operands


def _device_of(operands: Sequence[Operand], device: Any) -> Any:
    """Return `device`. If it is None, return the device of the first `DeviceArray`, or None."""
    if device is None:
        for operand in operands:
            if foreign.is_device_array(operand.passed):
                return operand.passed.device
    return device


def host_array(value: Any, dtype: np.dtype[Any] | None = None) -> np.ndarray[Any, Any]:
    """Return an array as a NumPy array in this machine's byte order."""
    on_gpu = foreign.find_gpu_array(value)
    if on_gpu is not None and on_gpu.code == "V2":  # bfloat16
        bits: np.ndarray[Any, Any] = on_host(replace(on_gpu, code="u2"))
        return bits.view("V2")
    array = on_host(value)  # a copy, if the array is in a GPU's memory
    if not isinstance(array, np.ndarray):
        array = foreign.find_host_array(array)
    assert isinstance(array, np.ndarray)
    return array if dtype is None else array.astype(dtype, copy=False)


def _as_numeric(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array that NumPy can compute with: bfloat16 as float32."""
    return from_bfloat16(array) if catalogue_operands.is_bfloat16(array.dtype) else array


def _on_host(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value if np.isscalar(value) or not hasattr(value, "dtype") else host_array(value)
        for name, value in options.items()
        if name != "out"
    }
