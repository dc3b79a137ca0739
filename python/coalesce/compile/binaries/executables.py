"""Reads the device code of built CUDA programs, and describes it for the runtime library.

This package's runtime library replaces CUDA's runtime library, and simulates the kernels of a
program. To simulate the kernels, the library needs a description of their machine code. `code_file`
makes this description.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from coalesce._core import programs
from coalesce.compile import cache
from coalesce.compile.runtime_library import CLOSED, LIBRARY, REPLACED, library

if TYPE_CHECKING:
    from coalesce.cxx import signature

_SECTION = ".nv_fatbin"
# Programs that contain CUDA's static runtime have this name. It asks the driver for functions that
# are not documented.
_STATIC_RUNTIME = b"cuGetExportTable"


def section_of(executable: bytes, name: str = _SECTION) -> bytes:
    """Return the bytes of a section of an executable, by default the section with device code.

    If there is no such section, the result is empty.
    """
    from coalesce.compile.binaries import cubin

    try:
        return cubin.section(executable, name)
    except (ValueError, LookupError, IndexError):
        return b""


def code_of(executable: bytes, arch: int, source: str = "") -> dict[str, str]:
    """Return a description of each module of an executable.

    A module is the device code of one source file. The result is a dict: a key identifies a module,
    and the value is the description that this package's runtime library needs (see `code_file`).
    `arch` is the compute capability of the simulated GPU, such as 90. `source` is the text of the
    program, if it is known. The names of the kernels' parameters are read from this text.
    """
    descriptions = {}
    for key, ptx, machine, made_for in programs.device_code(section_of(executable), arch):
        if ptx:
            descriptions[key] = code_file(ptx, machine or None, made_for, source)
    return descriptions


def cached_code_of(executable: bytes, arch: int) -> dict[str, str]:
    """Return the result of ``code_of(executable, arch)``, from the cache on disk if possible."""
    digest = hashlib.sha256(section_of(executable)).hexdigest()
    status = library().stat()
    key = cache.key_of("executable", digest, arch, status.st_size, status.st_mtime_ns)
    if (known := cache.load(key)) is not None:
        return dict(json.loads(known[0]))
    descriptions = code_of(executable, arch)
    # Each text ends with the disassembly, if nvdisasm is installed. Without it, the texts are not
    # stored, so that a later call tries again.
    if all(text.partition("\n\n")[2] for text in descriptions.values()):
        cache.store(key, json.dumps(descriptions), None, {})
    return descriptions


def code_file(ptx: str, machine: bytes | None, arch: int, source: str) -> str:
    """Return the description of a module's device code, for this package's runtime library.

    The description contains the registers per thread of each kernel, the addresses of functions,
    the names of parameters, the shapes of arrays, and the machine code as text.
    ``csrc/cudart/binary/code_file.hpp`` explains its format. `ptx` and `machine` are the PTX and
    the cubin of the module; `machine` may be None. `arch` is the compute capability of the
    simulated GPU, such as 90.
    """
    from coalesce.compile import nvrtc
    from coalesce.compile.binaries import cubin, disassembler
    from coalesce.cxx import signature, variables

    entries = signature.ptx_entries(ptx)
    lines = [f"registers {entry} {cubin.registers(machine, entry)}" for entry in entries]
    lines += [f"function {name} {at}" for name, at in cubin.functions(machine).items()]
    for entry, parameters in entries.items() if source else ():
        known = signature.signature_of(entry, parameters, source).parameters
        words = [f"{p.name}:{p.item_bytes}:{_type(p)}{':restrict' * p.restrict}" for p in known]
        lines.append(" ".join(["parameters", entry, *words]))
    arrays = {"shared": variables.shared_arrays(source), "device": variables.device_arrays(source)}
    for memory, shapes in arrays.items():
        for name, (extents, item_bytes, kind) in shapes.items():
            lines.append(f"{memory} {name} {item_bytes} {','.join(map(str, extents))} {kind}")
    try:
        text = disassembler.listing(nvrtc.Compiled(ptx, machine, "", {}, f"sm_{arch}"))
    except LookupError as error:
        lines.append(f"reason {error}".replace("\n", " "))
        text = ""
    return "\n".join([*lines, "", text])


def _type(parameter: signature.Parameter) -> str:
    """Return the name of the type that a pointer points to, for messages: ``float32``."""
    code = parameter.accepted[0] if parameter.accepted else ""
    kinds = {"f": "float", "i": "int", "u": "uint", "b": "bool", "c": "complex"}
    return f"{kinds[code[0]]}{8 * int(code[1:])}" if code[:1] in kinds else code


def check_executable(path: Path) -> None:
    """Check whether the simulator can run an executable. If not, raise ValueError.

    The executable must load CUDA 13's runtime or the driver API as a shared library. When the
    executable runs, it gets the library of this package instead. The executable must not load a
    library such as cuFFT. The source of cuFFT is not public, and the machine code of cuFFT
    needs a GPU.
    """
    content = path.read_bytes()
    if content[:4] != b"\x7fELF":
        raise ValueError(f"{path} is not an executable file for Linux")
    closed = rf"lib({'|'.join(CLOSED)})\w*\.so".encode()
    if match := re.search(closed, section_of(content, ".dynstr")):
        name = match[1].decode()
        advice = " Run its source: coalesce run program.cu" if name in REPLACED else ""
        raise ValueError(
            f"{path} loads {CLOSED[name]}. The source of this library is not public, and its "
            f"machine code needs a GPU. So the simulator cannot run the library.{advice}"
        )
    if LIBRARY.encode() in content:
        return
    if match := re.search(rb"libcudart\.so\.(\d+)", content):
        raise ValueError(
            f"{path} was built with CUDA {match[1].decode()}; coalesce runs only programs of CUDA "
            "13. Build it with nvcc 13 -cudart shared, or run its source: coalesce run program.cu"
        )
    if _STATIC_RUNTIME in content or section_of(content):
        raise ValueError(
            f"{path} is linked statically with CUDA's runtime, so coalesce cannot replace the "
            "runtime. Build the program with nvcc -cudart shared, or run its source: coalesce run "
            "program.cu. (With CMake, set CMAKE_CUDA_RUNTIME_LIBRARY to Shared)"
        )
    if b"libcuda.so" not in content:
        raise ValueError(
            f"{path} is not a CUDA program: it uses neither CUDA's runtime nor its driver API"
        )
