"""Kernels whose blocks work together or use the heap; tests/kernels/cooperative.cu."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from counter_cases.case import KERNELS, Case, launch, whole_numbers


def cases() -> Iterator[Case]:
    """Yield the cases of this set."""
    for entry, grid, block, arguments in launches():
        cooperative = entry.startswith("grid")
        yield launch(
            entry, "cooperative.cu", entry, grid, block, arguments, cooperative=cooperative
        )


def launches() -> Iterator[tuple[str, Any, Any, tuple[Any, ...]]]:
    """Yield entry, grid, block and arguments of each of these kernels."""
    source = (KERNELS / "cooperative.cu").read_text()
    for entry in re.findall(r"^(?:KERNEL|CLUSTERS)\((\w+)\)", source, re.MULTILINE):
        words = whole_numbers(7, 8 * 96, 1 << 32, "uint32")
        yield entry, 8, 96, (words, np.zeros(8 * 96, np.uint32))
