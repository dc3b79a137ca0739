"""Compiles the source of kernels for a device, and loads the code on the device.

All kernels of one source share a `Module`. It is compiled when a device first needs it. Each device
loads it once. Therefore the `__device__` and `__constant__` variables of the source exist once on
each device, and all kernels of the source use the same variables.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from coalesce._core import cuda, printable, sim
from coalesce.arrays.devices import Device, modelled_gpu
from coalesce.common import forks, source_files
from coalesce.common.errors import CompileError
from coalesce.compile import nvrtc, whole_file
from coalesce.compile.binaries import cubin, disassembler
from coalesce.compile.binaries.layouts import Array, Structure, comparable, of_parameters
from coalesce.compile.device_headers import headers
from coalesce.cxx import compiled_types, kept_variables, member_accesses, signature
from coalesce.cxx.file_layout import without_kernel_bodies
from coalesce.cxx.host_code import DeviceCode
from coalesce.cxx.signature import Parameter
from coalesce.launch import compiled_kernels


@dataclass(frozen=True)
class OtherBuild:
    """Another build of a module: with tests of the indices of array members, or for debugging.

    Each compilation may give other names to kernels and variables in anonymous namespaces.
    """

    program: Any  # sim.SimulatedModule
    ptx: str
    entries: Mapping[str, str]  # from the name of each kernel in the module to its name here
    variables: Mapping[str, str]  # the same for the variables


@dataclass(frozen=True)
class DebugBuild(OtherBuild):
    """A build with ``-G``, for the stepper.

    `initial` has the first values of each variable: in the module, and in this build. They differ
    if a variable holds the address of a function or of another variable. If the compiler keeps
    local variables in registers, and not in memory, `in_registers` has their names in the source.
    """

    initial: Mapping[str, tuple[bytes, bytes]]
    in_registers: frozenset[str] | None = None

    def take_variables(self, module: Any) -> None:
        """Give the variables of this build the values that they have in `module`."""
        for name, (first, own_first) in self.initial.items():
            value = module.read_variable(name)
            self.program.write_variable(
                self.variables[name], own_first if value == first else value
            )


class Module:
    """A source with one or more kernels, which is compiled for each device that needs it.

    Parameters
    ----------
    source : str
        CUDA C++ or PTX.
    options : tuple of str
        The options for the compiler (NVRTC).
    arch : str or None
        The architecture to compile for, such as ``"sm_80"``. None means the device's architecture.
    headers : mapping
        The user's headers: the name of each header and its text.
    filename : str
        The name of the source in messages.
    expression : str or None
        The template instantiation to compile, such as ``"scale<float, 4>"``.
    entry : str or None
        The name of a kernel, or None. If the source's host code launches instantiations of kernel
        templates, these instantiations are compiled. If `entry` is not None, only the
        instantiations of this kernel are compiled.
    declaration : str
        The parameters of the kernel in CUDA C++, if the source is PTX and the user declared them.
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
        declaration: str = "",
    ) -> None:
        self.source = source
        self.options = options
        self.arch = arch
        self.headers = dict(headers)
        self.filename = filename
        self.expression = expression
        self.entry = entry
        self.declaration = declaration
        self.device_code: DeviceCode | None = None  # None if no host code was left out
        self.is_ptx = signature.is_ptx(source)
        self._compiled: dict[str, nvrtc.Compiled] = {}  # the compiled code, by architecture
        self._programs: dict[str, Any] = {}  # the programs on the simulator, by device
        # The programs for checks, by device and names of parameters (see `tested_program`).
        self._tested: dict[tuple[str, tuple[str, ...]], OtherBuild | None] = {}
        self._debug: dict[str, DebugBuild | None] = {}  # the builds for the stepper, by device
        self._loaded: dict[str, Any] = {}  # the modules on GPUs, by device
        self._functions: dict[tuple[str, str], Any] = {}  # the kernels there, by device and entry
        self._waiting: dict[str, bool] = {}  # see `waits_for_the_grid`, by entry
        self._structures: dict[str, list[Structure | Array | Parameter]] = {}  # by entry
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
            self.declaration,
        )

    @property
    def text(self) -> str:
        """The CUDA C++ source without its host code, followed by the user's headers.

        It is empty if the source is PTX.
        """
        if self.device_code is not None:
            return "\n".join([self.device_code.text, *self.device_code.headers.values()])
        return "" if self.is_ptx else self.source

    @property
    def file_in_ptx(self) -> str:
        """The name of the source, as the PTX contains it.

        It is empty if the source is PTX, or if the name has characters that are not ASCII. (The PTX
        contains such characters in another form.)
        """
        return self.filename if self.filename.isascii() and not self.is_ptx else ""

    @property
    def shown_source(self) -> str:
        """The source, for messages and profiles. If it is PTX, the source of the PTX."""
        if self.is_ptx:
            return "\n".join(self.lines_of(signature.ptx_file(self.source)))
        return printable(self.source)

    def lines_of(self, file: str) -> list[str]:
        """Return the lines of a file that the compiled code names. [] if they may not be shown."""
        return source_files.lines_of(file) if self.may_show(file) else []

    def may_show(self, file: str) -> bool:
        """Return whether reports may show lines of a file that the compiled code names.

        The user gave the files in the folders of the options. PTX may name any other file.
        """
        folders = headers.folders_of(self.options)
        if not self.is_ptx:
            folders += map(Path, nvrtc.include_folders())
        return source_files.is_given(file, folders)

    def compiled(self, device: Device) -> nvrtc.Compiled:
        """Compile the source for a device, and return the PTX and the machine code.

        If the source is PTX, there is no machine code.
        """
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
        """Return a dict from each C++ expression to its type, such as "float const*".

        Expressions that the compiler rejects are left out.
        """

        def lowered(probe: str, wanted: Sequence[str]) -> Mapping[str, str]:
            # Compile only to PTX, which is faster. Use the same architecture, because the code may
            # depend on it.
            arch = self.compiled(device).arch.replace("sm_", "compute_")
            return self._compiled_again(arch, probe, wanted).lowered

        # If the type of one kernel is needed, the types of the other kernels are usually needed
        # later. So ask the compiler for the types of all kernels at once. The cache keeps the
        # result for the other kernels.
        entries = signature.ptx_entries(self.compiled(device).ptx)
        kernels = [f"&{entry}" for entry in entries if not entry.startswith("_Z")]
        if len(kernels) > 1 and set(expressions) <= set(kernels):
            with contextlib.suppress(CompileError):
                type_of = compiled_types.of_expressions(kernels, lowered)
                return {e: type_of[e] for e in expressions if e in type_of}
        return compiled_types.of_valid_expressions(expressions, lowered)

    def structures(
        self, device: Device, entry: str, expression: str | None
    ) -> list[Structure | Array | Parameter]:
        """Return a list with the type of each parameter of a kernel.

        For a parameter that is a structure, the type describes its members. The list is empty if
        the structures are not known, for example because the source is PTX. `entry` is the kernel's
        name in the PTX. If the kernel is a template, `expression` is the instantiation, such as
        ``"scale<float, 4>"``.
        """
        if self.is_ptx:
            return []
        if entry not in self._structures:
            wanted = () if expression is None else (expression,)
            arch = self.compiled(device).arch.replace("compute_", "sm_")
            # With -G, the compiler refuses some code, such as inline assembly whose operands must
            # be constants. Such code of a kernel, or of its neighbour, is not needed here.
            for change in (str, without_kernel_bodies):
                with contextlib.suppress(CompileError):
                    again = self._compiled_again(arch, "", wanted, ("-G",), change)
                    self._structures[entry] = of_parameters(again.cubin or b"", entry)
                    break
        return self._structures.setdefault(entry, [])

    def _compiled_again(
        self,
        arch: str,
        added: str,
        expressions: Sequence[str],
        options: Sequence[str] = (),
        change: Callable[[str], str] = str,
    ) -> nvrtc.Compiled:
        """Compile the source again, with the text `added` at its end.

        `change` changes the text of the source and of the user's headers.
        """
        text, own, headers = self._compiler_input()
        return nvrtc.compile_cuda(
            change(text) + added,
            arch=arch,
            options=(*own, *options),
            name=self.filename,
            headers={name: change(text) for name, text in headers.items()},
            expressions=expressions,
        )

    def _compiler_input(self) -> tuple[str, list[str], dict[str, str]]:
        return whole_file.compiler_input(self.source, self.device_code, self.options, self.headers)

    def model_options(self, device: Device, entry: str) -> dict[str, Any]:
        """Return the options of ``Program.launch`` that the models of time and caches need.

        These options are the name of the GPU to model, and the number of registers per thread of
        the kernel `entry`.
        """
        return {
            "gpu": modelled_gpu(device),
            "registers": cubin.registers(self.compiled(device).cubin, entry),
        }

    def program(self, device: Device) -> Any:
        """Return the object with which the simulator runs the kernels of this module."""
        with self._lock:
            program = self._programs.get(device.name)
            if program is None:
                program = self._programs[device.name] = self.another_program(device)
            return program

    def another_program(self, device: Device) -> Any:
        """Return an object such as `program` returns. It has its own copy of the variables."""
        compiled_kernels.enable()
        # The program needs the text of the source, because messages quote its lines.
        compiled = self.compiled(device)
        return sim.SimulatedModule(
            compiled.ptx,
            self.shown_source,
            self.disassembly(device),
            cubin.functions(compiled.cubin),
            self.file_in_ptx,
        )

    def tested_program(self, device: Device, names: Sequence[str]) -> OtherBuild | None:
        """Return a program with tests of the indices of array members.

        `names` are the names of the parameters that are structures. If the source has no accesses
        to test, or cannot be compiled with the tests, return None. The result has its own copy of
        the module's variables.
        """
        key = device.name, tuple(names)
        if key not in self._tested:
            self._tested[key] = self._with_tests(device, names)
        return self._tested[key]

    def _with_tests(self, device: Device, names: Sequence[str]) -> OtherBuild | None:
        if self.is_ptx:
            return None
        compiled = self.compiled(device)
        source, options, headers = self._compiler_input()
        tested, accesses = member_accesses.with_tests(source, names)
        if not accesses:
            return None
        header = member_accesses.HEADER
        # Compile only to PTX: the function that the tests call exists only in the simulator.
        options, _ = nvrtc.without_arch(options)
        try:
            again = nvrtc.compile_cuda(
                f'#include "{header}"\n#line 1\n{tested}',  # the lines keep their numbers
                arch=compiled.arch.replace("sm_", "compute_"),
                options=options,
                name=self.filename,
                headers={**headers, header: member_tests()},
                expressions=list(compiled.lowered),
            )
        except CompileError:  # for example, the options select an old version of C++
            return None
        # Messages quote the lines of the source without the tests.
        program = sim.SimulatedModule(
            again.ptx,
            self.source,
            None,
            cubin.functions(compiled.cubin),
            self.file_in_ptx,
            [(access.array, access.verb) for access in accesses],
        )
        untested = self.program(device)
        entries = _matched([(e,) for e in untested.entries], [(e,) for e in program.entries])
        variables = _matched(untested.variables(), program.variables())
        if entries is None or variables is None:
            return None
        return OtherBuild(program, again.ptx, entries, variables)

    def debug_build(self, device: Device) -> DebugBuild | None:
        """Return a build with ``-G``, in which the variables of the source are in memory.

        If the source is PTX, or cannot be compiled with ``-G``, return None. The result has its own
        copy of the module's variables.
        """
        if self.is_ptx:
            return None
        if device.name not in self._debug:
            self._debug[device.name] = self._debug_build(device)
        return self._debug[device.name]

    @property
    def scopes(self) -> dict[tuple[str, int], kept_variables.Scope]:
        """The scopes of the source's local variables: see `kept_variables.scopes`."""
        return kept_variables.scopes(self._compiler_input()[0])

    def _debug_build(self, device: Device) -> DebugBuild | None:
        compiled = self.compiled(device)
        again = None
        # Compile only to PTX. Some inline assembly cannot be assembled with -G.
        arch = compiled.arch.replace("sm_", "compute_")
        for change in (kept_variables.with_addresses, str):
            # If the changed source does not compile, variables whose address the source itself uses
            # are still in memory. The source itself does not compile with -G if an operand of
            # inline assembly is a constant only after optimization.
            with contextlib.suppress(CompileError):
                again = self._compiled_again(arch, "", list(compiled.lowered), ("-G",), change)
                break
        if again is None:
            return None
        program = sim.SimulatedModule(again.ptx, self.shown_source, filename=self.file_in_ptx)
        own = self.program(device)
        entries = _matched([(e,) for e in own.entries], [(e,) for e in program.entries])
        if entries is None:
            return None
        return self._with_variables(device, program, again.ptx, entries)

    def _with_variables(
        self,
        device: Device,
        program: Any,
        ptx: str,
        entries: Mapping[str, str],
        in_registers: frozenset[str] | None = None,
    ) -> DebugBuild:
        """Return a build for the stepper that knows which variables it has in common with this."""
        own = self.program(device)
        names = {comparable(name): name for name, *_ in own.variables()}
        variables = {
            names[comparable(name)]: name
            for name, *_ in program.variables()
            if comparable(name) in names
        }
        initial = {}
        if variables:
            unused = self.another_program(device)  # no kernel has changed its variables
            initial = {
                name: (unused.read_variable(name), program.read_variable(there))
                for name, there in variables.items()
            }
        return DebugBuild(program, ptx, entries, variables, initial, in_registers)

    def disassembly(self, device: Device) -> Callable[[], str] | None:
        """Return a function that returns the machine code as text.

        Disassembling takes time. Therefore the returned function is called only if a launch is
        counted. If the environment variable COALESCE_COUNT_PTX is set, return None. Then the
        simulator counts PTX instructions instead of machine instructions.
        """
        if os.environ.get("COALESCE_COUNT_PTX"):
            return None
        compiled = self.compiled(device)
        return lambda: disassembler.listing(compiled)

    def loaded(self, device: Device) -> Any:
        """Load the module on a GPU, and return the loaded module."""
        with self._lock:
            module = self._loaded.get(device.name)
            if module is None:
                image = _image(self.compiled(device), device)
                module = cuda.LoadedModule(device.ordinal, image, self.filename)
                self._loaded[device.name] = module
            return module

    def function(self, device: Device, entry: str) -> Any:
        """Load the module on a GPU, and return the kernel `entry` of the loaded module."""
        function = self._functions.get((device.name, entry))
        if function is None:
            function = cuda.Function(self.loaded(device), entry)
            self._functions[device.name, entry] = function
        return function

    def waits_for_the_grid(self, device: Device, entry: str) -> bool:
        """Return whether a kernel contains grid.sync(), which fails in an ordinary launch.

        The result is stored, because every launch on a GPU needs it, and searching long PTX takes
        time.
        """
        if entry not in self._waiting:
            ptx = self.compiled(device).ptx
            after = ptx.partition(f".entry {entry}")[2].partition(".entry ")[0]
            found = "%envreg2" in after and re.search(r"\btrap;", after) is not None
            self._waiting[entry] = found
        return self._waiting[entry]


class CompiledModule(Module):
    """A module that was compiled elsewhere, so it is not compiled here.

    Parameters
    ----------
    source, filename : str
        As for `Module`.
    compiled : nvrtc.Compiled
        The result of the compilation.
    options : dict
        More options for ``SimulatedModule.launch``.
    listing : str or None
        The machine code as text. None if there is none. By default, it is made when it is needed.
    """

    def __init__(
        self,
        source: str,
        filename: str,
        compiled: nvrtc.Compiled,
        options: Mapping[str, Any] | None = None,
        listing: str | None = "",
    ) -> None:
        super().__init__(source, (), None, {}, filename, None)
        self._parts = source, filename, compiled, options, listing

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._parts

    def compiled(self, device: Device) -> nvrtc.Compiled:
        del device
        return self._parts[2]

    def model_options(self, device: Device, entry: str) -> dict[str, Any]:
        return {**super().model_options(device, entry), **(self._parts[3] or {})}

    def disassembly(self, device: Device) -> Callable[[], str] | None:
        text = self._parts[4]
        if text == "":
            return super().disassembly(device)
        return None if text is None else lambda: text


def _matched(
    first: Sequence[tuple[Any, ...]], second: Sequence[tuple[Any, ...]]
) -> dict[str, str] | None:
    """Return a dict from the names in `first` to the names in `second`.

    Each item has a name and properties. If the lists are not equal, except for the names of
    anonymous namespaces, return None.
    """
    a, b = ([(comparable(name), *rest) for name, *rest in items] for items in (first, second))
    if a != b:
        return None
    return {old[0]: new[0] for old, new in zip(first, second, strict=True)}


@lru_cache(maxsize=1)
def member_tests() -> str:
    """Return the header with the functions that test indices in a check."""
    return (Path(nvrtc.__file__).parent / "device_headers" / "member_accesses.h").read_text(
        encoding="utf-8"
    )


def _image(compiled: nvrtc.Compiled, device: Device) -> bytes:
    """Return the code that a GPU loads: machine code, or PTX, which the driver compiles.

    Machine code for compute capability 8.6 runs on 8.6 and 8.9, but not on 8.0 or 9.0 ("CUDA C++
    Programming Guide", Binary Compatibility). If the name of the architecture ends with a letter,
    such as sm_90a, machine code is used only on this compute capability (9.0).
    """
    made_for = re.fullmatch(r"sm_(\d+)(\d)([af]?)", compiled.arch)
    if compiled.cubin is not None and made_for is not None:
        major, minor = int(made_for[1]), int(made_for[2])
        have = device.compute_capability
        if (major, minor) == have or (major == have[0] and minor < have[1] and not made_for[3]):
            return compiled.cubin
    return compiled.ptx.encode()
