"""Functions that branch on extreme operands; tests/kernels/slow_paths.cu."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from counter_cases.case import KERNELS, Case, launch, matrix, whole_numbers


def cases() -> Iterator[Case]:
    """Yield the cases of this set."""
    seen: Counter[str] = Counter()
    for entry, grid, block, arguments, shared in launches():
        seen[entry] += 1
        name = f"{entry} #{seen[entry]}"
        yield launch(name, "slow_paths.cu", entry, grid, block, arguments, shared)


def _extremes(seed: int, size: int, dtype: str) -> np.ndarray:
    """Return ordinary numbers of all exponents; every eighth number is special."""
    limits = np.finfo(dtype)
    special = np.array(
        [0, -0.0, np.inf, -np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal, -2,
         limits.tiny / 3, -limits.tiny / 5, limits.max / 2, limits.tiny * 2.5, 1],
        dtype,
    )  # fmt: skip
    with np.errstate(over="ignore"):
        numbers = 2 ** ((matrix(seed, size, dtype="float64") - 0.5) * 2 * limits.maxexp)
    numbers[1::2] = 4 * matrix(seed + 1, size // 2, dtype="float64")
    numbers[::8] = special[whole_numbers(seed + 2, size // 8, special.size)]
    return numbers.astype(dtype)


def _of_any_length(seed: int, size: int) -> np.ndarray:
    """Return integers of 1 to 63 bits, positive and negative."""
    bits = whole_numbers(seed, size, 63).astype(np.int64)
    low = whole_numbers(seed + 1, size, 1 << 31).astype(np.int64)
    high = whole_numbers(seed + 2, size, 1 << 31).astype(np.int64)
    return ((high << 31 | low) >> bits) * np.where(low % 3 == 0, -1, 1)


def launches() -> Iterator[tuple[str, Any, Any, tuple[Any, ...], int]]:
    """Yield entry, grid, block, arguments and dynamic shared bytes of each of these launches."""
    source = (KERNELS / "slow_paths.cu").read_text()
    n = 768
    for entry, element in re.findall(r"^FUNCTION\((\w+), (\w+),", source, re.MULTILINE):
        if element == "int64":
            dtype = element
            ordinary = [1 + whole_numbers(seed, n, 1 << 20).astype(dtype) for seed in (1, 2)]
            extreme = [_of_any_length(seed, n) for seed in (3, 6)]
        else:
            dtype = {"float": "float32", "double": "float64"}[element]
            ordinary = [1 + matrix(seed, n, dtype=dtype) for seed in (1, 2)]
            extreme = [_extremes(seed, n, dtype) for seed in (3, 6)]
        for values in (ordinary, extreme):
            yield entry, n // 128, 128, (*values, np.zeros(n, dtype), n - 3), 0
    bodies = matrix(9, 96, 3, dtype="float64")
    yield "forces", 3, 32, (bodies, np.zeros_like(bodies), 96), 0
