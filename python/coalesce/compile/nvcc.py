"""Compiles whole CUDA programs, including their host code, with NVIDIA's compiler nvcc.

nvcc comes with a CUDA toolkit, or with the wheels of ``pip install '.[programs]'``. It needs a host
compiler (g++).

The cache of compiled kernels also keeps executables. The module `program_inputs` finds what an
executable depends on.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from coalesce._core import CompileError, printable
from coalesce.compile import cache, hints, pathfinder, program_inputs, texture_references
from coalesce.compile.binaries.executables import code_of
from coalesce.compile.runtime_library import CLOSED, LIBRARIES, REPLACED, library, link_libraries

_OLDER_NAMES = Path(__file__).parent / "device_headers" / "older"  # read before CUDA's headers
_SOURCES = (".cu", ".c", ".cc", ".cxx", ".cpp", ".c++", ".C")  # the endings that nvcc compiles
_PLAIN = re.compile(r"[\w./+~@-]+", re.ASCII)
_SEPARATE = (
    "{} needs separate compilation (nvcc -rdc=true), which the simulator does not support: kernels "
    "may not launch kernels, and not call device functions of other files. Put these functions "
    "into a header, or into the file of the kernel"
)
_INSTALL = "install it with pip install '.[programs]', or put the nvcc of a CUDA toolkit 13 on PATH"
_LINKED_CLOSED = re.compile(rf"-l(?:{'|'.join(CLOSED)})\w*")
# Functions and headers of these libraries in the errors of compilers and linkers.
_CLOSED = "|".join(CLOSED)
_UNKNOWN = re.compile(
    rf"""undefined reference to `((?:{_CLOSED})\w+)'|error: ((?:{_CLOSED})\w*\.h): No such file"""
)
_UNDECLARED = re.compile(
    rf"""identifier "((?:{_CLOSED})\w+)" is undefined|\W((?:{_CLOSED})\w+)\W+was not declared"""
)
_CUBLAS = LIBRARIES / "include" / "cublas_v2.h"
_GRAPHICS = re.compile(r"undefined reference to `(cu(?:GL|EGL|VDPAU)\w+)'")


class _NeedsLibraryError(LookupError):
    """The program needs a closed library. `file` replaces a part of this library."""

    def __init__(self, file: Path, message: str) -> None:
        super().__init__(message)
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
        nvcc is not installed, or the program needs something that cannot be simulated.
    """
    paths = [Path(source).resolve() for source in sources]
    # A closed library would be linked if it is on this machine, but could not run.
    options = [word for word in options if not _LINKED_CLOSED.fullmatch(word)]
    if not any('"' in str(path) for path in paths):  # ptxas cannot read such a name of a file
        options = ["-lineinfo", *options]
    needs = _Needs(f"{arch}")
    while True:
        with tempfile.TemporaryDirectory(prefix="coalesce-") as folder:
            compiler = _Compiler(nvcc(), Path(folder), paths[0], needs.references)
            words = [*needs.words(), *(["-g"] if debug else []), *options]
            made = _attempt(compiler, paths, words, arch, needs)
        if isinstance(made, Built):
            return made
        needs = made


@dataclass(frozen=True)
class _Needs:
    """What a program needs of the compiler. An error of an earlier attempt has shown it."""

    arch: str  # the architecture: wgmma and setmaxnreg need 90a instead of 90
    references: bool = False  # this package's texture references

    def words(self) -> list[str]:
        """Return the compiler's options."""
        return [
            *("-cudart", "shared", "-no-compress", f"-I{_OLDER_NAMES}"),
            *("-gencode", f"arch=compute_{self.arch},code=[compute_{self.arch},sm_{self.arch}]"),
            *(["-DCOALESCE_TEXTURE_REFERENCES"] if self.references else []),
        ]

    def more(self, log: str) -> _Needs | None:
        """Return what the program needs according to the log of an attempt. None: nothing new."""
        if "texture is not a template" in log and not self.references:
            return replace(self, references=True)
        if f"not supported on .target 'sm_{self.arch}'" in log and self.arch == "90":
            return replace(self, arch="90a")  # whose code runs on compute capability 9.0 only
        return None


@dataclass(frozen=True)
class _Compiler:
    """nvcc with a folder for its temporary files. Its errors name the file `user`.

    If `references`, the program has texture references.
    """

    program: str
    folder: Path
    user: Path
    references: bool

    def run(self, words: Sequence[str]) -> tuple[bytes, bytes]:
        """Run nvcc and return what it wrote to stdout and stderr. If it fails, raise its error."""
        environment = {**os.environ, "TMPDIR": str(self.folder)}
        if self.references:
            environment["PATH"] = f"{self.folder / 'bin'}{os.pathsep}{environment['PATH']}"
        try:
            process = subprocess.Popen(
                [self.program, *self._more_headers(), *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise LookupError(f"CUDA's compiler {self.program} does not start: {error}") from None
        with process:
            try:
                out, log = process.communicate()
            except BaseException:  # end the processes that nvcc has started, too
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        if process.returncode != 0:
            # -E writes the program to stdout, and --verbose makes the linker write a lot.
            said = log if {"-E", "--verbose"} & {*words} else out + log
            raise _error(self.user, printable(said.decode(errors="replace")))
        return out, log

    def _more_headers(self) -> list[str]:
        """Return the options for headers that are not among nvcc's headers."""
        # -idirafter: this package's headers are used only if cuBLAS's own headers are missing.
        options = ["-Xcompiler", f"-idirafter,{LIBRARIES / 'include'}"]
        if not (self.root / "include" / "nvrtc.h").is_file() and (
            header := pathfinder.file_of("nvidia-cuda-nvrtc", "nvrtc.h")
        ):
            options.append(f"-I{Path(header).parent}")
        return options

    @property
    def root(self) -> Path:
        return Path(self.program).resolve().parent.parent

    def libraries(self) -> list[str]:
        """Return the options for linking: the folders of libraries, and NVRTC."""
        folders = [
            self.folder,
            *(f for f in (self.root / "lib64", self.root / "lib") if f.is_dir()),
        ]
        return ["-Xlinker", "--as-needed", "-lnvrtc", *(f"-L{folder}" for folder in folders)]


def _attempt(
    compiler: _Compiler, paths: Sequence[Path], words: Sequence[str], arch: int, needs: _Needs
) -> Built | _Needs:
    """Compile and link a program, or return what it needs besides `needs`."""
    if needs.references:
        texture_references.write_compilers(compiler.folder / "bin")
    sources = [_plain(path, compiler.folder / f"{n}") for n, path in enumerate(paths)]
    inputs = program_inputs.inputs_of(
        compiler.run, [*words, *map(str, sources)], compiler.folder, compiler.root
    )
    if inputs.separate:
        raise LookupError(_SEPARATE.format(paths[0].name))
    own = [file.read_text() for file in REPLACED.values()]
    tools = [program_inputs.state_of(f"{file}") for file in (compiler.program, library())]
    key = cache.key_of("program", 5, arch, own, tools, inputs.parts)
    if inputs.complete and (known := cache.load(key)) is not None:
        text, executable, notes = known
        if executable is None:
            return _Needs(**notes["needs"])
        if all(program_inputs.state_of(name) == state for name, state in notes["linked"]):
            return Built(executable, json.loads(text), notes["log"])
    files = inputs.files
    try:
        executable, log, linked = _compile(
            compiler, sources, words, f"{arch}", keep=inputs.complete
        )
    except CompileError as error:
        log = str(error)
        if (more := needs.more(log)) is not None:
            cache.store(key, "", None, {"needs": asdict(more)})
            return more
        if (match := _UNDECLARED.search(log)) and _CUBLAS in files:
            raise LookupError(_not_replaced(paths[0], next(filter(None, match.groups())))) from None
        raise
    texts = [file.read_text(errors="surrogateescape") for file in files]
    code = code_of(executable, arch, "\n".join(texts))
    if inputs.complete and linked is not None:
        states = [[name, program_inputs.state_of(name)] for name in linked]
        cache.store(key, json.dumps(code), executable, {"linked": states, "log": log})
    return Built(executable, code, log)


def _compile(
    compiler: _Compiler, sources: Sequence[Path], words: Sequence[str], arch: str, *, keep: bool
) -> tuple[bytes, str, list[str] | None]:
    """Compile and link a program. Return the executable, the warnings and some of the read files.

    The files are those that the linker and (if `keep`) the assembler read. If the linker misses a
    function of a closed library, link this package's replacement, too.
    """
    # Link the program with the library that it later runs with. So if the library lacks a function,
    # the error comes now, and not when the program runs.
    folder, logs, objects, read = compiler.folder, [], [], set[str]()
    link_libraries(folder)
    for number, source in enumerate(sources):
        objects.append(source)
        if source.suffix in _SOURCES:
            objects[-1], rule = folder / f"{number}.o", folder / f"{number}.d"
            own = ["-Xcompiler", f"-Xassembler,--MD,-Xassembler,{rule}"] if keep else []
            own += ["-c", "-o", f"{objects[-1]}", f"{source}"]
            logs.append(b"".join(compiler.run([*words, *own])))
            read.update(program_inputs.assembled_files(rule))
    replaced: list[Path] = []
    while True:
        own = [*words, *compiler.libraries(), "-Xlinker", "--verbose", "-o", f"{folder}/program"]
        try:
            printed, log = compiler.run([*own, *map(str, objects)])
            break
        except _NeedsLibraryError as error:
            if error.file in replaced:
                raise LookupError(str(error)) from None
            replaced.append(error.file)
            objects.append(folder / f"{error.file.stem}.o")
            objects[-1].write_bytes(_replacement(compiler, error.file, arch))
    text = printable(b"".join([*logs, log]).decode(errors="replace"))
    linked = program_inputs.linked_files(os.fsdecode(printed), folder, read)
    return (folder / "program").read_bytes(), text, linked


def _replacement(compiler: _Compiler, source: Path, arch: str) -> bytes:
    """Compile `source`, which replaces a library, and return the object file."""
    made = compiler.folder / "library.o"
    words = [*_Needs(arch).words(), "-c", "-o", str(made), str(source)]
    inputs = program_inputs.inputs_of(compiler.run, words, compiler.folder, compiler.root)
    key = cache.key_of("library", inputs.parts)
    if (known := cache.load(key)) is not None and known[1] is not None:
        return known[1]
    compiler.run(words)
    cache.store(key, "", made.read_bytes(), {})
    return made.read_bytes()


def _plain(path: Path, plain: Path) -> Path:
    """Return a name of a source for nvcc, which passes names to a shell.

    If the path has characters that mean something to a shell or to nvcc, the result is a new file
    with the name `plain`, which includes the source.
    """
    if _PLAIN.fullmatch(str(path)):
        return path
    made = plain.with_suffix(path.suffix if _PLAIN.fullmatch(path.suffix) else "")
    if path.suffix not in _SOURCES:
        made.symlink_to(path)
        return made
    name = os.fsencode(path)
    if b"\n" in name or (b'"' in name and b">" in name):
        raise ValueError(
            f'the path of a program must not have a line break, and not both " and >; got {path}'
        )
    made.write_bytes(b'#include "%b"\n' % name if b">" in name else b"#include <%b>\n" % name)
    return made


def tool(name: str) -> str | None:
    """Return the path of a program that comes with nvcc, such as ptxas. None if it is missing."""
    with contextlib.suppress(LookupError):
        beside = Path(os.path.realpath(nvcc())).parent / name
        if os.access(beside, os.X_OK):
            return str(beside)
    return shutil.which(name)


def _closed(function: str) -> tuple[str, str]:
    """Return the beginning of the names in the library that has a function, and its name."""
    return next((word, name) for word, name in CLOSED.items() if function.startswith(word))


def _not_replaced(path: Path, function: str) -> str:
    name = _closed(function)[1]
    return (
        f"{path.name} uses {function.removesuffix('_v2')}() of {name}, which coalesce's "
        f"replacement for {name} does not have"
    )


def _first(log: str) -> str:
    """Return the first error in a log, as an addition to a message."""
    return next((f". nvcc said: {line}" for line in log.splitlines() if "error" in line), "")


def _error(path: Path, log: str) -> Exception:
    if match := _UNKNOWN.search(log):
        unknown = next(filter(None, match.groups()))
        prefix, name = _closed(unknown)
        if unknown.startswith("curand") and unknown.endswith(".h"):
            return LookupError(
                f"{path.name} includes {unknown}, a header of cuRAND, which is not installed: "
                "pip install nvidia-curand"
            )
        if prefix in REPLACED and not unknown.endswith(".h"):
            return _NeedsLibraryError(REPLACED[prefix], _not_replaced(path, unknown))
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
        return LookupError(
            f"{path.name} has kernels that launch kernels (dynamic parallelism), which the "
            f"simulator does not support. Launch the inner kernels from host code{_first(log)}"
        )
    if "Unresolved extern function" in log:
        return LookupError(_SEPARATE.format(path.name) + _first(log))
    return CompileError("\n  ".join([log.strip(), *hints.for_device_code(log)]))
