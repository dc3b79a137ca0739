"""Compare the processor time of a checked run and of a plain run, for the variants of matmul.

python benchmarks/check.py [N]
"""

from __future__ import annotations

import sys
import time

import numpy as np

import coalesce


def seconds(call) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    a = np.random.default_rng(0).random((n, n), np.float32)
    print(f"matmul of {n} x {n}, seconds of processor time")
    print(f"{'variant':24}{'plain':>10}{'checked':>10}{'factor':>8}")
    for variant in (v.name for v in coalesce.variants("matmul") if not v.hopper):
        plain = min(
            seconds(lambda v=variant: coalesce.matmul(a, a, variant=v, device="sim"))
            for _ in range(3)
        )
        checked = seconds(lambda v=variant: coalesce.matmul(a, a, variant=v, check=True))
        print(f"{variant:24}{plain:10.3f}{checked:10.3f}{checked / plain:8.1f}")


if __name__ == "__main__":
    main()
