"""``coalesce doctor``: what is installed here, whether it works, and what to do if it does not."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

import coalesce
from coalesce.arrays import devices
from coalesce.common.errors import CoalesceError
from coalesce.compile import cache_folder, nvcc, nvrtc
from coalesce.compile.binaries import disassembler
from coalesce.render import tables

if TYPE_CHECKING:
    from rich.console import Console

State = Literal["ok", "missing", "optional"]

# The first version of CUDA of each year, which gives the age of a driver.
# https://developer.nvidia.com/cuda-toolkit-archive
_YEARS = {(11, 0): 2020, (11, 3): 2021, (11, 6): 2022, (12, 1): 2023, (12, 4): 2024, (12, 8): 2025}

_COPY = (
    'extern "C" __global__ void copy(const int* x, int* out) { out[threadIdx.x] = x[threadIdx.x]; }'
)


@dataclass(frozen=True)
class Finding:
    """What the doctor found about one thing: its state, what is there, and what to do."""

    thing: str
    state: State
    found: str
    advice: str = ""


def examine() -> Iterator[Finding]:
    """Yield a finding for each thing that the package needs or can use."""
    python = f"Python {platform.python_version()}, NumPy {np.__version__}"
    yield Finding("coalesce", "ok", f"{coalesce.__version__}, {python}, {platform.machine()}")
    yield _tool("compiler", _compiler, "missing")
    yield _tool("disassembler", lambda: f"nvdisasm {disassembler.version()}", "missing")
    yield _tool("simulator", _simulator, "missing")
    yield _tool("cache", _cache, "optional")
    yield _gpu()
    yield _tool("nvcc", nvcc.nvcc, "optional", "Needed only for whole programs: ")
    yield _host_compiler()
    for module, why in (("matplotlib", "plots"), ("ipykernel", "notebooks")):
        there = importlib.util.find_spec(module) is not None
        advice = "" if there else f"Needed only for {why}: pip install {module}"
        state: State = "ok" if there else "optional"
        yield Finding(module, state, "installed" if there else "not installed", advice)


def _tool(thing: str, find: Callable[[], str], without: State, why: str = "") -> Finding:
    """Return what `find` returns. If it fails, its message says what is wrong and what to do."""
    try:
        return Finding(thing, "ok", find())
    except (CoalesceError, LookupError, OSError) as error:
        first, _, _ = str(error.args[0] if error.args else error).partition("\n")
        found, _, advice = first.partition(": ")
        return Finding(thing, without, found, why + advice)


def _compiler() -> str:
    major, minor = nvrtc.nvrtc().version
    return f"NVRTC {major}.{minor}"


def _simulator() -> str:
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    coalesce.Kernel(_COPY, "copy", device="sim")[1, 32](x, out)
    if not np.array_equal(x, out):
        raise LookupError("a kernel gave a wrong result: please report this")
    return "runs kernels"


def _cache() -> str:
    usage = cache_folder.usage()
    try:
        cache_folder.try_writing()
    except OSError as error:
        raise LookupError(
            f"{usage.folder} cannot be written ({error.strerror}): Kernels are compiled again in "
            "each run. Set COALESCE_CACHE_DIR to a folder in which you can write files."
        ) from error
    return f"{usage.folder}, {usage.bytes / 2**20:.0f} of {usage.limit / 2**20:.0f} MiB"


def _gpu() -> Finding:
    """Describe the GPUs and the driver. Without a GPU, kernels run on the simulator."""
    status = devices.gpu_status()
    driver = ""
    if status.cuda is not None:
        years = [year for version, year in _YEARS.items() if version <= status.cuda]
        later = " or later" * (len(years) == len(_YEARS))
        age = f", of {max(years)}{later}" if years else ", from before 2020"
        major, minor = status.cuda
        driver = f"driver {status.driver or 'of unknown release'} for CUDA {major}.{minor}{age}"
    if status:
        names = [d.description for d in devices.devices() if d.kind == "cuda"]
        return Finding("GPU", "ok", f"{', '.join(names)}; {driver}")
    advice = f"Kernels run on the simulator. {status.message}"
    return Finding("GPU", "optional", f"{status.state}{f' ({driver})' * bool(driver)}", advice)


def _host_compiler() -> Finding:
    program = shutil.which("g++")
    if program is None:
        return Finding(
            "g++", "optional", "not found", "Needed only for whole programs: install g++"
        )
    done = subprocess.run(
        [program, "-dumpfullversion"], capture_output=True, text=True, check=False
    )
    return Finding("g++", "ok", f"{done.stdout.strip() or 'of unknown version'}, {program}")


def run_doctor(console: Console) -> bool:
    """Print the findings. Return whether nothing that the package needs is missing."""
    findings = list(examine())
    rows = [(f.thing, f.state, f.found) for f in findings]
    console.print(tables.table(("", "state", "found"), rows, wrap=("found",)))
    for finding in findings:
        if finding.advice:
            console.print(f"{finding.thing}: {finding.advice}")
    missing = [f.thing for f in findings if f.state == "missing"]
    if missing:
        console.print(f"Kernels cannot run before this is repaired: {', '.join(missing)}")
    else:
        console.print("Everything that kernels need is here.")
    return not missing
