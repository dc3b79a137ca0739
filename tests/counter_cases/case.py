"""A case: launches whose counters are recorded on a GPU and predicted by the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import coalesce

KERNELS = Path(__file__).parents[1] / "kernels"
LANE = np.arange(32)


# For each launch, (name of the entry, LaunchRecord). The kernel itself comes after preparations.
Launches = list[tuple[str, Any]]


@dataclass(frozen=True)
class Case:
    """Launches to count: `run(device, counts=..., timed=...)` makes and returns them."""

    name: str
    run: Callable[..., Launches]


def matrix(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers in [0, 1) that depend only on the seed."""
    raw = np.random.PCG64(seed).random_raw(int(np.prod(shape)))
    return ((raw >> np.uint64(40)) / 2.0**24).astype(dtype).reshape(shape)


def whole_numbers(seed: int, size: int, below: int, dtype: str = "int32") -> np.ndarray:
    """Return random integers from 0 to `below` - 1."""
    return (np.random.PCG64(seed).random_raw(size) % np.uint64(below)).astype(dtype)


def source_of(file: str, entry: str) -> str:
    """Return the source of a kernel of tests/kernels.

    Each instantiation is compiled with its whole file. So the templates of a long file may have a
    file of their own (awkward_templates.cu).
    """
    templates = KERNELS / file.replace(".cu", "_templates.cu")
    return (templates if "<" in entry and templates.is_file() else KERNELS / file).read_text()


@cache
def kernel_of(file: str, entry: str, device: Any) -> coalesce.Kernel:
    """Return a kernel of tests/kernels, compiled once for each device."""
    return coalesce.Kernel(source_of(file, entry), entry, device=device)


def launch(
    name: str, file: str, entry: str, grid: Any, block: Any, arguments: Any, shared: int = 0,
    kernel: Callable[[Any], coalesce.Kernel] | None = None, cooperative: bool = False,
) -> Case:  # fmt: skip
    """Return the case of one launch of a kernel; `device` may choose another kernel."""
    of_device = kernel or partial(kernel_of, file, entry)

    def run(device: Any, counts: bool = False, timed: bool = False) -> Launches:
        kernel = of_device(device)
        # Cases share the arguments, so a launch writes to copies.
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        record = kernel.launch(
            grid,
            block,
            *given,
            shared_bytes=shared,
            counts=counts,
            runs="auto" if timed else None,
            cooperative=cooperative,
        )
        return [(kernel.name, record)]

    return Case(name, run)
