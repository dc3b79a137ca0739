"""The catalogue of operations, such as matmul. Each operation has several variants.

A variant is one way to compute the operation: a kernel in CUDA C++.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from coalesce._core import ops
from coalesce.common import require
from coalesce.common.errors import DeviceUnavailable

if TYPE_CHECKING:
    import numpy as np

    from coalesce.arrays.devices import Device

# The package uses these operations internally. They are not listed for users.
_INTERNAL = {"layout"}

# This name stands for the fastest variant (catalogue/best.py).
BEST = "best"


@dataclass(frozen=True)
class Variant:
    """A variant: one way to compute an operation, with its kernel.

    Attributes
    ----------
    operation, name : str
        The name of the operation, such as ``"matmul"``, and of the variant, such as ``"tiled"``.
    rung : int
        The position of the variant in the list of the operation's variants, counted from 1. The
        name of the kernel's file begins with this number.
    sentence : str
        One sentence about the idea of the variant and what it costs. If the sentence names a number
        of sectors, this number is for float32.
    needs : str
        What the kernel needs: the threads per block, the shared memory, and so on.
    topic : str
        Where the idea is usually taught, such as ``"Tiling tutorials: shared memory"``.
    file : str
        The path of the kernel's file in the folder ``csrc/kernels``.
    tiles : tuple of int
        The values that the option `tile` may have. The last one is the default. Empty if the
        variant has no option `tile`.
    hopper : bool
        Whether the variant needs a GPU of compute capability 9.0 (H100, H200) or newer.
    dtype : str
        The only dtype that the variant accepts. Empty if it accepts float32 and float64.

    Examples
    --------
    >>> variant = coalesce.variants("matmul")["tiled"]
    >>> variant.rung, variant.tiles
    (7, (8, 16, 32))
    """

    operation: str
    name: str
    rung: int
    sentence: str
    needs: str
    topic: str
    file: str
    tiles: tuple[int, ...]
    hopper: bool
    dtype: str

    @property
    def source(self) -> str:
        """The CUDA C++ source of the kernel. This text is compiled and run."""
        return read_kernel(self.file)


class VariantTable(Sequence[Variant]):
    """A sequence of `Variant` objects. If you print it or show it in a notebook, it is a table.

    An index is a position or a slice. If all variants belong to one operation, it may also be the
    name of a variant.

    Examples
    --------
    >>> coalesce.variants("matmul").names[:3]
    ('naive', 'naive_2d', 'coalesced')
    """

    def __init__(self, items: Sequence[Variant]) -> None:
        self._items = tuple(items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Variant]:
        return iter(self._items)

    @overload
    def __getitem__(self, key: int | str) -> Variant: ...
    @overload
    def __getitem__(self, key: slice) -> VariantTable: ...
    def __getitem__(self, key: int | str | slice) -> Variant | VariantTable:
        if isinstance(key, str):
            matches = [item for item in self._items if item.name == key]
            if len(matches) != 1:
                raise KeyError(key)
            return matches[0]
        if isinstance(key, slice):
            return VariantTable(self._items[key])
        return self._items[key]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variants, in the order of the table."""
        return tuple(item.name for item in self._items)

    def __repr__(self) -> str:
        from coalesce.render import tables

        return tables.as_text(*self._cells(), wrap=("idea", "needs"))

    def _repr_html_(self) -> str:
        from coalesce.render.markup import tag

        columns, rows = self._cells()
        head = tag("tr", [tag("th", name) for name in columns])
        body = [tag("tr", [tag("td", cell, "text-align:left") for cell in row]) for row in rows]
        return str(tag("table", [tag("thead", head), tag("tbody", body)]))

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the column heads and the rows of the printed table.

        If there are variants of several operations, the first column has the operation.
        """
        rows = [(v.operation, str(v.rung), v.name, v.sentence, v.needs) for v in self._items]
        first = 0 if len({v.operation for v in self._items}) > 1 else 1
        columns = ("operation", "rung", "variant", "idea", "needs")
        return columns[first:], [row[first:] for row in rows]


def variants(operation: str | None = None) -> VariantTable:
    """List the variants of an operation, or of all operations.

    Parameters
    ----------
    operation : str, optional
        ``"matmul"``, ``"transpose"``, ``"row_sums"``, ``"column_sums"`` or ``"access"``. The
        variants of ``"access"`` are its access patterns. By default, the variants of all operations
        are listed.

    Returns
    -------
    VariantTable
        A sequence of `Variant` objects. If you print it, it is a table.

    Raises
    ------
    ValueError
        There is no such operation.

    Examples
    --------
    >>> coalesce.variants("transpose").names[:4]
    ('copy', 'naive_read', 'naive_write', 'tiled')
    """
    if operation is None:
        entries = [entry for name in operations() for entry in _ladder(name).values()]
    else:
        check_operation(operation)
        entries = list(_ladder(operation).values())
    return VariantTable([_described(entry) for entry in entries])


def source(operation: str, variant: str) -> str:
    """Return the CUDA C++ source of a variant. This text is compiled and run.

    Parameters
    ----------
    operation, variant : str
        The names of the operation and of the variant. `variants` lists them.

    Returns
    -------
    str
        The text of the kernel's file, with its comments.

    Raises
    ------
    ValueError
        There is no such operation or variant.

    Examples
    --------
    >>> print(coalesce.source("matmul", "naive").splitlines()[0])
    // One thread per element of the result; neighbouring lanes compute neighbouring rows.
    """
    return read_kernel(find(operation, variant).file)


def runnable(operation: str, device: Device, dtype: np.dtype[Any]) -> tuple[str, ...]:
    """Return the names of the variants of an operation that a device can run.

    The operands have the dtype `dtype`.
    """
    check_operation(operation)
    return tuple(
        name for name, entry in _ladder(operation).items() if _why_not(entry, device, dtype) is None
    )


def check_runs(entry: ops.Variant, device: Device, dtype: np.dtype[Any]) -> None:
    """Check that a device can run the variant `entry` on operands of a dtype.

    If the variant does not accept the dtype, raise TypeError. If the device cannot run the variant,
    raise DeviceUnavailable.
    """
    if (error := _why_not(entry, device, dtype)) is not None:
        raise error


def _why_not(entry: ops.Variant, device: Device, dtype: np.dtype[Any]) -> Exception | None:
    what, instead = f"variant {entry.name!r} of {entry.operation}", 'use variant "best"'
    if entry.dtype and dtype.name != entry.dtype:
        return TypeError(f"{what} takes {entry.dtype}; got {dtype.name}; {instead}")
    if not entry.hopper:
        return None
    has = device.compute_capability
    if has == (9, 0) or (has > (9, 0) and not entry.tensor_maps):
        return None
    newer = "" if entry.tensor_maps else " or newer"
    return DeviceUnavailable(
        f"{what} needs a GPU of compute capability 9.0{newer}; "
        f"{device.name} has {has[0]}.{has[1]}; {instead}"
    )


@cache
def operations() -> tuple[str, ...]:
    """Return the names of the operations, in the order of the catalogue."""
    names = dict.fromkeys(entry.operation for entry in ops.variants())
    return tuple(name for name in names if name not in _INTERNAL)


def is_best(variant: str) -> bool:
    """Return whether `variant` is "best": then coalesce chooses the fastest variant."""
    return require.text("variant", variant) == BEST


def find(operation: str, variant: str, argument: str = "variant") -> ops.Variant:
    """Return the catalogue's entry for a variant of an operation, such as "tiled" of "matmul".

    If there is no such variant, raise ValueError. `argument` is the name of the user's argument,
    "variant" or "pattern". The message contains this name.
    """
    ladder = _ladder(require.text("operation", operation))
    if not ladder:
        check_operation(operation)
    require.text(argument, variant)
    if variant not in ladder:
        raise ValueError(_unknown(f"{argument} of {operation}", variant, ladder))
    return ladder[variant]


@cache
def read_kernel(file: str) -> str:
    """Return the source of a kernel. `file` is the file's path in the folder ``csrc/kernels``."""
    return (_kernel_folder() / file).read_text(encoding="utf-8")


@cache
def _kernel_folder() -> Path:
    package = Path(__file__).resolve().parents[1]
    # An installed package contains the kernels. In a checkout (and in an editable install, which
    # uses the checkout's Python files), the kernels are in csrc.
    for folder in (package / "kernels", package.parents[1] / "csrc" / "kernels"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"{package} does not contain the kernels; install coalesce again")


@cache
def _ladder(operation: str) -> dict[str, ops.Variant]:
    return {v.name: v for v in ops.variants() if v.operation == operation}


def check_operation(operation: str, more: Sequence[str] = ()) -> None:
    """Check that there is an operation with this name. If not, raise TypeError or ValueError.

    The message lists all names that a user may pass: the operations, and the names in `more`, which
    other code handles.
    """
    if require.text("operation", operation) not in operations():
        raise ValueError(_unknown("operation", operation, (*operations(), *more)))


def _unknown(what: str, name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return f"unknown {what}: {name!r}{hint} The known names are {', '.join(known)}"


def _described(entry: ops.Variant) -> Variant:
    return Variant(
        operation=entry.operation,
        name=entry.name,
        rung=entry.rung,
        sentence=entry.sentence,
        needs=_needs(entry),
        topic=entry.topic,
        file=entry.file,
        tiles=entry.tiles,
        hopper=entry.hopper,
        dtype=entry.dtype,
    )


def _needs(entry: ops.Variant) -> str:
    _, block, dynamic_bytes = entry.launch(1, 1)
    threads = " x ".join(str(extent) for extent in block if extent > 1)
    parts = [f"{threads} threads"]
    if shared := entry.static_shared_bytes():
        parts.append(f"{shared} B shared")
    if dynamic_bytes:
        parts.append(f"{dynamic_bytes} B dynamic shared")
    if entry.tiles:
        parts.append("tile " + "/".join(str(tile) for tile in entry.tiles))
    if entry.preparation == "transpose_b":
        parts.append("b column-major")
    if entry.hopper:
        parts.append("compute capability 9.0" + " only" * entry.tensor_maps)
    if entry.dtype:
        parts.append(entry.dtype + " or bfloat16" * (entry.preparation == "map_bfloat16"))
    return ", ".join(parts)
