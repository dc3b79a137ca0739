"""Compares the speed of coalesce with that of Numba's own simulator.

Run: python benchmarks/numba_simulator.py

Each simulator multiplies two matrices of 64 x 64 with tiles of 16 x 16, in a process of its own.
The times are medians of the processor time, after a first launch.
"""

import os
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

KERNELS = Path(__file__).parent.parent / "tests" / "kernels"


def measure(launches: int) -> float:
    """Return the time of a launch in milliseconds."""
    if "NUMBA_ENABLE_CUDASIM" not in os.environ:
        import coalesce.numba  # noqa: F401
    sys.path.append(str(KERNELS))
    from numba_kernels import matmul

    a = np.random.default_rng(0).random((64, 64), dtype=np.float32)
    c = np.zeros_like(a)
    matmul[(4, 4), (16, 16)](a, a, c)
    assert np.allclose(c, a @ a)
    times = []
    for _ in range(launches):
        start = time.process_time()
        matmul[(4, 4), (16, 16)](a, a, c)
        times.append(1e3 * (time.process_time() - start))
    return statistics.median(times)


def main() -> None:
    """Measure both simulators."""
    results = []
    for name, variable, launches in (
        ("coalesce", {"COALESCE_DEVICE": "sim"}, 21),
        ("Numba", {"NUMBA_ENABLE_CUDASIM": "1"}, 1),
    ):
        command = [sys.executable, __file__, str(launches)]
        environment = {**os.environ, **variable}
        made = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        results.append(float(made.stdout))
        print(f"{name}: {results[-1]:.2f} ms of processor time")
    print(f"{results[1] / results[0]:,.0f} times as fast")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        warnings.simplefilter("ignore")
        print(measure(int(sys.argv[1])))
    else:
        main()
