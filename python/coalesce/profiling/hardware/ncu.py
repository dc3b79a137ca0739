"""Runs `ncu`, the command-line tool of Nsight Compute, on one launch of a kernel.

`measure` writes the kernel and its arguments to a folder, and starts ncu. ncu starts this module in
another process. There, the module reads the folder and launches the kernel once. Then ncu prints
the counters as a table of comma-separated values.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from coalesce.arrays import devices
from coalesce.common import require
from coalesce.common.errors import DeviceUnavailable, LaunchError
from coalesce.launch.launch import Launch
from coalesce.launch.run import run
from coalesce.profiling.hardware import ncu_report

_FILE = "launch.pickle"
# Installers put ncu into these folders, but do not add them to the PATH.
_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
_WHY_NOT_NEEDED = (
    "The counts of the profile need no GPU. They are computed from the addresses that the compiled "
    "code accesses, by rules tested against recorded counters (docs/accuracy.md)."
)


def measure(
    launch: Launch | None,
    metrics: Iterable[str],
    ncu: str | os.PathLike[str] | None,
    timeout: float,
) -> dict[str, float]:
    """Return the counters of a launch as a dict from names of metrics to numbers.

    Metrics that the GPU does not have are left out. `ncu` is the path or the name of the program,
    or None. `timeout` is the longest time to wait, in seconds. If ncu, a GPU or the permission to
    read counters is missing, raise DeviceUnavailable. If `launch` is None, raise ValueError. If ncu
    fails for another reason, raise LaunchError.
    """
    timeout = require.positive("timeout", timeout)
    if not (status := devices.gpu_status()):
        raise DeviceUnavailable(f"reading counters needs a GPU. {status}\n  {_WHY_NOT_NEEDED}")
    if launch is None:
        raise ValueError(
            "the counters cannot be measured, because this profile does not contain the arguments "
            "of the launch; profile the kernel with Kernel.profile"
        )
    command = find(ncu)
    wanted = list(metrics)
    with tempfile.TemporaryDirectory(prefix="coalesce-") as folder:
        (Path(folder) / _FILE).write_bytes(pickle.dumps(launch))
        table = Path(folder) / "counters.csv"
        for _ in range(2):
            words = [
                command,
                *ncu_report.RAW,
                *("--clock-control", "none", "--launch-count", "1"),
                *("--log-file", str(table), "--metrics", ",".join(wanted)),
                *(sys.executable, "-m", "coalesce.profiling.hardware.ncu", folder),
            ]
            try:
                done = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
            except subprocess.TimeoutExpired:
                raise LaunchError(
                    f"{command} took longer than {timeout:g} seconds; pass a larger `timeout`"
                ) from None
            log = table.read_text(encoding="utf-8") if table.exists() else ""
            unknown = unknown_metrics(log + done.stdout + done.stderr)
            if not unknown & set(wanted):
                break
            wanted = [name for name in wanted if name not in unknown]
    output = "\n".join(text for text in (log, done.stdout, done.stderr) if text.strip())
    if "ERR_NVGPUCTRPERM" in output:
        raise DeviceUnavailable(
            "reading counters is not permitted (ERR_NVGPUCTRPERM). An administrator permits it by "
            "the driver's module option NVreg_RestrictProfilingToAdminUsers=0, or for a container "
            f"by --cap-add=SYS_ADMIN.\n  {_WHY_NOT_NEEDED}"
        )
    rows = ncu_report.parse(log)
    if done.returncode or not rows:
        last = "\n  ".join(output.strip().splitlines()[-8:])
        raise LaunchError(f"{command} failed with status {done.returncode}:\n  {last}")
    read = rows[-1].metrics
    return {name: read[name] for name in wanted if name in read}


def find(ncu: str | os.PathLike[str] | None = None) -> str:
    """Return the path of the program ncu.

    `ncu` is the path or the name of the program. If `ncu` is None, look for the program on the
    PATH, then in the usual folders.
    """
    if ncu is not None:
        program = shutil.which(os.fspath(ncu))
        if program is None:
            raise DeviceUnavailable(f"ncu={os.fspath(ncu)!r} does not exist or cannot be executed")
        return program
    program = shutil.which("ncu")
    for pattern in _PLACES:
        if program is None:
            folder, _, rest = pattern.partition("*")
            paths = sorted(Path(folder).glob(f"*{rest}")) if rest else [Path(pattern)]
            program = shutil.which(str(paths[-1])) if paths else None
    if program is None:
        raise DeviceUnavailable(
            "ncu, the command line of Nsight Compute, was not found on the PATH. It comes with the "
            f"CUDA toolkit, or as the package nsight-compute.\n  {_WHY_NOT_NEEDED}"
        )
    return program


def unknown_metrics(text: str) -> set[str]:
    """Return the names of the metrics that ncu does not know. `text` is what ncu printed."""
    names: set[str] = set()
    for listed in re.findall(r"Failed to find metrics?:?\s+(.*)", text):
        names |= set(re.findall(r"[\w.]+", listed))
    return names


if __name__ == "__main__":
    unpickled: Launch = pickle.loads((Path(sys.argv[1]) / _FILE).read_bytes())
    run(unpickled.bind(unpickled.passed or (), devices.resolve("cuda")))
