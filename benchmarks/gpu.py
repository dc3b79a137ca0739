"""The CUDA driver and cuBLAS through ctypes, for timing kernels and cuBLAS in one process.

Launches are captured into graphs, so that short kernels do not wait for the host. Events time the
graphs. `interleaved` alternates between candidates, in both orders, so that clocks and temperature
are the same for all candidates.
"""

from __future__ import annotations

import ctypes as c
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import coalesce
from coalesce._core import cuda
from coalesce.arrays.devices import GpuStatus
from coalesce.benchmarking.gpu import nvidia_smi

# cudaDataType of the operands and of the result, cublasComputeType.
_KINDS = {
    "float32": (0, 0, 68),
    "tf32": (0, 0, 77),
    "float64": (1, 1, 70),
    "bfloat16": (14, 0, 68),
    "bfloat16 result": (14, 14, 68),
}

Work = Callable[[], None]  # enqueues work on the stream of its Gpu


class Gpu:
    """A GPU with a context and a stream of its own, and cuBLAS on it."""

    def __init__(self) -> None:
        self._cuda = c.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        device, context = c.c_int(), c.c_void_p()
        self._call("cuDeviceGet", c.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", c.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self.stream = c.c_void_p()
        self._call("cuStreamCreate", c.byref(self.stream), 1)  # not ordered with the default stream
        self._cublas = _cublas()
        self._handle = c.c_void_p()
        if self._cublas is not None:
            self._cublas.cublasCreate_v2(c.byref(self._handle))
            self._cublas.cublasSetStream_v2(self._handle, self.stream)
            workspace = self.empty(32 << 20)
            self._cublas.cublasSetWorkspace_v2(self._handle, workspace, c.c_size_t(32 << 20))
            self._cublas.cublasSetMathMode(self._handle, 0)  # float32 in float32: no TF32

    def _call(self, name: str, *arguments: Any) -> None:
        result = getattr(self._cuda, name)(*arguments)
        if result:
            text = c.c_char_p()
            self._cuda.cuGetErrorString(result, c.byref(text))
            raise RuntimeError(f"{name}: {result} {(text.value or b'').decode()}")

    # ---- memory ----

    def empty(self, size: int) -> c.c_uint64:
        """Allocate memory that is never freed, and return its address."""
        address = c.c_uint64()
        self._call("cuMemAlloc_v2", c.byref(address), c.c_size_t(max(size, 16)))
        return address

    def fill(self, address: c.c_uint64, byte: int, size: int) -> None:
        """Enqueue a fill of memory with one byte value."""
        self._call("cuMemsetD8Async", address, c.c_ubyte(byte), c.c_size_t(size), self.stream)

    # ---- cuBLAS ----

    def gemm(self, m: int, n: int, k: int, a: Any, b: Any, out: Any, kind: str) -> Work | None:
        """Return cuBLAS' product of row-major matrices, or None without cuBLAS.

        `kind` is "float32", "tf32" (float32 matrices), "float64", "bfloat16" (float32 result) or
        "bfloat16 result".
        """
        if self._cublas is None:
            return None
        operand, result, compute = _KINDS[kind]
        real = c.c_double if kind == "float64" else c.c_float
        one, zero = real(1), real(0)
        function = self._cublas.cublasGemmEx

        def work() -> None:
            status = function(self._handle, 0, 0, n, m, k, c.byref(one), b, operand, n, a, operand,
                              k, c.byref(zero), out, result, n, compute, -1)  # fmt: skip
            if status:
                raise RuntimeError(f"cublasGemmEx: {status}")

        return work

    @property
    def cublas_version(self) -> int:
        """The version that cublasGetVersion returns; 0 without cuBLAS."""
        version = c.c_int()
        if self._cublas is not None:
            self._cublas.cublasGetVersion_v2(self._handle, c.byref(version))
        return version.value

    # ---- time ----

    def synchronize(self) -> None:
        """Wait for all work on the GPU, also that of the package."""
        self._call("cuCtxSynchronize")

    def graph(self, work: Work, times: int) -> Work:
        """Capture `work` several times into a graph, and return a function that replays it."""
        self._call("cuStreamBeginCapture_v2", self.stream, 1)
        for _ in range(times):
            work()
        graph, ready = c.c_void_p(), c.c_void_p()
        self._call("cuStreamEndCapture", self.stream, c.byref(graph))
        self._call("cuGraphInstantiateWithFlags", c.byref(ready), graph, c.c_ulonglong(0))
        return lambda: self._call("cuGraphLaunch", ready, self.stream)

    def milliseconds(self, work: Work) -> float:
        """Return the time of `work` between two events."""
        events = [c.c_void_p(), c.c_void_p()]
        for event in events:
            self._call("cuEventCreate", c.byref(event), 0)
        self._call("cuEventRecord", events[0], self.stream)
        work()
        self._call("cuEventRecord", events[1], self.stream)
        self._call("cuEventSynchronize", events[1])
        elapsed = c.c_float()
        self._call("cuEventElapsedTime", c.byref(elapsed), *events)
        for event in events:
            self._call("cuEventDestroy_v2", event)
        return elapsed.value

    def interleaved(
        self, candidates: Mapping[str, Work], rounds: int, target_ms: float = 2.0
    ) -> dict[str, list[float]]:
        """Time candidates in turn; return the milliseconds of one run of each candidate, by round.

        L2 holds what the candidate's own last run left there. Each sample is a graph of several
        runs that together take about `target_ms`.
        """
        graphs, inner = {}, {}
        for name, work in candidates.items():
            work()
            self.synchronize()
            once = self.milliseconds(work)
            inner[name] = max(1, min(100, round(target_ms / max(once, 1e-3))))
            graphs[name] = self.graph(work, inner[name])
        times: dict[str, list[float]] = {name: [] for name in candidates}
        for turn in range(-1, rounds):
            names = list(candidates) if turn % 2 else list(candidates)[::-1]
            for name in names:
                ms = self.milliseconds(graphs[name]) / inner[name]
                if turn >= 0:
                    times[name].append(ms)
        return times


def need_gpu() -> GpuStatus:
    """Return what is known about the driver. If there is no GPU, end the script with a message."""
    if not (status := coalesce.gpu_status()):
        raise SystemExit(f"this needs a GPU; {status}")
    return status


def state() -> dict[str, str]:
    """Return the GPU's name, driver, clocks, power and throttle reasons from nvidia-smi."""
    fields = ["name", "driver_version", "clocks.sm", "clocks.mem", "power.draw", "temperature.gpu",
              "clocks_event_reasons.active"]  # fmt: skip
    return nvidia_smi(fields) or {}


def median_and_spread(times: Sequence[float]) -> tuple[float, float]:
    """Return the median and (80th - 20th percentile) / median."""
    return statistics.median(times), cuda.spread(list(times))


def _cublas() -> Any:
    """Return cuBLAS if it is installed, else None."""
    from cuda.pathfinder import load_nvidia_dynamic_lib  # type: ignore[import-untyped]

    try:
        load_nvidia_dynamic_lib("cublasLt")
        return c.CDLL(load_nvidia_dynamic_lib("cublas").abs_path)
    except Exception:
        return None
