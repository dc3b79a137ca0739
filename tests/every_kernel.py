"""Runs every shipped kernel on the GPU, for compute-sanitizer.

The sizes are not multiples of a tile. The variants for Hopper run with each of their tiles. They
also run with matrices of several tiles whose rows are aligned, and with a larger K.

compute-sanitizer --tool memcheck python tests/every_kernel.py
compute-sanitizer --tool racecheck python tests/every_kernel.py
"""

from __future__ import annotations

import numpy as np

import coalesce


def main() -> None:
    """Run all variants in both precisions and print how many kernels ran."""
    random = np.random.default_rng(0)
    ran = 0
    for dtype in (np.float32, np.float64):
        a, b = random.random((45, 70)).astype(dtype), random.random((70, 37)).astype(dtype)
        arguments = {"matmul": (a, b), "transpose": (a,), "row_sums": (a,), "column_sums": (a,)}
        for operation, given in arguments.items():
            for variant in coalesce.variants(operation):
                if variant.dtype not in ("", np.dtype(dtype).name):
                    continue
                function = getattr(coalesce, operation)
                function(*given, variant=variant.name, device="cuda")
                ran += 1
        for m, n, k in ((45, 37, 70), (300, 264, 200), (40, 36, 2500)):
            a, b = random.random((m, k)).astype(dtype), random.random((k, n)).astype(dtype)
            for variant in coalesce.variants("matmul"):
                if not variant.hopper or variant.dtype != np.dtype(dtype).name:
                    continue
                for tile in variant.tiles or (None,):
                    coalesce.matmul(a, b, variant=variant.name, tile=tile, device="cuda")
                    ran += 1
        x = random.random(1000).astype(dtype)
        index = random.permutation(1000).astype(np.int32)
        options = {
            "offset": {"offset": 3}, "stride": {"stride": 3}, "gather": {"index": index},
            "vector": {"width": 16}, "aos": {"field": 1}, "soa": {"field": 1},
        }  # fmt: skip
        for variant in coalesce.variants("access"):
            given = x.reshape(250, 4) if variant.name in ("aos", "soa") else x
            extra = options.get(variant.name, {})
            coalesce.access(given, pattern=variant.name, device="cuda", **extra)
            ran += 1
    print(f"{ran} kernels ran")


if __name__ == "__main__":
    main()
