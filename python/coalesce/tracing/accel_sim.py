"""Writes a launch as a trace for the simulator Accel-Sim. See `Kernel.write_trace`."""

from __future__ import annotations

from pathlib import Path

from coalesce.common import require
from coalesce.common.errors import LaunchError
from coalesce.launch.launch import Launch
from coalesce.launch.simulated import simulate

_LIST, _TRACE = "kernelslist.g", "kernel-1.traceg"


def write(launch: Launch, folder: str | Path) -> Path:
    """Run a launch, and write its trace to a folder. Return the path of the list of kernels."""
    path = Path(require.path("folder", folder))
    if (path / _LIST).exists():
        raise FileExistsError(
            f"`folder` already has a trace: {path / _LIST}; pass another folder, or delete it"
        )
    if why := launch.program.why_ptx(launch.kernel.entry):
        raise LaunchError(f"a trace for Accel-Sim needs machine code: {why}")
    path.mkdir(parents=True, exist_ok=True)
    result = simulate(launch, accel_sim=str(path / _TRACE))
    launch.finish()
    copies = [
        f"MemcpyHtoD,{address:#018x},{size}"
        for space, _, address, size, number in result.memory
        if space == "global" and number >= 0
    ]
    (path / _LIST).write_text("\n".join([*copies, _TRACE, ""]), encoding="utf-8")
    return path / _LIST
