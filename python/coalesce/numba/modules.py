"""Makes a module of coalesce from a kernel that Numba compiled."""

from __future__ import annotations

import functools
from typing import Any

from numba.cuda.cudadrv import driver

from coalesce.arrays.devices import Device
from coalesce.compile import nvrtc
from coalesce.compile.binaries import cubin
from coalesce.launch.module import CompiledModule
from coalesce.numba import shared_names
from coalesce.numba.linking import linked_ptx


class NumbaModule(CompiledModule):
    """The PTX of a kernel, and the machine code that Numba's linker makes from it."""

    def __init__(self, ptx: str, architecture: tuple[int, ...], name: str) -> None:
        super().__init__(ptx, name, nvrtc.Compiled(ptx, None, "", {}, ""))
        self._architecture = architecture

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self._architecture, self.filename)

    def compiled(self, device: Device) -> nvrtc.Compiled:
        """Return the PTX and the machine code."""
        del device
        return self.linked

    @functools.cached_property
    def linked(self) -> nvrtc.Compiled:
        """The PTX and the machine code."""
        linker = driver._Linker(cc=self._architecture, lineinfo=True, lto=False)
        linker.add_ptx(self.source.encode())
        made = linker.complete()
        machine = bytes(getattr(made, "code", made))
        return nvrtc.Compiled(
            self.source, machine, "", {}, f"sm_{self._architecture[0]}{self._architecture[1]}"
        )

    def may_show(self, file: str) -> bool:
        """Return True: the kernel is code of this process."""
        del file
        return True


def registers(compiled: Any) -> int:
    """Return the number of registers per thread. It replaces ``_Kernel.regs_per_thread``."""
    return cubin.registers(module_of(compiled).linked.cubin, compiled.entry_name)


def module_of(compiled: Any) -> NumbaModule:
    """Return the module of a kernel that Numba compiled for arguments of certain types."""
    module: NumbaModule | None = getattr(compiled, "_coalesce_module", None)
    if module is None:
        ptx, architecture = linked_ptx(compiled._codelibrary)
        ptx = shared_names.named(ptx, compiled._codelibrary)
        module = NumbaModule(ptx, architecture, compiled.entry_name)
        compiled._coalesce_module = module
    return module
