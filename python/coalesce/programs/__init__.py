"""Runs whole CUDA programs on the simulator.

`run` compiles a program and runs it. `execute` runs an executable that already exists.

The program is a separate process without Python. It loads this package's library ``libcudart.so``
(``csrc/cudart``), which implements CUDA's runtime API and driver API with the simulator. When the
program ends, the library writes a report, and the module `report` shows it. If the program loads
more device code while it runs, the library starts the module `loaded`, which reads this code.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coalesce.common import source_files
from coalesce.common.errors import CompileError
from coalesce.compile import nvcc, runtime_library
from coalesce.compile.binaries import executables

# The architecture to compile for on each simulated GPU: its own, or the oldest that nvcc knows.
ARCHITECTURES = {"h200": 90, "h100": 90, "a100": 80, "v100": 75, "t4": 75, "l4": 89}
ARCHITECTURES |= {"rtx3090": 86, "rtx4090": 89}

# The programs that run now, and the last signal that was passed on to each of them, or 0.
_running: dict[subprocess.Popen[bytes], int] = {}


@dataclass
class Outcome:
    """The result of running a program.

    Attributes
    ----------
    status : int
        The exit status of the program. If a signal ended the program, the status is 128 plus the
        number of the signal.
    signal : str
        The name of the signal that ended the program, such as ``"SIGSEGV"``. ``""`` if no signal
        ended it.
    report : dict or None
        The report that ``libcudart.so`` wrote. None if the program ended without a report.
    profiles : list of Profile
        The profiles of the launches that the argument `launches` selected.
    unprofiled : int
        How many of these launches have no profile, because a signal asked this process to end.
    """

    status: int
    signal: str = ""
    report: dict[str, Any] | None = None
    profiles: list[Any] = field(default_factory=list)
    unprofiled: int = 0


@dataclass(frozen=True)
class Settings:
    """How a program runs on the simulator.

    Attributes
    ----------
    gpu : str
        The name of the simulated GPU.
    check, strict : bool
        Whether each launch is checked for mistakes, and whether by the stricter rules.
    launches : str
        Which launches of each kernel are profiled: ``"first"``, ``"all"``, or the number of a
        launch, such as ``"2"`` for the second one. ``""`` means none.
    instruction_limit : int
        The largest number of warp instructions that a launch may execute. 0 means no limit.
    """

    gpu: str = "h200"
    check: bool = False
    strict: bool = False
    launches: str = ""
    instruction_limit: int = 0


def run(
    sources: Sequence[str | os.PathLike[str]],
    arguments: Sequence[str],
    settings: Settings,
    options: Sequence[str] = (),
) -> Outcome:
    """Compile a CUDA program from its source files, and run it on the simulator.

    `arguments` are passed to the program, and `options` to the compiler. The executable gets the
    name of the first source.
    """
    for source in sources:
        if not Path(source).is_file():
            raise FileNotFoundError(f"there is no file {source}")
    path = Path(sources[0])
    built = nvcc.build(sources, options, arch=ARCHITECTURES[settings.gpu], debug=settings.check)
    if built.log.strip():
        print(built.log.strip(), file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="coalesce-") as folder:
        executable = Path(folder) / path.stem
        executable.write_bytes(built.executable)
        executable.chmod(0o700)
        name = str(path.with_suffix(""))
        return _run(executable, [name, *arguments], built.code, Path(folder), settings)


def execute(
    executable: str | os.PathLike[str], arguments: Sequence[str], settings: Settings
) -> Outcome:
    """Run an executable CUDA program on the simulator.

    `executable` is the path of the program, and `arguments` are passed to it. The program must
    either use only the driver API, or be built with ``nvcc -cudart shared``.
    """
    path = Path(executable).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {executable}")
    executables.check_executable(path)
    code = executables.cached_code_of(path.read_bytes(), ARCHITECTURES[settings.gpu])
    with tempfile.TemporaryDirectory(prefix="coalesce-") as folder:
        words = [str(executable), *arguments]
        return _run(path, words, code, Path(folder), settings)


def _run(
    executable: Path,
    words: Sequence[str],
    code: dict[str, str],
    folder: Path,
    settings: Settings,
) -> Outcome:
    own = folder / "coalesce"
    own.mkdir()
    runtime_library.link_libraries(own)
    for key, text in code.items():
        (own / f"{key}.code").write_text(text)
    report = own / "report.json"
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(
            [str(own), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        ),
        "COALESCE_PROGRAM_GPU": settings.gpu,
        "COALESCE_PROGRAM_CODE": str(own),
        "COALESCE_PROGRAM_REPORT": str(report),
        "COALESCE_PROGRAM_HELPER": sys.executable,
        "COALESCE_PROGRAM_PARENT": str(os.getpid()),
        "COALESCE_PROGRAM_LIMIT": str(settings.instruction_limit),
    }
    (own / "helper.py").write_text(_helper())
    if b"libnvrtc.so" in executable.read_bytes():
        from coalesce.compile import nvrtc

        with contextlib.suppress(CompileError):  # without NVRTC, libnvrtc.so reports the error
            environment["COALESCE_PROGRAM_NVRTC"] = nvrtc.library()
    if settings.check:
        environment["COALESCE_PROGRAM_CHECK"] = "strict" if settings.strict else "usual"
    if settings.launches:
        snapshots = own / "launches"
        snapshots.mkdir()
        environment |= {
            "COALESCE_PROGRAM_KEEP": str(snapshots),
            "COALESCE_PROGRAM_LAUNCHES": settings.launches,
        }
    sys.stdout.flush()
    with subprocess.Popen(list(words), executable=str(executable), env=environment) as process:
        _running[process] = 0
        try:
            status = _wait(process)
            outcome = Outcome(status if status >= 0 else 128 - status)
            if status < 0:
                outcome.signal = signal.Signals(-status).name
            with contextlib.suppress(OSError, ValueError):
                outcome.report = json.loads(report.read_text("utf-8", "replace"))
        finally:
            passed_on = _running.pop(process)
    if settings.launches and outcome.report is not None:
        _profile(outcome, outcome.report["snapshots"], settings.gpu, stopped=bool(passed_on))
    if settings.check and outcome.report is not None:
        from coalesce.check import run as checks
        from coalesce.programs import places

        places.add_places(outcome.report)
        for launch in outcome.report["checked"]:
            checks.soften(launch["findings"], lambda file: "\n".join(source_files.lines_of(file)))
    return outcome


def _profile(outcome: Outcome, folders: Sequence[str], gpu: str, *, stopped: bool) -> None:
    """Add the profiles of stored launches to `outcome`, until a signal asks this process to end."""
    try:
        from coalesce.programs import snapshot

        for folder in () if stopped else folders:
            outcome.profiles.append(snapshot.profile(Path(folder), gpu))
    except Stopped as signalled:
        outcome.status = 128 + signalled.number
    outcome.unprofiled = len(folders) - len(outcome.profiles)


def _helper() -> str:
    """Return a Python script that runs `loaded.main` with this process's module search path."""
    path = [str(Path(folder).resolve()) for folder in sys.path]
    return (
        f"import sys\nsys.path[:] = {path!r}\nfrom coalesce.programs import loaded\nloaded.main()\n"
    )


class Stopped(BaseException):
    """A signal has asked this process to end before the program runs.

    Attributes
    ----------
    number : int
        The number of the signal, such as ``signal.SIGTERM``.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def pass_on(number: int, _: object) -> None:
    """Pass a signal on to the program. This function is a signal handler.

    If no program runs, it raises `Stopped`. (If one runs, an exception could make `Popen.wait` lose
    the exit status of the program.)
    """
    if not _running:
        raise Stopped(number)
    for process in _running:
        _running[process] = number
        process.send_signal(number)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for the program and return its status.

    Ctrl-C in a terminal also reaches the program, because it is in the same process group. If the
    program does not end within 2 s, it is killed.
    """
    try:
        return process.wait()
    except KeyboardInterrupt:
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
