"""Time the fast matmul variants for many shapes on a GPU; write the table of ``variant="best"``.

python benchmarks/best.py        # writes python/coalesce/catalogue/best.json
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
from gpu import need_gpu, state

import coalesce
from coalesce.benchmarking.names import row_request

OUT = Path(__file__).parents[1] / "python" / "coalesce" / "catalogue" / "best.json"
RUNGS = [*(f"split_k tile={tile}" for tile in (32, 64, 128)), "tensor_map", "pipelined"]
EXTENTS = (32, 128, 512, 1024, 2048, 4096)  # the values of M and N
DEPTHS = (64, 512, 1024, 4096)
CUBES = (256, 768, 1536, 3072, 8192)
# Small results with a large K: here the choice between slices of K and whole tiles matters most.
DEEP = (16384,)
DEEP_EXTENTS = (32, 128, 512, 1024)


def main() -> None:
    """Measure and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--runs", type=int, default=6, help="of each rung (default 6)")
    options = parser.parse_args()
    need_gpu()
    random = np.random.default_rng(1)
    rows = []
    shapes = [
        *itertools.product(EXTENTS, EXTENTS, DEPTHS),
        *itertools.product(DEEP_EXTENTS, DEEP_EXTENTS, DEEP),
        *((n, n, n) for n in CUBES),
    ]
    for m, n, k in shapes:
        a, b = (random.random(shape, np.float32) * 2 - 1 for shape in ((m, k), (k, n)))
        timed = coalesce.benchmark(
            "matmul", a, b, variants=RUNGS, device="cuda", runs=options.runs, repeats="auto"
        )
        assert timed.correct, timed
        fastest = row_request(min(timed, key=lambda row: row.timing.kernel_ms).variant)
        rows.append([m, n, k, fastest.variant, fastest.options.get("tile", 0)])
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    gpu_name = json.dumps(state().get("name", ""))
    text = f'{{\n "gpu": {gpu_name},\n "float32": [\n{lines}\n ]\n}}\n'
    options.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
