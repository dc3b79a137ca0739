"""Profiles launches that a program has stored on disk.

The program uses coalesce's own CUDA library. This library stores a launch, and the contents of the
device memory before the launch (``csrc/cudart/report/snapshots.hpp``). This module copies the
contents to the same addresses, restores the values of the variables, and repeats the launch.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import numpy as np

from coalesce._core import sim
from coalesce.arrays import devices
from coalesce.common import source_files
from coalesce.compile import nvrtc
from coalesce.cxx import signature
from coalesce.launch.kernel import CompiledKernel
from coalesce.launch.launch import Launch
from coalesce.launch.module import CompiledModule
from coalesce.profiling import Profile
from coalesce.profiling import run as profiling_run


class _ProgramModule(CompiledModule):
    """A module of a program, which itself could read any file."""

    def may_show(self, file: str) -> bool:
        del file
        return True


def profile(folder: Path, gpu: str) -> Profile:
    """Return the profile of the launch that is stored in a folder.

    `gpu` is the name of the simulated GPU, such as "h200".
    """
    record = json.loads((folder / "launch.json").read_text())
    device = devices.resolve(f"sim:{gpu}")
    module = _module(folder, record["arch"], record["file"])
    entry, program = record["entry"], module.program(device)
    parameters = signature.ptx_entries(module.compiled(device).ptx)[entry]
    kernel = CompiledKernel(
        module, signature.signature_of(entry, parameters, module.source), device
    )
    memory = []  # keeps the buffers alive during the launch
    for buffer in record["buffers"]:
        content = (folder / str(buffer["address"])).read_bytes()
        if buffer["variable"]:
            program.write_variable(buffer["variable"], content)
            continue
        array = sim.Memory([buffer["bytes"]], 1, buffer["name"], buffer["address"])
        array.bytes()[:] = np.frombuffer(content, np.uint8)
        memory.append(array)
    launch = Launch(
        kernel,
        device,
        tuple(record["grid"]),
        tuple(record["block"]),
        record["shared_bytes"],
        bool(record["cooperative"]),
        arguments=_arguments(program, entry, (folder / "parameters").read_bytes()),
    )
    number = "" if record["number"] == 1 else f", launch {record['number']}"
    settings = profiling_run.ProfileSettings()
    return profiling_run.of_launch(launch, settings, f"{record['name']}{number}")[0]


def _module(folder: Path, arch: int, file: str) -> _ProgramModule:
    return _made(
        (folder / "module.ptx").read_text(), (folder / "module.cubin").read_bytes(), arch, file
    )


@lru_cache(maxsize=8)
def _made(ptx: str, machine: bytes, arch: int, file: str) -> _ProgramModule:
    source = "\n".join(source_files.lines_of(file)) if file else ""
    compiled = nvrtc.Compiled(ptx, machine or None, "", {}, f"sm_{arch}")
    # The program has already run. If it read outside an array, that must not stop the profile (see
    # sim::OutsideReads).
    return _ProgramModule(source, Path(file).name or "program", compiled, {"outside_reads": True})


def _arguments(program: sim.SimulatedModule, entry: str, content: bytes) -> list[bytes]:
    """Return each argument's bytes, as ``Program.launch`` takes them."""
    arguments, at = [], 0
    for type_, bytes_, alignment, _ in program.parameters(entry):
        del type_
        at = -(-at // max(1, alignment)) * max(1, alignment)
        arguments.append(content[at : at + bytes_])
        at += bytes_
    return arguments
