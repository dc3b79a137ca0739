"""How long a launch from Python takes, with each kind of array and with CuPy's RawKernel.

The script launches a kernel that does almost nothing many times, asynchronously, on arrays that are
already on the GPU. A time is the host's time for one call. All rounds are interleaved in one run.
"from C++" is the time of a launch in a list of planned launches, which C++ executes without Python.
This takes hardly more than the driver's own time. "in a CUDA graph" is the time of a launch in a
graph of 100 launches, which one call of the driver starts.

    python benchmarks/launch_latency.py [--json FILE]
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import figures
import numpy as np
from gpu import need_gpu

import coalesce
from coalesce._core import cuda
from coalesce.array import to_device

SOURCE = """
extern "C" __global__ void axpy(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i];
}"""
LAUNCHES, PLANNED, ROUNDS, N = 5000, 100, 9, 128


def main() -> None:
    """Measure and print the time of each kind of launch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    figures.add_option(parser)
    options = parser.parse_args()
    status = need_gpu()
    device = coalesce.devices()[0]
    kernel = coalesce.Kernel(SOURCE, "axpy", device="cuda")
    host = np.ones(N, np.float32)
    own = to_device(host), to_device(host)
    calls: dict[str, Callable[[], object]] = {
        "coalesce, DeviceArray": lambda: kernel[1, N](*own, N),
        "coalesce, DeviceArray, np.int32": lambda: kernel[1, N](*own, size),
    }
    size = np.int32(N)
    try:
        import cupy

        cupy_arrays = cupy.asarray(host), cupy.asarray(host)
        raw = cupy.RawKernel(SOURCE, "axpy")
        calls["coalesce, CuPy arrays"] = lambda: kernel[1, N](*cupy_arrays, N)
        calls["CuPy RawKernel"] = lambda: raw((1,), (N,), (*cupy_arrays, size))
    except ImportError:
        print("CuPy is not installed")
    try:
        import torch

        tensors = torch.ones(N, device="cuda"), torch.ones(N, device="cuda")
        calls["coalesce, PyTorch tensors"] = lambda: kernel[1, N](*tensors, N)
    except ImportError:
        print("PyTorch is not installed")

    gpu = cuda.Device(device.ordinal)
    planned = cuda.PlannedCall(device.ordinal, 1, "nothing")
    function = kernel._function(device)
    values = [(0, 0), (1, 0), size.tobytes()]
    for _ in range(PLANNED):
        planned.launch(function, (1, 1, 1), (N, 1, 1), 0, values)
    addresses = [array.__cuda_array_interface__["data"][0] for array in own]
    calls["from C++"] = lambda: planned.enqueue(addresses)
    arguments = [*(address.to_bytes(8, "little") for address in addresses), size.tobytes()]
    graph = cuda.Graph(device.ordinal)
    for _ in range(PLANNED):
        cuda.launch(function, (1, 1, 1), (N, 1, 1), 0, arguments, graph.stream)
    graph.finish()
    calls["in a CUDA graph"] = graph.launch
    many = ("from C++", "in a CUDA graph")  # one call has PLANNED launches
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()
            gpu.synchronize()
            start = time.perf_counter()
            for _ in range(LAUNCHES // PLANNED if name in many else LAUNCHES):
                call()
            times[name].append((time.perf_counter() - start) / LAUNCHES)
            gpu.synchronize()
    print(
        f"{device.description}, {status.driver or 'driver'}, {processor()}, "
        f"Python {platform.python_version()}"
    )
    print(f"{LAUNCHES} launches a round, {ROUNDS} rounds; microseconds a launch")
    best = {name: 1e6 * min(samples) for name, samples in times.items()}
    median = {name: 1e6 * float(np.median(samples)) for name, samples in times.items()}
    for name in times:
        print(f"  {name:34} best {best[name]:6.2f}   median {median[name]:6.2f}")
    figures.write({"best": best, "median": median}, options.json)


def processor() -> str:
    """Return the processor's name, if Linux reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
        return f"{len(names)} x {names[0]}"
    except (OSError, IndexError):
        return platform.processor()


if __name__ == "__main__":
    main()
