"""Runs a launch on its device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from coalesce.launch import gpu, simulated
from coalesce.launch.launch import Launch
from coalesce.launch.record import LaunchRecord


def run(
    launch: Launch,
    runs: int | Literal["auto"] | None = None,
    counts: bool = False,
    write_only: Sequence[str] = (),
) -> LaunchRecord:
    """Run a launch on a GPU or on the simulator. `Kernel.launch` explains the parameters."""
    if write_only and (unknown := sorted(set(write_only) - {p.name for p in launch.parameters})):
        raise ValueError(
            f"`write_only` contains the name {unknown[0]!r}, but {launch.kernel.signature} has "
            "no such parameter"
        )
    if launch.device.kind == "cuda":
        return gpu.run(launch, runs, write_only)
    return simulated.run(launch, runs, counts)
