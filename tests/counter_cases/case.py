"""A case: launches whose counters are recorded on a GPU and predicted by the simulator."""

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
    """Launches to count: `run(device, counts=..., timed=...)` makes and returns them.

    `file` is the file in tests/kernels, or empty for kernels of the catalogue.
    """

    name: str
    run: Callable[..., Launches]
    file: str = ""


def matrix(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers in [0, 1) that depend only on the seed."""
    raw = np.random.PCG64(seed).random_raw(int(np.prod(shape)))
    return ((raw >> np.uint64(40)) / 2.0**24).astype(dtype).reshape(shape)


def whole_numbers(seed: int, size: int, below: int, dtype: str = "int32") -> np.ndarray:
    """Return random integers from 0 to `below` - 1."""
    return (np.random.PCG64(seed).random_raw(size) % np.uint64(below)).astype(dtype)


def file_of(file: str, entry: str) -> Path:
    """Return the file of a kernel of tests/kernels.

    The templates of a file may have a file of their own (awkward_templates.cu).
    """
    templates = KERNELS / file.replace(".cu", "_templates.cu")
    return templates if "<" in entry and templates.is_file() else KERNELS / file


@cache
def kernel_of(file: str, entry: str, device: Any, options: tuple[str, ...] = ()) -> coalesce.Kernel:
    """Return a kernel of tests/kernels. All kernels of a file share a module.

    This saves time: the file is compiled, disassembled and read once. If a file lists no
    instantiations of its templates, each instantiation is compiled on its own.
    """
    path = file_of(file, entry)
    if "<" in entry and "void instantiations()" not in path.read_text():
        return coalesce.Kernel(path.read_text(), entry, device=device, options=options)
    # The compiler's list of instantiations has spaces after commas.
    return _first_of(path, device, options).get_function(entry.replace(",", ", "))


@cache
def _first_of(path: Path, device: Any, options: tuple[str, ...]) -> coalesce.Kernel:
    return coalesce.Kernel.all_of(path.read_text(), None, options, device=device)[0]


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

    return Case(name, run, file)
