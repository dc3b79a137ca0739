"""Run public CUDA programs on the simulator: which of them build, run and verify themselves.

python benchmarks/programs.py --samples FOLDER --rodinia FOLDER --hecbench FOLDER --json FILE

The file is docs/measured/programs.json. docs/make_programs.py makes a page from it.

The folders are clones of github.com/NVIDIA/cuda-samples, github.com/yuhc/gpu-rodinia and
github.com/zjin-lcf/HeCBench. Rodinia's inputs are not in that clone: --rodinia-data is the folder
`data` of Rodinia 3.1, such as that of github.com/asubah/rodinia. This repository holds no files of
theirs. A program that is already in the file is not run again, unless --only names it.

The machine needs what the programs need: Boost's headers (interval), MPI (simpleMPI), OpenMP, and
cuRAND's headers (nvidia-curand).

A program is verified if it ends with status 0 and its results were compared with a reference.
Rodinia's are compared here (rodinia.py). The others must compare their results themselves: the
output or the status shows it.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import rodinia
import samples
from commit import commit

GROUPS = ("0_Introduction", "2_Concepts_and_Techniques", "3_CUDA_Features", "6_Performance")
_WRONG = re.compile(
    r"\bfail(?:ed|ure)?\b(?!\s*[:=]?\s*0\b)|\bmismatch|\bincorrect\b|CUDA error", re.IGNORECASE
)
_RIGHT = re.compile(
    r"\bpass(?:ed)?\b|success|\bcorrect\b|\bOK\b|verified|shmoo.*complete|test.{0,10}complete"
    r"|completed, returned OK|matches|error\s*(?:norm|=|:)|no error|L1-Norm|PASS",
    re.IGNORECASE,
)
# The output at the end of a run that tested errors on purpose.
_SAYS_SO = re.compile(
    r"returned OK|Result = PASS|\bPASSED\b|\bPASS\b|test passed|failed as expected", re.IGNORECASE
)
_BY_STATUS = re.compile(r"\? *EXIT_SUCCESS *: *EXIT_FAILURE")


@dataclass
class Case:
    """A program: its files, and how it is called."""

    suite: str
    name: str
    folder: Path
    sources: list[Path]
    options: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    # Gets the output, compares the result with a reference and says how. Raises
    # `rodinia.MismatchError` if they differ.
    verify: Callable[[str], str] | None = None
    # Files that the program reads and that its own build makes: options of nvcc, source, name.
    modules: list[tuple[list[str], Path, str]] = field(default_factory=list)
    # Headers of CUDA that its own build copies beside the program, for NVRTC.
    headers: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"{self.suite}/{self.name}"


# Arguments that make a sample do less work of the same kind: fewer repetitions, smaller arrays.
LESS = {
    "matrixMul": ["-wA=64", "-hA=64", "-wB=64", "-hB=64"],
    "radixSortThrust": ["-n=100000", "-iterations=1"],
    "globalToShmemAsyncCopy": ["-wA=256", "-hA=256", "-wB=256", "-hB=256"],
    "UnifiedMemoryPerf": ["-kernel-iterations=1"],
}


def of_samples(root: Path) -> Iterator[Case]:
    """Every program of the groups; its sources are all sources of its folder."""
    for group in GROUPS:
        for folder in sorted((root / "Samples" / group).glob("*/")):
            sources = sorted(
                path
                for pattern in ("*.cu", "*.cpp", "*.c", "src/*.cu", "src/*.cpp")
                for path in folder.glob(pattern)
            )
            modules, headers, own, more = _of_build(folder)
            sources = [path for path in sources if path.name not in own] + more
            if sources:
                options = [f"-I{root / 'Common'}", f"-I{folder / 'inc'}", "--extended-lambda"]
                options += ["-std=c++17"]
                options += _of_packages(folder)
                words, check = LESS.get(folder.name, []), samples.CHECKS.get(folder.name)
                yield Case(
                    group, folder.name, folder, sources, options, words, check,
                    modules=modules, headers=headers,
                )  # fmt: skip


def _of_packages(folder: Path) -> list[str]:
    """Return the options for the packages that a sample's build asks for."""
    build = folder / "CMakeLists.txt"
    text = build.read_text(errors="replace") if build.is_file() else ""
    options = ["-Xcompiler", "-fopenmp"] if "find_package(OpenMP" in text else []
    mpi = shutil.which("mpicxx")
    if "find_package(MPI" in text and mpi:
        shown = subprocess.run([mpi, "-show"], capture_output=True, text=True, check=True).stdout
        options += [word for word in shown.split() if word.startswith(("-I", "-L", "-l"))]
    return options


def _of_build(
    folder: Path,
) -> tuple[list[tuple[list[str], Path, str]], list[str], set[str], list[Path]]:
    """Return the modules and headers that a sample's build makes, and two kinds of sources.

    The program loads the modules, or compiles the first kind of sources at run time. The second
    kind are sources of other folders.
    """
    build = folder / "CMakeLists.txt"
    text = build.read_text(errors="replace") if build.is_file() else ""
    own = {Path(name).name for name in re.findall(r"CURRENT_SOURCE_DIR}/(\S+\.cu)\b", text)}
    modules: list[tuple[list[str], Path, str]] = []
    kernel = re.search(r'set\(CUDA_KERNEL_SOURCE "\${CMAKE_CURRENT_SOURCE_DIR}/(.+?)"\)', text)
    made = re.search(r'set\(CUDA_(\w+)_FILE "\${CMAKE_CURRENT_BINARY_DIR}/(.+?)"\)', text)
    if kernel and made:
        # The simulator needs PTX. The samples' fat binaries have machine code only.
        code = ["-gencode", "arch=compute_90,code=[compute_90,sm_90]"]
        options = ["-ptx", "-arch=compute_90"] if made[1] == "PTX" else ["-fatbin", *code]
        modules = [(options, folder / kernel[1], made[2])]
    headers = re.findall(r"\${CUDA_INCLUDE_DIR}/(\S+)", text)
    found = re.search(r"add_executable\((.*?)\)", text, re.DOTALL)
    more = re.findall(r"(\.\./\S+\.cpp)", found[1]) if found else []
    return modules, headers, own, [(folder / name).resolve() for name in more]


def build_folder(case: Case, folder: Path) -> Path:
    """Return the folder in which a program runs: what its build makes, beside its own files."""
    from coalesce.compile import program

    if not case.modules and not case.headers:
        return case.folder
    for entry in case.folder.iterdir():
        (folder / entry.name).symlink_to(entry.resolve())
    include = Path(os.path.realpath(program.nvcc())).parent.parent / "include"
    for header in case.headers:
        place = folder / Path(header).name
        if not place.exists():
            place.symlink_to(include / header)
    for options, source, name in case.modules:
        command = [program.nvcc(), *options, "-lineinfo", *case.options, "-o", name, str(source)]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def of_rodinia(root: Path, inputs: Path, samples: Path | None) -> Iterator[Case]:
    # Two programs include helper_cuda.h, which belongs to the samples.
    common = [] if samples is None else [f"-I{samples.resolve() / 'Common'}"]
    for name, program in rodinia.PROGRAMS.items():
        place = root / "cuda" / program.folder
        files = [place / s for s in program.sources.format(inputs=inputs).split()]
        options = [f"-I{place}", f"-I{root / 'cuda' / 'util'}", f"-I{place / '../common'}"]
        options += [*common, "-Xcompiler", "-fpermissive", "-Xcompiler", "-w", "-w"]
        options += program.options.split()
        words = program.arguments.format(inputs=inputs).split()
        # The programs read ../../data/ and write where they are.
        base = inputs.parent / name
        folder = base / "cuda" / program.folder
        folder.mkdir(parents=True)
        (base / "data").symlink_to(inputs)
        ran = functools.partial(rodinia.Ran, root, base, folder)
        yield Case(
            "Rodinia", name, folder, files, options, words, functools.partial(_verify, program, ran)
        )


def _verify(program: rodinia.Program, ran: Callable[[str], rodinia.Ran], out: str) -> str:
    return program.verify(ran(out))


def of_hecbench(root: Path, count: int) -> Iterator[Case]:
    """The first programs, in alphabetical order, that are one file and compare results."""
    found = 0
    for folder in sorted((root / "src").glob("*-cuda")):
        main = folder / "main.cu"
        if found == count or not main.is_file() or len(list(folder.glob("*.cu"))) != 1:
            continue
        text = main.read_text(errors="replace")
        make = folder / "Makefile"
        if "PASS" not in text or not make.is_file():
            continue
        run = re.search(r"^run:.*\n(?:\t.*\n)*?\t\.?/?(?:\$\(LAUNCHER\) )?\S*\$\(program\)(.*)$",
                        make.read_text(errors="replace"), re.MULTILINE)  # fmt: skip
        found += 1
        words = shlex.split(run[1]) if run else []
        yield Case(
            "HeCBench", folder.name.removesuffix("-cuda"), folder, [main],
            [f"-I{folder}", "-std=c++17"], words,
        )  # fmt: skip


def run(case: Case, seconds: float) -> dict[str, object]:
    """Build and run a program; return the outcome."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        (Path(folder) / "build").mkdir()
        command = [
            *(sys.executable, "-m", "coalesce", "run", *map(str, case.sources)),
            *(f"--option={option}" for option in case.options),
            *("--json", str(report), "--", *case.arguments),
        ]
        start = time.perf_counter()
        started = subprocess.Popen(
            command,
            cwd=build_folder(case, Path(folder) / "build"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            stdout, stderr = started.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)  # end the program, too
            _, stderr = started.communicate()
            return {"outcome": "time", "why": stderr[-300:], "seconds": seconds}
        done = subprocess.CompletedProcess(command, started.returncode, stdout, stderr)
        took = round(time.perf_counter() - start, 1)
        found = {"seconds": took, "status": done.returncode, "arguments": " ".join(case.arguments)}
        own = [line for line in done.stderr.splitlines() if line.startswith("coalesce: ")]
        if not report.is_file():
            why = next(iter(own), done.stderr)[:2000]
            return {"outcome": "build" if "coalesce:" in why else "crash", "why": why, **found}
        data = json.loads(report.read_text())
        found["kernels"] = len(data.get("kernels", []))
        found["missing"] = data.get("missing", [])
        said_right = _SAYS_SO.search(done.stdout)
        wrong = None if said_right else _WRONG.search(done.stdout)
        said = [line for line in done.stderr.splitlines() if "error" in line.lower()][:3]
        text = (done.stdout[-300:] + "\n" + "\n".join([*own, *said])).strip()[:900]
        if done.returncode or wrong or (data.get("failure") and not said_right):
            word = wrong[0] if wrong else ""
            return {"outcome": "wrong", "why": f"{word}: {text}", **found}
        if case.verify:
            try:
                return {
                    "outcome": "verified",
                    "why": text,
                    "how": case.verify(done.stdout),
                    **found,
                }
            except rodinia.MismatchError as error:
                return {"outcome": "mismatch", "why": str(error), **found}
        sources = "".join(path.read_text(errors="replace") for path in case.sources)
        compared = bool(_RIGHT.search(done.stdout) or _BY_STATUS.search(sources))
        return {"outcome": "verified" if compared else "ran", "why": text, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("samples", "rodinia", "rodinia-data", "hecbench"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument(
        "--only", action="append", default=[], help="run these again: SUITE or SUITE/NAME"
    )
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--count", type=int, default=40, help="programs of HeCBench")
    options = parser.parse_args()
    found = json.loads(options.json.read_text()) if options.json.is_file() else {"programs": {}}
    known = found["programs"]
    found["where"] = (
        f"{platform.machine()}, {os.cpu_count()} cores, at most {options.seconds:g} s for each, "
        f"{datetime.date.today()}: `python benchmarks/programs.py`."
    )
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "data"
        inputs.mkdir()
        cases: list[Case] = []
        if options.samples:
            cases += of_samples(options.samples.resolve())
        if options.rodinia:
            data = options.rodinia_data or options.rodinia / "data"
            rodinia.make_inputs(inputs, data.resolve())
            cases += of_rodinia(options.rodinia.resolve(), inputs, options.samples)
        if options.hecbench:
            cases += of_hecbench(options.hecbench.resolve(), options.count)
        for case in cases:
            if {case.suite, case.key}.isdisjoint(options.only) and (
                options.only or case.key in known
            ):
                continue
            result = run(case, options.seconds)
            result["commit"] = commit()
            for root in filter(None, (options.samples, options.rodinia, options.hecbench)):
                result["why"] = str(result["why"]).replace(f"{root.resolve()}/", "")
            if "arguments" in result:
                result["arguments"] = str(result["arguments"]).replace(f"{inputs}/", "data/")
            known[case.key] = result
            print(f"{case.key}: {known[case.key]['outcome']}", flush=True)
            options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
