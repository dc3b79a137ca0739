"""The programs of Rodinia, and how the result of each is verified.

Few of them compare their results with anything. `programs.py` verifies them in one of these ways:

- `openmp`: Rodinia has the same algorithm for the CPU. It runs with the same input, and all numbers
  of both outputs are compared.
- a function of this file: the algorithm's definition in NumPy, applied to the same input.
- `by_itself`: the program compares the results itself, if it is compiled or called with the option
  that its Makefile, source or usage message offers.

A program runs unchanged in an empty folder at the place where it expects ``../../data``. Programs
that take a seed from the clock are linked with a `time` that always returns the same second.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np


class MismatchError(Exception):
    """The result is not the reference's; the message says how they differ."""


@dataclass(frozen=True)
class Ran:
    """A program that ended with status 0."""

    root: Path  # Rodinia
    base: Path  # has the folder `data`, and folders for running programs
    folder: Path  # where the program ran
    stdout: str

    @property
    def inputs(self) -> Path:
        return self.base / "data"


Verify = Callable[[Ran], str]  # returns a sentence for the page


@dataclass(frozen=True)
class Program:
    """A program of Rodinia.

    `sources` and `arguments` may have {inputs}; the sources are relative to cuda/`folder`.
    `options` are those that the program's Makefile or source offers.
    """

    folder: str
    sources: str
    arguments: str
    verify: Verify
    options: str = ""


# C sources that are linked into a program. The first makes runs repeatable. The second keeps what
# the program copies from the device, if the program does not show its result.
CLOCK = "long time(long* at) { if (at) *at = 1000; return 1000; }\n"
COPIES = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
    int (*copy)(void*, const void*, size_t, int) = dlsym(RTLD_NEXT, "cudaMemcpy");
    int error = copy(to, from, bytes, kind);
    if (kind == 2) {
        FILE* file = fopen("copies", "ab");
        fwrite(to, 1, bytes, file);
        fclose(file);
    }
    return error;
}
"""


def numbers(text: str) -> np.ndarray:
    """Return all numbers of a text. Not-a-number and infinity count as numbers, too."""
    found = re.findall(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\bnan\b|\binf\b)", text)
    return np.array(found, dtype=np.float64)


def compare(own: np.ndarray, reference: np.ndarray, tolerance: float) -> str:
    """Compare all numbers; `tolerance` is relative to the reference, and at least that of 1."""
    own, reference = np.ravel(own), np.ravel(reference)
    if own.size != reference.size or own.size == 0:
        raise MismatchError(f"the result has {own.size} numbers, the reference {reference.size}")
    if not np.isfinite(own).all() or not np.isfinite(reference).all():
        raise MismatchError("not all numbers are finite")
    if own.size > 1 and (reference == reference[0]).all():
        raise MismatchError(f"all {own.size} numbers of the reference are {reference[0]:g}")
    off = np.abs(own - reference) / np.maximum(1, np.abs(reference))
    if off.max() > tolerance:
        at = int(off.argmax())
        raise MismatchError(f"number {at} is {own[at]:.9g}, the reference has {reference[at]:.9g}")
    most = "all equal" if off.max() == 0 else f"largest relative difference {off.max():.1g}"
    return f"{own.size} numbers, {most}"


def openmp(
    folder: str,
    sources: str,
    arguments: str,
    *,
    shown: str = "",
    files: str = "",
    tolerance: float = 0,
    options: str = "",
    name: str = "Rodinia's OpenMP program",
) -> Verify:
    """Compare with the OpenMP program: with its `files`, or with what it prints.

    Of the output, `shown` chooses the parts to compare: what the pattern's group matches.
    """

    def verify(ran: Ran) -> str:
        place = ran.root / "openmp" / folder
        here = Path(f"{ran.folder}-reference")  # as deep as the program's, next to it
        here.mkdir()
        paths = [place / s for s in sources.format(inputs=ran.inputs).split()]
        compiler = "g++" if paths[0].suffix == ".cpp" else "gcc"
        program = here / "program"
        command = [compiler, "-O2", "-fopenmp", "-w", f"-I{place}", *options.split()]
        subprocess.run(
            [*command, *map(str, paths), "-o", str(program), "-lm"], check=True, capture_output=True
        )
        words = arguments.format(inputs=ran.inputs).split()
        done = subprocess.run(
            [str(program), *words],
            cwd=here,
            env={**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if not files:
            theirs = "".join(re.findall(shown, done.stdout + done.stderr, re.DOTALL))
            ours = "".join(re.findall(shown, ran.stdout, re.DOTALL))
        else:
            theirs = "".join((here / name).read_text() for name in files.split())
            ours = "".join((ran.folder / name).read_text() for name in files.split())
        found = compare(numbers(ours), numbers(theirs), tolerance)
        return f"{name}: {found}"

    return verify


def by_itself(right: str, wrong: str) -> Verify:
    """Believe the program, which printed `right` and not `wrong`."""

    def verify(ran: Ran) -> str:
        if re.search(wrong, ran.stdout):
            raise MismatchError(f"the program prints {re.search(wrong, ran.stdout)[0]}")
        if not re.search(right, ran.stdout):
            raise MismatchError(f"the program does not print {right}")
        return "the program's own comparison"

    return verify


def _numpy(own: np.ndarray, reference: np.ndarray, tolerance: float) -> str:
    return f"NumPy: {compare(own, reference, tolerance)}"


def backprop(ran: Ran) -> str:
    """Compare the layer's sums and the new weights, which the program only copies to the host."""
    inputs, hidden = 16, 16
    c = ctypes.CDLL(None)
    c.srand(7)
    made = [np.float32(c.rand()) / np.float32(2**31 - 1) for _ in range(17 * 17 + 17 * 2 + inputs)]
    weights = np.array(made[: 17 * 17]).reshape(17, 17)
    to_output = np.array(made[17 * 17 : 17 * 17 + 17 * 2]).reshape(17, 2)
    units = np.array([1, *made[-inputs:]])
    sums = units[1:] @ weights[1:, 1:]
    units_hidden = np.array([1, *(1 / (1 + np.exp(-(sums + weights[0, 1:]))))])
    output = 1 / (1 + np.exp(-(units_hidden @ to_output[:, 1])))
    delta_output = output * (1 - output) * (0.1 - output)
    delta = units_hidden * (1 - units_hidden) * delta_output * to_output[:, 1]
    new = weights.copy()
    new[:, 1:] += 0.3 * np.outer(units, delta[1:])
    copied = np.fromfile(ran.folder / "copies", np.float32)
    changed = copied[hidden + inputs + 1 :].reshape(17, 17)
    # The changes are about 1e-6, so they are compared with rounding errors of the weights.
    if np.abs((changed - weights) - (new - weights)).max() > 1.2e-7 or (changed == weights).all():
        raise MismatchError("the weights are not changed as expected")
    return _numpy(np.concatenate([copied[:hidden], changed.ravel()]),
                  np.concatenate([sums, new.ravel()]), 1e-6)  # fmt: skip


def dwt2d(ran: Ran) -> str:
    """Transform the picture by lifting: the 5/3 wavelet, three times."""
    size = 192
    pixels = np.fromfile(ran.inputs / "dwt2d" / "192.bmp", np.uint8)[: 3 * size * size]
    half = lambda x, by: np.fix(x / by).astype(np.int64)  # noqa: E731  (C's division)

    def lift(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low, high = x[0::2], x[1::2]
        high = high - half(low + np.concatenate([low[1:], low[-1:]]), 2)
        return low + half(np.concatenate([high[:1], high[:-1]]) + high + 2, 4), high

    own, reference = [], []
    for plane, name in enumerate("rgb"):
        left = pixels.reshape(size, size, 3)[:, :, plane].astype(np.int64) - 128
        parts: list[np.ndarray] = []
        for _ in range(3):
            low, high = lift(left)  # along the columns
            (left, hl), (lh, hh) = ([part.T for part in lift(rows.T)] for rows in (low, high))
            parts = [hl.ravel(), lh.ravel(), hh.ravel(), *parts]
        found = np.concatenate([left.ravel(), *parts])
        reference.append(np.clip(found + 128, 0, 255))
        own.append(np.fromfile(ran.folder / f"192.bmp.dwt.{name}", np.uint8))
    return _numpy(np.concatenate(own), np.concatenate(reference), 0)


def gaussian(ran: Ran) -> str:
    """Solve the triangular system that the program copies back, and the system of the file."""
    text = numbers((ran.inputs / "gaussian" / "matrix16.txt").read_text())
    a, b = text[1 : 1 + 256].reshape(16, 16), text[257 : 257 + 16]
    copied = np.fromfile(ran.folder / "copies", np.float32).astype(float)
    upper, right = np.triu(copied[256:512].reshape(16, 16)), copied[512:]
    return _numpy(np.linalg.solve(upper, right), np.linalg.solve(a, b), 1e-4)


def hotspot(ran: Ran) -> str:
    """Compute the temperatures of the chip; the printed ones have six digits."""
    size, steps = 64, 4
    t = np.loadtxt(ran.inputs / "hotspot" / "temp_64").reshape(size, size)
    power = np.loadtxt(ran.inputs / "hotspot" / "power_64").reshape(size, size)
    side, thickness, conductivity, heat = 0.016 / size, 0.0005, 100, 1.75e6
    capacity = 0.5 * heat * thickness * side * side
    across = 1 / (2 * conductivity * thickness)
    up = thickness / (conductivity * side * side)
    step = 0.001 / (3.0e6 / (0.5 * thickness * heat)) / capacity
    for _ in range(steps):
        p = np.pad(t, 1, mode="edge")
        t = t + step * (
            power + (p[2:, 1:-1] + p[:-2, 1:-1] - 2 * t) / across
            + (p[1:-1, 2:] + p[1:-1, :-2] - 2 * t) / across + (80 - t) / up
        )  # fmt: skip
    own = np.loadtxt(ran.folder / "output.out")[:, 1]
    return _numpy(own, t, 1e-5)


def kmeans(ran: Ran) -> str:
    """Iterate as k-means does, from the first points on; printed centres have two decimals."""
    points = np.loadtxt(ran.inputs / "kmeans" / "100", dtype=np.float32)[:, 1:]
    centres, before = points[:5].copy(), None
    for _ in range(500):
        nearest = ((points[:, None] - centres) ** 2).sum(-1).argmin(1)
        for n in set(nearest.tolist()):
            centres[n] = points[nearest == n].mean(0)
        if before is not None and (nearest != before).sum() <= 0.001:
            break
        before = nearest
    shown = re.findall(r"^\d+:(.*)$", ran.stdout, re.MULTILINE)
    return _numpy(numbers(" ".join(shown)), centres, 0.006)


def nn(ran: Ran) -> str:
    """Find the five nearest records; float32 has about 2e-6 of error in a difference of degrees."""
    lines = (ran.inputs / "nn" / "cane4_0.db").read_text().splitlines()
    places = np.array([[float(line[28:33]), float(line[33:38])] for line in lines if line])
    reference = np.sort(np.sqrt(((places - [30, 90]) ** 2).sum(1)))[:5]
    shown = re.findall(r"Distance=(\S+)", ran.stdout)
    return _numpy(np.array(shown, float), reference, 1e-5)


# The OpenMP program of myocyte has other parameters and prints nothing. This program calls the
# functions of the CUDA program on the CPU, block after block. Both blocks of the CUDA program write
# the first three values; there is no order between them.
MYOCYTE = """
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define __device__
using namespace std;
#include "define.c"
#include "kernel_ecc.cu"
#include "kernel_cam.cu"
#include "kernel_fin.cu"

void master(fp time, fp* y, fp* p, fp* to, fp* com, fp*, fp*, fp*, fp*) {
    com[0] = com[1] = com[2] = 0;
    kernel_ecc(time, y, to, 0, p);
    for (int n = 0; n < 3; ++n)
        kernel_cam(time, y, to, 46 + 15 * n, p, 5 * n, com, n, fp(y[35 + n] * 1e3));
    kernel_fin(y, 0, 46, 61, 76, p, to, com[0], com[1], com[2]);
    for (int i = 0; i < EQUATIONS; ++i)
        if (!isfinite(to[i])) to[i] = 0.0001;
}

#include "embedded_fehlberg_7_8.cu"
#include "solver.cu"
#include "file.c"

int main(int count, char** arguments) {
    int last = atoi(arguments[1]);
    fp *y[100], x[100], p[PARAMETERS], com[3];
    for (int i = 0; i <= last; ++i) y[i] = (fp*)malloc(EQUATIONS * sizeof(fp));
    read((char*)"../../data/myocyte/y.txt", y[0], EQUATIONS, 1, 0);
    read((char*)"../../data/myocyte/params.txt", p, PARAMETERS, 1, 0);
    solver(y, x, last, p, com, 0, 0, 0, 0);
    FILE* file = fopen("output.txt", "w");
    fprintf(file, "WORKLOAD 0:\\n");
    for (int i = 0; i <= last; ++i) {
        fprintf(file, "TIME %d:\\n", i);
        for (int k = 0; k < EQUATIONS; ++k)
            fprintf(file, "y[0][%d][%d]=%10.7e\\n", i, k, y[i][k]);
    }
    fclose(file);
}
"""


def make_inputs(folder: Path, data: Path) -> None:
    """Fill a folder with links to Rodinia's inputs, invented inputs, and the C sources."""
    for own in data.iterdir():
        if own.name != "myocyte":
            (folder / own.name).symlink_to(own)
    # The CUDA program of myocyte reads two parameters more than the file has: potassium and
    # magnesium in millimoles per litre, as the OpenMP program has them.
    (folder / "myocyte").mkdir()
    (folder / "myocyte" / "y.txt").symlink_to(data / "myocyte" / "y.txt")
    parameters = (data / "myocyte" / "params.txt").read_text().split()
    (folder / "myocyte" / "params.txt").write_text("\n".join([*parameters, "135", "1"]) + "\n")
    made = random.Random(1)
    keys = made.sample(range(10000), 2000)
    (folder / "mil.txt").write_text("2000\n" + "\n".join(map(str, keys)) + "\n")
    (folder / "command.txt").write_text("j 200 50\nk 300\n")
    floats = (f"{made.random():.6f}" for _ in range(100000))
    (folder / "floats.txt").write_text("\n".join(floats) + "\n")
    (folder / "filelist.txt").write_text(f"{folder / 'nn' / 'cane4_0.db'}\n")
    # A grid of 32 x 32 cells in a free stream, over a wall with a slight bump.
    mesh, side = ["1024"], 0.1
    for y, x in np.ndindex(32, 32):
        faces: list[float] = []
        for dx, dy in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            u, v = x + dx, y + dy
            other = 32 * v + u + 1 if 0 <= u < 32 and 0 <= v < 32 else 0 if v < 0 else -1
            bump = (0.005 if x < 16 else -0.005) if other == 0 and 8 <= x < 24 else 0
            faces += [other, side * dx + bump, side * dy, 0]
        mesh.append(" ".join(map(str, [side * side, *faces])))
    (folder / "mesh.txt").write_text("\n".join(mesh) + "\n")
    (folder / "clock.c").write_text(CLOCK)
    (folder / "copies.c").write_text(COPIES)
    (folder / "myocyte.cpp").write_text(MYOCYTE)


PROGRAMS = {
    "backprop": Program(
        "backprop", "backprop_cuda.cu backprop.c facetrain.c imagenet.c {inputs}/copies.c", "16",
        backprop,
    ),
    "bfs": Program(
        "bfs", "bfs.cu", "{inputs}/bfs/graph4096.txt",
        openmp("bfs", "bfs.cpp", "2 {inputs}/bfs/graph4096.txt", files="result.txt"),
    ),
    "b+tree": Program(
        "b+tree",
        "main.c kernel/kernel_gpu_cuda_wrapper.cu kernel/kernel_gpu_cuda_wrapper_2.cu "
        "util/timer/timer.c util/num/num.c util/cuda/cuda.cu",
        "file {inputs}/mil.txt command {inputs}/command.txt",
        openmp(
            "b+tree",
            "main.c kernel/kernel_cpu.c kernel/kernel_cpu_2.c util/timer/timer.c util/num/num.c",
            "core 2 file {inputs}/mil.txt command {inputs}/command.txt", files="output.txt",
        ),
    ),
    "cfd": Program(
        "cfd", "euler3d.cu", "{inputs}/mesh.txt",
        openmp(
            "cfd", "euler3d_cpu.cpp", "{inputs}/mesh.txt", options="-Dblock_length=8",
            files="density momentum density_energy", tolerance=1e-3,
        ),
        "-DRD_WG_SIZE=128",
    ),
    "dwt2d": Program(
        "dwt2d",
        "main.cu components.cu dwt.cu dwt_cuda/common.cu dwt_cuda/fdwt53.cu dwt_cuda/fdwt97.cu "
        "dwt_cuda/rdwt53.cu dwt_cuda/rdwt97.cu",
        "192.bmp -d 192x192 -f -5 -l 3", dwt2d, "-DOUTPUT",
    ),
    "gaussian": Program(
        "gaussian", "gaussian.cu {inputs}/copies.c", "-f {inputs}/gaussian/matrix16.txt", gaussian
    ),
    "hotspot": Program(
        "hotspot", "hotspot.cu",
        "64 2 4 {inputs}/hotspot/temp_64 {inputs}/hotspot/power_64 output.out", hotspot,
    ),
    "hotspot3D": Program(
        "hotspot3D", "3D.cu",
        "64 8 4 {inputs}/hotspot3D/power_64x8 {inputs}/hotspot3D/temp_64x8 output.out",
        openmp(
            "hotspot3D", "3D.c",
            "64 8 4 {inputs}/hotspot3D/power_64x8 {inputs}/hotspot3D/temp_64x8 output.out",
            files="output.out", tolerance=1e-5,
        ),
    ),
    "huffman": Program(
        "huffman",
        "main_test_cu.cu stats_logger.cpp vlc_kernel_sm64huff.cu scan.cu pack_kernels.cu "
        "cpuencode.cpp",
        "{inputs}/huffman/test1024_H2.206587175259.in", by_itself("PASS", "FAIL|mismatch"),
    ),
    "hybridsort": Program(
        "hybridsort", "main.cu bucketsort.cu mergesort.cu", "{inputs}/floats.txt",
        by_itself("PASSED", "FAILED|missmatch"), "-DVERIFY",
    ),
    "kmeans": Program(
        "kmeans", "kmeans.c cluster.c getopt.c kmeans_clustering.c kmeans_cuda.cu rmse.c",
        "-o -i {inputs}/kmeans/100", kmeans,
    ),
    "lavaMD": Program(
        "lavaMD",
        "main.c kernel/kernel_gpu_cuda_wrapper.cu util/num/num.c util/timer/timer.c "
        "util/device/device.cu {inputs}/clock.c",
        "-boxes1d 3",
        openmp(
            "lavaMD",
            "main.c kernel/kernel_cpu.c util/num/num.c util/timer/timer.c {inputs}/clock.c",
            "-cores 2 -boxes1d 3", options="-DOUTPUT", files="result.txt", tolerance=1e-6,
        ),
        "-DOUTPUT",
    ),
    "lud": Program(
        "lud/cuda", "lud.cu lud_kernel.cu ../common/common.c", "-s 64 -v",
        by_itself(">>>Verify<<<<", "dismatch"),
    ),
    "myocyte": Program(
        "myocyte", "main.cu", "2 1 0",
        openmp(
            "../cuda/myocyte", "{inputs}/myocyte.cpp", "2", files="output.txt", tolerance=1e-4,
            name="the program's own functions on the CPU",
        ),
    ),
    "nn": Program("nn", "nn_cuda.cu", "{inputs}/filelist.txt -r 5 -lat 30 -lng 90", nn),
    "nw": Program(
        "nw", "needle.cu", "128 10",
        openmp("nw", "needle.cpp", "128 10 2", files="result.txt"), "-DTRACEBACK",
    ),
    "particlefilter_naive": Program(
        "particlefilter", "ex_particle_CUDA_naive_seq.cu {inputs}/clock.c",
        "-x 64 -y 64 -z 5 -np 400",
        openmp(
            "particlefilter", "ex_particle_OPENMP_seq.c {inputs}/clock.c",
            "-x 64 -y 64 -z 5 -np 400", shown=r"[XY]E: [^\n]*", tolerance=1e-5,
        ),
    ),
    "particlefilter_float": Program(
        "particlefilter", "ex_particle_CUDA_float_seq.cu {inputs}/clock.c",
        "-x 64 -y 64 -z 5 -np 400",
        openmp(
            "particlefilter", "ex_particle_OPENMP_seq.c {inputs}/clock.c",
            "-x 64 -y 64 -z 5 -np 400", shown=r".*(XE: [^\n]*\nYE: [^\n]*)", tolerance=1e-5,
        ),
    ),
    "pathfinder": Program(
        "pathfinder", "pathfinder.cu", "1000 20 5",
        openmp("pathfinder", "pathfinder.cpp", "1000 20", shown=r"\n((?:\d+ ){1000})",
               options="-DBENCH_PRINT"),
        "-DBENCH_PRINT",
    ),
    "srad_v1": Program(
        "srad/srad_v1", "main.cu", "4 0.5 64 64",
        openmp("srad/srad_v1", "main.c", "4 0.5 64 64 2", files="image_out.pgm"),
    ),
    "srad_v2": Program(
        "srad/srad_v2", "srad.cu", "64 64 0 31 0 31 0.5 2",
        openmp("srad/srad_v2", "srad.cpp", "64 64 0 31 0 31 2 0.5 2", options="-DOUTPUT",
               shown=r"\d\.\d{5} ", tolerance=1e-5),
        "-DOUTPUT",
    ),
    "streamcluster": Program(
        "streamcluster", "streamcluster_cuda_cpu.cpp streamcluster_cuda.cu",
        "3 5 16 256 256 100 none output.txt 1",
        openmp("streamcluster", "streamcluster_omp.cpp", "3 5 16 256 256 100 none output.txt 1",
               files="output.txt", tolerance=1e-4),
    ),
}  # fmt: skip
