"""Measures how long variants of operations take, and how long the lessons' own kernels take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

import coalesce
from coalesce.arrays.creation import to_device
from coalesce.arrays.device_array import DeviceArray
from coalesce.catalogue.table import OPERATIONS
from coalesce.common import require
from coalesce.common.timing import Timing
from coalesce.kernel import Kernel
from coalesce.lessons._code import Code, new_lines

_SOURCES = Path(__file__).with_name("sources")


def source(name: str) -> str:
    """Return the CUDA C++ source of a kernel that belongs to a lesson.

    Parameters
    ----------
    name : str
        The name of the kernel's file without the ending, such as ``"repeats"``.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        There is no such kernel.

    Examples
    --------
    >>> print(coalesce.lessons.source("padding").splitlines()[0])
    // A tiled product whose tile of `a` has rows of TILE + PAD words.
    """
    known = {file.stem: file for file in sorted(_SOURCES.glob("*.cu"))}
    return known[require.choice("name", name, known)].read_text(encoding="utf-8")


def code(
    operation: str,
    variant: str,
    *,
    since: str | None = None,
    part: tuple[str, str] | None = None,
) -> Code:
    """Return the source of a variant, without the comment at its beginning.

    That comment states the costs of the variant. A lesson asks the reader to find them.

    Parameters
    ----------
    operation, variant : str
        See `coalesce.source`.
    since : str, optional
        The name of another variant. Lines that this other variant does not have are marked.
    part : tuple of str, optional
        Return only the part that begins at the first line that contains ``part[0]``, and ends at
        the next line that contains ``part[1]``. Below this part, notebooks have a line on which the
        reader can click to see the whole file.

    Returns
    -------
    Code
        The source, as a string. Notebooks show it highlighted, with the same line numbers as in
        reports. Without `part`, it begins at the kernel.

    Raises
    ------
    ValueError
        There is no such variant, or no line contains ``part[0]`` or ``part[1]``.

    Examples
    --------
    >>> coalesce.lessons.code("matmul", "naive").splitlines()[0]
    'extern "C" __global__ void naive('
    >>> coalesce.lessons.code("matmul", "naive", part=("for (", "}")).splitlines()[0].strip()
    'for (int k = 0; k < K; ++k) {'
    """
    text = coalesce.source(operation, variant)
    if part is not None and len(require.texts("part", part)) != 2:
        raise ValueError(f"`part` must be a pair of strings; got {require.shown(part)}")
    marked: set[int] = set()
    if since is not None:
        require.text("since", since)
        other = coalesce.source(operation, since).replace(f" {since}(", f" {variant}(")
        marked = new_lines(text, other)
    head, _, _ = text.partition('extern "C"')
    if part is not None:
        head = "".join(takewhile(lambda line: line.startswith("//"), text.splitlines(True)))
        head += "\n"
    whole = Code(text[len(head) :], 1 + head.count("\n"), marked)
    return whole if part is None else whole.part(*part)


@dataclass(frozen=True)
class _Launch:
    """How to launch one of the lessons' own kernels, for n elements or for n x n matrices."""

    file: str
    entry: str
    defines: tuple[str, ...]
    geometry: Callable[[int], tuple[Any, Any]]
    arguments: Callable[[int, Any], list[Any]]
    work: Callable[[int], tuple[float, float]]  # returns the operations and the bytes


def _two_vectors(n: int, device: Any) -> list[Any]:
    return [_random((n,), device), DeviceArray.empty(n, np.float32, device), np.int32(n)]


def _product(n: int, device: Any) -> list[Any]:
    operands = [_random((n, n), device) for _ in range(2)]
    return [*operands, DeviceArray.empty((n, n), np.float32, device), np.int32(n)]


LAUNCHES: dict[str, _Launch] = {
    **{
        name: _Launch(
            "repeats", name, (), lambda _: (264, 256), _two_vectors, lambda n: (0.0, 8.0 * n)
        )
        for name in ("once", "again")
    },
    **{
        f"padding {pad}": _Launch(
            "padding",
            "product",
            (f"-DPAD={pad}",),
            lambda n: ((n // 32, n // 32), (32, 32)),
            _product,
            lambda n: (2.0 * n**3, 12.0 * n * n),
        )
        for pad in (0, 1)
    },
}


def measure(
    operation: str, variant: str, n: int, options: Mapping[str, Any], device: Any
) -> Timing:
    """Time a variant of an operation on n x n matrices of float32.

    If `operation` is ``"lesson"``, `variant` is the name of a kernel that belongs to a lesson. All
    arrays are already on the device, so no copies are timed.
    """
    if operation == "lesson":
        return _of_lesson(variant, n, device)
    arrays = [_random((n, n), device) for _ in OPERATIONS[operation].arrays]
    all_options = {"variant": variant, **options}
    return OPERATIONS[operation].run(arrays, all_options, device=device, timed=True)[1].timing()


def _of_lesson(name: str, n: int, device: Any) -> Timing:
    launch = LAUNCHES[name]
    kernel = Kernel(source(launch.file), launch.entry, options=launch.defines, device=device)
    grid, block = launch.geometry(n)
    record = kernel.launch(grid, block, *launch.arguments(n, device), runs="auto")
    operations, moved = launch.work(n)
    return Timing(
        kernel_ms=record.kernel_ms,
        spread=record.spread,
        runs=record.runs,
        h2d_ms=0.0,
        d2h_ms=0.0,
        gflops=operations / record.kernel_ms / 1e6,
        gbps=moved / record.kernel_ms / 1e6,
        device=record.device,
        source=record.source,
        parts=((launch.entry, record.kernel_ms),),
    )


def _random(shape: tuple[int, ...], device: Any) -> Any:
    values = np.random.default_rng(0).random(shape, dtype=np.float32)
    return to_device(values, device)
