"""Reads and sets the `__device__` and `__constant__` variables of a source from Python."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coalesce._core import cuda, sim
from coalesce.arrays import devices
from coalesce.arrays.devices import Device
from coalesce.arrays.waiting import until_done
from coalesce.common import require
from coalesce.cxx import signature, variables
from coalesce.cxx.compiled_types import Ask
from coalesce.cxx.element_types import SCALARS, element_types
from coalesce.cxx.variables import DeclaredVariable, variables_of
from coalesce.launch.module import Module


@dataclass(frozen=True)
class Variable:
    """A `__device__` or `__constant__` variable: its names, and its type in C++ and in NumPy."""

    symbol: str  # the name in the PTX
    name: str  # the name in C++, such as "ns::weights"
    space: str  # "global" for __device__, "constant" for __constant__
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    spelled: str  # the C++ type; "" if it is not known
    const: bool  # whether it is const in C++. Then the compiler puts its value into the kernels.

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * int(self.dtype.itemsize)


class Globals(Mapping[str, Any]):
    """The `__device__` and `__constant__` variables of a kernel's source: ``kernel.globals``.

    ``kernel.globals["a"]`` waits for earlier launches, and returns the value of variable `a`:

    - a NumPy scalar for a scalar variable
    - a read-only NumPy array for an array
    - an array of bytes for a structure or an unknown type

    ``kernel.globals["a"] = value`` sets the variable for later launches. As in NumPy, the value is
    broadcast to the shape of the variable.

    A kernel shares its variables with the kernels that its method `Kernel.get_function` returns. If
    you make two `Kernel` objects from one source, each has its own variables. Each device has its
    own copy of the variables. For example, ``kernel.globals.on("sim")`` returns the variables on
    the device "sim".

    Raises
    ------
    KeyError
        There is no such variable, or the compiler removed it because nothing uses it.
    TypeError
        The value has the wrong type, such as a float for an int.
    ValueError
        The value has the wrong shape or is out of range, or the variable is const.

    Examples
    --------
    >>> kernel = coalesce.Kernel('''
    ... __constant__ float weights[3];
    ... __device__ int calls;
    ... extern "C" __global__ void k(float *x) {
    ...     x[threadIdx.x] *= weights[threadIdx.x];
    ...     if (threadIdx.x == 0) ++calls;
    ... }''')
    >>> kernel.globals["weights"] = [1, 10, 100]
    >>> x = np.ones(3, np.float32)
    >>> kernel[1, 3](x)
    >>> x
    array([  1.,  10., 100.], dtype=float32)
    >>> kernel.globals["calls"]
    np.int32(1)
    """

    def __init__(self, module: Module, device: Device) -> None:
        self._module = module
        self._device = device
        # The PTX lists the variables. The simulator's parser reads it, also for kernels on a GPU.
        self._program: Any = (
            module.program(device)
            if device.kind == "sim"
            else sim.SimulatedModule(module.compiled(device).ptx)
        )
        self._variables = _variables(
            self._program.variables(),
            module.text,
            module.options,
            functools.partial(module.types, device),
        )

    def on(self, device: str | Device) -> Globals:
        """Return the variables on another device.

        Parameters
        ----------
        device : str or Device
            The device, such as ``"sim"`` or ``"cuda:1"``.

        Returns
        -------
        Globals
            The variables with the same names, in the memory of `device`. If you set a variable on
            one device, its values on other devices do not change.

        Raises
        ------
        DeviceUnavailable
            There is no such device.
        """
        return Globals(self._module, devices.resolve(device))

    def __getitem__(self, name: str) -> Any:
        variable = self._find(name)
        if self._device.kind == "sim":
            content = self._program.read_variable(variable.symbol)
            values = np.frombuffer(content, variable.dtype)
        else:
            values = np.empty(variable.bytes // variable.dtype.itemsize, variable.dtype)
            address, _ = self._module.loaded(self._device).variable(variable.symbol)
            gpu = cuda.Device(self._device.ordinal)
            until_done(gpu, what=f"reading variable `{variable.name}`")
            gpu.to_host(values.view(np.uint8), address)
            values.flags.writeable = False
        return values.reshape(variable.shape)[()]

    def __setitem__(self, name: str, value: Any) -> None:
        variable = self._find(name)
        if variable.const:
            raise ValueError(
                f"variable `{variable.name}` is const, so its value is compiled into the "
                "kernels; declare it without const, or set it with a -D option"
            )
        content = _converted(variable, value)
        if self._device.kind == "sim":
            self._program.write_variable(variable.symbol, content.tobytes())
            return
        address, _ = self._module.loaded(self._device).variable(variable.symbol)
        gpu = cuda.Device(self._device.ordinal)
        until_done(gpu, what=f"writing variable `{variable.name}`")
        gpu.to_device(address, content.reshape(-1).view(np.uint8))
        until_done(gpu)

    def __iter__(self) -> Iterator[str]:
        return (variable.name for variable in self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    def __repr__(self) -> str:
        if not self._variables:
            return f"<no __device__ or __constant__ variables on {self._device.name}>"
        lines = [f"variables on {self._device.name}"]
        for v in self._variables:
            qualifier = "__constant__" if v.space == "constant" else "__device__"
            extents = "".join(f"[{n}]" for n in v.shape)
            if v.dtype == np.uint8 and v.spelled and v.spelled not in SCALARS:
                extents = f" ({v.bytes} bytes)"  # a structure or an unknown type
            lines.append(f"  {qualifier} {v.spelled or v.dtype} {v.name}{extents}")
        return "\n".join(lines)

    def _find(self, name: str) -> Variable:
        if not isinstance(name, str):
            raise TypeError(f"the name of a variable must be a string; got {require.shown(name)}")
        wanted = [v for v in self._variables if name in (v.name, v.symbol)]
        wanted = wanted or [v for v in self._variables if v.name.split("::")[-1] == name]
        if len(wanted) == 1:
            return wanted[0]
        if wanted:
            raise KeyError(
                f"{name!r} is the name of several variables; choose one of "
                f"{', '.join(v.symbol for v in wanted)}"
            )
        listed = ", ".join(v.name for v in self._variables) or "none"
        raise KeyError(
            f"there is no __device__ or __constant__ variable {name!r}; the variables are "
            f"{listed}. (The compiler removes a static variable that nothing uses.)"
        )


def _variables(
    symbols: Sequence[tuple[str, str, str, int, int]],
    source: str,
    options: Sequence[str],
    ask: Ask,
) -> list[Variable]:
    """Return the variables of a module, without variables of the compiler and of CUDA's headers."""
    declared = variables_of(source, options)
    known: dict[str, DeclaredVariable] = {}  # the variables by symbol
    for symbol, *_ in symbols:
        base = signature.plain_name(symbol).split("::")[-1]
        if not symbol.startswith(("$", "__const", "_ZT")) and (not source or base in declared):
            known[symbol] = declared.get(base, DeclaredVariable(""))
    doubtful = {
        symbol: signature.plain_name(symbol) for symbol, v in known.items() if not v.certain
    }
    types = ask(list(doubtful.values())) if doubtful else {}
    for symbol, name in doubtful.items():
        known[symbol] = (
            variables.as_compiled(types[name]) if name in types else DeclaredVariable("")
        )
    listed = []
    for symbol, space, ptx_type, size, _ in symbols:
        if (v := known.get(symbol)) is not None:
            dtype, shape = _as_numpy(v, ptx_type, size)
            name = signature.plain_name(symbol)
            listed.append(Variable(symbol, name, space, shape, dtype, v.type, v.const))
    return listed


def _as_numpy(
    declared: DeclaredVariable, ptx_type: str, size: int
) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the dtype and the shape of a variable.

    They come from its declaration. If this does not match the size in the PTX, they come from the
    PTX.
    """
    accepted, item = element_types(declared.type)
    if accepted and item and size % item == 0:
        dtype = np.dtype("u2" if accepted[0] == "V2" else accepted[0])
        lanes = (item // dtype.itemsize,) if item > dtype.itemsize else ()
        count = size // item
        extents = tuple(n for n in declared.extents if n is not None)
        if len(extents) == len(declared.extents) and math.prod(extents) == count:
            return dtype, extents + lanes
        return dtype, (count, *lanes)
    width = int(re.sub(r"\D", "", ptx_type) or 8) // 8
    if size == width and ptx_type != "b8":
        kind = {"u": "u", "s": "i", "b": "u", "f": "f"}[ptx_type[0]]
        return np.dtype(f"{kind}{width}"), ()
    return np.dtype(np.uint8), (size,)


def _converted(variable: Variable, value: Any) -> np.ndarray[Any, Any]:
    """Convert `value` to the type of the variable. Raises TypeError or ValueError if impossible."""
    wanted = f"variable `{variable.name}` has shape {variable.shape} and dtype {variable.dtype}"
    if hasattr(value, "get") and not isinstance(value, Mapping):  # a GPU array
        value = value.get()
    array = np.asarray(value)
    if variable.dtype == np.uint8 and array.nbytes == variable.bytes and array.ndim:
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)  # a structure's bytes
    if not np.can_cast(array.dtype, variable.dtype, "same_kind") and not (
        array.dtype.kind in "iu" and variable.dtype.kind in "iu"
    ):
        raise TypeError(f"{wanted}; got dtype {array.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(variable.dtype)
    too_large = (
        not np.array_equal(cast, array)
        if array.dtype.kind in "iu"
        else array.dtype.kind == "f" and np.isinf(cast).sum() != np.isinf(array).sum()
    )
    if too_large:
        raise ValueError(f"{wanted}; got a value outside the range of {variable.dtype}")
    try:
        return np.ascontiguousarray(np.broadcast_to(cast, variable.shape))
    except ValueError:
        raise ValueError(f"{wanted}; got shape {array.shape}") from None
