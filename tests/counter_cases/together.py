"""Kernels whose lanes do different things in one instruction; tests/kernels/together.cu."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from counter_cases.case import KERNELS, Case, launch, whole_numbers


def cases() -> Iterator[Case]:
    """Yield the cases of this set."""
    for entry, grid, block, arguments, shared in launches():
        yield launch(entry, "together.cu", entry, grid, block, arguments, shared)


def launches() -> Iterator[tuple[str, Any, Any, tuple[Any, ...], int]]:
    """Yield entry, grid, block, arguments and dynamic shared bytes of each of these kernels."""
    source = (KERNELS / "together.cu").read_text()
    for entry in re.findall(r"^KERNEL\((\w+)\)", source, re.MULTILINE):
        words = whole_numbers(3, 2 * 96, 1 << 32, "uint32")
        words[::10] %= 50
        words[[7, 38]] = 0, 2**32 - 1
        out = np.zeros(8 * 2 * 96, np.uint32)
        yield entry, 2, 96, (words, out), 4 * 96 if "dynamic" in entry else 0
