"""This package's CUDA runtime library has the same names and types as NVIDIA's."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import coalesce
from coalesce.compile import pathfinder, program

ROOT = Path(__file__).parents[2]
NEWEST = 5  # nvidia-cuda-runtime 13.5 is the newest version whose names missing.inc lists
ABI = ROOT / "csrc/cudart/abi.hpp"

# Structures of this project and NVIDIA's structures of the same layout.
STRUCTURES = {
    "DeviceProperties": "cudaDeviceProp",
    "PitchedPointer": "cudaPitchedPtr",
    "Extent": "cudaExtent",
    "Position": "cudaPos",
    "ChannelFormat": "cudaChannelFormatDesc",
    "ResourceView": "cudaResourceViewDesc",
    "TextureDescription": "cudaTextureDesc",
    "Copy3D": "cudaMemcpy3DParms",
    "Copy3DPeer": "cudaMemcpy3DPeerParms",
    "FunctionAttributes": "cudaFuncAttributes",
    "PointerAttributes": "cudaPointerAttributes",
    "LaunchConfig": "cudaLaunchConfig_t",
    "LaunchAttribute": "cudaLaunchAttribute",
    "MemoryLocation": "cudaMemLocation",
    "PoolProperties": "cudaMemPoolProps",
    "AccessDescription": "cudaMemAccessDesc",
    "KernelNodeParameters": "cudaKernelNodeParams",
    "MemsetParameters": "cudaMemsetParams",
    "HostNodeParameters": "cudaHostNodeParams",
    "AllocNodeParameters": "cudaMemAllocNodeParams",
    "EdgeData": "cudaGraphEdgeData",
    "InstantiateParameters": "cudaGraphInstantiateParams",
    "UpdateResult": "cudaGraphExecUpdateResultInfo",
}


def _fields(structure: str) -> list[str]:
    """Return the names of a structure's fields in abi.hpp."""
    body = re.search(rf"struct {structure} {{\n(.*?)\n}};", ABI.read_text(), re.DOTALL)
    assert body is not None
    text = re.sub(r"union {.*}\s*(\w+);", r"int \1;", body[1], flags=re.DOTALL)
    text = re.sub(r"\[[^]]*\]", "", text).replace(";", ",")
    return [words[-1] for part in text.split(",") if (words := re.findall(r"\w+", part))]


def test_structures_have_the_layout_of_the_headers(tmp_path: Path) -> None:
    gcc = shutil.which("g++")
    header = pathfinder.file_of("nvidia-cuda-runtime", "cuda_runtime_api.h")
    if gcc is None or header is None:
        pytest.skip("needs g++ and the headers of nvidia-cuda-runtime")
    checks = []
    for own, theirs in STRUCTURES.items():
        checks.append(f"CHECK(sizeof(c::{own}) == sizeof({theirs}), {own})")
        checks += [
            f"CHECK(offsetof(c::{own}, {field}) == offsetof({theirs}, {field}), {own}.{field})"
            for field in _fields(own)
            if field != "reserved"  # newer headers use a part of it for new fields
        ]
    assert len(checks) > 200
    source = tmp_path / "layout.cpp"
    source.write_text(
        "#include <cstdio>\n#include <cstddef>\n#define E(name, number, text)\n"
        "#include <cuda_runtime_api.h>\n#undef E\n"
        # Use the error names of the headers; otherwise they would be declared twice.
        + re.sub(
            r"#define E\(.*?#undef E\n",
            "using Error = cudaError;\n#define E\n#undef E\n",
            ABI.read_text().replace("#pragma once", ""),
            flags=re.DOTALL,
        )
        + "\nnamespace c = coalesce::cudart;\n"
        "#define CHECK(holds, what) if (!(holds)) std::puts(#what);\n"
        "int main() {\n" + "\n".join(checks) + "\n}\n"
    )
    binary = tmp_path / "layout"
    subprocess.run(
        [gcc, "-std=c++20", "-w", f"-I{Path(header).parent}", "-o", binary, source], check=True
    )
    shown = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
    assert shown == ""


def _names(library: Path) -> set[str]:
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("needs nm")
    shown = subprocess.run(
        [nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout
    found = (line.split()[-1].partition("@")[0] for line in shown.splitlines())
    return {name for name in found if name.startswith(("cuda", "__cuda"))}


def _theirs() -> Path:
    found = pathfinder.file_of("nvidia-cuda-runtime", "libcudart.so.13")
    if found is None:
        pytest.skip("needs nvidia-cuda-runtime")
    return Path(found)


def test_every_function_is_there() -> None:
    version = pathfinder.version_of("nvidia-cuda-runtime") or ""
    if int(version.split(".")[1]) > NEWEST:
        pytest.skip(f"nvidia-cuda-runtime {version} may have functions that are not listed yet")
    assert _names(_theirs()) - _names(program.library()) == set()


def test_errors_have_their_names_and_texts() -> None:
    theirs, own = ctypes.CDLL(str(_theirs())), ctypes.CDLL(str(program.library()))
    for name in ("cudaGetErrorName", "cudaGetErrorString"):
        for library in (theirs, own):
            getattr(library, name).restype = ctypes.c_char_p
        for number in range(1200):
            assert getattr(own, name)(number) == getattr(theirs, name)(number), (name, number)


def test_the_library_is_installed() -> None:
    assert program.library().is_file()
    assert program.library().parent == Path(coalesce.__file__).parent
