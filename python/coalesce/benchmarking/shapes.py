"""Times products of random shapes on a GPU: ``variant="best"`` beside cuBLAS and CuPy.

No shape is chosen by hand, so the figures also hold for shapes to which nobody tuned a kernel.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coalesce import operations
from coalesce._core import cuda
from coalesce.arrays import devices
from coalesce.arrays.creation import to_device
from coalesce.arrays.device_array import DeviceArray
from coalesce.arrays.devices import Device
from coalesce.benchmarking import gpu, gpu_peers, peers
from coalesce.benchmarking.clock import GpuClock, host_runs
from coalesce.catalogue import BEST, best
from coalesce.common.errors import DeviceUnavailable
from coalesce.common.progress import reporter

LEAST, MOST = 16, 6200  # the extents
TOLERANCE = 1e-5  # of the error of a product
_RUNS = 5
_CALL_US, _MOST_CALLS = (
    3000.0,
    100,
)  # a run makes calls for about this time, but at most this number
_CHECKED_ROWS = 32


@dataclass(frozen=True)
class ShapeTimes:
    """The times of one shape in microseconds.

    Attributes
    ----------
    shape : tuple of int
        M, N and K.
    chosen : str
        The variant that "best" chose, with its tile, the parts and the slices of K.
    kernels, cublas : float
        The time of the kernels in a CUDA graph, and of cuBLAS in a CUDA graph.
    call, cupy : float
        The time of a whole call with `out`, with arrays of CuPy, and of CuPy's own call. Calls
        follow each other without waiting. Both are NaN if CuPy is not installed.
    error : float
        The norm of the difference to the product in float64, relative to the norm of the product.
    """

    shape: tuple[int, int, int]
    chosen: str
    kernels: float
    cublas: float
    call: float
    cupy: float
    error: float


def random_shapes(seed: int, count: int) -> list[tuple[int, int, int]]:
    """Return random M, N and K, with uniform logarithms. Half of them are multiples of 16."""
    random = np.random.default_rng(seed)
    shapes = []
    for number in range(count):
        extents = np.exp(random.uniform(math.log(LEAST), math.log(MOST), 3))
        unit = 16 if number % 2 == 0 else 1
        m, n, k = (max(LEAST, round(x / unit) * unit) for x in extents.tolist())
        shapes.append((m, n, k))
    return shapes


def measure(seed: int, count: int, device: Any = None, l2: Any = "kept") -> list[ShapeTimes]:
    """Time products of random shapes. If there is no GPU, raise DeviceUnavailable."""
    where = devices.resolve(device)
    if where.kind != "cuda":
        raise DeviceUnavailable(
            f"random shapes can only be timed on a GPU, but this call runs on {where.name}. "
            f"{devices.gpu_status().message}"
        )
    try:
        cupy: Any = peers.library("cupy")
    except DeviceUnavailable:
        cupy = None
    clock, random = GpuClock(where, l2), np.random.default_rng(seed)
    timed = []
    with reporter(True, "timing shapes", "shapes") as report:
        for done, shape in enumerate(random_shapes(seed, count)):
            if report is not None:
                report(done, count)
            timed.append(_timed(shape, where, cupy, clock, random))
    return timed


def _timed(
    shape: tuple[int, int, int],
    device: Device,
    cupy: Any,
    clock: GpuClock,
    random: np.random.Generator,
) -> ShapeTimes:
    m, n, k = shape
    host = [random.random(x, np.float32) * 2 - 1 for x in ((m, k), (k, n))]
    a, b = (to_device(x, device) for x in host)
    out = DeviceArray.empty((m, n), np.float32, device)
    out.set(np.full((m, n), np.nan, np.float32))
    launches = gpu.launches("matmul", (a, b), {"variant": BEST, "out": out})

    def ours(stream: int) -> None:
        for _, launch in launches:
            launch(stream)

    library = gpu_peers.call_of("cublas", (a, b), out, device.ordinal)
    clock.runs([ours], 1)
    error = _error(host[0], host[1], out.get(), random)
    times = [clock.batch([call], "auto")[0] for call in (ours, library)]
    kernels, cublas = (1e3 * statistics.median(map(sum, run(_RUNS))) for run in times)

    call = theirs = math.nan
    if cupy is not None:
        with peers.cupy_settings(cupy, device.ordinal):
            x, y, z = (cupy.from_dlpack(array) for array in (a, b, out))
            synchronize = cuda.Device(device.ordinal).synchronize
            count = max(2, min(_MOST_CALLS, round(_CALL_US / max(cublas, 1))))
            call, theirs = (
                _of_host(compute, count, synchronize)
                for compute in (
                    lambda: operations.matmul(x, y, variant=BEST, out=z),
                    lambda: cupy.matmul(x, y, out=z),
                )
            )
    return ShapeTimes(shape, _chosen(shape, device), kernels, cublas, call, theirs, error)


def _of_host(call: Callable[[], Any], count: int, synchronize: Callable[[], Any]) -> float:
    """Return the median time of a call in microseconds. `count` calls follow each other."""

    def calls() -> None:
        for _ in range(count):
            call()
        synchronize()

    calls()
    return 1e3 * statistics.median(map(sum, host_runs(calls, _RUNS))) / count


def _error(a: Any, b: Any, product: Any, random: np.random.Generator) -> float:
    """Compare some rows of the product with the product in float64."""
    rows = random.choice(len(a), min(len(a), _CHECKED_ROWS), replace=False)
    exact = a[rows].astype(np.float64) @ b.astype(np.float64)
    return float(np.linalg.norm(product[rows] - exact) / np.linalg.norm(exact))


def _chosen(shape: tuple[int, int, int], device: Device) -> str:
    variant, tile = best.of_matmul(*shape, np.dtype(np.float32), device)
    if variant != "split_k":
        return variant
    parts, slices = best.division(*shape, tile, device.multiprocessors or 132)
    return f"{variant} tile={tile} parts={parts}" + f" slices={slices}" * (slices > 1)


def summary(timed: Sequence[ShapeTimes], worst: int = 10) -> str:
    """Return the ratios to cuBLAS and to CuPy as text, with the shapes of the lowest ratios."""
    lines = []
    for what, peer, all_ratios in (
        ("kernels", "cuBLAS", [(x.cublas / x.kernels, x) for x in timed]),
        ("whole calls with `out`", "CuPy", [(x.cupy / x.call, x) for x in timed]),
    ):
        ratios = sorted((r for r in all_ratios if not math.isnan(r[0])), key=lambda pair: pair[0])
        if not ratios:
            continue
        values = [value for value, _ in ratios]
        lines.append(
            f"{what}, relative to {peer}: geometric mean {statistics.geometric_mean(values):.3f}, "
            f"{sum(x >= 1 for x in values) / len(values):.0%} at least 1, worst {values[0]:.2f} "
            f"({len(values)} shapes)"
        )
        for value, x in ratios[:worst]:
            size = " x ".join(map(str, x.shape))
            lines.append(
                f"  {value:.2f}  {size:20} kernels {x.kernels:8.1f} us, cuBLAS {x.cublas:8.1f}, "
                f"call {x.call:8.1f}, CuPy {x.cupy:8.1f}  {x.chosen}"
            )
    largest = max(x.error for x in timed)
    lines.append(f"largest error, relative to the norm of the product: {largest:.1e}")
    return "\n".join(lines)
