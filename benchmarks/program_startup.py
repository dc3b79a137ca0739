"""The time from starting a small program to its end: alone, and with `coalesce run` and `exec`.

python benchmarks/program_startup.py [--repeat 9]

The programs are in the cache already, so nothing is compiled. The first program has no CUDA; the
second launches one kernel. The time of the processor is the sum over all processes. Unlike the
elapsed time, it hardly depends on other work of the machine.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from coalesce.compile import nvcc

PLAIN = '#include <cstdio>\nint main() { std::puts("hello"); }\n'
KERNEL = """#include <cstdio>
__global__ void fill(int *x) { x[threadIdx.x] = threadIdx.x; }
int main() {
    int *x, h[32];
    cudaMalloc(&x, sizeof h);
    fill<<<1, 32>>>(x);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    std::printf("%d\\n", h[31]);
    cudaFree(x);
}
"""


def medians(words: Sequence[str | Path], repeat: int) -> tuple[float, float]:
    """Return the medians of the elapsed time and of the processor's time, in seconds."""
    elapsed, used = [], []
    for _ in range(repeat):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(words, check=True, capture_output=True)
        elapsed.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(elapsed), statistics.median(used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=9)
    repeat = parser.parse_args().repeat
    coalesce = [sys.executable, "-m", "coalesce"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain, kernel = folder / "plain.cpp", folder / "kernel.cu"
        plain.write_text(PLAIN)
        kernel.write_text(KERNEL)
        for source in (plain, kernel):
            made = nvcc.build([source], arch=90).executable
            source.with_suffix("").write_bytes(made)
            source.with_suffix("").chmod(0o700)
        rows = {
            "no CUDA, alone": [folder / "plain"],
            "no CUDA, coalesce run": [*coalesce, "run", plain],
            "one kernel, coalesce run": [*coalesce, "run", kernel],
            "one kernel, coalesce exec": [*coalesce, "exec", folder / "kernel"],
        }
        for words in rows.values():
            subprocess.run(words, check=True, capture_output=True)
        print(f"{'median of ' + str(repeat):28}{'elapsed':>10}{'processor':>12}")
        for title, words in rows.items():
            elapsed, used = medians(words, repeat)
            print(f"{title:28}{elapsed:8.3f} s{used:10.3f} s")


if __name__ == "__main__":
    main()
