"""Peers: other libraries that a benchmark can time, such as NumPy, CuPy and PyTorch.

This package does not depend on a GPU library. A library is imported only when a benchmark names it.
If the library or the GPU is missing, `DeviceUnavailable` is raised, and its message says which.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from coalesce.arrays import devices
from coalesce.arrays.devices import Device
from coalesce.benchmarking.gpu import Call, GpuClock
from coalesce.benchmarking.rounds import Batch, Times
from coalesce.common.errors import DeviceUnavailable

_OPERATIONS = ("matmul", "transpose", "row_sums", "column_sums")
# For each library, a description and its operations.
PEERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "numpy": ("NumPy on this machine's CPU", _OPERATIONS),
    "cublas": ("cuBLAS, through CuPy or PyTorch", ("matmul",)),
    "cupy": ("CuPy", _OPERATIONS),
    "torch": ("PyTorch", _OPERATIONS),
}
_PACKAGES = {"cupy": "cupy-cuda13x", "torch": "torch"}


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


def run_numpy(operation: str, arrays: Sequence[Any]) -> tuple[np.ndarray[Any, Any], Batch]:
    """Run an operation with NumPy. Return its result, and a function that times more runs."""
    call = _call(np, operation, arrays)
    return call(), partial(_on_the_clock, call)


def run_on_gpu(
    name: str, operation: str, arrays: Sequence[Any], device: Device, clock: GpuClock
) -> tuple[np.ndarray[Any, Any], Batch]:
    """Run an operation with another library, called `name`, on a GPU.

    Return the result as a NumPy array, and a function that times more runs.
    """
    library, module = _library(name)
    run = _with_cupy if library == "cupy" else _with_torch
    return run(module, operation, arrays, device.ordinal, clock)


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
    cupy: Any, operation: str, arrays: Sequence[Any], ordinal: int, clock: GpuClock
) -> tuple[np.ndarray[Any, Any], Batch]:
    with cupy.cuda.Device(ordinal), cupy.cuda.Stream.null:
        call = _call(
            cupy, operation, [cupy.ascontiguousarray(cupy.asarray(array)) for array in arrays]
        )
        result = cupy.asnumpy(call())

    def batch(count: int) -> Sequence[Times]:
        with cupy.cuda.Device(ordinal), cupy.cuda.Stream.null:  # the stream of the clock
            return clock.runs([call], count)

    return result, batch


def _with_torch(
    torch: Any, operation: str, arrays: Sequence[Any], ordinal: int, clock: GpuClock
) -> tuple[np.ndarray[Any, Any], Batch]:
    @contextmanager
    def settings() -> Iterator[None]:
        stream = torch.cuda.default_stream(ordinal)  # the stream of the clock
        with torch.cuda.device(ordinal), torch.cuda.stream(stream), _without_tf32(torch):
            yield

    with settings():
        on_gpu = [torch.from_numpy(np.ascontiguousarray(array)).cuda() for array in arrays]
        call = _torch_call(torch, operation, on_gpu)
        result = call().cpu().numpy()

    def batch(count: int) -> Sequence[Times]:
        with settings():
            return clock.runs([call], count)

    return result, batch


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


def _on_the_clock(call: Call, count: int) -> list[Times]:
    times: list[Times] = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append((1e3 * (time.perf_counter() - start),))
    return times
