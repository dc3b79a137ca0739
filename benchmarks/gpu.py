"""Whether there is a GPU, and what nvidia-smi says about it."""

from __future__ import annotations

import coalesce
from coalesce.arrays.devices import GpuStatus
from coalesce.benchmarking.gpu import nvidia_smi


def need_gpu() -> GpuStatus:
    """Return what is known about the driver. If there is no GPU, end the script with a message."""
    if not (status := coalesce.gpu_status()):
        raise SystemExit(f"this needs a GPU; {status}")
    return status


def state() -> dict[str, str]:
    """Return the GPU's name, driver, clocks, power and throttle reasons from nvidia-smi."""
    fields = ["name", "driver_version", "clocks.sm", "clocks.mem", "power.draw", "temperature.gpu",
              "clocks_event_reasons.active"]  # fmt: skip
    return nvidia_smi(fields) or {}
