"""Times the variants of an operation, and compares each result with the result of NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from coalesce import catalogue
from coalesce._core import cuda
from coalesce.arrays import devices, foreign
from coalesce.arrays.creation import to_device
from coalesce.arrays.devices import Device
from coalesce.arrays.peaks import peaks_of
from coalesce.benchmarking.data import BenchmarkRow
from coalesce.benchmarking.gpu import L2, GpuClock, launches, state_under_load
from coalesce.benchmarking.peers import PEERS, check_peer, run_numpy, run_on_gpu
from coalesce.benchmarking.result import Benchmark
from coalesce.benchmarking.rounds import Batch, Runs, Times, interleaved
from coalesce.catalogue import operands as catalogue_operands
from coalesce.catalogue import products, table
from coalesce.catalogue.operands import Operand
from coalesce.catalogue.reference import Reference, reference
from coalesce.catalogue.run import Run
from coalesce.common import require
from coalesce.common.progress import Report, reporter
from coalesce.common.timing import Timing
from coalesce.profiling.data import ArrayInfo
from coalesce.simulate.prepared import on_host

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


@dataclass
class _Gpu:
    """A GPU that variants run on, its clock, and the arrays that were copied to its memory."""

    device: Device
    clock: GpuClock
    copies: dict[int, Any] = field(default_factory=dict)

    def array(self, operand: Operand) -> Any:
        """Return an operand in GPU memory: the user's array, or a copy of it in C order."""
        if operand.on_gpu:
            return operand.given
        if id(operand.given) not in self.copies:
            host = np.ascontiguousarray(_host(operand.given, operand.dtype))
            self.copies[id(operand.given)] = to_device(host, device=self.device.name)
        return self.copies[id(operand.given)]

    def option(self, name: str, value: Any) -> Any:
        """Return the value of an option. An array is copied to GPU memory, as an operand is."""
        return value if np.isscalar(value) else self.array(catalogue_operands.operand(name, value))


@dataclass
class _Candidate:
    """A variant or library that ran once, and what is needed to time it."""

    name: str
    timing: Timing
    work: tuple[float, float] = (0.0, 0.0)  # operations and bytes
    batch: Batch | None = None  # None if the time is modelled
    parts: tuple[str, ...] = ()  # the names of the kernels
    error: float | None = None
    correct: bool | None = None
    bound: str | None = None


def benchmark(
    operation: str,
    operands: Operands,
    variants: Sequence[str] | None,
    device: Any,
    options: Mapping[str, Any],
    settings: BenchmarkSettings,
) -> Benchmark:
    """Time variants of an operation. See `coalesce.benchmark`."""
    catalogue.check_operation(operation)
    require.runs(settings.runs)
    require.flag("verify", settings.verify)
    require.choice("l2", settings.l2, ("kept", "flushed"))
    options = {name: value for name, value in options.items() if value is not None}
    names = _names(operation, variants, options)
    _check_options(operation, names, options)
    given = {name: _checked(operation, operands(name)) for name in names}
    gpu_arrays = [o.array for o in given[names[0]] if o.on_gpu]
    where = devices.resolve(_device_of(given[names[0]], device), gpu_arrays)
    for name in names:
        if name in PEERS:
            check_peer(name, operation, where)
            _check_plain(name, options)

    on_gpu = where.kind == "cuda" and set(names) != {"numpy"}
    gpu = _Gpu(where, GpuClock(where, settings.l2)) if on_gpu else None
    candidates: list[_Candidate] = []
    exact: dict[str, Reference] = {}
    with reporter(settings.progress, f"timing {operation}", "variants") as report:
        for done, name in enumerate(names):
            if report is not None:
                report(done, len(names))
            run = _peer if name in PEERS else _variant
            candidate, result = run(operation, name, given[name], where, options, settings, gpu)
            if settings.verify:
                _verify(candidate, result, operation, given[name], options, exact)
            candidates.append(candidate)
        taking_turns = {c.name: c.batch for c in candidates if c.batch and c.name != "numpy"}
        times = interleaved(taking_turns, settings.runs)
        state = None
        if taking_turns:
            state = state_under_load(where, lambda: [run(1) for run in taking_turns.values()])
        for c in candidates:
            if c.name == "numpy" and c.batch:
                times |= interleaved({c.name: c.batch}, settings.runs)
        if report is not None:
            report(len(names), len(names))
    first = given[names[0]]
    rows = [_row(c, times.get(c.name), where, first[0].dtype) for c in candidates]
    return Benchmark(
        operation=operation,
        arrays=[ArrayInfo(o.name, o.shape, str(o.dtype)) for o in first],
        device=where,
        rows=_with_speedups(rows),
        peaks=peaks_of(where, first[0].dtype),
        options={name: value for name, value in options.items() if name != "c"},
        l2=settings.l2,
        gpu_state=state,
    )


def _peer(
    operation: str,
    name: str,
    given: Sequence[Operand],
    device: Device,
    options: Mapping[str, Any],
    settings: BenchmarkSettings,
    gpu: _Gpu | None,
) -> tuple[_Candidate, Any]:
    """Run a library once. Return the candidate and the result."""
    del options, settings
    on_host = [_host(o.given, o.dtype) for o in given]
    if name == "numpy":
        result, batch = run_numpy(operation, on_host)
    else:
        assert gpu is not None
        result, batch = run_on_gpu(name, operation, on_host, device, gpu.clock)
    where = "cpu" if name == "numpy" else device.name
    timing = Timing(0.0, 0.0, 0, 0.0, 0.0, 0.0, 0.0, where, "measured")
    return _Candidate(name, timing, _work_of_peer(operation, given), batch), result


def _variant(
    operation: str,
    name: str,
    given: Sequence[Operand],
    device: Device,
    options: Mapping[str, Any],
    settings: BenchmarkSettings,
    gpu: _Gpu | None,
) -> tuple[_Candidate, Any]:
    """Run a variant once. Return the candidate and the result."""
    array, run = _run(operation, name, [o.given for o in given], device, options, settings)
    if not run.records:
        raise table.nothing_to("time", operation, (o.shape for o in given))
    modelled = run.own.modelled
    candidate = _Candidate(name, run.timing(), bound=None if modelled is None else modelled.why)
    if gpu is not None:
        variant_options = _options(operation, name, options)
        steps = launches(
            operation,
            [gpu.array(operand) for operand in given],
            {option: gpu.option(option, value) for option, value in variant_options.items()},
        )
        candidate.work = run.work
        candidate.parts = tuple(kernel for kernel, _ in steps)
        candidate.batch = partial(gpu.clock.runs, [call for _, call in steps])
    return candidate, _host(array)


def _verify(
    candidate: _Candidate,
    result: np.ndarray[Any, Any],
    operation: str,
    given: Sequence[Operand],
    options: Mapping[str, Any],
    exact: dict[str, Reference],
) -> None:
    """Compare a result with NumPy's. `exact` has the results that NumPy computed before."""
    name = candidate.name
    key = name if operation in ("access", "transpose") and name not in PEERS else ""
    if key not in exact:
        on_host = [_host(o.given, o.dtype) for o in given]
        exact[key] = reference(operation, name, on_host, _on_host(options))
    candidate.error = exact[key].error(result)
    candidate.correct = candidate.error <= exact[key].tolerance(result.dtype, name)


def _row(
    candidate: _Candidate, times: Sequence[Times] | None, device: Device, dtype: np.dtype[Any]
) -> BenchmarkRow:
    timing = candidate.timing if times is None else _timing(candidate, times)
    peaks = None if candidate.name == "numpy" else peaks_of(device, dtype)
    shares = (
        timing.gflops / peaks.gflops if peaks and peaks.gflops and timing.gflops else None,
        timing.gbps / peaks.gbps if peaks else None,
    )
    if timing.no_time:
        shares = None, None
    return BenchmarkRow(
        candidate.name,
        timing,
        candidate.error,
        candidate.correct,
        *shares,
        None,
        candidate.bound,
    )


def _run(
    operation: str,
    name: str,
    arrays: Sequence[Any],
    device: Device,
    options: Mapping[str, Any],
    settings: BenchmarkSettings,
) -> tuple[Any, Run]:
    """Run a variant on the user's arrays.

    On a GPU, this call measures the copies to the GPU and back. On the simulator, it models the
    time.
    """
    timed: bool | int = 1 if device.kind == "cuda" or settings.runs == "auto" else settings.runs
    definition = table.operation(operation)
    return definition.run(arrays, _options(operation, name, options), device=device, timed=timed)


def _options(operation: str, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a variant has, and the choice of the variant."""
    definition = table.operation(operation)
    return {
        definition.choice: name,
        **{o: v for o, v in options.items() if definition.takes(name, o)},
    }


def _work_of_peer(operation: str, given: Sequence[Operand]) -> tuple[float, float]:
    """Return the operations and the bytes of an operation."""
    item_size = given[0].dtype.itemsize
    rows, cols = given[0].shape
    if operation == "matmul":
        return products.product_work(*products.product_extents(*given), item_size)
    written = {"transpose": rows * cols, "row_sums": rows, "column_sums": cols}[operation]
    return products.pass_work(rows * cols, written, int(operation != "transpose"), item_size)


def _timing(candidate: _Candidate, times: Sequence[Times]) -> Timing:
    """Return the timing of a candidate, with the times of its runs."""
    totals = [sum(one) for one in times]
    kernel_ms = float(np.median(totals))
    rate = 1e-6 / kernel_ms if kernel_ms > 0 else 0.0
    medians = (float(np.median(part)) for part in zip(*times, strict=True))
    return replace(
        candidate.timing,
        kernel_ms=kernel_ms,
        spread=cuda.spread(totals),
        runs=len(times),
        gflops=candidate.work[0] * rate,
        gbps=candidate.work[1] * rate,
        parts=tuple(zip(candidate.parts, medians, strict=False)),
    )


def _with_speedups(rows: Sequence[BenchmarkRow]) -> list[BenchmarkRow]:
    """Return the rows with their speedups over the first row.

    Measured times are not compared with modelled times: such a row gets no speedup.
    """
    first = rows[0].timing
    compared = []
    for row in rows:
        comparable = row.timing.source == first.source and row.timing.kernel_ms > 0
        comparable = comparable and not first.no_time
        compared.append(
            replace(row, speedup=first.kernel_ms / row.timing.kernel_ms) if comparable else row
        )
    return compared


def _names(
    operation: str, variants: Sequence[str] | None, options: Mapping[str, Any]
) -> tuple[str, ...]:
    if variants is None:
        names = tuple(v.name for v in catalogue.variants(operation) if not v.hopper)
        if operation == "access":  # leave out patterns that do not read a plain vector
            left = {"aos", "soa"} | (set() if "index" in options else {"gather"})
            names = tuple(name for name in names if name not in left)
        return names
    if isinstance(variants, str):
        raise TypeError(
            f"variants must be a sequence of names; got the string {variants!r}. Write "
            f"[{variants!r}]"
        )
    names = tuple(require.texts("variants", variants))
    if not names:
        raise ValueError("variants is empty; pass the name of at least one variant")
    for name in names:
        if name in PEERS or (name == catalogue.BEST and operation != "access"):
            continue
        try:
            catalogue.find(operation, name)
        except ValueError as error:
            peers = ", ".join(p for p, (_, has) in PEERS.items() if operation in has)
            raise ValueError(
                f"variants: {error}"
                + (f"; the names of libraries are also allowed: {peers}" if peers else "")
            ) from None
        if names.count(name) > 1:
            raise ValueError(f"variants has the name {name!r} twice; it must have each name once")
    return names


def _check_options(operation: str, names: Sequence[str], options: Mapping[str, Any]) -> None:
    """Raise an error for an option that none of the timed variants has."""
    definition = table.operation(operation)
    known = definition.options
    for option in options:
        if option not in known:
            listed = f"the options are {', '.join(known)}" if known else "it has no options"
            raise TypeError(f"benchmark of {operation} has no option {option!r}; {listed}")
    kernels = [name for name in names if name not in PEERS]
    if kernels:
        definition.check_options(kernels, options)


def _check_plain(peer: str, options: Mapping[str, Any]) -> None:
    for option in ("alpha", "beta", "c"):
        if option in options:
            raise ValueError(
                f"variant {peer!r} computes only a @ b; leave out {option}, or leave out {peer!r}"
            )


def _checked(operation: str, arrays: Sequence[Any]) -> list[Operand]:
    """Check the arguments that all variants of the operation share."""
    definition = table.operation(operation)
    names = definition.arrays
    if len(arrays) != len(names):
        raise TypeError(
            f"benchmark of {operation} takes {definition.operands}; got {len(arrays)} arrays"
        )
    if operation == "access":
        return [catalogue_operands.operand("x", arrays[0])]
    operands = [
        catalogue_operands.array(name, array, _AXES[name], operation)
        for name, array in zip(names, arrays, strict=True)
    ]
    catalogue_operands.same_dtype(*operands)
    if operation == "matmul":
        products.product_extents(*operands)
    if not all(math.prod(o.shape) for o in operands):
        raise table.nothing_to("time", operation, (o.shape for o in operands))
    return operands


def _device_of(given: Sequence[Operand], device: Any) -> Any:
    """Return `device`. If it is None, return the device of the first `DeviceArray`, or None."""
    if device is None:
        for operand in given:
            if foreign.is_device_array(operand.given):
                return operand.given.device
    return device


def _host(value: Any, dtype: np.dtype[Any] | None = None) -> np.ndarray[Any, Any]:
    """Return an array as a NumPy array of native byte order."""
    array = on_host(value)  # a copy, if the array is in a GPU's memory
    if not isinstance(array, np.ndarray):
        array = foreign.find_host_array(array)
    assert isinstance(array, np.ndarray)
    return array if dtype is None else array.astype(dtype, copy=False)


def _on_host(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value if np.isscalar(value) or not hasattr(value, "dtype") else _host(value)
        for name, value in options.items()
    }
