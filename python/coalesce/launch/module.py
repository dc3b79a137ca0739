"""Modules: sources compiled for their devices. The kernels of one source share a module.

A module is compiled when a device first needs it, and is loaded once on each device. So its
`__device__` and `__constant__` variables exist once on each device. All kernels of the module use
the same variables.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coalesce._core import cuda, sim
from coalesce.arrays.devices import Device, modelled_gpu
from coalesce.common import forks
from coalesce.common.errors import CompileError
from coalesce.compile import cubin, disassembler, nvrtc, whole_file
from coalesce.compile.layouts import Structure, of_parameters
from coalesce.cxx import compiled_types, signature
from coalesce.cxx.host_code import DeviceCode


class Module:
    """CUDA C++ or PTX text, compiled for and loaded on the devices that need it.

    Parameters
    ----------
    source : str
    options : tuple of str
        The options for NVRTC.
    arch : str or None
        ``"sm_80"``; None for the architecture of the device.
    headers : mapping
        Headers for ``#include``: the name of each header, and its text.
    filename : str
        The name of the source in messages.
    expression : str or None
        The template instantiation to compile.
    entry : str or None
        A template. If the source's host code launches instantiations of this template, these are
        compiled. By default the instantiations of every template are compiled.
    """

    def __init__(
        self,
        source: str,
        options: tuple[str, ...],
        arch: str | None,
        headers: Mapping[str, str],
        filename: str,
        expression: str | None,
        entry: str | None = None,
    ) -> None:
        self.source = source
        self.options = options
        self.arch = arch
        self.headers = dict(headers)
        self.filename = filename
        self.expression = expression
        self.entry = entry
        self.device_code: DeviceCode | None = None  # None if no host code was left out
        self.is_ptx = signature.is_ptx(source)
        self._compiled: dict[str, nvrtc.Compiled] = {}  # the compiled code, by architecture
        self._programs: dict[str, Any] = {}  # the programs on the simulator, by device
        self._loaded: dict[str, Any] = {}  # the modules on GPUs, by device
        self._structures: dict[str, list[Structure | None]] = {}  # by entry
        # Two threads that launch a new kernel must get the same module, or each would have its own
        # variables.
        self._lock = forks.lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # Kernels that are pickled together share their module after loading, too.
        return type(self), (
            self.source,
            self.options,
            self.arch,
            self.headers,
            self.filename,
            self.expression,
            self.entry,
        )

    @property
    def text(self) -> str:
        """The CUDA C++ text that contains all declarations, or "" if the source is PTX."""
        if self.device_code is not None:
            return "\n".join([self.device_code.text, *self.device_code.headers.values()])
        return "" if self.is_ptx else self.source

    @property
    def file_in_ptx(self) -> str:
        """The name of the source file in the PTX.

        "" if the source is PTX, or if PTX escapes the name because it is not ASCII.
        """
        return self.filename if self.filename.isascii() and not self.is_ptx else ""

    def compiled(self, device: Device) -> nvrtc.Compiled:
        """Return the PTX and, for CUDA C++, the machine code for a device."""
        with self._lock:
            if self.is_ptx:
                return self._compiled.setdefault("", nvrtc.Compiled(self.source, None, "", {}, ""))
            own = nvrtc.architecture
            if device.kind == "sim":
                own = nvrtc.simulated_architecture
            arch = self.arch or own(device.compute_capability)
            if arch not in self._compiled:
                self._compiled[arch], self.device_code = whole_file.compile_whole(
                    self.source,
                    arch=arch,
                    options=self.options,
                    name=self.filename,
                    headers=self.headers,
                    expressions=() if self.expression is None else (self.expression,),
                    entry=self.entry,
                )
            return self._compiled[arch]

    def types(self, device: Device, expressions: Sequence[str]) -> dict[str, str]:
        """Return the type of each C++ expression that the compiler accepts."""

        def lowered(probe: str, wanted: Sequence[str]) -> Mapping[str, str]:
            # Compile only to PTX, which is faster. Use the same architecture, because the code may
            # depend on it.
            arch = self.compiled(device).arch.replace("sm_", "compute_")
            return self._compiled_again(arch, probe, wanted).lowered

        # If the type of one kernel of a source is needed, the types of its other kernels are
        # usually needed later. So ask for the types of all kernels at once. The next kernel then
        # finds its type in the cache.
        entries = signature.ptx_entries(self.compiled(device).ptx)
        kernels = [f"&{entry}" for entry in entries if not entry.startswith("_Z")]
        if len(kernels) > 1 and set(expressions) <= set(kernels):
            with contextlib.suppress(CompileError):
                found = compiled_types.of_expressions(kernels, lowered)
                return {e: found[e] for e in expressions if e in found}
        return compiled_types.of_valid_expressions(expressions, lowered)

    def structures(
        self, device: Device, entry: str, expression: str | None
    ) -> list[Structure | None]:
        """Return the structure of each parameter of a kernel; None for other parameters.

        If the kernel is a template instantiation, `expression` names it. The result is empty if the
        structures are not known, for example if the source is PTX.
        """
        if self.is_ptx:
            return []
        if entry not in self._structures:
            wanted = () if expression is None else (expression,)
            try:
                arch = self.compiled(device).arch.replace("compute_", "sm_")
                again = self._compiled_again(arch, "", wanted, ("-G",))
            except CompileError:  # with -G, some inline assembly does not compile
                return []
            self._structures[entry] = of_parameters(again.cubin or b"", entry)
        return self._structures[entry]

    def _compiled_again(
        self, arch: str, added: str, expressions: Sequence[str], options: Sequence[str] = ()
    ) -> nvrtc.Compiled:
        """Compile the source with a text added to its end."""
        code = self.device_code
        return nvrtc.compile_cuda(
            (self.source if code is None else code.text) + added,
            arch=arch,
            options=(*self.options, *options),
            name=self.filename,
            headers=self.headers if code is None else {**self.headers, **code.headers},
            expressions=expressions,
        )

    def modelled(self, device: Device, entry: str) -> dict[str, Any]:
        """Return the properties of a kernel that the models need: options of ``Program.launch``."""
        return {
            "gpu": modelled_gpu(device),
            "registers": cubin.registers(self.compiled(device).cubin, entry),
        }

    def program(self, device: Device) -> Any:
        """Return the module on a simulated device."""
        with self._lock:
            program = self._programs.get(device.name)
            if program is None:
                # The program needs the text of the source, because messages quote its lines.
                compiled = self.compiled(device)
                text = signature.ptx_source(compiled.ptx) if self.is_ptx else self.source
                program = sim.Program(
                    compiled.ptx,
                    text,
                    self.disassembly(device),
                    cubin.functions(compiled.cubin),
                    self.file_in_ptx,
                )
                self._programs[device.name] = program
            return program

    def disassembly(self, device: Device) -> Callable[[], str] | None:
        """Return a function that disassembles the machine code, or None.

        None means that instructions of the PTX are counted instead of machine instructions.

        The disassembler takes time, so it runs only when a launch is counted.
        """
        if os.environ.get("COALESCE_COUNT_PTX"):
            return None
        compiled = self.compiled(device)
        return lambda: disassembler.listing(compiled)

    def loaded(self, device: Device) -> Any:
        """Return the module on a GPU."""
        with self._lock:
            module = self._loaded.get(device.name)
            if module is None:
                image = _image(self.compiled(device), device)
                module = cuda.Module(device.ordinal, image, self.filename)
                self._loaded[device.name] = module
            return module


def _image(compiled: nvrtc.Compiled, device: Device) -> bytes:
    """Return the code that a GPU loads: machine code, or PTX, which the driver compiles.

    Machine code runs on GPUs with the same major compute capability and the same or a higher minor
    one ("CUDA C++ Programming Guide", Binary Compatibility). Machine code for sm_90a runs only on
    compute capability 9.0. Other names that end with a letter are treated in the same way.
    """
    made_for = re.fullmatch(r"sm_(\d+)(\d)([af]?)", compiled.arch)
    if compiled.cubin is not None and made_for is not None:
        major, minor = int(made_for[1]), int(made_for[2])
        have = device.compute_capability
        if (major, minor) == have or (major == have[0] and minor < have[1] and not made_for[3]):
            return compiled.cubin
    return compiled.ptx.encode()
