"""Makes a module of coalesce from a kernel that Numba compiled."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from numba.cuda import dispatcher
from numba.cuda.cudadrv import driver

from coalesce._core import sim
from coalesce.arrays.devices import Device
from coalesce.compile import nvrtc
from coalesce.compile.binaries import cubin
from coalesce.launch.module import CompiledModule, DebugBuild
from coalesce.numba import shared_names
from coalesce.numba.linking import linked_ptx


class NumbaModule(CompiledModule):
    """The PTX of a kernel, and the machine code that Numba's linker makes from it."""

    def __init__(self, ptx: str, architecture: tuple[int, ...], name: str) -> None:
        super().__init__(ptx, name, nvrtc.Compiled(ptx, None, "", {}, ""))
        self._architecture = architecture
        # Compiles the kernel for debugging. None after pickling.
        self.compile_again: Callable[[], tuple[str, str, frozenset[str]]] | None = None

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

    def debug_build(self, device: Device) -> DebugBuild | None:
        """Return a build in which debug information says which registers hold variables."""
        if self.compile_again is None:
            return None
        if device.name not in self._debug:
            self._debug[device.name] = self._debug_build(device)
        return self._debug[device.name]

    def _debug_build(self, device: Device) -> DebugBuild | None:
        assert self.compile_again is not None
        try:
            with warnings.catch_warnings():  # the user did not ask for this compilation
                warnings.simplefilter("ignore")
                ptx, entry, names = self.compile_again()
        except Exception:  # Numba cannot describe some types, such as tuples of empty tuples
            return None
        program = sim.SimulatedModule(ptx, self.shown_source, filename=self.file_in_ptx)
        return self._with_variables(device, program, ptx, {self.filename: entry}, names)

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
        module.compile_again = functools.partial(_for_debugging, compiled)
        compiled._coalesce_module = module
    return module


def _for_debugging(compiled: Any) -> tuple[str, str, frozenset[str]]:
    """Compile a kernel for debugging. Return the PTX, and the names of the kernel and variables."""
    options = {**compiled.coalesce_options, "debug": True, "lineinfo": False, "opt": False}
    again = dispatcher._Kernel(compiled.py_func, compiled.argument_types, **options)
    library = again._codelibrary
    ptx = shared_names.named(linked_ptx(library)[0], library)
    return ptx, again.entry_name, frozenset(compiled.py_func.__code__.co_varnames)
