"""This package's CUDA library has the same names and types as NVIDIA's runtime and driver API."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from coalesce import _core
from coalesce.compile import pathfinder, runtime_library

ROOT = Path(__file__).parents[3]
NEWEST = 5  # nvidia-cuda-runtime 13.5 is the newest version whose names functions.inc lists
ABI = ROOT / "csrc/cudart/abi/abi.hpp"
DRIVER_ABI = ROOT / "csrc/cudart/abi/driver.hpp"

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
DRIVER_STRUCTURES = {
    "DriverCopy2D": "CUDA_MEMCPY2D",
    "DriverCopy3D": "CUDA_MEMCPY3D",
    "DriverLaunchConfig": "CUlaunchConfig",
    "DriverKernelNode": "CUDA_KERNEL_NODE_PARAMS",
    "AllocationProperties": "CUmemAllocationProp",
    "DriverArray": "CUDA_ARRAY_DESCRIPTOR",
    "DriverArray3D": "CUDA_ARRAY3D_DESCRIPTOR",
    "DriverResource": "CUDA_RESOURCE_DESC",
    "DriverTexture": "CUDA_TEXTURE_DESC",
}
# Structures that both APIs use.
SHARED = {
    "MemsetParameters": "CUDA_MEMSET_NODE_PARAMS",
    "HostNodeParameters": "CUDA_HOST_NODE_PARAMS",
    "LaunchAttribute": "CUlaunchAttribute",
    "PoolProperties": "CUmemPoolProps",
    "AccessDescription": "CUmemAccessDesc",
    "EdgeData": "CUgraphEdgeData",
    "InstantiateParameters": "CUDA_GRAPH_INSTANTIATE_PARAMS",
    "UpdateResult": "CUgraphExecUpdateResultInfo",
}


def _fields(structure: str) -> list[str]:
    """Return the names of a structure's fields in abi.hpp or driver_abi.hpp."""
    text = ABI.read_text() + DRIVER_ABI.read_text()
    body = re.search(rf"struct {structure} {{\n(.*?)\n}};", text, re.DOTALL)
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
    for own, theirs in DRIVER_STRUCTURES.items():
        checks.append(f"CHECK(sizeof(c::{own}) == sizeof({theirs}), {own})")
        checks += [
            f"CHECK(offsetof(c::{own}, {field}) == offsetof({theirs}, {field}), {own}.{field})"
            for field in _fields(own)
        ]
    checks += [
        f"CHECK(sizeof(c::{own}) == sizeof({theirs}), {own})" for own, theirs in SHARED.items()
    ]
    assert len(checks) > 250
    source = tmp_path / "layout.cpp"
    source.write_text(
        "#include <cstdio>\n#include <cstddef>\n#define E(name, number, text)\n"
        "#include <cuda_runtime_api.h>\n#include <cuda.h>\n#undef E\n"
        # Use the error names of the headers; otherwise they would be declared twice.
        + re.sub(
            r"#define E\(.*?#undef E\n",
            "using Error = cudaError;\n#define E\n#undef E\n",
            ABI.read_text().replace("#pragma once", ""),
            flags=re.DOTALL,
        )
        + re.sub("#pragma once|#include .*", "", DRIVER_ABI.read_text())
        + "\nnamespace c = coalesce::cudart;\n"
        "#define CHECK(holds, what) if (!(holds)) std::puts(#what);\n"
        "int main() {\n" + "\n".join(checks) + "\n}\n"
    )
    binary = tmp_path / "layout"
    subprocess.run(
        [
            gcc,
            "-std=c++20",
            "-w",
            f"-I{Path(header).parent}",
            f"-I{ROOT / 'csrc'}",
            "-o",
            binary,
            source,
        ],
        check=True,
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
    symbols = (line.split()[-1].partition("@")[0] for line in shown.splitlines())
    return {name for name in symbols if name.startswith(("cu", "__cuda", "nvrtc"))}


def _nvidia_runtime() -> Path:
    path = pathfinder.file_of("nvidia-cuda-runtime", "libcudart.so.13")
    if path is None:
        pytest.skip("needs nvidia-cuda-runtime")
    return Path(path)


def test_every_function_is_there() -> None:
    version = pathfinder.version_of("nvidia-cuda-runtime") or ""
    if int(version.split(".")[1]) > NEWEST:
        pytest.skip(f"nvidia-cuda-runtime {version} may have functions that are not listed yet")
    assert _names(_nvidia_runtime()) - _names(runtime_library.library()) == set()


def test_every_function_of_the_driver_api_is_there(tmp_path: Path) -> None:
    gcc = shutil.which("gcc")
    header = pathfinder.file_of("nvidia-cuda-runtime", "cuda.h")
    if gcc is None or header is None:
        pytest.skip("needs gcc and the headers of nvidia-cuda-runtime")
    source = tmp_path / "names.c"
    source.write_text("#include <cuda.h>\n")
    version = pathfinder.version_of("nvidia-cuda-runtime") or ""
    if int(version.split(".")[1]) > NEWEST:
        pytest.skip(f"nvidia-cuda-runtime {version} may have functions that are not listed yet")
    own = _names(runtime_library.library())
    # The header renames functions to the versions with the newest parameters.
    for options in ([], ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"]):
        command = [gcc, "-E", f"-I{Path(header).parent}", *options, source]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names = set(re.findall(r"\bCUresult\s+(?:CUDAAPI\s+)?(cu[A-Z]\w+)\s*\(", text))
        assert len(names) > 400
        assert names - own == set()


def test_every_function_of_nvrtc_is_there() -> None:
    theirs = pathfinder.file_of("nvidia-cuda-nvrtc", "libnvrtc.so.13")
    if theirs is None:
        pytest.skip("needs nvidia-cuda-nvrtc of CUDA 13")
    assert _names(Path(theirs)) - _names(runtime_library.library("libnvrtc.so")) == set()


def test_errors_of_the_driver_have_their_names() -> None:
    header = pathfinder.file_of("nvidia-cuda-runtime", "cuda.h")
    if header is None:
        pytest.skip("needs the headers of nvidia-cuda-runtime")
    body = re.search(
        r"typedef enum cudaError_enum {(.*?)} CUresult;", Path(header).read_text(), re.DOTALL
    )
    assert body is not None
    errors = re.findall(r"(CUDA_\w+)\s*=\s*(\d+)", body[1])
    assert len(errors) > 90
    library = ctypes.CDLL(str(runtime_library.library()))
    for name, number in errors:
        text = ctypes.c_char_p()
        assert library.cuGetErrorName(int(number), ctypes.byref(text)) == 0
        assert text.value == name.encode()
    assert library.cuGetErrorName(12345, ctypes.byref(text)) == 1
    assert text.value is None


def test_errors_have_their_names_and_texts() -> None:
    theirs, own = ctypes.CDLL(str(_nvidia_runtime())), ctypes.CDLL(str(runtime_library.library()))
    for name in ("cudaGetErrorName", "cudaGetErrorString"):
        for library in (theirs, own):
            getattr(library, name).restype = ctypes.c_char_p
        newer = []
        for number in range(1200):
            mine, other = getattr(own, name)(number), getattr(theirs, name)(number)
            if mine != other and other == b"unrecognized error code":
                newer.append(mine)
            else:
                assert mine == other, (name, number)
        assert len(newer) < 5, newer  # an older runtime lacks the newest errors


def test_the_library_is_installed() -> None:
    assert runtime_library.library().is_file()
    # In an editable installation, the package's compiled files are not beside its Python files.
    assert runtime_library.library().parent == Path(_core.__file__).parent
