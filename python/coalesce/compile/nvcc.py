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

from coalesce._core import CompileError
from coalesce.compile import cache, pathfinder
from coalesce.compile.binaries.executables import code_of
from coalesce.compile.runtime_library import CLOSED, LIBRARIES, REPLACED, library, link_libraries

_OLDER_NAMES = Path(__file__).with_name("device_headers") / "cuda12.h"
_TEXTURE_REFERENCES = Path(__file__).with_name("device_headers") / "texture_references.h"
_INSTALL = "install it with pip install '.[programs]', or put the nvcc of a CUDA toolkit 13 on PATH"
_LINKED_CLOSED = re.compile(rf"-l(?:{'|'.join(CLOSED)})\w*")
# Functions and headers of these libraries in the errors of compilers and linkers.
_UNKNOWN = re.compile(
    rf"""undefined reference to `((?:{"|".join(CLOSED)})\w+)'"""
    rf"""|identifier "((?:{"|".join(CLOSED)})\w+)" is undefined"""
    rf"""|\W((?:{"|".join(CLOSED)})\w+)\W+was not declared"""
    rf"""|error: ((?:{"|".join(CLOSED)})\w*\.h): No such file"""
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
        An item for each module (the device code of one source file). The key identifies the module.
        The value describes the module for the simulator's runtime library.
        ``csrc/cudart/binary/code_file.hpp`` explains the format of the value.
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
    if path := pathfinder.file_of("nvidia-cuda-nvcc", "nvcc"):
        return path
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
    own = [_text_of(file) for file in (_OLDER_NAMES, _TEXTURE_REFERENCES, *REPLACED.values())]
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

    If an error shows that the program needs something more, compile again with it: one of this
    package's replacements for a library, one of this package's headers, or the architecture sm_90a.
    """
    included = [_OLDER_NAMES]
    texts = [_text_of(path) for path in paths]
    # A program that calls cublasCreate() certainly needs the replacement of cuBLAS.
    replaced = [file for word, file in REPLACED.items() if any(f"{word}Create" in t for t in texts)]
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


def tool(name: str) -> str | None:
    """Return the path of a program that comes with nvcc, such as ptxas. None if it is missing."""
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
        headers: list[Path] = []
        parts: list[Path] = []
        own: list[str | Path]
        words = [*words, *_more_headers(program)]
        for number, path in enumerate(paths if len(paths) > 1 else []):
            parts.append(folder / f"{number}.o")
            own = [*_listing(folder), *_including(path, included), "-o", parts[-1], path]
            log += _nvcc(program, [*words, "-c", *own], path)
            headers += _headers(folder / "headers", path)
        own = [*parts] or [*_listing(folder), *_including(paths[0], included), paths[0]]
        for number, content in enumerate(objects):
            own.append(folder / f"library{number}.o")
            Path(own[-1]).write_bytes(content)
        libraries = ["-Xlinker", "--as-needed", "-lnvrtc", *_of_wheels(program, folder)]
        log += _nvcc(program, [*words, *libraries, "-o", out, *own], paths[0])
        if not parts:
            headers = _headers(folder / "headers", paths[0])
        return Built(out.read_bytes(), {}, log), sorted(set(headers) - set(paths))


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
    options = ["-Xcompiler", f"-idirafter,{LIBRARIES / 'include'}"]
    if not (Path(program).resolve().parent.parent / "include" / "nvrtc.h").is_file() and (
        header := pathfinder.file_of("nvidia-cuda-nvrtc", "nvrtc.h")
    ):
        options.append(f"-I{Path(header).parent}")
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
        unknown = next(filter(None, match.groups()))
        prefix = next(word for word in CLOSED if unknown.startswith(word))
        name = CLOSED[prefix]
        if unknown.startswith("curand") and unknown.endswith(".h"):
            return LookupError(
                f"{path.name} includes {unknown}, a header of cuRAND, which is not installed: "
                "pip install nvidia-curand"
            )
        if prefix in REPLACED and not unknown.endswith(".h"):
            return _NeedsLibraryError(REPLACED[prefix], unknown.removesuffix("_v2"), name)
        return LookupError(
            f"{path.name} uses {name}. The source of this library is not public, and its machine "
            "code needs a GPU. So the simulator cannot run the library"
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
    if "requires separate compilation mode" in log:
        return CompileError(
            f"{log.strip()}\n\nA kernel launches a kernel here (dynamic parallelism), which the "
            "simulator does not support. Launch the inner kernel from host code"
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
    identity: list[object] = []
    for path in (program, shutil.which("g++"), library()):
        if path is not None:
            status = Path(path).stat()
            identity.append([os.path.realpath(path), status.st_size, status.st_mtime_ns])
    return identity
