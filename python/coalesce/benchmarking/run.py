"""Times the variants of an operation, and compares each result with the result of NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coalesce import catalogue
from coalesce.arrays import devices, foreign
from coalesce.arrays.devices import Device
from coalesce.arrays.peaks import peaks_of
from coalesce.benchmarking.data import BenchmarkRow
from coalesce.benchmarking.peers import PEERS, Runs, check_peer, run_peer, spread_of
from coalesce.benchmarking.result import Benchmark
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

    rows: list[BenchmarkRow] = []
    exact: dict[str, Reference] = {}
    with reporter(settings.progress, f"timing {operation}", "variants") as report:
        for done, name in enumerate(names):
            if report is not None:
                report(done, len(names))
            rows.append(_row(operation, name, given[name], where, options, settings, exact))
        if report is not None:
            report(len(names), len(names))
    first = given[names[0]]
    return Benchmark(
        operation=operation,
        arrays=[ArrayInfo(o.name, o.shape, str(o.dtype)) for o in first],
        device=where,
        rows=_with_speedups(rows),
        peaks=peaks_of(where, first[0].dtype),
        options={name: value for name, value in options.items() if name != "c"},
    )


def _row(
    operation: str,
    name: str,
    given: Sequence[Operand],
    device: Device,
    options: Mapping[str, Any],
    settings: BenchmarkSettings,
    exact: dict[str, Reference],
) -> BenchmarkRow:
    """Run one variant or library and check its result."""
    bound = None
    if name in PEERS:
        on_host = [_host(o.given, o.dtype) for o in given]
        result, times = run_peer(name, operation, on_host, device, settings.runs)
        timing = _timing_of_peer(name, operation, given, device, times)
    else:
        array, run = _run(operation, name, [o.given for o in given], device, options, settings)
        if not run.records:
            raise table.nothing_to("time", operation, (o.shape for o in given))
        result, timing = _host(array), run.timing()
        modelled = run.own.modelled
        bound = None if modelled is None else modelled.why
    peaks = None if name == "numpy" else peaks_of(device, given[0].dtype)
    shares = (
        timing.gflops / peaks.gflops if peaks and peaks.gflops and timing.gflops else None,
        timing.gbps / peaks.gbps if peaks else None,
    )
    if timing.no_time:
        shares = None, None
    error = tolerance = None
    if settings.verify:
        key = name if operation in ("access", "transpose") and name not in PEERS else ""
        if key not in exact:
            on_host = [_host(o.given, o.dtype) for o in given]
            exact[key] = reference(operation, name, on_host, _on_host(options))
        error = exact[key].error(result)
        tolerance = exact[key].tolerance(result.dtype, name)
    correct = None if error is None or tolerance is None else error <= tolerance
    return BenchmarkRow(name, timing, error, correct, *shares, None, bound)


def _run(
    operation: str,
    name: str,
    arrays: Sequence[Any],
    device: Device,
    options: Mapping[str, Any],
    settings: BenchmarkSettings,
) -> tuple[Any, Run]:
    asked = table.operation(operation)
    taken = {o: v for o, v in options.items() if asked.takes(name, o)}
    timed: bool | int = True if settings.runs == "auto" else settings.runs
    return asked.run(arrays, {asked.choice: name, **taken}, device=device, timed=timed)


def _timing_of_peer(
    name: str, operation: str, given: Sequence[Operand], device: Device, times: Sequence[float]
) -> Timing:
    item_size = given[0].dtype.itemsize
    rows, cols = given[0].shape
    if operation == "matmul":
        work = products.product_work(*products.product_extents(*given), item_size)
    else:
        written = {"transpose": rows * cols, "row_sums": rows, "column_sums": cols}[operation]
        work = products.pass_work(rows * cols, written, int(operation != "transpose"), item_size)
    kernel_ms = float(np.median(times))
    rate = 1e-6 / kernel_ms if kernel_ms > 0 else 0.0
    return Timing(
        kernel_ms=kernel_ms,
        spread=spread_of(times),
        runs=len(times),
        h2d_ms=0.0,
        d2h_ms=0.0,
        gflops=work[0] * rate,
        gbps=work[1] * rate,
        device="cpu" if name == "numpy" else device.name,
        source="measured",
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
    asked = table.operation(operation)
    known = asked.options
    for option in options:
        if option not in known:
            listed = f"the options are {', '.join(known)}" if known else "it has no options"
            raise TypeError(f"benchmark of {operation} has no option {option!r}; {listed}")
    kernels = [name for name in names if name not in PEERS]
    if kernels:
        asked.check_options(kernels, options)


def _check_plain(peer: str, options: Mapping[str, Any]) -> None:
    for option in ("alpha", "beta", "c"):
        if option in options:
            raise ValueError(
                f"variant {peer!r} computes only a @ b; leave out {option}, or leave out {peer!r}"
            )


def _checked(operation: str, arrays: Sequence[Any]) -> list[Operand]:
    """Check the arguments that all variants of the operation share."""
    asked = table.operation(operation)
    names = asked.arrays
    if len(arrays) != len(names):
        raise TypeError(
            f"benchmark of {operation} takes {asked.operands}; got {len(arrays)} arrays"
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
