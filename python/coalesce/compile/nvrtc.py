"""Compiles CUDA C++ with NVRTC, and keeps the results in a cache on disk.

NVRTC is NVIDIA's compiler as a library. Its result has two parts: PTX (assembly language) and a
cubin (machine code). The simulator runs the PTX. A GPU runs the cubin, which is for the
architecture of this GPU.

NVRTC needs neither a GPU nor a driver. It comes from the wheel nvidia-cuda-nvrtc on PyPI, from a
CUDA toolkit or from conda. The package looks for NVRTC at the first compilation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

from coalesce.common import require
from coalesce.common.errors import CompileError
from coalesce.compile import cache, hints, pathfinder
from coalesce.compile.device_headers.headers import PRELUDE_NAME, texts_for
from coalesce.compile.worker import Compiler
from coalesce.cxx.definitions import READING_OPTION
from coalesce.cxx.file_layout import included

DEFAULT_ARCH = "sm_90"

_TIMES = re.compile("__DATE__|__TIME__|__TIMESTAMP__")

_remembered: dict[str, Compiled] = {}  # by cache key, the newest last
_REMEMBERED_AT_MOST = 256


@dataclass(frozen=True)
class Compiled:
    """The result of a compilation.

    Attributes
    ----------
    ptx : str
        The PTX text. It says which line of the source each instruction comes from.
    cubin : bytes or None
        The machine code for `arch`. None for a virtual architecture, such as ``"compute_90"``.
    log : str
        The compiler's warnings.
    lowered : dict
        Maps each requested template instantiation, such as ``"scale<float, 4>"``, to its mangled
        name in the PTX.
    arch : str
        The architecture that the source was compiled for, such as ``"sm_90"``.
    """

    ptx: str
    cubin: bytes | None
    log: str
    lowered: Mapping[str, str] = field(default_factory=dict)
    arch: str = DEFAULT_ARCH


def compile_cuda(
    source: str,
    *,
    arch: str = DEFAULT_ARCH,
    options: Sequence[str] = (),
    name: str = "kernel.cu",
    headers: Mapping[str, str] | None = None,
    expressions: Sequence[str] = (),
) -> Compiled:
    """Compile CUDA C++ to PTX and machine code.

    Parameters
    ----------
    source : str
        The text of the source.
    arch : str
        The architecture to compile for. If the options contain ``-arch``, `arch` is ignored.
    options : sequence of str
        NVRTC's options: ``"-DTILE=16"``, ``"-use_fast_math"``, ``"-std=c++20"``, ``"-Ifolder"``.
    name : str
        The file name of the source in error messages and in the PTX. A file of this name need not
        exist.
    headers : mapping, optional
        Maps names of headers to their texts. The source can include them as if they were files.
    expressions : sequence of str
        The template instantiations to compile, such as ``"scale<float, 4>"``.

    Returns
    -------
    Compiled

    Raises
    ------
    CompileError
        The source does not compile, or NVRTC is not installed. The message has the compiler's log,
        or says what to install.

    Examples
    --------
    >>> compile_cuda('extern "C" __global__ void f(float *x) { x[0] = 1; }').arch
    'sm_90'
    """
    options, own_arch = without_arch(checked_options(options))
    arch = own_arch or arch
    texts = texts_for(source, headers or {}, options)
    compiler = nvrtc()
    arguments = [f"-arch={arch}", "-lineinfo", "--device-int128", *options]
    if not any(re.match(r"--?std\b", option) for option in options):
        arguments.insert(2, "--std=c++17")
    of_cuda, reads_others = _included_files(source, texts)
    arguments += _options_for(of_cuda, options)
    folders = [f"-I{folder}" for folder in include_folders()]
    # The key contains the versions of the compiler and of CUDA's headers, but not the folders of
    # these headers, which differ between installations. A change of files in the user's folders
    # would not change the key. So if the source reads such files, the result is not cached.
    reproducible = not (
        reads_others
        or any(READING_OPTION.match(each) for each in options)
        or any(_TIMES.search(each) for each in (source, *(headers or {}).values()))
    )
    key = cache.key_of(
        source,
        name,
        arguments,
        sorted((headers or {}).items()),
        list(expressions),
        [compiler.version, header_versions() if of_cuda else None],
    )
    if reproducible and (compiled := _recall(key, arch)) is not None:
        return compiled

    try:
        ptx, cubin, log, lowered = compiler.compile(
            source,
            name,
            [*arguments, *folders, f"--pre-include={PRELUDE_NAME}"],
            list(texts.items()),
            list(expressions),
        )
    except CompileError as error:
        major, minor = compiler.version
        title = f"{name} does not compile (NVRTC {major}.{minor}, {arch})"
        raise CompileError(hints.error_message(title, str(error), compiler.architectures)) from None
    result = Compiled(
        # The source has no file. NVRTC writes the current folder before its name in the PTX.
        ptx=re.sub(rf'(\.file\s+\d+\s+)"[^"\n]*/{re.escape(name)}"', rf'\1"{name}"', ptx),
        cubin=cubin or None,
        log=log,
        lowered=dict(zip(expressions, lowered, strict=True)),
        arch=arch,
    )
    if reproducible:
        _remember(key, result)
        cache.store(key, result.ptx, result.cubin, {"log": log, "lowered": dict(result.lowered)})
    return result


@lru_cache(maxsize=1)
def nvrtc() -> Compiler:
    """Return the compiler NVRTC. The first call loads it.

    If NVRTC is not installed, a CompileError says what to install.
    """
    return Compiler(library())


def library() -> str:
    """Return the path of the library NVRTC.

    If NVRTC is not installed, a CompileError says what to install.
    """
    pathfinder = _pathfinder()
    try:
        path = pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path
    except (pathfinder.DynamicLibNotFoundError, RuntimeError, OSError) as error:
        why = str(error).splitlines()[0]
        if "cannot allocate" in why or "failed to map" in why:
            raise CompileError(
                "the CUDA compiler NVRTC is installed but cannot be loaded: the memory limit of "
                f"this process is too low (see ulimit -v)\n  {why}"
            ) from None
        raise CompileError(
            "the CUDA compiler NVRTC is not installed: pip install nvidia-cuda-nvrtc "
            f"(it needs no GPU and no driver)\n  {why}"
        ) from None
    return str(path)


def _pathfinder() -> Any:
    try:
        return pathfinder.pathfinder()
    except LookupError as error:
        raise CompileError(f"the CUDA compiler NVRTC cannot be found: {error}") from None


@lru_cache(maxsize=1)
def include_folders() -> tuple[str, ...]:
    """Return the folders with the installed headers of CUDA."""
    pathfinder = _pathfinder()
    folders: list[str] = []
    for component in ("cudart", "cccl"):
        try:
            folder = pathfinder.find_nvidia_header_directory(component)
        except Exception:
            folder = None
        if folder and folder not in folders:
            folders.append(folder)
    # In the wheels of CUDA 13, the headers of CCCL are in a folder of the package cudart.
    folders += [str(sub) for folder in folders if (sub := Path(folder) / "cccl").is_dir()]
    return tuple(dict.fromkeys(folders))


def _included_files(source: str, texts: Mapping[str, str]) -> tuple[set[str], bool]:
    """Return the headers of CUDA that a source includes, and whether it may include other files.

    `texts` are the headers that are not files.
    """
    of_cuda: set[str] = set()
    reads_others = False
    seen: set[str] = set()
    waiting = [source, texts[PRELUDE_NAME]]
    while waiting:
        for form in included(waiting.pop()):
            name = form.strip('<>"')
            if name in seen:
                continue
            seen.add(name)
            if name in texts:
                waiting.append(texts[name])
            elif _is_of_cuda(name):
                of_cuda.add(name)
            else:
                # Without an option such as -I, the compiler does not find <name>, except if it is a
                # path. (A source may contain such a line for another compiler, in an #ifdef.) A
                # form without quotes or brackets is a macro.
                reads_others |= form[0] != "<" or _is_path(name)
    return of_cuda, reads_others


def _is_path(header: str) -> bool:
    return PurePath(header).is_absolute() or ".." in PurePath(header).parts


def _is_of_cuda(header: str) -> bool:
    """Return whether a header is in the installed headers of CUDA, such as "cub/cub.cuh"."""
    if _is_path(header):
        return False
    return any((Path(folder) / header).is_file() for folder in include_folders())


@lru_cache(maxsize=1)
def header_versions() -> dict[str, str]:
    """Return the versions of the installed headers of CUDA, such as ``{"CUDART": "13050"}``.

    The versions are the numbers that the headers define. A header that is missing has no version.
    """
    files = {"CUDART": "cuda_runtime_api.h", "CCCL": "cuda/std/__cccl/version.h"}
    versions: dict[str, str] = {}
    for library, file in files.items():
        for path in (Path(folder) / file for folder in include_folders()):
            if library not in versions and path.is_file():
                text = path.read_text(encoding="utf-8", errors="replace")
                if match := re.search(rf"#define\s+{library}_VERSION\s+(\d+)", text):
                    versions[library] = match[1]
    return versions


def _options_for(of_cuda: set[str], options: Sequence[str]) -> list[str]:
    """Return the options that the headers of CUDA need in addition to `options`.

    `of_cuda` are the names of the headers that the source includes.
    """
    needed = []
    if of_cuda:
        # Headers of CCCL define INFINITY and NAN again, in other words than `headers.PRELUDE`. The
        # compiler warns of a macro that is defined again. The warning has the number 47.
        needed.append("-diag-suppress=47")
    if "thrust/complex.h" in of_cuda and "-default-device" not in options:
        needed.append("-default-device")  # it has functions that are not marked as __device__
    return needed


def architecture(compute_capability: tuple[int, int]) -> str:
    """Return the architecture for compiling a kernel that will run on a GPU.

    For a GPU of compute capability (9, 0), the result is "sm_90". A compiler that is older than the
    GPU may not know this architecture. Then the result is an older architecture, which the compiler
    knows. For example, take a GPU of compute capability 8.9:

    - If the compiler knows nothing newer than 8.6, the result is "sm_86". The GPU can run this
      machine code, because the major version is the same.
    - If the compiler knows nothing newer than 7.5, the result is "compute_75". The kernel is
      compiled only to PTX, and the GPU's driver compiles this PTX.
    """
    wanted = 10 * compute_capability[0] + compute_capability[1]
    known = nvrtc().architectures
    if wanted in known:
        return f"sm_{wanted}"
    below = [number for number in known if number <= wanted]
    if not below:
        major, minor = nvrtc().version
        raise CompileError(
            f"NVRTC {major}.{minor} compiles for compute capability {known[0] / 10} and newer; "
            f"this GPU has {compute_capability[0]}.{compute_capability[1]}. "
            f"Install an older NVRTC: pip install 'nvidia-cuda-nvrtc-cu12'"
        )
    # Machine code runs on later GPUs of the same major version. PTX runs on every later GPU.
    newest = below[-1]
    return f"sm_{newest}" if newest // 10 == wanted // 10 else f"compute_{newest}"


def simulated_architecture(compute_capability: tuple[int, int]) -> str:
    """Return the architecture for compiling a kernel that will run on the simulator.

    This is the architecture of the simulated GPU, because a source may depend on it (through the
    macro ``__CUDA_ARCH__``). If the compiler no longer supports this architecture, the result is
    the oldest architecture that the compiler supports. For CUDA 13, this is "sm_75".
    """
    oldest = nvrtc().architectures[0]
    if 10 * compute_capability[0] + compute_capability[1] < oldest:
        return f"sm_{oldest}"
    return architecture(compute_capability)


def architecture_name(arch: str | int | None) -> str | None:
    """Return an architecture as the compiler writes it: "sm_80" for 80, "80" or "sm_80".

    For None, the result is None.
    """
    if arch is None:
        return None
    text = str(arch) if isinstance(arch, str | int) and not isinstance(arch, bool) else ""
    match = re.fullmatch(r"(?:(sm|compute)_)?(\d{2,3}[af]?)", text)
    if match is None:
        raise ValueError(
            '`arch` must be a compute capability such as "sm_80", 80 or "compute_80"; '
            f"got {require.shown(arch)}"
        )
    return f"{match[1] or 'sm'}_{match[2]}"


def checked_options(options: Iterable[str]) -> list[str]:
    """Check the compiler's options, and return them as a list of strings."""
    if isinstance(options, str):
        raise TypeError(
            f"`options` must be a sequence of strings; got the string {options!r}. Write "
            f"[{options!r}]"
        )
    result = require.texts("options", options)
    for option in result:
        if "\0" in option:
            raise ValueError(f"`options` must not contain a NUL character; got {option!r}")
    return result


def checked_headers(headers: Any) -> dict[str, str]:
    """Check the user's headers, and return a dict from the name of each header to its text.

    For None, the dict is empty.
    """
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise TypeError(
            f"`headers` must be a dict from names to texts; got {require.shown(headers)}"
        )
    for name, text in headers.items():
        if not isinstance(name, str) or not isinstance(text, str):
            item = f"{require.shown(name)}: {require.shown(text)}"
            raise TypeError(f"`headers` must be a dict from names to texts; got {item}")
        if "\0" in name or "\0" in text:
            raise ValueError(f"`headers` must not contain a NUL character; {name!r} has one")
    return dict(headers)


def checked_filename(filename: Any) -> str | None:
    """Check the file name of a source, and return it.

    The name must not contain quotes, because it is in quotes in the PTX.
    """
    if filename is None:
        return None
    require.text("filename", filename)
    wrong = next((c for c in filename if c in '"\\' or not c.isprintable()), None)
    if wrong is not None or not filename:
        why = f"has the character {wrong!r}" if filename else "is empty"
        raise ValueError(
            f"`filename` {why}; it must be a name without quotes, backslashes and control "
            f"characters; got {filename!r}"
        )
    return str(filename)


def without_arch(options: list[str]) -> tuple[list[str], str | None]:
    """Remove -arch=X or --gpu-architecture=X from the options. Return the options and X.

    Without such an option, X is None. It may also be written with a space: ``-arch X``.
    """
    rest: list[str] = []
    arch = None
    words = iter(options)
    for option in words:
        if option in ("-arch", "--gpu-architecture"):
            arch = next(words, None)
        elif match := re.fullmatch(r"(?:-arch|--gpu-architecture)[= ](\w+)", option):
            arch = match[1]
        else:
            rest.append(option)
    return rest, arch


def _recall(key: str, arch: str) -> Compiled | None:
    if (compiled := _remembered.get(key)) is not None:
        return compiled
    entry = cache.load(key)
    if entry is None:
        return None
    ptx, cubin, notes = entry
    compiled = Compiled(ptx, cubin, notes.get("log", ""), notes.get("lowered", {}), arch)
    _remember(key, compiled)
    return compiled


def _remember(key: str, result: Compiled) -> None:
    # No lock is needed, even if several threads store results at the same time: each step is one
    # atomic operation of the dict.
    _remembered[key] = result
    for oldest in list(_remembered)[:-_REMEMBERED_AT_MOST]:
        _remembered.pop(oldest, None)
