"""Run public CUDA programs on the simulator: which of them build, run and verify themselves.

python benchmarks/programs.py --samples FOLDER --rodinia FOLDER --hecbench FOLDER --json FILE

The file is docs/measured/programs.json. docs/make_programs.py makes a page from it.

The folders are clones of github.com/NVIDIA/cuda-samples, github.com/yuhc/gpu-rodinia and
github.com/zjin-lcf/HeCBench. This repository holds no files of theirs. A program that is already in
the file is not run again, unless --only names it.

A program verifies itself if it ends with status 0 and its output does not say that it failed. It
counts as verified only if its output or its status depends on a comparison with a reference.
`SILENT` names the programs that print results without comparing them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

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
_SAYS_SO = re.compile(r"returned OK|Result = PASS|\bPASSED\b|\bPASS\b|test passed", re.IGNORECASE)
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

    @property
    def key(self) -> str:
        return f"{self.suite}/{self.name}"


# Arguments that make a sample do less work of the same kind: fewer repetitions, smaller arrays.
LESS = {
    "matrixMul": ["-wA=64", "-hA=64", "-wB=64", "-hB=64"],
}


def of_samples(root: Path) -> Iterator[Case]:
    """Every program of the groups; its sources are all sources of its folder."""
    for group in GROUPS:
        for folder in sorted((root / "Samples" / group).glob("*/")):
            sources = sorted(
                path
                for pattern in ("*.cu", "*.cpp", "src/*.cu", "src/*.cpp")
                for path in folder.glob(pattern)
            )
            if sources:
                options = [f"-I{root / 'Common'}", f"-I{folder / 'inc'}", "--extended-lambda"]
                options += ["-std=c++17"]
                if "cudaOpenMP" in folder.name:
                    options += ["-Xcompiler", "-fopenmp"]
                if "simpleCallback" in folder.name:
                    options += [f"-I{root / 'Common'}"]
                yield Case(group, folder.name, folder, sources, options, LESS.get(folder.name, []))


# Rodinia: sources, arguments. Inputs that are not in its repository are made by `_inputs`.
RODINIA: dict[str, tuple[str, str, str]] = {
    # name: (folder, sources, arguments)
    "backprop": ("backprop", "backprop_cuda.cu backprop.c facetrain.c imagenet.c", "4096"),
    "bfs": ("bfs", "bfs.cu", "{inputs}/graph4096.txt"),
    "b+tree": (
        "b+tree",
        "main.c kernel/kernel_gpu_cuda_wrapper.cu kernel/kernel_gpu_cuda_wrapper_2.cu {util}",
        "file {inputs}/mil.txt command {inputs}/command.txt",
    ),
    "cfd": ("cfd", "euler3d.cu", "{inputs}/mesh.txt"),
    "dwt2d": (
        "dwt2d",
        "main.cu components.cu dwt.cu dwt_cuda/common.cu {dwt}",
        "{inputs}/rgb.bmp -d 64x64 -f -5 -l 3",
    ),
    "gaussian": ("gaussian", "gaussian.cu", "-s 16"),
    "hotspot": ("hotspot", "hotspot.cu", "64 2 2 {inputs}/temp_64 {inputs}/power_64 {inputs}/o"),
    "hotspot3D": ("hotspot3D", "3D.cu", "64 8 4 {inputs}/power_3d {inputs}/temp_3d {inputs}/o3"),
    "huffman": ("huffman", "{huff}", "{inputs}/symbols"),
    "hybridsort": ("hybridsort", "main.cu bucketsort.cu mergesort.cu", "r"),
    "kmeans": (
        "kmeans",
        "kmeans.c cluster.c getopt.c kmeans_clustering.c kmeans_cuda.cu rmse.c",
        "-o -i {inputs}/kmeans.txt",
    ),
    "lavaMD": ("lavaMD", "main.c kernel/kernel_gpu_cuda_wrapper.cu {box}", "-boxes1d 3"),
    "lud": ("lud/cuda", "lud.cu lud_kernel.cu ../common/common.c", "-s 64 -v"),
    "myocyte": ("myocyte", "main.cu", "2 1 0"),
    "nn": ("nn", "nn_cuda.cu", "{inputs}/filelist.txt -r 5 -lat 30 -lng 90"),
    "nw": ("nw", "needle.cu", "128 10"),
    "particlefilter_naive": (
        "particlefilter", "ex_particle_CUDA_naive_seq.cu", "-x 32 -y 32 -z 4 -np 256"
    ),
    "particlefilter_float": (
        "particlefilter", "ex_particle_CUDA_float_seq.cu", "-x 32 -y 32 -z 4 -np 256"
    ),
    "pathfinder": ("pathfinder", "pathfinder.cu", "1000 20 5"),
    "srad_v1": ("srad/srad_v1", "main.cu", "4 0.5 64 64"),
    "srad_v2": ("srad/srad_v2", "srad.cu", "64 64 0 31 0 31 0.5 2"),
    "streamcluster": (
        "streamcluster", "streamcluster_cuda_cpu.cpp streamcluster_cuda.cu",
        "3 5 16 256 256 100 none {inputs}/sc.txt 1",
    ),
}  # fmt: skip


_MORE = {
    "util": "util/timer/timer.c util/num/num.c util/cuda/cuda.cu",
    "dwt": " ".join(f"dwt_cuda/{name}.cu" for name in ("fdwt53", "fdwt97", "rdwt53", "rdwt97")),
    "huff": "main_test_cu.cu stats_logger.cpp vlc_kernel_sm64huff.cu scan.cu pack_kernels.cu "
    "cpuencode.cpp",
    "box": "util/num/num.c util/timer/timer.c util/device/device.cu",
}


def of_rodinia(root: Path, inputs: Path, samples: Path | None) -> Iterator[Case]:
    # Two programs include helper_cuda.h, which belongs to the samples.
    common = [] if samples is None else [f"-I{samples.resolve() / 'Common'}"]
    for name, (folder, sources, arguments) in RODINIA.items():
        place = root / "cuda" / folder
        files = [place / source for source in sources.format(**_MORE).split()]
        options = [f"-I{place}", f"-I{root / 'cuda' / 'util'}", f"-I{place / '../common'}"]
        options += [*common, "-Xcompiler", "-fpermissive", "-Xcompiler", "-w", "-w"]
        words = arguments.format(inputs=inputs).split()
        yield Case("Rodinia", name, place, files, options, words)


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
        command = [
            *(sys.executable, "-m", "coalesce", "run", *map(str, case.sources)),
            *(f"--option={option}" for option in case.options),
            *("--json", str(report), "--", *case.arguments),
        ]
        start = time.perf_counter()
        started = subprocess.Popen(
            command,
            cwd=case.folder,
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
        sources = "".join(path.read_text(errors="replace") for path in case.sources)
        compared = bool(_RIGHT.search(done.stdout) or _BY_STATUS.search(sources))
        return {"outcome": "verified" if compared else "ran", "why": text, **found}


def make_inputs(folder: Path) -> None:
    """Write invented inputs in Rodinia's formats; Rodinia's repository does not hold its inputs."""
    import random

    made = random.Random(1)
    nodes = 4096
    edges = [[made.randrange(nodes) for _ in range(made.randint(1, 6))] for _ in range(nodes)]
    lines, start = [str(nodes)], 0
    for own in edges:
        lines.append(f"{start} {len(own)}")
        start += len(own)
    lines += ["", "0", "", str(start)]
    lines += [f"{to} {made.randint(1, 9)}" for own in edges for to in own]
    (folder / "graph4096.txt").write_text("\n".join(lines) + "\n")
    for name, count in (("temp_64", 4096), ("power_64", 4096), ("temp_3d", 64 * 64 * 8),
                        ("power_3d", 64 * 64 * 8)):  # fmt: skip
        low = 320 if name.startswith("temp") else 0
        values = (f"{low + made.random():.6f}" for _ in range(count))
        (folder / name).write_text("\n".join(values) + "\n")
    rows = (" ".join([str(n), *(f"{made.random():.4f}" for _ in range(8))]) for n in range(512))
    (folder / "kmeans.txt").write_text("\n".join(rows) + "\n")
    keys = made.sample(range(10000), 2000)
    (folder / "mil.txt").write_text("2000\n" + "\n".join(map(str, keys)) + "\n")
    (folder / "command.txt").write_text("j 200 50\nk 300\n")
    records = []
    for n in range(256):
        lat, long = made.uniform(7, 70), made.uniform(0, 180)
        when = f"1980 {n % 12 + 1:>2} {n % 28 + 1:>2} {n % 24:>2}"
        records.append(f"{when} STORM {lat:5.1f} {long:5.1f} {50 + n % 40:>4} {n % 900:>4}")
    (folder / "cane.db").write_text("".join(f"{r:<48}\n" for r in records))
    (folder / "filelist.txt").write_text(f"{folder / 'cane.db'}\n")
    elements = 1024
    mesh = [str(elements)]
    for n in range(elements):
        faces = []
        for step in (-1, 1, -32, 32):  # a grid of 32 x 32 with walls
            other = n + step + 1 if 0 <= n + step < elements else -1
            faces += [other, *(f"{made.uniform(-1, 1):.4f}" for _ in range(3))]
        mesh.append(" ".join(map(str, [f"{made.uniform(0.5, 1):.4f}", *faces])))
    (folder / "mesh.txt").write_text("\n".join(mesh) + "\n")
    symbols = made.choices(range(64), weights=range(1, 65), k=1 << 18)
    (folder / "symbols").write_bytes(bytes(symbols))
    width = height = 64
    pixels = bytes(made.randrange(256) for _ in range(3 * width * height))
    header = (
        b"BM" + (54 + len(pixels)).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little")
    )
    header += (40).to_bytes(4, "little") + width.to_bytes(4, "little")
    header += height.to_bytes(4, "little") + b"\1\0\x18\0" + bytes(24)
    (folder / "rgb.bmp").write_bytes(header + pixels)


def _commit() -> str:
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("samples", "rodinia", "hecbench"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], help="run these again: SUITE/NAME")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--count", type=int, default=40, help="programs of HeCBench")
    options = parser.parse_args()
    found = json.loads(options.json.read_text()) if options.json.is_file() else {"programs": {}}
    known = found["programs"]
    found["where"] = (
        f"{platform.machine()}, {os.cpu_count()} cores, at most {options.seconds:g} s for each, "
        f"{datetime.date.today()}, commit {_commit()}: `python benchmarks/programs.py`."
    )
    with tempfile.TemporaryDirectory() as inputs:
        make_inputs(Path(inputs))
        cases: list[Case] = []
        if options.samples:
            cases += of_samples(options.samples.resolve())
        if options.rodinia:
            cases += of_rodinia(options.rodinia.resolve(), Path(inputs), options.samples)
        if options.hecbench:
            cases += of_hecbench(options.hecbench.resolve(), options.count)
        for case in cases:
            if case.key in known and case.key not in options.only:
                continue
            if options.only and case.key not in options.only:
                continue
            result = run(case, options.seconds)
            for root in filter(None, (options.samples, options.rodinia, options.hecbench)):
                result["why"] = str(result["why"]).replace(f"{root.resolve()}/", "")
            known[case.key] = result
            print(f"{case.key}: {known[case.key]['outcome']}", flush=True)
            options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
