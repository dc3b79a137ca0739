"""Time the fast matmul variants for many shapes on a GPU; write the table of ``variant="best"``.

python benchmarks/best.py        # writes python/coalesce/catalogue/best.json
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from pathlib import Path

from gpu import Gpu, state
from products import Product

OUT = Path(__file__).parents[1] / "python" / "coalesce" / "catalogue" / "best.json"
RUNGS = [("split_k", 32), ("split_k", 64), ("split_k", 128), ("tensor_map", 0), ("pipelined", 0)]
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
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    gpu = Gpu()
    rows = []
    shapes = [
        *itertools.product(EXTENTS, EXTENTS, DEPTHS),
        *itertools.product(DEEP_EXTENTS, DEEP_EXTENTS, DEEP),
        *((n, n, n) for n in CUBES),
    ]
    for m, n, k in shapes:
        product = Product(gpu, m, n, k)
        works = {f"{name} {tile}": product.rung(name, tile) for name, tile in RUNGS}
        times = gpu.interleaved(works, options.rounds, target_ms=0.3)
        medians = {name: statistics.median(ms) for name, ms in times.items()}
        name, tile = min(medians, key=medians.__getitem__).split()
        rows.append([m, n, k, name, int(tile)])
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    gpu_name = json.dumps(state().get("name", ""))
    text = f'{{\n "gpu": {gpu_name},\n "float32": [\n{lines}\n ]\n}}\n'
    options.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
