"""Finds a kernel in a source in CUDA C++ or PTX, and reads its signature."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from coalesce.arrays import devices
from coalesce.arrays.devices import Device
from coalesce.common import require
from coalesce.compile.device_headers import headers
from coalesce.cxx import signature
from coalesce.cxx.signature import Signature
from coalesce.launch.globals import Globals
from coalesce.launch.module import Module
from coalesce.launch.source import module_of

if TYPE_CHECKING:
    from typing_extensions import Self

    from coalesce._core import sim


class LoadedKernel:
    """A `__global__` function of a module: its signature, and how it was compiled."""

    def __init__(
        self,
        source: str | os.PathLike[str],
        entry: str | None = None,
        options: Sequence[str] = (),
        arch: str | int | None = None,
        *,
        device: str | Device | None = None,
        instruction_limit: int | None = None,
        headers: Mapping[str, str] | None = None,
        filename: str | None = None,
        signature: str | None = None,
    ) -> None:
        if entry is not None:
            require.text("entry", entry)
        if instruction_limit is not None:
            instruction_limit = require.whole("instruction_limit", instruction_limit, 0, 2**63 - 1)
        chosen = devices.resolve(device)
        module = module_of(source, entry, options, arch, headers, filename, signature)
        self._open(module, entry, device, chosen, instruction_limit)

    @classmethod
    def all_of(
        cls,
        source: str,
        entry: str | None,
        options: Sequence[str] = (),
        arch: str | int | None = None,
        *,
        device: str | Device | None = None,
        filename: str | None = None,
    ) -> list[Self]:
        """Return a list of all kernels in a source. The kernel `entry` comes first.

        If a kernel changes a `__device__` variable of the source (see `globals`), the other kernels
        see the new value.

        Parameters
        ----------
        source, entry, options, arch, device, filename
            The same as for `Kernel`.

        Returns
        -------
        list of Kernel
        """
        chosen = devices.resolve(device)
        module = module_of(source, entry, options, arch, None, filename)
        entries = signature.ptx_entries(module.compiled(chosen).ptx)
        first = cls.__new__(cls)
        entry = entry if entry is not None else next(iter(entries), None)
        first._open(module, entry, device, chosen, None)
        return [first, *(first.get_function(other) for other in entries if other != first.entry)]

    def _open(
        self,
        module: Module,
        entry: str | None,
        wanted: str | Device | None,
        device: Device,
        instruction_limit: int | None,
    ) -> None:
        """Find the entry in the module. `device` is the resolved form of `wanted`."""
        self._set(module, wanted, device, instruction_limit)
        if module.is_ptx and self._device.kind == "sim":
            module.program(self._device)  # raises a syntax error now, not at the first launch
        compiled = module.compiled(self._device)
        entries = signature.ptx_entries(compiled.ptx)
        self.entries = tuple(entries)
        code = module.device_code
        templates = [] if code is None else [n[:-2] for n in code.kernels if n.endswith("<>")]
        self.entry = signature.find_entry(
            self.entries, entry, module.text, compiled.lowered, templates
        )
        instances = {mangled: name for name, mangled in compiled.lowered.items()}
        self._expression = instances.get(self.entry)
        known = signature.signature_of(
            self.entry,
            entries[self.entry],
            module.text,
            module.options,
            self._expression,
            functools.partial(module.types, self._device),
        )
        ask = functools.partial(module.structures, self._device, self.entry, self._expression)
        self.signature = dataclasses.replace(known, structures=ask)
        if module.declaration:
            self.signature = self._declared(module.declaration)

    def _declared(self, declaration: str) -> Signature:
        """Return the signature that a text in CUDA C++ declares for the kernel."""
        text = declaration.strip().removesuffix(";")
        if "__global__" not in text:
            text = f'extern "C" __global__ void {self.name.split("::")[-1]}({text})'
        declared = LoadedKernel(f"{text} {{}}", device="sim", filename="signature.cu").signature
        sizes, wanted = ([p.bytes for p in s.parameters] for s in (declared, self.signature))
        if sizes != wanted:
            raise ValueError(
                f"`signature` declares {declared}, whose parameters have {sizes} bytes; the "
                f"parameters in the PTX of {self.entry} have {wanted} bytes"
            )
        return dataclasses.replace(declared, entry=self.entry, name=self.name)

    def _set(
        self,
        module: Module,
        wanted: str | Device | None,
        device: Device,
        instruction_limit: int | None,
    ) -> None:
        self.module = module
        self.wanted = wanted  # the device that the caller named; None if the arrays choose it
        self._device = device
        self.instruction_limit = instruction_limit
        self._expression = None

    def get_function(self, entry: str) -> Self:
        """Return another kernel of the same source.

        Both kernels use the same `__device__` and `__constant__` variables (see `globals`). For
        another instantiation of a template, make another `Kernel` instead.

        Parameters
        ----------
        entry : str
            The name of the other kernel, as in the source or as in the PTX (mangled).

        Returns
        -------
        Kernel
            The other kernel, on the same device.

        Raises
        ------
        TypeError, ValueError
            `entry` is not a string, or the source has no such kernel.

        Examples
        --------
        >>> kernel = coalesce.Kernel('''
        ... __device__ int total;
        ... extern "C" __global__ void add(int n) { atomicAdd(&total, n); }
        ... extern "C" __global__ void tell(int *out) { *out = total; }''', "add")
        >>> kernel[2, 16](3)
        >>> out = np.zeros(1, np.int32)
        >>> kernel.get_function("tell")[1, 1](out)
        >>> out
        array([96], dtype=int32)
        """
        require.text("entry", entry)
        entry = signature.as_compiled(entry, self.module.compiled(self._device).lowered)
        if "<" in entry and entry not in self.module.compiled(self._device).lowered:
            raise ValueError(
                f"{entry!r} was not compiled with this kernel. To compile {entry!r}, call "
                f"coalesce.Kernel(source, {entry!r})"
            )
        other = type(self).__new__(type(self))
        other._open(self.module, entry, self.wanted, self._device, self.instruction_limit)
        return other

    @property
    def source(self) -> str:
        """The source text of the kernel."""
        return self.module.source

    @property
    def options(self) -> tuple[str, ...]:
        """The options for the compiler, such as ``("-DTILE=16",)``."""
        return self.module.options

    @functools.cached_property
    def globals(self) -> Globals:
        """The `__device__` and `__constant__` variables of the source, by name. See `Globals`."""
        return Globals(self.module, self._device)

    @property
    def name(self) -> str:
        """The name of the kernel in the source, such as "scale". Its name in PTX may be mangled."""
        return self.signature.name

    @property
    def device(self) -> Device:
        """The device on which the kernel runs by default."""
        return self._device

    @property
    def is_ptx(self) -> bool:
        """Whether the source is PTX text."""
        return self.module.is_ptx

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that the user passed: a dict from the name of each header to its text."""
        return self.module.headers

    @property
    def ptx(self) -> str:
        """The PTX text that the simulator runs."""
        return self.module.compiled(self._device).ptx

    @property
    def left_out(self) -> tuple[str, ...]:
        """The parts of the source that were removed or replaced, such as "main() (lines 30-52)"."""
        module, code = self.module, self.module.device_code
        if module.is_ptx:
            return ()
        source = module.source if code is None else code.text
        user_headers = module.headers if code is None else {**module.headers, **code.headers}
        options = module.options if code is None else ()
        replaced = tuple(
            f"#include {name} ({what})"
            for name, (what, _) in headers.replaced(source, user_headers, options).items()
        )
        return replaced + (() if code is None else code.left_out)

    @property
    def log(self) -> str:
        """The compiler's warnings."""
        return self.module.compiled(self._device).log

    @property
    def compiled(self) -> list[str]:
        """What has become of the kernel if the simulator compiles kernels (``COALESCE_JIT``).

        A text for each kind of block size with which it was launched, such as "not compiled" or
        "compiled: 14 operations, and 0 calls of the interpreter". The list is empty if compilation
        is off, for kernels on a GPU, and before the first plain launch: profiles and checks are
        always interpreted.
        """
        if self._device.kind == "cuda":
            return []
        program: sim.SimulatedModule = self.module.program(self._device)
        return program.compiled(self.entry)

    def __repr__(self) -> str:
        return f"<Kernel {self.signature} on {self._device.name}>"
