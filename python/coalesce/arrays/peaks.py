"""What a GPU could do at most, from the published figures of the table of GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coalesce._core import model
from coalesce.arrays.devices import Device

_LANES = {"float32": "fp32_lanes", "float64": "fp64_lanes"}
_OPERATIONS = 2  # a lane multiplies and adds in a cycle


@dataclass(frozen=True)
class Peaks:
    """The ceilings of a GPU.

    Attributes
    ----------
    gpu : str
        ``"NVIDIA H200 SXM"``.
    gflops : float or None
        1e9 operations per second in the dtype, by the ordinary pipes and at the boost clock; tensor
        cores are not counted. None for dtypes that are no float32 or float64.
    gbps : float
        1e9 bytes per second of its memory.
    cache_bytes : float
        Of its second-level cache.
    source : str
        Where the figures are published.
    """

    gpu: str
    gflops: float | None
    gbps: float
    cache_bytes: float
    source: str


def peaks_of(device: Device, dtype: np.dtype[Any]) -> Peaks | None:
    """Return the ceilings of a device; None for a GPU that is not in the table."""
    gpu = _entry(device)
    if gpu is None:
        return None
    lanes = _LANES.get(dtype.name)
    gflops = None
    if lanes is not None:
        gflops = gpu["multiprocessors"] * gpu[lanes] * _OPERATIONS * gpu["clock_ghz"]
    return Peaks(
        gpu["title"], gflops, gpu["dram_gbps"], gpu["second_level_mb"] * 2**20, gpu["source"]
    )


def _entry(device: Device) -> dict[str, Any] | None:
    words = device.description.lower().replace("rtx ", "rtx").split()
    for gpu in model.gpus():
        if device.kind == "sim":
            if f"sim:{gpu['name']}" == device.name:
                return gpu
        # The name of another board (PCIe, a part of a GPU) is often the same.
        elif gpu["name"] in words and gpu["multiprocessors"] == device.multiprocessors:
            return gpu
    return None
