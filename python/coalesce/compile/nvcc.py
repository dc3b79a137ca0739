"""Compiles whole CUDA programs, including their host code, with NVIDIA's compiler nvcc.

nvcc comes with a CUDA toolkit, or with the wheels of ``pip install '.[programs]'``. It needs a host
compiler (g++).

The cache of compiled kernels also keeps executables. The key of an entry depends on the source's
path and text, the options and the compilers. The entry also has a digest of each header that the
user wrote. If such a header has changed, the program is compiled again.
"""

from __future__ import annotations

import contextlib
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
from typing import TYPE_CHECKING

from coalesce._core import CompileError, programs
from coalesce.compile import cache, pathfinder

if TYPE_CHECKING:
    from coalesce.cxx import signature

LIBRARY = "libcudart.so.13"  # programs load the runtime by this name
# The names by which programs link to this package's libraries and load them.
NAMES = {
    "libcudart.so": "libcudart.so",
    LIBRARY: "libcudart.so",
    "libcuda.so": "libcudart.so",  # one library has both APIs, so that they share one GPU
    "libcuda.so.1": "libcudart.so",
    "libnvrtc.so": "libnvrtc.so",
    "libnvrtc.so.13": "libnvrtc.so",
}
_OLDER_NAMES = Path(__file__).with_name("cuda12.h")
_TEXTURE_REFERENCES = Path(__file__).with_name("texture_references.h")
_LIBRARIES = Path(__file__).with_name("libraries")  # replacements for closed libraries
_SECTION = ".nv_fatbin"
# Programs that contain CUDA's static runtime have this name. It asks the driver for functions that
# are not documented.
_STATIC_RUNTIME = b"cuGetExportTable"
_INSTALL = "install it with pip install '.[programs]', or put the nvcc of a CUDA toolkit 13 on PATH"
# Libraries whose code is closed and needs a GPU, by the beginnings of their names.
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
# For some of these libraries, a file of this package replaces a part of their functions.
_REPLACED = {"cublas": _LIBRARIES / "cublas.cu", "curand": _LIBRARIES / "curand.cu"}
_LINKED_CLOSED = re.compile(rf"-l(?:{'|'.join(_CLOSED)})\w*")
# Functions and headers of these libraries in the errors of compilers and linkers.
_UNKNOWN = re.compile(
    rf"""undefined reference to `((?:{"|".join(_CLOSED)})\w+)'"""
    rf"""|identifier "((?:{"|".join(_CLOSED)})\w+)" is undefined"""
    rf"""|\W((?:{"|".join(_CLOSED)})\w+)\W+was not declared"""
    rf"""|error: ((?:{"|".join(_CLOSED)})\w*\.h): No such file"""
)
_GRAPHICS = re.compile(r"undefined reference to `(cu(?:GL|EGL|VDPAU)\w+)'")


class _NeedsLibraryError(LookupError):
    """The program needs a closed library. `file` replaces a part of this library."""

    def __init__(self, file: Path, function: str, library: str) -> None:
        super().__init__(
            f"{function}() of {library}, which coalesce's replacement for {library} does not have"
        )
        self.file = file


@dataclass(frozen=True)
class Built:
    """The result of compiling a program: the executable and descriptions of its device code.

    Attributes
    ----------
    executable : bytes
        The contents of the executable.
    code : dict
        Maps the key of each module (device code of one source file) to its description. The
        simulator's runtime library reads the description. ``csrc/cudart/code_file.hpp`` has its
        format.
    log : str
        The compilers' warnings.
    """

    executable: bytes
    code: dict[str, str]
    log: str = ""


@functools.lru_cache(maxsize=1)
def nvcc() -> str:
    """Return the path of nvcc. If it is not installed, a LookupError says what to install."""
    folders = [os.environ.get(variable) for variable in ("CUDA_HOME", "CUDA_PATH")]
    places = [f"{folder}/bin/nvcc" for folder in (*folders, "/usr/local/cuda") if folder]
    for place in (shutil.which("nvcc"), *places):
        if place and os.access(place, os.X_OK):
            return place
    if found := pathfinder.file_of("nvidia-cuda-nvcc", "nvcc"):
        return found
    raise LookupError(f"CUDA's compiler nvcc is not on this machine: {_INSTALL}")


def build(
    sources: Sequence[str | os.PathLike[str]],
    options: Sequence[str] = (),
    *,
    arch: int,
    debug: bool = False,
) -> Built:
    """Compile and link a program of one or more source files.

    `options` are options of nvcc. `arch` is the compute capability of the simulated GPU, such as
    90. With `debug`, the program has debugging information for the host.

    Raises
    ------
    CompileError
        The program does not compile. The message is the compiler's log.
    LookupError
        nvcc is not installed, or the program needs a library that cannot be simulated.
    """
    paths = [Path(source).resolve() for source in sources]
    program = nvcc()
    # A closed library would be linked if it is on this machine, but could not run.
    options = [word for word in options if not _LINKED_CLOSED.fullmatch(word)]
    words = _words(f"{arch}", options, debug=debug)
    texts = [[str(path), _text_of(path)] for path in paths]
    own = [_text_of(file) for file in (_OLDER_NAMES, _TEXTURE_REFERENCES, *_REPLACED.values())]
    key = cache.key_of("program", 4, *own, texts, words, _identity(program))
    known = cache.load(key)
    if known is not None and known[1] is not None and _are_unchanged(known[2]["headers"]):
        return Built(known[1], json.loads(known[0]), known[2]["log"])
    made, headers = _compile_as_needed(program, paths, options, arch=arch, debug=debug)
    read = [text for _, text in texts] + [_text_of(header) for header in headers]
    code = code_of(made.executable, arch, "\n".join(read))
    notes = {"headers": [[str(h), _digest(h)] for h in headers], "log": made.log}
    cache.store(key, json.dumps(code), made.executable, notes)
    return Built(made.executable, code, made.log)


def _compile_as_needed(
    program: str, paths: Sequence[Path], options: Sequence[str], *, arch: int, debug: bool
) -> tuple[Built, list[Path]]:
    """Compile and link a program.

    Some errors show what the program needs: one of this package's replacements for a library, one
    of this package's headers, or the architecture sm_90a. In this case, compile again with it.
    """
    included = [_OLDER_NAMES]
    texts = [_text_of(path) for path in paths]
    # A program that calls cublasCreate() certainly needs the replacement of cuBLAS.
    replaced = [
        file for word, file in _REPLACED.items() if any(f"{word}Create" in t for t in texts)
    ]
    name = f"{arch}"
    while True:
        words = _words(name, options, debug=debug)
        try:
            objects = [_replacement(program, file, f"{arch}", paths[0]) for file in replaced]
            return _compile(program, paths, words, included, objects)
        except _NeedsLibraryError as error:
            if error.file in replaced:
                raise LookupError(f"{paths[0].name} uses {error}") from None
            replaced.append(error.file)
        except CompileError as error:
            if "texture is not a template" in str(error) and _TEXTURE_REFERENCES not in included:
                included.append(_TEXTURE_REFERENCES)
            elif f"not supported on .target 'sm_{name}'" in str(error) and name == "90":
                # wgmma and setmaxnreg need sm_90a, whose code runs on compute capability 9.0 only.
                name = "90a"
            else:
                raise


def _replacement(program: str, source: Path, arch: str, user: Path) -> bytes:
    """Compile `source`, which replaces a library, and return the object file.

    Error messages name `user`, the file that uses the library.
    """
    words = _words(arch, (), debug=False)
    key = cache.key_of("library", _text_of(source), words, _identity(program))
    if (known := cache.load(key)) is not None and known[1] is not None:
        return known[1]
    with tempfile.TemporaryDirectory(prefix="coalesce-") as folder:
        made = Path(folder) / "library.o"
        _nvcc(program, [*words, *_more_headers(program), "-c", "-o", made, source], user)
        cache.store(key, "", made.read_bytes(), {})
        return made.read_bytes()


def _words(arch: str, options: Sequence[str], *, debug: bool) -> list[str]:
    """Return the compiler's options."""
    return [
        *("-cudart", "shared", "-lineinfo", "-no-compress", "-O2"),
        *(["-g"] if debug else []),
        *("-gencode", f"arch=compute_{arch},code=[compute_{arch},sm_{arch}]"),
        *options,
    ]


def library(name: str = "libcudart.so") -> Path:
    """Return the path of a library of this package, which replaces a library of NVIDIA."""
    return Path(__file__).parents[1] / name


def link_libraries(folder: Path) -> None:
    """Make links to this package's libraries in a folder.

    The links have the names of NVIDIA's libraries. Therefore programs load this package's libraries
    instead.
    """
    for name, own in NAMES.items():
        (folder / name).symlink_to(library(own))


def tool(name: str) -> str | None:
    """Return the path of a program that comes with nvcc, such as ptxas. If missing, return None."""
    with contextlib.suppress(LookupError):
        beside = Path(os.path.realpath(nvcc())).parent / name
        if os.access(beside, os.X_OK):
            return str(beside)
    return shutil.which(name)


def _compile(
    program: str,
    paths: Sequence[Path],
    words: Sequence[str],
    included: Sequence[Path],
    objects: Sequence[bytes],
) -> tuple[Built, list[Path]]:
    """Compile the sources and link them.

    `included` are headers of this package that are put before the text of each .cu file. `objects`
    are object files to link.
    """
    with tempfile.TemporaryDirectory(prefix="coalesce-") as name:
        folder = Path(name)
        # Link the program with the library that it later runs with. So if the library lacks a
        # function, the error comes now, and not when the program runs.
        link_libraries(folder)
        log, out = "", folder / "program"
        found: list[Path] = []
        parts: list[Path] = []
        own: list[str | Path]
        words = [*words, *_more_headers(program)]
        for number, path in enumerate(paths if len(paths) > 1 else []):
            parts.append(folder / f"{number}.o")
            own = [*_listing(folder), *_including(path, included), "-o", parts[-1], path]
            log += _nvcc(program, [*words, "-c", *own], path)
            found += _headers(folder / "headers", path)
        own = [*parts] or [*_listing(folder), *_including(paths[0], included), paths[0]]
        for number, content in enumerate(objects):
            own.append(folder / f"library{number}.o")
            Path(own[-1]).write_bytes(content)
        libraries = ["-Xlinker", "--as-needed", "-lnvrtc", *_of_wheels(program, folder)]
        log += _nvcc(program, [*words, *libraries, "-o", out, *own], paths[0])
        if not parts:
            found = _headers(folder / "headers", paths[0])
        return Built(out.read_bytes(), {}, log), sorted(set(found) - set(paths))


def _including(path: Path, headers: Sequence[Path]) -> list[str]:
    """Return the options that put headers before the text of a .cu file."""
    if path.suffix != ".cu":
        return []
    return [word for header in headers for word in ("-include", str(header))]


def _listing(folder: Path) -> list[str]:
    """Return the options with which nvcc writes a list of the headers that it reads."""
    return ["-MMD", "-MF", str(folder / "headers")]


def _more_headers(program: str) -> list[str]:
    """Return the options for headers that are not among nvcc's headers."""
    # -idirafter: this package's headers are used only if cuBLAS's own headers are not installed.
    options = ["-Xcompiler", f"-idirafter,{_LIBRARIES / 'include'}"]
    if not (Path(program).resolve().parent.parent / "include" / "nvrtc.h").is_file() and (
        found := pathfinder.file_of("nvidia-cuda-nvrtc", "nvrtc.h")
    ):
        options.append(f"-I{Path(found).parent}")
    return options


def _nvcc(program: str, words: Sequence[str | Path], path: Path) -> str:
    """Run the compiler and return its log. Raises CompileError if it fails."""
    try:
        done = subprocess.run(
            [program, *words], capture_output=True, text=True, check=False, errors="replace"
        )
    except OSError as error:
        raise LookupError(f"CUDA's compiler {program} does not start: {error}") from None
    log = done.stdout + done.stderr
    if done.returncode != 0:
        raise _error(path, log)
    return log


def _of_wheels(program: str, folder: Path) -> list[str]:
    """Return nvcc's options for folders of libraries: `folder` first, then the folders of nvcc."""
    root = Path(program).resolve().parent.parent
    return [f"-L{folder}"] + [
        f"-L{folder}" for name in ("lib64", "lib") if (folder := root / name).is_dir()
    ]


def _error(path: Path, log: str) -> Exception:
    if match := _UNKNOWN.search(log):
        found = next(filter(None, match.groups()))
        prefix = next(word for word in _CLOSED if found.startswith(word))
        name = _CLOSED[prefix]
        if found.startswith("curand") and found.endswith(".h"):
            return LookupError(
                f"{path.name} includes {found}, a header of cuRAND, which is not installed: "
                "pip install nvidia-curand"
            )
        if prefix in _REPLACED and not found.endswith(".h"):
            return _NeedsLibraryError(_REPLACED[prefix], found.removesuffix("_v2"), name)
        return LookupError(
            f"{path.name} uses {name}. The source of this library is not public, and it runs only "
            "on a GPU, so the simulator cannot run it"
        )
    if match := _GRAPHICS.search(log):
        return LookupError(f"{path.name} uses {match[1]}(); graphics are not simulated")
    if (
        "cc1plus" in log and "cannot execute" in log
    ) or "Failed to preprocess host compiler" in log:
        return LookupError(f"nvcc needs a host compiler: install g++. It said: {log.strip()[:500]}")
    if "undefined reference to `main'" in log:
        return CompileError(
            f"{path.name} has no main(), so it is not a whole program. To run one of its kernels, "
            f"name the kernel and its launch: coalesce run {path.name} KERNEL --grid X --block X "
            "ARGUMENTS"
        )
    return CompileError(log.strip())


def _headers(listed: Path, source: Path) -> list[Path]:
    """Return the user's headers among the files that the compiler read."""
    if not listed.is_file():
        return []
    text = listed.read_text(errors="replace").replace("\\\n", " ")
    _, _, names = text.partition(":")
    paths = {Path(name).resolve() for name in re.split(r"(?<!\\)\s+", names.strip()) if name}
    return [p for p in paths if p != source and p.is_file() and not _is_system(p)]


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
    """Return a list that changes if a compiler or this package's library is replaced.

    It has the path, size and modification time of each of these files. To ask the compilers for
    their versions would take longer.
    """
    found: list[object] = []
    for path in (program, shutil.which("g++"), library()):
        if path is not None:
            status = Path(path).stat()
            found.append([os.path.realpath(path), status.st_size, status.st_mtime_ns])
    return found


def section_of(executable: bytes, name: str = _SECTION) -> bytes:
    """Return the bytes of a section of an executable, by default the section with device code.

    If there is no such section, the result is empty.
    """
    from coalesce.compile import cubin

    try:
        return cubin.section(executable, name)
    except (ValueError, LookupError, IndexError):
        return b""


def code_of(executable: bytes, arch: int, source: str = "") -> dict[str, str]:
    """Return descriptions of an executable's device code, for this package's runtime library.

    The result maps the key of each module to its description (see `code_file`). `arch` is the
    compute capability of the simulated GPU. `source` is the text of the program; it has the names
    of the kernels' parameters.
    """
    found = {}
    for key, ptx, machine, made_for in programs.device_code(section_of(executable), arch):
        if ptx:
            found[key] = code_file(ptx, machine or None, made_for, source)
    return found


def cached_code_of(executable: bytes, arch: int) -> dict[str, str]:
    """Call `code_of` for an executable without its source, and keep the result in the cache."""
    digest = hashlib.sha256(section_of(executable)).hexdigest()
    status = library().stat()
    key = cache.key_of("executable", digest, arch, status.st_size, status.st_mtime_ns)
    if (known := cache.load(key)) is not None:
        return dict(json.loads(known[0]))
    found = code_of(executable, arch)
    # Each text ends with the disassembly, if nvdisasm is installed. Without it, the texts are not
    # stored, so that a later call tries again.
    if all(text.partition("\n\n")[2] for text in found.values()):
        cache.store(key, json.dumps(found), None, {})
    return found


def code_file(ptx: str, machine: bytes | None, arch: int, source: str) -> str:
    """Return the description of a module's device code, for this package's runtime library.

    The description has registers, addresses of functions, names of parameters, and machine code as
    text. ``csrc/cudart/code_file.hpp`` has its format. `machine` is the cubin, or None.
    """
    from coalesce.compile import cubin, disassembler, nvrtc
    from coalesce.cxx import signature

    entries = signature.ptx_entries(ptx)
    lines = [f"registers {entry} {cubin.registers(machine, entry)}" for entry in entries]
    lines += [f"function {name} {at}" for name, at in cubin.functions(machine).items()]
    for entry, parameters in entries.items() if source else ():
        known = signature.signature_of(entry, parameters, source).parameters
        words = [f"{p.name}:{p.item_bytes}:{_type(p)}" for p in known]
        lines.append(" ".join(["parameters", entry, *words]))
    try:
        text = disassembler.listing(nvrtc.Compiled(ptx, machine, "", {}, f"sm_{arch}"))
    except LookupError as error:
        lines.append(f"reason {error}".replace("\n", " "))
        text = ""
    return "\n".join([*lines, "", text])


def _type(parameter: signature.Parameter) -> str:
    """Return the name of the type that a pointer points to, for messages: ``float32``."""
    found = parameter.accepted[0] if parameter.accepted else ""
    kinds = {"f": "float", "i": "int", "u": "uint", "b": "bool", "c": "complex"}
    return f"{kinds[found[0]]}{8 * int(found[1:])}" if found[:1] in kinds else found


def check_executable(path: Path) -> None:
    """Check whether the simulator can run an executable. If not, raise ValueError.

    The executable must load CUDA 13's runtime or the driver API as a shared library, because this
    package replaces the shared library. It must not load a library such as cuFFT, whose source is
    not public and which runs only on a GPU.
    """
    content = path.read_bytes()
    if content[:4] != b"\x7fELF":
        raise ValueError(f"{path} is not an executable file for Linux")
    closed = rf"lib({'|'.join(_CLOSED)})\w*\.so".encode()
    if found := re.search(closed, section_of(content, ".dynstr")):
        name = found[1].decode()
        advice = " Run its source: coalesce run program.cu" if name in _REPLACED else ""
        raise ValueError(
            f"{path} loads {_CLOSED[name]}. The source of this library is not public, and it runs "
            f"only on a GPU, so the simulator cannot run it.{advice}"
        )
    if LIBRARY.encode() in content:
        return
    if found := re.search(rb"libcudart\.so\.(\d+)", content):
        raise ValueError(
            f"{path} was built with CUDA {found[1].decode()}; coalesce runs only programs of CUDA "
            "13. Build it with nvcc 13 -cudart shared, or run its source: coalesce run program.cu"
        )
    if _STATIC_RUNTIME in content or section_of(content):
        raise ValueError(
            f"{path} contains CUDA's runtime, because it was linked statically, so coalesce cannot "
            "replace the runtime. Build the program with nvcc -cudart shared (CMake: set "
            "CMAKE_CUDA_RUNTIME_LIBRARY to Shared), or run its source: coalesce run program.cu"
        )
    if b"libcuda.so" not in content:
        raise ValueError(
            f"{path} is not a CUDA program: it uses neither CUDA's runtime nor its driver API"
        )
