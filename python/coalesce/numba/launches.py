"""Launches Numba's kernels on the simulator.

Numba prepares the arguments: it copies NumPy arrays to the simulated GPU and turns each argument
into one or more parameters. For example, an array of n dimensions becomes 5 + 2n parameters
(coalesce.cxx.numba). `launch` makes a `Launch` of coalesce from these parameters and runs it.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numba.cuda import types
from numba.cuda.cudadrv import driver
from numba.cuda.np import numpy_support

from coalesce import launched
from coalesce.arrays import devices
from coalesce.cxx.signature import Parameter, Signature, plain_name
from coalesce.launch.arguments import Argument, HostArray
from coalesce.launch.kernel import CompiledKernel
from coalesce.launch.launch import Launch
from coalesce.numba.device_memory import DeviceMemory
from coalesce.numba.modules import module_of


@dataclass(frozen=True)
class _Part:
    """A parameter that Numba makes from an argument."""

    name: str
    spelled: str = ""
    array: Any = None  # the type of the array, if the parameter is its address


def launch(
    compiled: Any,
    arguments: Sequence[Any],
    grid: Any,
    block: Any,
    stream: Any,
    shared_bytes: int,
    memory: DeviceMemory,
) -> None:
    """Launch a kernel. `compiled` is Numba's object, for arguments of certain types.

    The simulator runs each launch at once, so `stream` only matters for Numba's copies.
    """
    module, entry, device = module_of(compiled), compiled.entry_name, devices.resolve()
    write_backs: list[Callable[[], object]] = []
    values: list[Any] = []
    parts: list[_Part] = []
    for name, kind, argument in zip(
        _names(compiled), compiled.argument_types, arguments, strict=True
    ):
        first = len(values)
        compiled._prepare_args(kind, argument, stream, write_backs, values)
        own = list(_parts(name, kind))
        count = len(values) - first
        parts += own if len(own) == count else [_Part(name)] * count
    memory.update()
    program = module.program(device)
    sizes = [size for _, size, *_ in program.parameters(entry)]
    bound: list[Argument] = []
    parameters: list[Parameter] = []
    for number, (part, value, size) in enumerate(zip(parts, values, sizes, strict=True)):
        item = _array(part, values, number, memory)
        bound.append(_bytes(value, size) if item is None else item)
        role: Literal["scalar", "pointer"] = "scalar" if item is None else "pointer"
        parameters.append(Parameter(part.name, role, size, spelled=part.spelled))
    name = plain_name(entry).split("::")[-1]
    kernel = CompiledKernel(module, Signature(entry, name, tuple(parameters)), device)
    made = Launch.of(kernel, tuple(grid), tuple(block), shared_bytes, bool(compiled.cooperative))
    if compiled.debug:
        program.write_variable(f"{entry}__errcode__", bytes(4))
    with _variables_of_driver(compiled, program):
        launched.run(replace(made, arguments=bound))
    if compiled.debug:
        _raise_error(compiled, program, entry)
    for write_back in write_backs:
        write_back()


def _names(compiled: Any) -> list[str]:
    """Return the names of a kernel's arguments."""
    function = getattr(compiled, "py_func", None)
    count = len(compiled.argument_types)
    if function is not None:
        names = list(inspect.signature(function).parameters)
        if len(names) == count:
            return names
    return [f"arg{number}" for number in range(count)]


def _parts(name: str, kind: Any) -> Iterator[_Part]:
    """Return the parameters of an argument of a type, if Numba has no extension for the type."""
    if isinstance(kind, types.Array):
        yield from [_Part(name)] * 4
        yield _Part(name, str(kind), kind)
        yield from [_Part(name)] * (2 * kind.ndim)
    elif isinstance(kind, types.BaseTuple):
        for number, item in enumerate(kind):
            yield from _parts(f"{name}[{number}]", item)
    else:
        yield from [_Part(name, str(kind))] * (2 if isinstance(kind, types.Complex) else 1)


def _array(
    part: _Part, values: Sequence[Any], number: int, memory: DeviceMemory
) -> HostArray | None:
    """Return the array to which a parameter points, or None if it points to no array."""
    value = values[number]
    if isinstance(value, ctypes.c_void_p | ctypes.c_uint64):
        value = value.value or 0
    elif isinstance(value, ctypes._SimpleCData | float | bool | np.generic):
        return None
    found = memory.at(int(value))
    if found is None:
        return None
    start = int(value) - found.address
    if part.array is None:
        whole = found.bytes()
        return HostArray(part.name, whole, whole, True, start)
    dtype, ndim = _dtype(part.array.dtype), part.array.ndim
    shape, strides = (
        [int(getattr(n, "value", n)) for n in values[first : first + ndim]]
        for first in (number + 1, number + 1 + ndim)
    )
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    low = start + sum(step for step in steps if step < 0)
    high = start + sum(step for step in steps if step > 0) + dtype.itemsize
    array = found.bytes()[low:high]
    if dtype.itemsize and (high - low) % dtype.itemsize == 0:
        array = array.view(dtype)
        expected = np.empty(shape, np.bool_).strides  # in elements
        if all(
            n == 1 or stride == step * dtype.itemsize
            for n, stride, step in zip(shape, strides, expected, strict=True)
        ):
            array = array.reshape(shape)
    return HostArray(part.name, array, array, bool(part.array.mutable), start - low)


def _dtype(kind: Any) -> np.dtype[Any]:
    """Return NumPy's type of the elements of an array. NumPy has none for bfloat16."""
    return np.dtype(np.uint16 if kind == types.bfloat16 else numpy_support.as_dtype(kind))


def _bytes(value: Any, size: int) -> bytes:
    """Return the bytes of a parameter."""
    if isinstance(value, ctypes._SimpleCData):
        return bytes(value).ljust(size, b"\0")
    if isinstance(value, float | np.floating):
        return np.array(value, f"f{size}").tobytes()
    number = int(value)
    return number.to_bytes(size, "little", signed=number < 0)


@contextmanager
def _variables_of_driver(compiled: Any, program: Any) -> Iterator[None]:
    """Let a kernel use the values that Python has given to variables of linked CUDA C++.

    Python writes to the variables of the module in the driver, when the module is loaded.
    """
    library = compiled._codelibrary
    if not library._setup_functions and not library._teardown_functions:
        yield
        return
    module = library.get_cufunc().module
    names = [name for name, space, *_ in program.variables() if space == "global"]
    places = {name: module.get_global_symbol(name) for name in names}
    for name, (memory, size) in places.items():
        content = (ctypes.c_char * size)()
        driver.device_to_host(ctypes.addressof(content), memory, size)
        program.write_variable(name, bytes(content))
    yield
    for name, (memory, size) in places.items():
        content = (ctypes.c_char * size).from_buffer_copy(program.read_variable(name))
        driver.host_to_device(memory, ctypes.addressof(content), size)


def _raise_error(compiled: Any, program: Any, entry: str) -> None:
    """Raise the exception that a thread of a kernel with ``debug=True`` has raised."""

    def read(name: str) -> int:
        return int.from_bytes(program.read_variable(f"{entry}__{name}__"), "little", signed=True)

    code = read("errcode")
    if code == 0:
        return
    kind, arguments, place = compiled.call_helper.get_exception(code)
    where = ""
    if place is not None:
        function, file, line = place
        where = f"In function {function!r}, file {file}, line {line}, "
    thread, block = ([read(f"{name}{axis}") for axis in "zyx"] for name in ("tid", "ctaid"))
    text = f"{where}tid={thread} ctaid={block}"
    raise kind(*([f"{text}: {arguments[0]}", *arguments[1:]] if arguments else [text]))
