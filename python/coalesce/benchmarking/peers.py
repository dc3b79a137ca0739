"""Peers: other libraries that a benchmark can time, such as NumPy, CuPy and PyTorch.

The module `gpu_peers` runs cuBLAS and "memcpy" (the copy function of the CUDA driver) directly on
the arrays of the benchmark. For CuPy and PyTorch, the data are copied to arrays of these libraries.
This package does not depend on a GPU library. A library is imported only when a benchmark names it.
If the library or the GPU is missing, `DeviceUnavailable` is raised. The message says which of the
two is missing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from coalesce.arrays import devices
from coalesce.arrays.devices import Device
from coalesce.benchmarking import gpu_peers
from coalesce.benchmarking.clock import GpuClock, Repeats, host_runs
from coalesce.benchmarking.rounds import Batch, Times
from coalesce.common.errors import DeviceUnavailable

OPERATIONS = ("matmul", "transpose", "row_sums", "column_sums")
# For each library, a description and its operations.
PEERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "numpy": ("NumPy on this machine's CPU", OPERATIONS),
    "cublas": ("cuBLAS", ("matmul",)),
    "cublas_tf32": ("cuBLAS in TF32", ("matmul",)),
    "memcpy": ("the driver's copy of a matrix on the GPU", ("transpose",)),
    "cupy": ("CuPy", OPERATIONS),
    "cupy_copy": ("CuPy's copy of a matrix on the GPU", ("transpose",)),
    "torch": ("PyTorch", OPERATIONS),
}
# Peers that copy the matrix, instead of transposing it.
COPIES = ("memcpy", "cupy_copy")
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
    if name.startswith("cublas"):
        gpu_peers.cublas_path()
    elif name not in gpu_peers.NAMES:
        library(name)


def run_numpy(operation: str, arrays: Sequence[Any]) -> tuple[np.ndarray[Any, Any], Batch]:
    """Run an operation with NumPy on `arrays`. Return its result and a function.

    The argument of this function is the number of runs to make. The function returns a list with
    the time of each run.
    """
    call = call_of(np, operation, arrays)
    return call(), partial(host_runs, call)


def run_on_gpu(
    name: str,
    operation: str,
    arrays: Sequence[Any],
    device: Device,
    clock: GpuClock,
    repeats: Repeats,
) -> tuple[np.ndarray[Any, Any], Batch, int]:
    """Run an operation on a GPU with the library `name`, such as "cupy".

    Return three items:

    - the result as a NumPy array
    - a function: its argument is the number of runs to make, and it returns a list with the time
      of each run, measured with `clock`
    - how often each run repeats the operation
    """
    run = _with_torch if name == "torch" else _with_cupy
    if name in COPIES:
        operation = "copy"
    return run(library(name), operation, arrays, device.ordinal, clock, repeats)


def library(name: str) -> Any:
    """Import CuPy or PyTorch. If it is missing, raise DeviceUnavailable."""
    package = name.removesuffix("_copy")
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == package
        why = f"{package} is not installed" if missing else f"{package} does not load: {error}"
    else:
        if package != "torch" or module.cuda.is_available():
            return module
        why = "torch is installed without CUDA, or sees no GPU"
    raise DeviceUnavailable(
        f"variant {name!r} needs a library that is missing: {why}. "
        f"Try pip install {_PACKAGES[package]}"
    )


def call_of(library: Any, operation: str, arrays: Sequence[Any]) -> Callable[[], Any]:
    """Return a function that runs an operation with NumPy or CuPy.

    The memory of the result is allocated here, once, so that timed calls do not allocate it.
    """
    first = arrays[0]
    rows, cols = first.shape
    if operation == "matmul":
        product = library.empty((rows, arrays[1].shape[1]), first.dtype)
        return lambda: library.matmul(first, arrays[1], out=product)
    if operation == "copy":
        copied = library.empty_like(first)

        def copy() -> Any:
            library.copyto(copied, first)
            return copied

        return copy
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
    cupy: Any,
    operation: str,
    arrays: Sequence[Any],
    ordinal: int,
    clock: GpuClock,
    repeats: Repeats,
) -> tuple[np.ndarray[Any, Any], Batch, int]:
    with cupy_settings(cupy, ordinal):
        call = call_of(
            cupy, operation, [cupy.ascontiguousarray(cupy.asarray(array)) for array in arrays]
        )
        result = cupy.asnumpy(call())
        runs, made = clock.batch([lambda _: call()], repeats, graph=False)

    def batch(count: int) -> Sequence[Times]:
        with cupy_settings(cupy, ordinal):
            return runs(count)

    return result, batch, made


def _with_torch(
    torch: Any,
    operation: str,
    arrays: Sequence[Any],
    ordinal: int,
    clock: GpuClock,
    repeats: Repeats,
) -> tuple[np.ndarray[Any, Any], Batch, int]:
    with torch_settings(torch, ordinal):
        on_gpu = [torch.from_numpy(np.ascontiguousarray(array)).cuda() for array in arrays]
        call = _torch_call(torch, operation, on_gpu)
        result = call().cpu().numpy()
        runs, made = clock.batch([lambda _: call()], repeats, graph=False)

    def batch(count: int) -> Sequence[Times]:
        with torch_settings(torch, ordinal):
            return runs(count)

    return result, batch, made


def _torch_call(torch: Any, operation: str, tensors: Sequence[Any]) -> Callable[[], Any]:
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
def cupy_settings(cupy: Any, ordinal: int) -> Iterator[None]:
    """Let CuPy use GPU number `ordinal` and this GPU's default stream.

    `GpuClock` measures times on this stream.
    """
    with cupy.cuda.Device(ordinal), cupy.cuda.Stream.null:
        yield


@contextmanager
def torch_settings(torch: Any, ordinal: int) -> Iterator[None]:
    """Let PyTorch use GPU number `ordinal`, this GPU's default stream, and float32 (not TF32)."""
    stream = torch.cuda.default_stream(ordinal)
    settings = torch.backends.cuda.matmul
    before = settings.allow_tf32
    settings.allow_tf32 = False
    try:
        with torch.cuda.device(ordinal), torch.cuda.stream(stream):
            yield
    finally:
        settings.allow_tf32 = before
