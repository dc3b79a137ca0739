"""Peers: other libraries that a benchmark can time, such as NumPy, CuPy and PyTorch.

This package does not depend on a GPU library. A library is imported only when a benchmark names it.
If the library or the GPU is missing, `DeviceUnavailable` is raised, and its message says which.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from coalesce.arrays import devices
from coalesce.arrays.devices import Device
from coalesce.common.errors import DeviceUnavailable

Runs = int | Literal["auto"]
Call = Callable[[], Any]

_OPERATIONS = ("matmul", "transpose", "row_sums", "column_sums")
# For each library, a description and its operations.
PEERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "numpy": ("NumPy on this machine's CPU", _OPERATIONS),
    "cublas": ("cuBLAS, through CuPy or PyTorch", ("matmul",)),
    "cupy": ("CuPy", _OPERATIONS),
    "torch": ("PyTorch", _OPERATIONS),
}
_PACKAGES = {"cupy": "cupy-cuda13x", "torch": "torch"}
_MOST_SECONDS = 0.2  # the longest time for all timed runs together
_MOST_RUNS = 200


def check_peer(name: str, operation: str, device: Device) -> None:
    """Check that a peer (another library, such as CuPy) can be timed for an operation.

    If the peer does not have the operation, raise ValueError. If the peer or its GPU is missing,
    raise DeviceUnavailable.
    """
    what, has = PEERS[name]
    if operation not in has:
        raise ValueError(
            f"variant {name!r} ({what}) cannot be timed for {operation}, only for {', '.join(has)}"
        )
    if name == "numpy":
        return
    if device.kind != "cuda":
        status = devices.gpu_status()
        why = f"this call runs on {device.name}" if status else f"there is none: {status}"
        raise DeviceUnavailable(f"variant {name!r} ({what}) needs a GPU, but {why}")
    _library(name)


def run_peer(
    name: str, operation: str, arrays: Sequence[Any], device: Device, runs: Runs
) -> tuple[np.ndarray[Any, Any], list[float]]:
    """Run an operation with another library, called `name`.

    Return the result as a NumPy array, and a list of the times of the runs in milliseconds.
    """
    if name == "numpy":
        call = _call(np, operation, arrays)
        result = call()
        return result, _timed(lambda count: _on_the_clock(call, count), runs)
    library, module = _library(name)
    run = _with_cupy if library == "cupy" else _with_torch
    return run(module, operation, arrays, device.ordinal, runs)


def _library(peer: str) -> tuple[str, Any]:
    """Import the library of a peer. For cuBLAS, this is CuPy or PyTorch."""
    wanted = ("cupy", "torch") if peer == "cublas" else (peer,)
    why = []
    for name in wanted:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name == name
            why.append(f"{name} is not installed" if missing else f"{name} does not load: {error}")
            continue
        if name == "torch" and not module.cuda.is_available():
            why.append("torch is installed without CUDA, or sees no GPU")
            continue
        return name, module
    ways = " or ".join(f"pip install {_PACKAGES[name]}" for name in wanted)
    raise DeviceUnavailable(
        f"variant {peer!r} needs a library that is missing: {'; '.join(why)}. Try {ways}"
    )


def _call(library: Any, operation: str, arrays: Sequence[Any]) -> Call:
    """Return a function that runs an operation with NumPy or CuPy.

    The memory of the result is allocated here, once, so that timed calls do not allocate it.
    """
    first = arrays[0]
    rows, cols = first.shape
    if operation == "matmul":
        product = library.empty((rows, arrays[1].shape[1]), first.dtype)
        return lambda: library.matmul(first, arrays[1], out=product)
    if operation == "transpose":
        turned = library.empty((cols, rows), first.dtype)

        def transpose() -> Any:
            turned[...] = first.T
            return turned

        return transpose
    axis = 1 if operation == "row_sums" else 0
    sums = library.empty(first.shape[1 - axis], first.dtype)
    return lambda: first.sum(axis=axis, out=sums)


def _with_cupy(
    cupy: Any, operation: str, arrays: Sequence[Any], ordinal: int, runs: Runs
) -> tuple[np.ndarray[Any, Any], list[float]]:
    with cupy.cuda.Device(ordinal):
        call = _call(
            cupy, operation, [cupy.ascontiguousarray(cupy.asarray(array)) for array in arrays]
        )
        result = cupy.asnumpy(call())

        def events() -> tuple[Any, Any]:
            return cupy.cuda.Event(), cupy.cuda.Event()

        times = _timed(
            lambda count: _by_events(call, events, cupy.cuda.get_elapsed_time, count), runs
        )
    return result, times


def _with_torch(
    torch: Any, operation: str, arrays: Sequence[Any], ordinal: int, runs: Runs
) -> tuple[np.ndarray[Any, Any], list[float]]:
    with torch.cuda.device(ordinal), _without_tf32(torch):
        on_gpu = [torch.from_numpy(np.ascontiguousarray(array)).cuda() for array in arrays]
        call = _torch_call(torch, operation, on_gpu)
        result = call().cpu().numpy()

        def events() -> tuple[Any, Any]:
            return tuple(torch.cuda.Event(enable_timing=True) for _ in range(2))

        def elapsed(begin: Any, end: Any) -> float:
            return float(begin.elapsed_time(end))

        times = _timed(lambda count: _by_events(call, events, elapsed, count), runs)
    return result, times


def _torch_call(torch: Any, operation: str, tensors: Sequence[Any]) -> Call:
    first = tensors[0]
    rows, cols = first.shape
    if operation == "matmul":
        product = first.new_empty((rows, tensors[1].shape[1]))
        return lambda: torch.matmul(first, tensors[1], out=product)
    if operation == "transpose":
        turned = first.new_empty((cols, rows))
        return lambda: turned.copy_(first.T)
    dim = 1 if operation == "row_sums" else 0
    sums = first.new_empty((first.shape[1 - dim],))
    return lambda: torch.sum(first, dim=dim, out=sums)


@contextmanager
def _without_tf32(torch: Any) -> Iterator[None]:
    """Compute float32 products in float32, not TF32."""
    settings = torch.backends.cuda.matmul
    before = settings.allow_tf32
    settings.allow_tf32 = False
    try:
        yield
    finally:
        settings.allow_tf32 = before


def _by_events(
    call: Call,
    events: Callable[[], tuple[Any, Any]],
    elapsed: Callable[[Any, Any], float],
    count: int,
) -> list[float]:
    """Return the milliseconds of each of `count` calls on a GPU.

    All calls are queued before the first wait. So the GPU does not wait for the host between them.
    """
    pairs = [events() for _ in range(count)]
    for begin, end in pairs:
        begin.record()
        call()
        end.record()
    pairs[-1][1].synchronize()
    return [elapsed(begin, end) for begin, end in pairs]


def _on_the_clock(call: Call, count: int) -> list[float]:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def _timed(batch: Callable[[int], list[float]], runs: Runs) -> list[float]:
    """Return the times of `runs` runs after one warm-up run.

    ``"auto"`` follows the rule for the package's own kernels (csrc/cuda/statistics.hpp), in batches
    of 5 runs. It stops after 200 runs or 0.2 s. It stops earlier, after at least 10 runs, if the
    spread is below 2 %.
    """
    batch(1)
    if runs != "auto":
        return batch(runs)
    times = batch(5)
    while len(times) < _MOST_RUNS and sum(times) < 1e3 * _MOST_SECONDS:
        if len(times) >= 10 and spread_of(times) < 0.02:
            break
        times += batch(5)
    return times


def spread_of(times: Sequence[float]) -> float:
    """Return the spread of times: (80th - 20th percentile) / median.

    csrc/cuda/statistics.hpp has the same formula.
    """
    low, median, high = np.percentile(times, [20, 50, 80])
    return float((high - low) / median) if median else 0.0
