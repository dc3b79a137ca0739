"""Runs kernels on the simulator as PTX and as machine code, and compares the arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import coalesce
from coalesce.arrays import devices
from coalesce.launch.launch import Launch
from coalesce.launch.simulated import simulate


def bound(
    kernel: Any, grid: Any, block: Any, arguments: Any, shared_bytes: int = 0, device: Any = None
) -> Launch:
    """Return a launch with its arguments, for the simulator."""
    return Launch.of(kernel, grid, block, shared_bytes).bind_on_host(arguments, device)


def why_ptx(kernel: coalesce.Kernel) -> str:
    """Return why a profile executes the PTX of a kernel. Empty if it executes the machine code."""
    return kernel.module.program(devices.resolve("sim")).why_ptx(kernel.entry)


def both_ways(
    kernel: coalesce.Kernel,
    grid: Any,
    block: Any,
    *arguments: Any,
    shared_bytes: int = 0,
    **options: Any,
) -> list[np.ndarray[Any, Any]]:
    """Run a kernel as PTX and as machine code. Both must leave the same arrays; return these.

    Each run gets its own copies of the arrays. An array that is passed twice is copied once.
    `options` are those of `simulate`, such as ``workers=1``.
    """
    assert why_ptx(kernel) == ""
    runs = []
    for counts in (False, True):
        copies = {id(a): a.copy() for a in arguments if isinstance(a, np.ndarray)}
        given = [copies.get(id(a), a) for a in arguments]
        simulate(bound(kernel, grid, block, given, shared_bytes), counts=counts, **options)
        runs.append([a for a in given if isinstance(a, np.ndarray)])
    for plain, counted in zip(*runs, strict=True):
        np.testing.assert_array_equal(plain, counted)
    return runs[1]


def run(
    device: str,
    source: str,
    *arguments: Any,
    grid: Any = 1,
    block: Any = 32,
    shared: int = 0,
    entry: str = "k",
    options: Sequence[str] = (),
) -> None:
    """Run a kernel on a device. On the simulator, its machine code must leave the same arrays."""
    kernel = coalesce.Kernel(source, entry, device=device, options=options)
    copies = {id(a): a.copy() for a in arguments if isinstance(a, np.ndarray)}
    if device == "sim":
        given = [copies.get(id(a), a) for a in arguments]
        kernel.profile(grid, block, *given, shared_bytes=shared, caches=False)
    kernel[grid, block, shared](*arguments)
    if device == "sim":
        for a in arguments:
            if isinstance(a, np.ndarray):
                np.testing.assert_array_equal(copies[id(a)], a, "machine code")


def same_as_gpu(
    source: str, device: str, grid: Any, block: Any, *arguments: Any, entry: str = "k"
) -> list[np.ndarray[Any, Any]]:
    """Run the kernel `entry` in both ways, and return the arrays.

    If `device` is "cuda", also run it on the GPU, and compare the results bit by bit.
    """
    simulated = both_ways(coalesce.Kernel(source, entry, device="sim"), grid, block, *arguments)
    if device == "cuda":
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        coalesce.Kernel(source, entry, device=device)[grid, block](*given)
        arrays = [a for a in given if isinstance(a, np.ndarray)]
        for number, (array, other) in enumerate(zip(arrays, simulated, strict=True)):
            bits = f"u{array.itemsize}"
            np.testing.assert_array_equal(array.view(bits), other.view(bits), f"array {number}")
    return list(simulated)
