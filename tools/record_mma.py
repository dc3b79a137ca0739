"""Record the results of tensor cores, bit by bit, in tests/data/mma_<gpu>.npz.

    python tools/record_mma.py

The script needs a GPU; it reads no counters. `matrix_cases.py` has the instructions and their
operands. The results of the cases in `CHOSEN` are stored.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import matrix_cases
import numpy as np
from matrix_cases import chosen

import coalesce

DATA = Path(__file__).parents[1] / "tests" / "data"


def main() -> None:
    """Run every form of mma on the GPU and write the result registers."""
    if not (status := coalesce.gpu_status()):
        sys.exit(f"no GPU: {status}")
    name = next(d.description for d in coalesce.devices() if d.kind == "cuda")
    results = {}
    for seed, form in enumerate(matrix_cases.forms()):
        d, a, b, c = matrix_cases.registers(form, seed)
        matrix_cases.kernel_of(form, "cuda")[len(d), 32](d, a, b, c)
        results[form.opcode] = chosen(form, d)
    path = DATA / f"mma_{name.lower().replace('nvidia ', '').replace(' ', '_')}.npz"
    np.savez_compressed(path, **results)
    print(path)


if __name__ == "__main__":
    main()
