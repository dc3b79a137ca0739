"""How fast NumPy arrays reach the GPU and come back: this package, CuPy and PyTorch in one run.

Prints gigabytes per second for arrays of several sizes. There are three kinds of copies: to the
GPU, back into an array whose pages are already allocated, and back into a new array. For a new
array, the system must still allocate the pages. A rate is the median of several interleaved rounds.
"pinned" is the rate between pinned memory (`coalesce.pinned_empty`, PyTorch's `pin_memory`) and the
GPU. It is the speed of the link itself.

    python benchmarks/transfers.py [--json FILE]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import figures
import numpy as np
from gpu import need_gpu
from launch_latency import processor
from rich.console import Console
from rich.table import Table

import coalesce
from coalesce.array import to_device

MEBIBYTES, ROUNDS = (1, 16, 64, 256, 1024), 7


def main() -> None:
    """Measure and print a table with a column for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    figures.add_option(parser)
    options = parser.parse_args()
    need_gpu()
    print(f"{coalesce.devices()[0].description}, {processor()}; GB/s, median of {ROUNDS}")
    columns = [measure(mebibytes << 20) for mebibytes in MEBIBYTES]
    table = Table("MiB", *map(str, MEBIBYTES))
    for name in sorted(columns[0], key=lambda name: name.split(":")[0], reverse=True):
        table.add_row(name, *(f"{column[name]:.1f}" for column in columns))
    Console(width=100).print(table)
    figures.write(dict(zip(MEBIBYTES, columns, strict=True)), options.json)


def measure(size: int) -> dict[str, float]:
    """Return the rates of one size."""
    host = np.random.default_rng(0).random(size // 8)
    back = np.ones_like(host)
    gpu = coalesce._core.cuda.Device(0)
    own = to_device(host)
    own_pinned = coalesce.pinned_empty(host.shape, host.dtype, "cuda")
    own_pinned[:] = host

    def own_set(source: np.ndarray = host) -> None:
        own.set(source)
        gpu.synchronize()

    calls: dict[str, Callable[[], object]] = {
        "to: coalesce": own_set,
        "back: coalesce": lambda: own.get(back),
        "new: coalesce": own.get,
        "pinned to: coalesce": lambda: own_set(own_pinned),
        "pinned back: coalesce": lambda: own.get(own_pinned),
    }
    try:
        import cupy

        theirs = cupy.asarray(host)

        def cupy_set() -> None:
            theirs.set(host)
            cupy.cuda.Device().synchronize()

        calls["to: CuPy"] = cupy_set
        calls["back: CuPy"] = lambda: theirs.get(out=back)
        calls["new: CuPy"] = theirs.get
    except ImportError:
        pass
    try:
        import torch

        tensor = torch.from_numpy(host).cuda()
        pinned = torch.from_numpy(host).pin_memory()
        calls["new: torch"] = lambda: tensor.cpu().numpy()
        calls["pinned to: torch"] = lambda: (tensor.copy_(pinned), torch.cuda.synchronize())
        calls["pinned back: torch"] = lambda: (pinned.copy_(tensor), torch.cuda.synchronize())
    except ImportError:
        pass

    times: dict[str, list[float]] = {name: [] for name in calls}
    for round_ in range(ROUNDS + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            result = call()
            passed = time.perf_counter() - start
            del result
            if round_ > 0:  # the first round is a warm-up
                times[name].append(passed)
    return {name: size / 1e9 / float(np.median(samples)) for name, samples in times.items()}


if __name__ == "__main__":
    main()
