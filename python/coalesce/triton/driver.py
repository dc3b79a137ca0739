"""A driver of Triton whose GPU is simulated.

Triton asks its driver for the architecture to compile for, and passes it each launch. The arguments
are arrays of the host: NumPy arrays (`HostTensor`), or tensors of PyTorch on the CPU.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime.cache import get_cache_manager

from coalesce import launched
from coalesce._core import model
from coalesce.arrays.devices import Device
from coalesce.compile import nvrtc
from coalesce.cxx import signature
from coalesce.cxx.signature import Parameter, Signature
from coalesce.launch.arguments import Argument, HostArray
from coalesce.launch.kernel import CompiledKernel
from coalesce.launch.launch import Launch
from coalesce.launch.module import CompiledModule

# NumPy's types of Triton's types of scalars.
_SCALARS = {"i1": "?", "u1": "?", "fp16": "f2", "fp32": "f4", "fp64": "f8"} | {
    f"{sign}{8 * size}": f"{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8)
}


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


class SimulatedDriver(DriverBase):  # type: ignore[misc]
    """Triton's interface of a GPU."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self._device = device
        gpu = next(g for g in model.gpus() if g["name"] == device.name.partition(":")[2])
        properties = {
            "max_shared_mem": (gpu["shared_kb"] - 1) << 10,  # CUDA itself uses 1 KiB
            "multiprocessor_count": gpu["multiprocessors"],
        }
        self.utils = SimpleNamespace(
            load_binary=lambda _, binary, *__: (None, binary, 0, 0, 1024),
            unload_module=lambda _: None,
            get_device_properties=lambda _: properties,
        )

    def launcher_cls(self, source: Any, metadata: Any) -> _Launcher:
        """Return the function that launches a compiled kernel."""
        return _Launcher(source, metadata, self._device)

    @classmethod
    def is_active(cls) -> bool:
        """Return False: Triton chooses this driver only if it was set."""
        return False

    def get_current_target(self) -> GPUTarget:
        """Return the architecture to compile for."""
        major, minor = self._device.compute_capability
        return GPUTarget("cuda", 10 * major + minor, 32)

    def get_current_device(self) -> int:
        """Return the number of the GPU."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Accept the only GPU."""

    def get_current_stream(self, device: int) -> int:
        """Return the default stream. Each launch runs at once."""
        del device
        return 0

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return the name of a type. It is not compiled."""
        return ty

    def get_active_torch_device(self) -> Any:
        """Return the device of PyTorch whose tensors are the arguments."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """Return PyTorch's functions for the device."""
        import torch

        return torch.cpu

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return a function for Triton's autotuner. It returns the modelled time of a kernel."""

        def benchmark(
            call: Callable[[], object], *, quantiles: Sequence[float] = (), **options: Any
        ) -> Any:
            del options
            ms = launched.analysed(call, lambda launch: launch.run(1).kernel_ms)
            return [ms] * len(quantiles) if quantiles else ms

        return benchmark


class _TritonModule(CompiledModule):
    """The PTX and the machine code that Triton compiled."""

    def __init__(self, ptx: str, machine: bytes, name: str) -> None:
        arch = re.search(r"\.target\s+(sm_\w+)", ptx)
        compiled = nvrtc.Compiled(ptx, machine, "", {}, arch[1] if arch else "")
        super().__init__(ptx, name, compiled)
        self._made_of = ptx, machine, name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_of

    def may_show(self, file: str) -> bool:
        del file
        return True  # the kernel is code of this process


class _Launcher:
    """Launches a kernel that Triton compiled."""

    def __init__(self, source: Any, metadata: Any, device: Device) -> None:
        # Triton passes only the machine code to the driver, but stores the PTX in its cache.
        folder = Path(get_cache_manager(metadata.hash).cache_dir)
        ptx, machine = next(folder.glob("*.ptx")), next(folder.glob("*.cubin"))
        self._module = _TritonModule(ptx.read_text(), machine.read_bytes(), metadata.name)
        self._metadata, self._device = metadata, device
        self._types = dict(source.signature)
        if any("tensordesc" in str(kind) for kind in self._types.values()):
            raise NotImplementedError(
                f"the kernel {metadata.name} has a tensor descriptor as an argument, which the "
                "simulator does not support yet; pass the tensor, and make the descriptor in the "
                "kernel"
            )
        entries = signature.ptx_entries(self._module.source)
        self._sizes = [parameter.bytes for parameter in entries[metadata.name]]
        threads = re.search(r"\.reqntid\s+(\d+)", self._module.source)
        self._threads = int(threads[1]) if threads else 32 * metadata.num_warps

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: Any,
        function: Any,
        packed: Any,
        launch_metadata: Any,
        enter: Any,
        leave: Any,
        *arguments: Any,
    ) -> None:
        del stream, function, packed
        metadata = self._metadata
        bound: list[Argument] = []
        parameters: list[Parameter] = []
        for (name, kind), value in zip(self._types.items(), arguments, strict=True):
            for part, type_, item in _flat(name, kind, value):
                made = _argument(part, type_, item)
                role = "pointer" if isinstance(made, HostArray) else "scalar"
                size = self._sizes[len(bound)]
                parameters.append(Parameter(part, role, size, spelled=type_))  # type: ignore[arg-type]
                bound.append(made.ljust(size, b"\0") if isinstance(made, bytes) else made)
        grid = x * metadata.num_ctas, y, z
        scratch = "global_scratch", "profile_scratch"
        for name, size in zip(scratch, self._sizes[len(bound) :], strict=False):
            amount = getattr(metadata, f"{name}_size", 0) * x * y * z * metadata.num_ctas
            array = np.zeros(amount, np.uint8)
            bound.append(HostArray(name, array, array, True) if amount else bytes(size))
            parameters.append(Parameter(name, "pointer", size))
        known = Signature(metadata.name, metadata.name, tuple(parameters))
        kernel = CompiledKernel(self._module, known, self._device)
        cooperative = bool(metadata.launch_cooperative_grid)
        launch = Launch.of(kernel, grid, self._threads, metadata.shared, cooperative)
        if enter is not None:
            enter(launch_metadata)
        launched.run(replace(launch, arguments=bound))
        if leave is not None:
            leave(launch_metadata)


def _flat(name: str, kind: Any, value: Any) -> Iterator[tuple[str, str, Any]]:
    """Return (name, type, value) of each parameter of an argument. Constants are no parameters."""
    if isinstance(kind, tuple | list):
        for number, (item_kind, item) in enumerate(zip(kind, value, strict=True)):
            yield from _flat(f"{name}[{number}]", item_kind, item)
    elif kind != "constexpr":
        yield name, kind, value


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
