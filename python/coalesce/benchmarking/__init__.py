"""Benchmarks: the variants of an operation in one table, checked and timed one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from coalesce.arrays.devices import Device
from coalesce.arrays.peaks import Peaks
from coalesce.benchmarking import run
from coalesce.benchmarking.result import Benchmark, BenchmarkRow
from coalesce.profiling.result import ArrayInfo

__all__ = ["ArrayInfo", "Benchmark", "BenchmarkRow", "Peaks", "benchmark"]


def benchmark(
    operation: str,
    *arrays: Any,
    variants: Sequence[str] | None = None,
    device: str | Device | None = None,
    runs: int | Literal["auto"] = "auto",
    verify: bool = True,
    progress: bool | Callable[[int, int], object] | None = None,
    **options: Any,
) -> Benchmark:
    """Time variants of an operation on the same arrays, each checked against NumPy.

    On a GPU times are measured with CUDA events, after a warm-up; on the simulator they are
    modelled, and the table says so.

    Parameters
    ----------
    operation : str
        ``"matmul"``, ``"transpose"``, ``"row_sums"``, ``"column_sums"`` or ``"access"`` (whose
        variants are its patterns).
    *arrays : array
        Its operands, as for the function of that name: two of shapes (M, K) and (K, N) for a
        product, else one; float32 or float64. None may be empty.
    variants : sequence of str, optional
        Names of ``variants(operation).names``, and of peers: ``"numpy"`` is timed on the CPU;
        ``"cublas"`` (of products), ``"cupy"`` and ``"torch"`` need a GPU and CuPy or PyTorch. The
        first is what the others are compared with. By default all variants and no peer.
    device : str or Device, optional
        As in `matmul`: by default the GPU if there is one, otherwise the simulator.
    runs : int or "auto"
        How often each is timed, after one run to warm up. ``"auto"`` is at least 5; then until the
        spread is below 2 percent and 10 are done, or 0.2 s are spent; at most 200. The simulator
        models one run.
    verify : bool
        Whether to hold each result against NumPy's in float64, which takes NumPy's time.
    progress : bool or callable, optional
        Whether to show a progress bar, or a function of the numbers of variants done and in all. By
        default there is a bar on terminals and in notebooks, after two seconds.
    **options
        Of the operation, for those variants that have them: ``tile=16``, ``stride=8``, ...

    Returns
    -------
    Benchmark
        Prints as a table and shows as one in a notebook: milliseconds, spread, GFLOP/s, GB/s,
        shares of the GPU's peaks, errors.

    Raises
    ------
    TypeError
        An argument is no array, a dtype is not taken, or the operation has no such option.
    ValueError
        There is no such operation or variant, shapes do not fit, or an array is empty.
    DeviceUnavailable
        There is no such device, or a peer needs a GPU or a library that is not there.

    Examples
    --------
    >>> result = coalesce.benchmark("matmul", a, b, variants=["naive", "tiled"], device="sim")
    >>> result["tiled"].timing.source
    'modelled'
    >>> result.correct
    True
    """
    settings = run.Settings(runs, verify, progress)
    return run.benchmark(operation, lambda _: arrays, variants, device, options, settings)
