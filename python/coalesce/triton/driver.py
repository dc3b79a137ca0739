"""A driver of Triton whose GPU is simulated.

Triton asks its driver for the architecture to compile for, and passes it each launch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime.cache import get_cache_manager

from coalesce import launched
from coalesce._core import model
from coalesce.arrays.devices import Device
from coalesce.compile import nvrtc
from coalesce.compile.binaries import cubin
from coalesce.cxx import signature
from coalesce.cxx.signature import Signature
from coalesce.launch.kernel import CompiledKernel
from coalesce.launch.launch import Launch
from coalesce.launch.module import CompiledModule
from coalesce.launch.run import run
from coalesce.triton.arguments import Arguments


class SimulatedDriver(DriverBase):  # type: ignore[misc]
    """Triton's interface of a GPU."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self._device = device
        gpu = next(g for g in model.gpus() if g["name"] == device.name.partition(":")[2])
        properties = {
            "max_shared_mem": (gpu["shared_kb"] - 1) << 10,  # CUDA itself uses 1 KiB
            "max_num_regs": 1 << 16,
            "warpSize": 32,
            "multiprocessor_count": gpu["multiprocessors"],
            "sm_clock_rate": int(gpu["clock_ghz"] * 1e6),  # in kHz
        }
        self.utils = SimpleNamespace(
            load_binary=_load,
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
            ms = launched.analysed(call, lambda launch: run(launch, 1).kernel_ms)
            return [ms] * len(quantiles) if quantiles else ms

        return benchmark


def _load(name: str, machine: bytes, shared_bytes: int, device: int) -> tuple[Any, ...]:
    """Return Triton's objects for a kernel, its registers, its spills, and its most threads."""
    del shared_bytes, device
    return None, machine, cubin.registers(machine, name), 0, 1024


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
        self._descriptors = getattr(metadata, "tensordesc_meta", None) or ()
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
        blocks = x * y * z * metadata.num_ctas
        made = Arguments(self._sizes, iter(self._descriptors), self._device.name)
        for (name, kind), value in zip(self._types.items(), arguments, strict=True):
            made.add(name, kind, value)
        scratch = "global_scratch", "profile_scratch"
        for name, _ in zip(scratch, self._sizes[len(made.values) :], strict=False):
            made.add_memory(name, getattr(metadata, f"{name}_size", 0) * blocks)
        made.finish()
        known = Signature(metadata.name, metadata.name, tuple(made.parameters))
        kernel = CompiledKernel(self._module, known, self._device)
        cooperative = bool(metadata.launch_cooperative_grid)
        grid = x * metadata.num_ctas, y, z
        launch = Launch.of(kernel, grid, self._threads, metadata.shared, cooperative)
        if enter is not None:
            enter(launch_metadata)
        launched.run(replace(launch, arguments=made.values))
        if leave is not None:
            leave(launch_metadata)
