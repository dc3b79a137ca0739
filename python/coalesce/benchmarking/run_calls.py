"""Measures whole calls by the host's clock: operations on NumPy arrays, copies, and launches."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coalesce.arrays import devices
from coalesce.benchmarking import calls, names
from coalesce.benchmarking.calls import WHOLE_CALLS
from coalesce.benchmarking.candidates import Candidate, compare, info_of, rows_of, times_of
from coalesce.benchmarking.peers import OPERATIONS
from coalesce.benchmarking.result import Benchmark
from coalesce.benchmarking.run import (
    BenchmarkSettings,
    checked_operands,
    host_array,
    work_of_library,
)
from coalesce.catalogue import operands as catalogue_operands
from coalesce.catalogue.operands import Operand
from coalesce.catalogue.reference import Reference, reference
from coalesce.common import require
from coalesce.common.dtypes import code_of, dtype_name
from coalesce.common.errors import DeviceUnavailable
from coalesce.common.progress import reporter
from coalesce.common.timing import Timing

# The threads of NumPy's BLAS library wait in loops for some 30 ms after NumPy's product, which the
# results are compared with. Meanwhile they keep processors busy that the copies need.
_BLAS_SECONDS = 0.3


def benchmark(
    operation: str,
    arrays: Sequence[Any],
    variants: Sequence[str] | None,
    device: Any,
    options: Mapping[str, Any],
    settings: BenchmarkSettings,
) -> Benchmark:
    """Measure the time of whole calls by the host's clock. See `coalesce.benchmark`."""
    settings.check()
    if operation not in calls.ROWS:
        raise ValueError(
            f"`whole_calls` is for {', '.join(OPERATIONS)}; got the operation {operation!r}"
        )
    if options:
        passed = ", ".join(map(require.quoted, options))
        raise TypeError(f"a benchmark of whole calls of {operation} has no options; got {passed}")
    if settings.l2 != "kept" or settings.repeats != 1:
        raise ValueError(
            "`l2` and `repeats` are for kernels that are timed with CUDA events; for whole calls, "
            "leave out `l2` and `repeats`"
        )
    if variants is not None:
        variants = names.rows_of_calls(operation, variants)
    operands = _checked(operation, arrays)
    where = devices.resolve(device)
    if where.kind != "cuda":
        status = devices.gpu_status()
        why = f"this call runs on {where.name}" if status else f"there is none. {status.message}"
        raise DeviceUnavailable(f"whole calls ({operation}) can only be timed on a GPU, but {why}")
    on_host = [np.ascontiguousarray(host_array(o.passed, o.dtype)) for o in operands]
    rows = variants or calls.default_rows(operation)
    timed = calls.calls_of(operation, rows, on_host, where)
    candidates: list[Candidate] = []
    exact: Reference | None = None
    with reporter(settings.progress, f"timing {operation}", "rows") as report:
        for done, (name, call) in enumerate(timed.items()):
            if report is not None:
                report(done, len(timed))
            on = "cpu" if name == "numpy" else where.name
            timing = Timing(0.0, 0.0, 0, 0.0, 0.0, 0.0, 0.0, on, "measured")
            work = _work(operation, name, operands)
            candidate = Candidate(name, timing, work, call.batch, call.repeats)
            if settings.verify:
                exact = exact or _exact(operation, on_host)
                result = call.result()
                compare(candidate, exact, result, exact.tolerance(result.dtype))
            candidates.append(candidate)
        time.sleep(_BLAS_SECONDS)
        runs = settings.runs
        if operation == "launch" and runs == "auto":
            runs = calls.LAUNCH_RUNS
        times, state = times_of(candidates, where, runs, shuffled=True)
        if report is not None:
            report(len(timed), len(timed))
    return Benchmark(
        operation=operation,
        arrays=[info_of(operand) for operand in operands],
        device=where,
        rows=rows_of(candidates, times, None),
        peaks=None,
        options={},
        gpu_state=state,
        processor=calls.processor(),
    )


def _checked(operation: str, arrays: Sequence[Any]) -> list[Operand]:
    """Check the arrays of a benchmark of whole calls."""
    if operation in WHOLE_CALLS:
        wanted = 1 if operation == "copies" else 0
        if len(arrays) != wanted:
            takes = "1 array" if wanted else "no arrays"
            raise TypeError(f"a benchmark of {operation} takes {takes}; got {len(arrays)}")
        operands = [catalogue_operands.operand("array", array) for array in arrays]
    else:
        operands = checked_operands(operation, arrays)
    for operand in operands:
        if not isinstance(operand.passed, np.ndarray):
            raise TypeError(
                f"whole calls are timed on NumPy arrays; the operand `{operand.name}` is a "
                f"{type(operand.passed).__name__}"
            )
        if operand.dtype not in (np.float32, np.float64) or 0 in operand.shape:
            raise TypeError(
                f"whole calls are timed on arrays of float32 or float64 that are not empty; "
                f"the operand `{operand.name}` has dtype {dtype_name(code_of(operand.dtype))} and "
                f"shape {operand.shape}"
            )
    return operands


def _exact(operation: str, arrays: Sequence[np.ndarray[Any, Any]]) -> Reference:
    """Return the result that all rows of a benchmark of whole calls should have."""
    if operation == "launch":
        return Reference(np.ones(calls.THREADS, np.float32))  # what each launch adds
    return Reference(arrays[0]) if operation == "copies" else reference(operation, "", arrays, {})


def _work(operation: str, row: str, operands: Sequence[Operand]) -> tuple[float, float]:
    """Return the floating-point operations and the bytes of a whole call."""
    if operation == "launch":
        return 0.0, 0.0
    size = operands[0].dtype.itemsize
    if operation == "copies":
        return 0.0, float(size * math.prod(operands[0].shape))
    work = work_of_library(operation, operands, size)
    return (0.0, work[1]) if row == "copies" else work
