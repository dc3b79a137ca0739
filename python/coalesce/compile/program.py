"""Compiling whole CUDA programs, host code and all, with NVIDIA's compiler nvcc.

nvcc comes with a toolkit, or with the wheels of ``pip install 'coalesce-gpu[programs]'``. It needs
a host compiler (g++). What it makes is cached as kernels are (`cache`): an entry's key is of the
source's path and text, the options and the compilers, and the entry names every header of the user
that was included, with a digest of its contents.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coalesce._core import CompileError, programs
from coalesce.compile import cache, pathfinder

LIBRARY = "libcudart.so.13"  # the name under which programs look for the runtime
_SECTION = ".nv_fatbin"
_INSTALL = (
    "install it with pip install 'coalesce-gpu[programs]', or put the nvcc of a CUDA toolkit 13 on "
    "PATH"
)
# Libraries whose code is closed and needs a GPU, by what their functions and files are called.
_CLOSED = {
    "cublas": "cuBLAS",
    "cufft": "cuFFT",
    "cusparse": "cuSPARSE",
    "cusolver": "cuSOLVER",
    "curand": "cuRAND's host library",
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "npp": "NPP",
    "nvjpeg": "nvJPEG",
    "cutensor": "cuTENSOR",
}
_DRIVER = re.compile(r"undefined reference to `(cu(?:Init|[A-Z]\w+))'")


@dataclass(frozen=True)
class Built:
    """An executable and what is known of its device code.

    Attributes
    ----------
    executable : bytes
    code : dict
        What the runtime library reads of each module (``csrc/cudart/code_file.hpp``), by key.
    log : str
        The compilers' warnings.
    """

    executable: bytes
    code: dict[str, str]
    log: str = ""


@functools.lru_cache(maxsize=1)
def nvcc() -> str:
    """Return the path of the compiler; LookupError says what to install."""
    folders = [os.environ.get(variable) for variable in ("CUDA_HOME", "CUDA_PATH")]
    places = [f"{folder}/bin/nvcc" for folder in (*folders, "/usr/local/cuda") if folder]
    for place in (shutil.which("nvcc"), *places):
        if place and os.access(place, os.X_OK):
            return place
    if found := pathfinder.file_of("nvidia-cuda-nvcc", "nvcc"):
        return found
    raise LookupError(f"CUDA's compiler nvcc is not on this machine: {_INSTALL}")


def build(
    source: str | os.PathLike[str], options: Sequence[str] = (), *, arch: int, debug: bool = False
) -> Built:
    """Compile a program for the simulator; `arch` is the GPU's architecture, 90.

    Raises
    ------
    CompileError
        The compiler's log.
    LookupError
        There is no compiler, or the program needs a library that cannot be simulated.
    """
    path = Path(source).resolve()
    program = nvcc()
    words = [
        *("-cudart", "shared", "-lineinfo", "-no-compress", "-O2"),
        *(["-g"] if debug else []),
        *("-gencode", f"arch=compute_{arch},code=[compute_{arch},sm_{arch}]"),
        *options,
    ]
    key = cache.key_of("program", 1, str(path), _text_of(path), words, _identity(program))
    known = cache.load(key)
    if known is not None and known[1] is not None and _are_unchanged(known[2]["headers"]):
        return Built(known[1], json.loads(known[0]), known[2]["log"])
    made, headers = _compile(program, path, words)
    code = code_of(made.executable, arch)
    notes = {"headers": [[str(h), _digest(h)] for h in headers], "log": made.log}
    cache.store(key, json.dumps(code), made.executable, notes)
    return Built(made.executable, code, made.log)


def library() -> Path:
    """Return the runtime library of this package, which programs load in place of NVIDIA's."""
    import coalesce

    return Path(coalesce.__file__).parent / "libcudart.so"


def _compile(program: str, path: Path, words: Sequence[str]) -> tuple[Built, list[Path]]:
    with tempfile.TemporaryDirectory(prefix="coalesce-") as folder:
        out, found = Path(folder) / "program", Path(folder) / "headers"
        # The library to link with is the one that runs: its names are all that there are.
        for name in ("libcudart.so", LIBRARY):
            (Path(folder) / name).symlink_to(library())
        command = [
            *(program, *words, "-MMD", "-MF", str(found), f"-L{folder}"),
            *("-o", str(out), str(path)),
        ]
        environment = {**os.environ, "TMPDIR": folder}
        try:
            done = subprocess.run(
                [*command, *_of_wheels(program)],
                capture_output=True,
                text=True,
                check=False,
                env=environment,
                errors="replace",
            )
        except OSError as error:
            raise LookupError(f"CUDA's compiler {program} does not start: {error}") from None
        log = done.stdout + done.stderr
        if done.returncode != 0 or not out.is_file():
            raise _error(path, log)
        return Built(out.read_bytes(), {}, log), _headers(found, path)


def _of_wheels(program: str) -> list[str]:
    """Return the options that nvcc needs when it comes from wheels, whose folders it half knows."""
    root = Path(program).resolve().parent.parent
    return [f"-L{folder}" for name in ("lib64", "lib") if (folder := root / name).is_dir()]


def _error(path: Path, log: str) -> Exception:
    for word, name in _CLOSED.items():
        if re.search(rf"undefined reference to `{word}\w+'|cannot find -l{word}", log):
            return LookupError(
                f"{path.name} uses {name}, a library of closed code that needs a GPU; "
                "it cannot be simulated"
            )
    if match := _DRIVER.search(log):
        return LookupError(
            f"{path.name} uses CUDA's driver API ({match[1]}); only the runtime API is simulated"
        )
    if (
        "cc1plus" in log and "cannot execute" in log
    ) or "Failed to preprocess host compiler" in log:
        return LookupError(f"nvcc needs a host compiler: install g++. It said: {log.strip()[:500]}")
    return CompileError(log.strip())


def _headers(listed: Path, source: Path) -> list[Path]:
    """Return the user's headers among what the compiler read."""
    if not listed.is_file():
        return []
    text = listed.read_text(errors="replace").replace("\\\n", " ")
    _, _, names = text.partition(":")
    paths = {Path(name).resolve() for name in re.split(r"(?<!\\)\s+", names.strip()) if name}
    return sorted(p for p in paths if p != source and p.is_file() and not _is_system(p))


def _is_system(path: Path) -> bool:
    return str(path).startswith(("/usr/include/", "/usr/lib/", "/usr/local/cuda"))


def _text_of(path: Path) -> str:
    return path.read_text(errors="surrogateescape")


def _are_unchanged(headers: Sequence[Sequence[str]]) -> bool:
    return all(_digest(Path(name)) == digest for name, digest in headers)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _identity(program: str) -> list[object]:
    """Return what changes with the compilers; asking them for their versions would take longer."""
    found: list[object] = []
    for path in (program, shutil.which("g++"), library()):
        if path is not None:
            status = Path(path).stat()
            found.append([os.path.realpath(path), status.st_size, status.st_mtime_ns])
    return found


def section_of(executable: bytes) -> bytes:
    """Return the device code of an ELF executable; nothing where it has none."""
    from coalesce.compile import cubin

    try:
        return cubin.section(executable, _SECTION)
    except (ValueError, LookupError, IndexError):
        return b""


def code_of(executable: bytes, arch: int) -> dict[str, str]:
    """Return what the runtime library reads of each module of an executable, by key."""
    found = {}
    for key, ptx, machine, made_for in programs.device_code(section_of(executable), arch):
        if ptx:
            found[key] = _code_file(ptx, machine or None, made_for)
    return found


def _code_file(ptx: str, machine: bytes | None, arch: int) -> str:
    from coalesce.compile import cubin, disassembler, nvrtc
    from coalesce.cxx import signature

    entries = signature.ptx_entries(ptx)
    lines = [f"registers {entry} {cubin.registers(machine, entry)}" for entry in entries]
    lines += [f"function {name} {at}" for name, at in cubin.functions(machine).items()]
    try:
        text = disassembler.listing(nvrtc.Compiled(ptx, machine, "", {}, f"sm_{arch}"))
    except LookupError as error:
        lines.append(f"reason {error}".replace("\n", " "))
        text = ""
    return "\n".join([*lines, "", text])


def check_executable(path: Path) -> None:
    """Raise ValueError unless an executable loads the runtime as a shared library of CUDA 13."""
    content = path.read_bytes()
    if content[:4] != b"\x7fELF":
        raise ValueError(f"{path} is not an executable of Linux")
    if not section_of(content):
        raise ValueError(f"{path} has no CUDA code")
    if LIBRARY.encode() in content:
        return
    if found := re.search(rb"libcudart\.so\.(\d+)", content):
        raise ValueError(
            f"{path} was built with CUDA {found[1].decode()}; programs of CUDA 13 are run. Build "
            "it with nvcc 13 -cudart shared, or run its source: coalesce run program.cu"
        )
    raise ValueError(
        f"{path} has CUDA's runtime linked into it, so that it cannot be replaced. Build it with "
        "nvcc -cudart shared (CMake: set CMAKE_CUDA_RUNTIME_LIBRARY to Shared), or run its source: "
        "coalesce run program.cu"
    )
