"""Benchmarks: measures the times of an operation's variants, and shows them in one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from coalesce.arrays.devices import Device
from coalesce.arrays.peaks import Peaks
from coalesce.benchmarking import run, run_calls
from coalesce.benchmarking.calls import WHOLE_CALLS
from coalesce.benchmarking.clock import L2, Repeats
from coalesce.benchmarking.data import BenchmarkRow
from coalesce.benchmarking.gpu import GpuState
from coalesce.benchmarking.result import Benchmark
from coalesce.common import require
from coalesce.profiling.data import ArrayInfo

__all__ = ["ArrayInfo", "Benchmark", "BenchmarkRow", "GpuState", "Peaks", "benchmark"]


def benchmark(
    operation: str,
    *arrays: Any,
    variants: Sequence[str] | None = None,
    device: str | Device | None = None,
    runs: int | Literal["auto"] = "auto",
    l2: L2 = "kept",
    verify: bool = True,
    repeats: Repeats = 1,
    whole_calls: bool = False,
    progress: bool | Callable[[int, int], object] | None = None,
    **options: Any,
) -> Benchmark:
    """Measure the times of variants on the same arrays, and check each result against NumPy.

    Times on a GPU are measured with CUDA events, after a warm-up. The variants take turns, so that
    all of them run at the same GPU clocks. Times on the simulator are modelled, and the table says
    so.

    The times of variants do not include the copies of NumPy arrays to the GPU and back. With
    ``whole_calls=True``, the host's clock measures whole calls, with all copies. The operations
    ``"copies"`` and ``"launch"`` measure only copies and only launches. Whole calls and these two
    operations need a GPU.

    Parameters
    ----------
    operation : str
        ``"matmul"``, ``"transpose"``, ``"row_sums"``, ``"column_sums"`` or ``"access"``. The
        variants of ``"access"`` are its patterns. ``"copies"`` copies a NumPy array to the GPU and
        back. ``"launch"`` launches a kernel that does almost nothing, 5,000 times in each run. It
        measures how long the host needs for one launch.
    *arrays : array
        The operands of the operation, of dtype float32 or float64. ``"matmul"`` takes two arrays,
        of shapes (M, K) and (K, N). ``"launch"`` takes none. The other operations take one array.
        Arrays must not be empty. The variant ``"bf16"`` and cuBLAS also take bfloat16.
    variants : sequence of str, optional
        What to time. ``variants(operation).names`` lists the names of the variants. Options of one
        variant follow its name: ``"split_k tile=32"``. You can also name other libraries.
        ``"numpy"`` runs on the CPU. ``"cupy"``, ``"torch"``, ``"cublas"`` and ``"cublas_tf32"``
        need a GPU. The last two are only for ``"matmul"``; ``"cublas_tf32"`` may compute float32
        products in TF32. ``"transpose"`` can also be compared with copies of the matrix:
        ``"memcpy"`` is the driver's copy, and ``"cupy_copy"`` is CuPy's. Speedups are relative to
        the first name. The default is all variants, without other libraries.

        With ``whole_calls=True``, and for ``"copies"`` and ``"launch"``, the table has other rows.
        The default is all possible rows, except ``"numpy"`` and the rows of libraries that are not
        installed. Whole calls use ``variant="best"``.
    device : str or Device, optional
        Where the variants run: ``"cuda"``, ``"cuda:1"``, ``"sim"`` or ``"sim:h200"``. The default
        is the first GPU. Without a GPU, it is the simulator.
    runs : int or "auto"
        The number of timed runs of each variant, after one warm-up run. ``"auto"`` makes at least 5
        runs. It stops when all runs together have taken 0.2 s, or after 200 runs. It stops earlier,
        after 10 runs or more, if the spread of the times is below 2 %. The spread is
        (80th - 20th percentile) / median. On the simulator, the time of one run is modelled: a
        further run would get the same time.
    l2 : {"kept", "flushed"}
        What L2 holds when a timed run on a GPU begins. With ``"kept"``, it holds what the variant's
        previous run left there. With ``"flushed"``, it holds none of the arrays: 256 MiB of other
        memory are written before each run. Modelled times and NumPy's times ignore `l2`.
    verify : bool
        Whether to compare each result with NumPy's float64 result. NumPy then computes the
        operation once on the CPU.
    repeats : int or "auto"
        How many calls each timed run on a GPU makes. The time of a run is divided by this number.
        With several repeats, a run is a CUDA graph, so that short kernels need not wait for the
        host. (Calls of CuPy and PyTorch are repeated by the host.) ``"auto"`` makes runs of about
        10 ms, with at most 100 repeats. Modelled times and NumPy's times ignore `repeats`.
    whole_calls : bool
        Whether to time whole calls with NumPy arrays, such as ``coalesce.matmul(a, b)``, by the
        host's clock. This is not possible for ``"access"``. Besides the whole calls, the table has
        rows for the copies alone, the kernels alone, and calls of CuPy and PyTorch with all copies.
        The rows take turns in random order. Whole calls cannot be combined with options, `l2` or
        `repeats`.
    progress : bool or callable, optional
        True shows a progress bar, and False shows none. A function is called with two numbers: how
        many variants are finished, and how many there are. By default, terminals and notebooks show
        a bar after two seconds.
    **options
        Options of the operation, such as ``tile=16`` or ``stride=8``. A variant that does not have
        an option ignores it. With ``out=array``, the variants and cuBLAS write their results into
        this array.

    Returns
    -------
    Benchmark
        It prints as a table, also in a notebook. The columns are milliseconds, spread, GFLOP/s,
        GB/s, shares of the GPU's peaks, and errors.

    Raises
    ------
    TypeError
        An argument is not an array, its dtype is not supported, or there is no such option.
    ValueError
        There is no such operation or variant, the shapes do not match, or an array is empty.
    DeviceUnavailable
        There is no such device, or a variant needs a GPU or a library that is missing. Whole calls
        need a GPU.

    Examples
    --------
    >>> result = coalesce.benchmark("matmul", a, b, variants=["naive", "tiled"], device="sim")
    >>> result["tiled"].timing.source
    'modelled'
    >>> result.correct
    True
    """
    settings = run.BenchmarkSettings(runs, verify, progress, l2, repeats)
    whole_calls = require.flag("whole_calls", whole_calls)
    if whole_calls or (isinstance(operation, str) and operation in WHOLE_CALLS):
        return run_calls.benchmark(operation, arrays, variants, device, options, settings)
    return run.benchmark(operation, lambda _: arrays, variants, device, options, settings)
