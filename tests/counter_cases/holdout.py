"""Small kernels of many kinds; tests/kernels/holdout.cu.

The models may not be fitted to them. Each runs on few elements, on some and on many.
"""

import re
from collections.abc import Iterator

import numpy as np

from counter_cases.case import KERNELS, Case, launch, matrix, whole_numbers

FORM = r"^KERNEL\((\w+), (\d+), (\d+)\)"
# Elements, and the elements of a row.
SIZES = ((1000, 27), (100 * 513, 513), (128 * 4097, 4097))


def cases() -> Iterator[Case]:
    """Yield each kernel of the file at each size."""
    source = (KERNELS / "holdout.cu").read_text()
    for n, width in SIZES:
        x, index = matrix(61, n), whole_numbers(62, n, n)
        for entry, block, elements in re.findall(FORM, source, re.MULTILINE):
            grid = -(-n // (int(block) * min(int(elements), width)))
            arguments = x, index, np.zeros(n, np.float32), n, width
            name = f"{entry} n={n}"
            yield launch(name, "holdout.cu", entry, grid, int(block), arguments)
