"""Profiles launches that a program has stored on disk.

The program uses coalesce's own CUDA library. This library stores a launch, and the contents of the
device memory before the launch (``csrc/cudart/report/snapshots.hpp``). This module copies the
contents to the same addresses, restores the values of the variables, and repeats the launch.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from coalesce._core import sim
from coalesce.arrays import devices
from coalesce.arrays.devices import Device
from coalesce.compile import nvrtc
from coalesce.cxx import signature
from coalesce.launch.kernel import BaseKernel
from coalesce.launch.module import Module
from coalesce.profiling import Profile
from coalesce.profiling import run as profiling_run
from coalesce.simulate.prepared import Prepared


class _KeptModule(Module):
    """A module of the program. nvcc compiled it, so it is not compiled again here."""

    def __init__(self, ptx: str, machine: bytes, arch: int, source: str, filename: str) -> None:
        super().__init__(source, (), None, {}, filename, None)
        self._kept = nvrtc.Compiled(ptx, machine or None, "", {}, f"sm_{arch}")

    def compiled(self, device: Device) -> nvrtc.Compiled:
        del device
        return self._kept

    def model_options(self, device: Device, entry: str) -> dict[str, Any]:
        # The program has already run. If it read outside an array, that must not stop the profile
        # (see sim::OutsideReads).
        return {**super().model_options(device, entry), "outside_reads": True}


class _KeptKernel(BaseKernel):
    """A kernel of a recorded launch. The values of its parameters are the recorded bytes."""

    def __init__(self, module: Module, entry: str, device: Device) -> None:
        self.instruction_limit = None
        self._wanted = self._device = device
        self._module = module
        self._functions, self._bound = {}, {}
        entries = signature.ptx_entries(module.compiled(device).ptx)
        self.entries, self.entry, self._expression = tuple(entries), entry, None
        self.signature = signature.signature_of(entry, entries[entry], module.source)


def profile(folder: Path, gpu: str) -> Profile:
    """Return the profile of the launch that is stored in a folder.

    `gpu` is the name of the simulated GPU, such as "h200".
    """
    record = json.loads((folder / "launch.json").read_text())
    device = devices.resolve(f"sim:{gpu}")
    kernel = _KeptKernel(_module(folder, record["arch"], record["file"]), record["entry"], device)
    program = kernel._program(device)
    memory = []  # keeps the buffers alive during the launch
    for buffer in record["buffers"]:
        content = (folder / str(buffer["address"])).read_bytes()
        if buffer["variable"]:
            program.write_variable(buffer["variable"], content)
            continue
        array = sim.Memory([buffer["bytes"]], 1, buffer["name"], buffer["address"])
        array.bytes()[:] = np.frombuffer(content, np.uint8)
        memory.append(array)
    launch = Prepared(
        kernel,
        device,
        tuple(record["grid"]),
        tuple(record["block"]),
        record["shared_bytes"],
        list(_arguments(program, record["entry"], (folder / "parameters").read_bytes())),
        bool(record["cooperative"]),
    )
    number = "" if record["number"] == 1 else f", launch {record['number']}"
    return profiling_run.of_prepared(
        launch, None, profiling_run.ProfileSettings(), f"{record['name']}{number}"
    )[0]


def _module(folder: Path, arch: int, file: str) -> Module:
    return _made(
        (folder / "module.ptx").read_text(), (folder / "module.cubin").read_bytes(), arch, file
    )


@lru_cache(maxsize=8)
def _made(ptx: str, machine: bytes, arch: int, file: str) -> Module:
    path = Path(file)
    source = path.read_text(errors="replace") if file and path.is_file() else ""
    return _KeptModule(ptx, machine, arch, source, path.name or "program")


def _arguments(program: sim.SimulatedModule, entry: str, content: bytes) -> list[bytes]:
    """Return each argument's bytes, as ``Program.launch`` takes them."""
    arguments, at = [], 0
    for type_, bytes_, alignment, _ in program.parameters(entry):
        del type_
        at = -(-at // max(1, alignment)) * max(1, alignment)
        arguments.append(content[at : at + bytes_])
        at += bytes_
    return arguments
