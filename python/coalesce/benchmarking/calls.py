"""The rows of a benchmark of whole calls: operations on NumPy arrays, copies, and launches.

The time of a call is measured with the host's clock. Unlike the time of a kernel, it includes the
copies between host and GPU, and the work of the host.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from coalesce import operations
from coalesce._core import cuda
from coalesce.arrays.creation import to_device
from coalesce.arrays.devices import Device
from coalesce.arrays.pinned import pinned_empty
from coalesce.benchmarking import peers
from coalesce.benchmarking.clock import host_runs
from coalesce.benchmarking.rounds import Times
from coalesce.catalogue import BEST
from coalesce.catalogue.reference import Reference
from coalesce.common.errors import DeviceUnavailable
from coalesce.launch.kernel import BaseKernel
from coalesce.launch.launch import Launch

Array = np.ndarray[Any, Any]
# Returns the context manager in which the calls of a library are made.
Settings = Callable[[], AbstractContextManager[Any]]

_OF_OPERATIONS = {
    "new": "the result is a new array",
    "out": "the result is written to an array of the caller",
    "pinned": "all arrays are in pinned memory",
    "copies": "only the copies between pinned memory and the GPU, one after the other",
    "kernels": "only the operation; all arrays are on the GPU",
    "numpy": "NumPy on this machine's CPU",
    "cupy": "CuPy, with all copies",
    "torch": "PyTorch, with all copies",
}
# For each operation, the rows of its benchmark of whole calls, and what a row times.
ROWS: dict[str, dict[str, str]] = {
    **dict.fromkeys(peers.OPERATIONS, _OF_OPERATIONS),
    "copies": {
        "to": "to the GPU",
        "back": "to an existing array of the host",
        "new": "to a new array of the host",
        "pinned_to": "from pinned memory to the GPU",
        "pinned_back": "from the GPU to pinned memory",
        "cupy_to": "CuPy's set",
        "cupy_back": "CuPy's get(out=)",
        "cupy_new": "CuPy's get",
        "torch_new": "PyTorch's cpu",
        "torch_pinned_to": "PyTorch's copy_ from pinned memory",
        "torch_pinned_back": "PyTorch's copy_ to pinned memory",
    },
    "launch": {
        "device_array": "arrays of this package, and a Python int",
        "device_array_int32": "the same, with a numpy.int32",
        "from_cpp": "C++ without Python; the driver takes nearly all of the time",
        "graph": "a CUDA graph of 100 launches, which one call of the driver starts",
        "cupy_arrays": "this package, with arrays of CuPy",
        "torch_tensors": "this package, with tensors of PyTorch",
        "cupy": "CuPy's RawKernel",
    },
}

# The benchmarks that are not of an operation of the catalogue. They always time whole calls.
WHOLE_CALLS = ("copies", "launch")
_LIBRARIES = ("numpy", "cupy", "torch")

# The benchmark of launches: a kernel that does almost nothing, and the launches in each run.
AXPY = """
extern "C" __global__ void axpy(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i];
}"""
THREADS = 128
LAUNCHES = 5000
LAUNCH_RUNS = 9  # the number of runs with runs="auto"
_LAUNCHES_PER_CALL = 100  # in the rows "from_cpp" and "graph"


@dataclass(frozen=True)
class TimedCall:
    """The call whose time is measured for one row of a benchmark.

    Attributes
    ----------
    call : callable
        The call. If it returns an array, freeing this array is not timed.
    checked : callable
        A function that makes the call once and returns the result to check, as a NumPy array.
    settings : callable
        Returns the context manager in which the calls are made.
    launches : int
        How many launches one call makes. Only some rows of the benchmark of launches have more
        than 1.
    synchronize : callable or None
        In the benchmark of launches: a function that waits for the GPU. A run repeats the call
        until it has made `LAUNCHES` launches, and does not wait between the calls. In the other
        benchmarks: None.
    """

    call: Callable[[], Any]
    checked: Callable[[], Array]
    settings: Settings = nullcontext
    launches: int = 1
    synchronize: Callable[[], Any] | None = None

    @property
    def repeats(self) -> int:
        """How many operations, copies or launches one run makes."""
        return 1 if self.synchronize is None else LAUNCHES

    def result(self) -> Array:
        """Make the call once, and return the result to check."""
        with self.settings():
            return self.checked()

    def batch(self, runs: int) -> Sequence[Times]:
        """Time the call in `runs` runs, and return one time for each run.

        Each time is for one operation, one copy or one launch.
        """
        calls = self.repeats // self.launches
        with self.settings():
            times = host_runs(self.call, runs, calls, self.synchronize)
        return [(ms / self.launches,) for (ms,) in times]


def library_of(row: str) -> str | None:
    """Return the name of the library that a row needs, such as "cupy", or None."""
    name = row.partition("_")[0]
    return name if name in _LIBRARIES else None


def default_rows(operation: str) -> tuple[str, ...]:
    """Return the rows that are timed by default.

    These are all rows except NumPy's row and the rows of libraries that are not installed.
    """
    wanted = (None, *filter(_installed, ("cupy", "torch")))
    return tuple(row for row in ROWS[operation] if library_of(row) in wanted)


def _installed(library: str) -> bool:
    try:
        peers.library(library)
    except DeviceUnavailable:
        return False
    return True


def calls_of(
    operation: str, rows: Sequence[str], arrays: Sequence[Array], device: Device
) -> dict[str, TimedCall]:
    """Return a dict from the name of each row to its call.

    `rows` are names from ``ROWS[operation]``. `arrays` are C-contiguous NumPy arrays.
    """
    libraries = tuple(dict.fromkeys(map(library_of, rows)))
    if operation == "copies":
        makers = {None: _copies, "cupy": _copies_by_cupy, "torch": _copies_by_torch}
        made = [makers[name](arrays[0], device) for name in libraries]
    elif operation == "launch":
        made = [_launches(device, libraries)]
    else:
        by = {
            None: _operation,
            "numpy": _operation_by_numpy,
            "cupy": _operation_by_cupy,
            "torch": _operation_by_torch,
        }
        made = [by[name](operation, arrays, device) for name in libraries]
    calls = {name: call for part in made for name, call in part.items()}
    return {row: calls[row] for row in rows}


def _operation(operation: str, arrays: Sequence[Array], device: Device) -> dict[str, TimedCall]:
    run = partial(getattr(operations, operation), variant=BEST, device=device)
    rows, columns = arrays[0].shape
    shape: dict[str, tuple[int, ...]] = {
        "matmul": (rows, arrays[-1].shape[1]),
        "transpose": (columns, rows),
        "row_sums": (rows,),
        "column_sums": (columns,),
    }
    out = np.zeros(shape[operation], arrays[0].dtype)
    pinned = [pinned_empty(x.shape, x.dtype, device) for x in (*arrays, out)]
    for target, source in zip(pinned, (*arrays, out), strict=True):
        target[...] = source
    *sources, result = pinned
    on_gpu = [to_device(array, device) for array in arrays]
    out_on_gpu = to_device(out, device)
    gpu = cuda.Device(device.ordinal)

    def copies() -> None:
        for array, source in zip(on_gpu, sources, strict=True):
            array.set(source)
        out_on_gpu.get(result)

    def copied() -> Array:
        """Make the copies. Return the copy of the result, or NaN if an operand did not arrive."""
        out_on_gpu.set(run(*arrays))
        for array in on_gpu:
            array.set(np.zeros(array.shape, array.dtype))
        result.fill(0)
        copies()
        pairs = zip(on_gpu, arrays, strict=True)
        arrived = all(Reference(host).error(array.get()) == 0 for array, host in pairs)
        return result if arrived else np.full_like(result, np.nan)

    def kernels() -> None:
        run(*on_gpu, out=out_on_gpu)
        gpu.synchronize()

    return {
        "new": _freed(lambda: run(*arrays)),
        "out": _freed(lambda: run(*arrays, out=out)),
        "pinned": _freed(lambda: run(*sources, out=result)),
        "copies": TimedCall(copies, copied),
        "kernels": _checked(kernels, out_on_gpu.get),
    }


def _operation_by_numpy(
    operation: str, arrays: Sequence[Array], _device: Device
) -> dict[str, TimedCall]:
    return {"numpy": _freed(peers.call_of(np, operation, arrays))}


def _operation_by_cupy(
    operation: str, arrays: Sequence[Array], device: Device
) -> dict[str, TimedCall]:
    cupy = peers.library("cupy")
    compute: Callable[..., Any] = {
        "matmul": cupy.matmul,
        "transpose": lambda a: cupy.ascontiguousarray(a.T),
        "row_sums": lambda a: a.sum(axis=1),
        "column_sums": lambda a: a.sum(axis=0),
    }[operation]
    return {
        "cupy": _freed(
            lambda: cupy.asnumpy(compute(*map(cupy.asarray, arrays))),
            partial(peers.cupy_settings, cupy, device.ordinal),
        )
    }


def _operation_by_torch(
    operation: str, arrays: Sequence[Array], device: Device
) -> dict[str, TimedCall]:
    torch = peers.library("torch")
    compute: Callable[..., Any] = {
        "matmul": torch.matmul,
        "transpose": lambda a: a.T.contiguous(),
        "row_sums": lambda a: a.sum(dim=1),
        "column_sums": lambda a: a.sum(dim=0),
    }[operation]
    tensors = [torch.from_numpy(array) for array in arrays]
    return {
        "torch": _freed(
            lambda: compute(*(tensor.cuda() for tensor in tensors)).cpu().numpy(),
            partial(peers.torch_settings, torch, device.ordinal),
        )
    }


def _freed(compute: Callable[[], Array], settings: Settings = nullcontext) -> TimedCall:
    """Return a call that computes a result and frees it. Freeing it is timed, too."""

    def call() -> None:
        compute()

    return TimedCall(call, compute, settings)


def _checked(
    call: Callable[[], Any],
    result: Callable[[], Array],
    before: Callable[[], Any] = lambda: None,
    settings: Settings = nullcontext,
) -> TimedCall:
    """Return a call whose result is read after it. `before` first overwrites an older result."""

    def checked() -> Array:
        before()
        call()
        return result()

    return TimedCall(call, checked, settings)


def _copies(host: Array, device: Device) -> dict[str, TimedCall]:
    own = to_device(host, device)
    blank, back = np.zeros_like(host), np.ones_like(host)
    pinned = pinned_empty(host.shape, host.dtype, device)
    pinned[...] = host
    gpu = cuda.Device(device.ordinal)

    def copy_from(source: Array) -> None:
        own.set(source)
        gpu.synchronize()

    return {
        "to": _checked(lambda: copy_from(host), own.get, lambda: copy_from(blank)),
        "back": _checked(lambda: own.get(back), lambda: back, lambda: back.fill(0)),
        "new": TimedCall(own.get, own.get),
        "pinned_to": _checked(lambda: copy_from(pinned), own.get, lambda: copy_from(blank)),
        "pinned_back": _checked(lambda: own.get(pinned), lambda: pinned, lambda: pinned.fill(0)),
    }


def _copies_by_cupy(host: Array, device: Device) -> dict[str, TimedCall]:
    cupy = peers.library("cupy")
    settings = partial(peers.cupy_settings, cupy, device.ordinal)
    with settings():
        theirs = cupy.asarray(host)
    back = np.ones_like(host)

    def copy_from() -> None:
        theirs.set(host)
        cupy.cuda.Device().synchronize()

    return {
        "cupy_to": _checked(copy_from, theirs.get, lambda: theirs.fill(0), settings),
        "cupy_back": _checked(
            lambda: theirs.get(out=back), lambda: back, lambda: back.fill(0), settings
        ),
        "cupy_new": TimedCall(theirs.get, theirs.get, settings),
    }


def _copies_by_torch(host: Array, device: Device) -> dict[str, TimedCall]:
    torch = peers.library("torch")
    settings = partial(peers.torch_settings, torch, device.ordinal)
    with settings():
        tensor = torch.from_numpy(host).cuda()
        pinned = torch.from_numpy(host).pin_memory()

    def copy(target: Any, source: Any) -> None:
        target.copy_(source)
        torch.cuda.synchronize()

    def get() -> Array:
        array: Array = tensor.cpu().numpy()
        return array

    return {
        "torch_new": TimedCall(get, get, settings),
        "torch_pinned_to": _checked(
            lambda: copy(tensor, pinned), get, lambda: tensor.zero_(), settings
        ),
        "torch_pinned_back": _checked(
            lambda: copy(pinned, tensor), pinned.numpy, lambda: pinned.zero_(), settings
        ),
    }


def _launches(device: Device, libraries: Collection[str | None]) -> dict[str, TimedCall]:
    kernel = BaseKernel(AXPY, "axpy", device=device)
    host, size = np.ones(THREADS, np.float32), np.int32(THREADS)
    x, y = to_device(host, device), to_device(host, device)
    gpu = cuda.Device(device.ordinal)

    def launch(
        call: Callable[[], Any],
        read: Callable[[], Array] = y.get,
        settings: Settings = nullcontext,
        launches: int = 1,
    ) -> TimedCall:
        """Return a call of which each launch adds 1 to the elements of the array of `read`."""

        def checked() -> Array:
            _ = kernel, x  # they must live as long as the calls of C++
            before = read()
            call()
            gpu.synchronize()
            each: Array = (read() - before) / np.float32(launches)
            return each

        return TimedCall(call, checked, settings, launches, gpu.synchronize)

    calls = {
        "device_array": launch(lambda: kernel[1, THREADS](x, y, THREADS)),
        "device_array_int32": launch(lambda: kernel[1, THREADS](x, y, size)),
    }
    if "cupy" in libraries:
        cupy = peers.library("cupy")
        with_cupy = partial(peers.cupy_settings, cupy, device.ordinal)
        with with_cupy():
            theirs = cupy.asarray(host), cupy.asarray(host)
        raw = cupy.RawKernel(AXPY, "axpy")
        calls["cupy_arrays"] = launch(
            lambda: kernel[1, THREADS](*theirs, THREADS), theirs[1].get, with_cupy
        )
        calls["cupy"] = launch(
            lambda: raw((1,), (THREADS,), (*theirs, size)), theirs[1].get, with_cupy
        )
    if "torch" in libraries:
        torch = peers.library("torch")
        with_torch = partial(peers.torch_settings, torch, device.ordinal)
        with with_torch():
            tensors = [torch.from_numpy(host).cuda() for _ in range(2)]
        calls["torch_tensors"] = launch(
            lambda: kernel[1, THREADS](*tensors, THREADS),
            lambda: tensors[1].cpu().numpy(),
            with_torch,
        )

    # Both of these rows make many launches in one call.
    many = _LAUNCHES_PER_CALL
    one = Launch.of(kernel, 1, THREADS)
    planned = cuda.PlannedCall(device.ordinal, 1, "nothing")
    for _ in range(many):
        planned.launch(one.function, one, [(0, 0), (1, 0), size.tobytes()])
    addresses = [array.__cuda_array_interface__["data"][0] for array in (x, y)]
    values = [*(address.to_bytes(8, "little") for address in addresses), size.tobytes()]
    graph = cuda.Graph(device.ordinal)
    for _ in range(many):
        cuda.launch(one.function, one, values, graph.stream)
    graph.finish()
    calls["from_cpp"] = launch(lambda: planned.enqueue(addresses), launches=many)
    calls["graph"] = launch(graph.launch, launches=many)
    return calls


def processor() -> str:
    """Return the host's processors, such as "16 x AMD EPYC", if Linux reports them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()
