"""Makes the arguments of a launch from those that Triton passes to its driver.

A pointer is a NumPy array (`HostTensor`), or a tensor of PyTorch on the CPU. A tuple, and a tensor
descriptor, become several parameters. A kernel may also read addresses of tensors from a tensor of
integers, as grouped products do. `Arguments` finds these tensors, and the simulator maps them at
the addresses that they have in this process.
"""

from __future__ import annotations

import ctypes
import gc
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from triton.backends.nvidia import driver as nvidia

from coalesce.arrays.simulated_memory import SimulatedMemory
from coalesce.cxx.signature import Parameter
from coalesce.launch.arguments import Argument, HostArray
from coalesce.launch.tensor_map import TensorMap

# NumPy's types of Triton's types of scalars.
_SCALARS = {"i1": "?", "u1": "?", "fp16": "f2", "fp32": "f4", "f32": "f4", "fp64": "f8"} | {
    f"{sign}{8 * size}": f"{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8)
}
# The names of the types in CUDA's enumeration CUtensorMapDataType, in order.
_ELEMENTS = (
    *("uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"),
    *("bfloat16", "float32_ftz", "tfloat32", "tfloat32_ftz"),
)
_ADDRESSES = "i64", "u64", "*i64", "*u64"  # the types in which a program passes addresses
_LEAST_ADDRESS = 1 << 20
_BYTE = np.dtype(np.uint8)


class HostTensor:
    """A NumPy array with the attributes of a tensor of PyTorch that Triton uses."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return int(self.array.ctypes.data)

    def element_size(self) -> int:
        """Return the size of an element in bytes."""
        return int(self.array.itemsize)

    def stride(self) -> tuple[int, ...]:
        """Return the strides in elements."""
        return tuple(stride // self.array.itemsize for stride in self.array.strides)


@dataclass
class Arguments:
    """The arguments of a launch, and their parameters.

    Attributes
    ----------
    sizes : sequence of int
        The size of each parameter in the PTX.
    descriptors : iterator
        What Triton's compiler knows of each tensor descriptor, in order.
    device : str
        The name of the simulated GPU.
    values, parameters : list
        The result. The arrays that belong to no parameter are at the end: those of tensor
        descriptors, and those whose addresses the kernel reads.
    """

    sizes: Sequence[int]
    descriptors: Iterator[Any]
    device: str
    values: list[Argument] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    _behind: list[HostArray] = field(default_factory=list)
    _addresses: list[tuple[str, np.ndarray[Any, np.dtype[np.uint64]]]] = field(default_factory=list)

    def add(self, name: str, kind: Any, value: Any) -> None:
        """Add an argument of a kernel. `kind` is Triton's type of it. Constants are left out."""
        if isinstance(kind, tuple | list):
            for number, (item_kind, item) in enumerate(zip(kind, value, strict=True)):
                self.add(f"{name}[{number}]", item_kind, item)
        elif kind.startswith("tensordesc"):
            self._add_descriptor(name, value)
        elif kind != "constexpr":
            made = _argument(name, kind, value)
            if kind in _ADDRESSES:
                words = made.array if isinstance(made, HostArray) else np.frombuffer(made, np.uint8)
                self._addresses.append((name, words.ravel().view(np.uint64)))
            self._add_one(name, kind, made)

    def add_memory(self, name: str, size: int) -> None:
        """Add memory of zeros, or a null pointer if `size` is 0."""
        array = np.zeros(size, np.uint8)
        self._add_one(name, "", HostArray(name, array, array, True) if size else bytes(8))

    def finish(self) -> None:
        """Add the arrays that belong to no parameter."""
        self._map_tensors()
        for array in self._behind:
            self.values.append(array)
            self.parameters.append(Parameter(array.name, "pointer", 8))

    def _add_one(self, name: str, kind: str, value: Argument) -> None:
        size = self.sizes[len(self.values)]
        role: Any = "pointer" if isinstance(value, HostArray) else "scalar"
        self.parameters.append(Parameter(name, role, size, spelled=kind))
        self.values.append(value.ljust(size, b"\0") if isinstance(value, bytes) else value)

    def _add_descriptor(self, name: str, descriptor: Any) -> None:
        base, about = descriptor.base, next(self.descriptors, None)
        if about is None:  # before compute capability 9.0: the parts of the descriptor
            make = nvidia.make_tensordesc_arg
            unused = [None] * (len(inspect.signature(make).parameters) - 2)
            parts = make(descriptor, None, *unused)
        else:
            array = _array(f"{name}.base", base)
            self._behind.append(array)
            self._add_one(name, "tensordesc", _tensor_map(array.name, descriptor, about))
            parts = [*descriptor.shape, *descriptor.strides]
        for part in parts:
            size = self.sizes[len(self.values)]
            made = _array(name, part) if part is base else int(part).to_bytes(size, "little")
            self._add_one(name, "tensordesc", made)

    def _map_tensors(self) -> None:
        """Map the tensors whose addresses the kernel gets as integers."""
        candidates = [(n, words) for n, words in self._addresses if (words >= _LEAST_ADDRESS).any()]
        tensors = _tensors() if candidates else {}
        if not tensors:
            return
        starts = np.array(sorted(tensors), np.uint64)
        ends = starts + np.array([tensors[int(start)] for start in starts], np.uint64)
        known: set[int] = set()
        for name, words in candidates:
            found = np.searchsorted(starts, words, "right") - 1
            found[(found >= 0) & (words >= ends[found])] = -1
            for number, place in zip(*np.unique(found, return_index=True), strict=True):
                if number >= 0 and number not in known:
                    known.add(int(number))
                    label = f"{name}[{place}]" if len(words) > 1 else name
                    self._map(label, int(starts[number]), tensors[int(starts[number])])

    def _map(self, name: str, address: int, size: int) -> None:
        """Let the kernel access memory of this process at its own address."""
        memory = SimulatedMemory((size,), _BYTE, self.device, address, address)
        array = memory.bytes()
        self._behind.append(HostArray(name, array, array, True))


def _tensor_map(name: str, descriptor: Any, about: Any) -> TensorMap:
    """Return the tensor map of a descriptor.

    `about` is what the compiler decided, such as the part that a copy reads.
    """
    number = nvidia.TMA_DTYPE_DEVICE_TO_HOST[about["elem_type"]]
    if about.get("is_im2col") or about["fp4_padded"] or number >= len(_ELEMENTS):
        raise NotImplementedError(
            f"the simulator does not support the kind of tensor descriptor that {name} belongs to: "
            "only tiles of elements of 8 bits or more are supported"
        )
    element = "tfloat32" if getattr(descriptor, "round_f32_to_tf32", False) else _ELEMENTS[number]
    extents = (
        tuple(map(int, descriptor.shape)),
        tuple(about["elem_size"] * int(step) for step in descriptor.strides[:-1]),
        tuple(map(int, about["block_size"])),
    )
    nan = getattr(descriptor, "padding", "zero") == "nan"
    return TensorMap(name, element, *extents, about["swizzle"], nan)


def _tensors() -> dict[int, int]:
    """Return the address and the size of the memory of each tensor on the CPU."""
    torch = sys.modules.get("torch")
    found: dict[int, int] = {}
    if torch is None:
        return found
    for item in gc.get_objects():
        if issubclass(type(item), torch.Tensor) and item.is_cpu and item.layout is torch.strided:
            storage = item.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return found


def _argument(name: str, kind: str, value: Any) -> bytes | HostArray:
    if kind.startswith("*"):
        if value is None:
            return bytes(8)
        if isinstance(value, int):
            return value.to_bytes(8, "little")
        return _array(name, value)
    if kind == "bf16":
        half: bytes = np.float32(value).tobytes()[2:]  # the upper half of a float32
        return half
    packed: bytes = np.asarray(value).astype(_SCALARS[kind]).tobytes()
    return packed


def _array(name: str, value: Any) -> HostArray:
    """Return the memory of a tensor, from its first to its last element."""
    if not getattr(value, "is_cpu", True):
        raise ValueError(
            f"argument `{name}` is a tensor in the memory of a GPU; the simulator needs a tensor "
            f"on the CPU: {name}.cpu()"
        )
    item, shape, strides = value.element_size(), tuple(value.shape), value.stride()
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    low, high = (sum(filter(sign, steps)) for sign in (lambda n: n < 0, lambda n: n > 0))
    count = high - low + 1 if all(shape) else 0
    memory = (ctypes.c_char * (count * item)).from_address(value.data_ptr() + low * item)
    memory.owner = value  # keeps the memory alive
    kind = str(value.dtype).rpartition(".")[2]
    dtype = np.dtype(kind) if kind in np.sctypeDict else np.dtype(f"u{item}")
    array = np.frombuffer(memory, dtype)
    if count == np.prod(shape, dtype=np.int64) and _c_contiguous(shape, strides):
        array = array.reshape(shape)
    return HostArray(name, array, array, True, -low * item)


def _c_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    expected = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != expected:
            return False
        expected *= n
    return True
