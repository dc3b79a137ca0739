"""Returns the registers and variables of a block as masked NumPy arrays, for the stepper.

Lanes and elements that were not written yet are masked, because their values are not defined on a
GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce._core import sim
from coalesce.compile.binaries.layouts import Array as TypeArray
from coalesce.compile.binaries.layouts import Structure
from coalesce.cxx import variables
from coalesce.cxx.element_types import element_types
from coalesce.cxx.signature import Parameter
from coalesce.launch.arguments import HostArray
from coalesce.simulate.events import WARP_SIZE, lanes_of
from coalesce.simulate.recorded import declared_shared
from coalesce.stepping import in_registers
from coalesce.stepping.debug_info import Variable
from coalesce.stepping.locations import ListedInstruction

if TYPE_CHECKING:
    from coalesce.launch.launch import Launch
    from coalesce.launch.loaded import LoadedKernel

Array = np.ndarray[Any, Any]

# The NumPy type of each PTX type. Packed values and bfloat16 are shown as integers with their bits.
_DTYPES = {"f16": "f2", "f32": "f4", "f64": "f8", "f16x2": "u4", "bf16": "u2", "bf16x2": "u4"}
_DTYPES |= {f"{kind}{8 * size}": f"u{size}" for kind in "bu" for size in (1, 2, 4, 8)}
_DTYPES |= {f"s{8 * size}": f"i{size}" for size in (1, 2, 4, 8)}


def is_bare(kind: str) -> bool:
    """Return True for a PTX type that says only how many bits a value has, such as b32."""
    return kind.startswith("b") and kind[1:].isdigit()


def lanes(kind: str, mask: int, content: bytes, dtype: np.dtype[Any] | None) -> Array:
    """Return the values of a register in all lanes, as a masked array.

    `kind` is the PTX type of the register. Bit i of `mask` is set if lane i has a value.
    `content` has the bytes of all lanes. `dtype` is the dtype of the values, or None if it is not
    known.
    """
    if kind == "pred":
        values = lanes_of(int.from_bytes(content, "little"))
    else:
        values = np.frombuffer(content, dtype or _DTYPES[kind]).copy()
    masked: Array = np.ma.array(values, mask=~lanes_of(mask))
    return masked


def registers(
    launch: Launch, session: sim.Stepping, listing: Sequence[ListedInstruction], warp: int
) -> dict[str, Array]:
    """Return the registers of a warp, as a dict from names to masked arrays of 32 lanes.

    `launch` is the stepped launch, and `session` is the stepped block. `listing` has the
    instructions of the kernel. Registers that do not hold a value are left out.
    """
    values: dict[str, Array] = {}
    known = session.registers(warp)
    function = listing[session.position(warp)[1]].function if known else 0
    for name, kind, mask, content, needed in known:
        if needed:
            dtype = _loaded_as(launch, listing, function, name) if is_bare(kind) else None
            values[name] = lanes(kind, mask, content, dtype)
    return values


def _loaded_as(
    launch: Launch, listing: Sequence[ListedInstruction], function: int, register: str
) -> np.dtype[Any] | None:
    """Return the dtype of the array that a register is loaded from, if its width fits."""
    for i in listing:
        if i.function == function and register in i.results and i.parameter >= 0:
            argument = launch.arguments[i.parameter]
            if isinstance(argument, HostArray):
                dtype: np.dtype[Any] = argument.array.dtype
                if i.element_bytes == i.results[register] == dtype.itemsize:
                    return dtype
    return None


def variables_of(
    session: sim.Stepping, variables: Mapping[str, Variable], warp: int, mask: int
) -> dict[str, Array]:
    """Return a dict from the names of a warp's variables to their values, as masked arrays.

    The first axis of an array has the 32 lanes. Lanes outside `mask` are masked, and elements that
    were not written yet. `variables` has the variables at the next instruction of the lanes in
    `mask`. Variables that NumPy has no type for are left out.
    """
    memory, written = session.local(warp, 0)
    here = lanes_of(mask)[:, np.newaxis]
    values: dict[str, Array] = {}
    for name, variable in variables.items():
        dtype, shape = _dtype_of(variable.type)
        if dtype is None or variable.offset is None:
            continue
        part = slice(variable.offset, variable.offset + dtype.itemsize * math.prod(shape))
        if memory.shape[1] < part.stop:
            continue
        array: Array = memory[:, part].copy().view(dtype).reshape(WARP_SIZE, *shape)
        there = (written[:, part] & here).reshape(*array.shape, dtype.itemsize).all(axis=-1)
        if there.any():
            values[name] = np.ma.array(array, mask=~there)
    return values


def from_registers(
    session: sim.Stepping, found: Mapping[str, in_registers.Found], warp: int, mask: int
) -> dict[str, Array]:
    """Return the values of variables that are in registers, like `variables_of`.

    A register that no later instruction reads may hold something else already. So its variable is
    left out.
    """
    registers = {
        name: (kind, written, content)
        for name, kind, written, content, needed in session.registers(warp)
        if needed
    }
    values: dict[str, Array] = {}
    for name, (variable, value) in found.items():
        dtype, shape = _dtype_of(variable.type)
        if dtype is None or shape:
            continue
        if isinstance(variable.type, Parameter) and variable.type.spelled == "bool":
            dtype = np.dtype(np.bool_)
        if not value.register:
            array = np.full(WARP_SIZE, value.constant).astype(dtype)
            values[name] = np.ma.array(array, mask=~lanes_of(mask))
        elif value.register in registers:
            kind, written, content = registers[value.register]
            if (kind == "pred") != (dtype == np.bool_):
                continue
            if kind == "pred" or len(content) == WARP_SIZE * dtype.itemsize:
                values[name] = lanes(kind, written & mask, content, dtype)
    return {name: array for name, array in values.items() if not np.ma.getmaskarray(array).all()}


def _dtype_of(
    type_: Structure | TypeArray | Parameter,
) -> tuple[np.dtype[Any] | None, tuple[int, ...]]:
    """Return the dtype and the shape of a variable; None for structures and pointers."""
    if isinstance(type_, TypeArray):
        dtype, shape = _dtype_of(type_.element)
        return dtype, (*type_.shape, *shape)
    if isinstance(type_, Structure) or type_.kind != "scalar" or not type_.accepted:
        return None, ()
    code = type_.accepted[0]
    return np.dtype("u2" if code == "V2" else code), ()  # bfloat16 is shown as its bits


def shared_arrays(kernel: LoadedKernel, session: sim.Stepping) -> dict[str, Array]:
    """Return a dict from the shared variables of a block to their values, as masked arrays.

    `session` is the stepped block.
    """
    data, written = session.shared()
    place: dict[str, tuple[int, int]] = {}
    dynamic: tuple[int, int] | None = None
    for space, name, address, size, _ in session.memory:
        if space != "shared":
            continue
        if name == "dynamic shared memory":
            dynamic = (address, size)
        else:
            place[name] = (address, size)
    declared = declared_shared(kernel)
    if dynamic is not None:
        open_ended = [n for n, d in declared.items() if d[0] == (-1,) and n not in place]
        place.update(dict.fromkeys(open_ended or ["dynamic shared memory"], dynamic))
    return {
        name: _as_declared(data[at : at + size], written[at : at + size], declared.get(name))
        for name, (at, size) in place.items()
    }


def _as_declared(data: Array, written: Array, declared: variables.Shape | None) -> Array:
    """Return bytes as an array of the declared type and shape."""
    dtype: np.dtype[Any] = np.dtype(np.uint8)
    shape: tuple[int, ...] = (data.size,)
    if declared is not None:
        _, item_bytes, spelled = declared
        codes, _ = element_types(spelled)
        extents = variables.extents_in_memory(declared, data.size)
        if codes and extents is not None and math.prod(extents) * item_bytes == data.size:
            dtype, shape = np.dtype(codes[0]), extents
            if dtype.itemsize != item_bytes:  # a vector's components become the last axis
                shape = (*shape, item_bytes // dtype.itemsize)
    values = data.view(dtype).reshape(shape)
    there = written.reshape(-1, dtype.itemsize).all(axis=1).reshape(shape)
    masked: Array = np.ma.array(values, mask=~there)
    return masked
