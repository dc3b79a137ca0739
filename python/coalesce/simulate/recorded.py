"""Makes a `Trace` from the events that the simulator recorded in a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce._core import sim
from coalesce.common.dtypes import text_of
from coalesce.cxx import element_types, variables
from coalesce.launch.arguments import HostArray
from coalesce.simulate.events import BYTES, Table, Trace, TraceArray

if TYPE_CHECKING:
    from coalesce.launch.launch import Launch
    from coalesce.launch.loaded import LoadedKernel


def trace_of(launch: Launch, result: sim.LaunchResult, table: Table | None = None) -> Trace:
    """Return the events in the result of `simulate` as a `Trace`.

    `table` returns ``result.counts.table()``. If it is None, the trace calls
    ``result.counts.table`` itself.
    """
    assert result.counts is not None
    assert result.events is not None
    table = table or result.counts.table
    return events_of(launch, result.events, table, result.memory, result.omitted)


def events_of(
    launch: Launch,
    columns: dict[str, Any],
    table: Table,
    memory: Sequence[tuple[str, str, int, int, int]],
    omitted: int,
) -> Trace:
    """Return recorded events as a `Trace`.

    `columns` is a dict with an array for each attribute of the events, such as "mask". `table`
    returns the instructions of the kernel, as `Counts.table()` does. `arrays_of` explains `memory`.
    `omitted` is the number of events that were not recorded.
    """
    return Trace(
        columns,
        table,
        kernel=launch.kernel.name,
        grid=launch.grid,
        block_shape=launch.block,
        arrays=arrays_of(launch, memory),
        omitted=omitted,
    )


def arrays_of(launch: Launch, memory: Sequence[tuple[str, str, int, int, int]]) -> list[TraceArray]:
    """Return descriptions of the arrays and variables that the kernel may access.

    `memory` is `sim.LaunchResult.memory`, which has a tuple for each array and each variable.
    The items of a tuple are the space, the name, the address, the size in bytes, and the
    position of the argument: ``("global", "x", 4096, 400, 0)``. A variable is not an argument;
    its tuple has -1 in place of the position.

    The dtype of a variable is `BYTES` if its element type is not known.
    """
    arrays = []
    declared = declared_shared(launch.kernel)
    for space, name, address, size, argument in sorted(
        memory, key=lambda m: (m[4] < 0, m[4], m[0], m[2])
    ):
        shape: tuple[int, ...] = (size,)
        dtype = BYTES
        if argument >= 0:
            array = launch.arguments[argument]
            assert isinstance(array, HostArray)
            shape, dtype = array.original.shape, text_of(array.array.dtype)
            if array.array.dtype.names is not None:  # show a structure as bytes
                dtype = f"V{array.array.dtype.itemsize}"
        elif space == "shared" and name in declared:
            extents = variables.extents_in_memory(declared[name], size)
            if extents is not None:
                shape, dtype = extents, _element_type(declared[name])
        arrays.append(TraceArray(name, shape, dtype, space, address, argument))
    return arrays


def declared_shared(kernel: LoadedKernel) -> dict[str, variables.Shape]:
    """Return the declarations of ``__shared__`` variables in a kernel's source, by name.

    See `variables.shared_arrays`. A kernel that was made from PTX has no such declarations.
    """
    if kernel.is_ptx:
        return {}
    return variables.shared_arrays(kernel.source, kernel.options, kernel.signature.name)


def _element_type(declared: variables.Shape) -> str:
    """Return NumPy's name of the element type. A vector such as float4 is shown as bytes."""
    _, item_bytes, spelled = declared
    dtype = np.dtype(element_types.element_types(spelled)[0][0])
    if dtype.itemsize != item_bytes or dtype.kind == "V":
        return f"V{item_bytes}"
    return str(dtype)
