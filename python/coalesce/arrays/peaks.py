"""The peak arithmetic rate and memory bandwidth of GPUs, from the table in csrc/model/gpu.cpp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coalesce._core import model
from coalesce.arrays.devices import Device

_LANES = {"float32": "fp32_lanes", "float64": "fp64_lanes"}
_OPERATIONS = 2  # a lane does a multiplication and an addition per cycle


@dataclass(frozen=True)
class Peaks:
    """The highest rates that a GPU can reach, as NVIDIA publishes them.

    Attributes
    ----------
    gpu : str
        The name of the GPU, such as ``"NVIDIA H200 SXM"``.
    gflops : float or None
        The highest arithmetic rate for the dtype of the operands, in 1e9 operations per second.
        This is the rate at the boost clock, without tensor cores. A multiply-add counts as two
        operations. None if the dtype is not float32 or float64.
    gbps : float
        The bandwidth of the GPU's memory, in 1e9 bytes per second.
    cache_bytes : float
        The size of L2 in bytes.
    source : str
        Where the figures were published.

    Examples
    --------
    >>> coalesce.benchmark("matmul", a, b, variants=["tiled"], device="sim").peaks.gbps
    4800.0
    """

    gpu: str
    gflops: float | None
    gbps: float
    cache_bytes: float
    source: str


def peaks_of(device: Device, dtype: np.dtype[Any]) -> Peaks | None:
    """Return the peak rates of a device, or None if the peak rates of this GPU are not known.

    `dtype` is the element type of the operands. The arithmetic rate depends on the dtype.
    """
    gpu = _entry(device)
    if gpu is None:
        return None
    lanes = _LANES.get(dtype.name)
    gflops = None
    if lanes is not None:
        gflops = gpu["multiprocessors"] * gpu[lanes] * _OPERATIONS * gpu["clock_ghz"]
    return Peaks(gpu["title"], gflops, gpu["dram_gbps"], gpu["l2_mb"] * 2**20, gpu["source"])


def _entry(device: Device) -> dict[str, Any] | None:
    words = device.description.lower().replace("rtx ", "rtx").split()
    for gpu in model.gpus():
        if device.kind == "sim":
            if f"sim:{gpu['name']}" == device.name:
                return gpu
        # The name alone does not identify the GPU. A PCIe board or a partition of a GPU often has
        # the same name, but fewer multiprocessors.
        elif gpu["name"] in words and gpu["multiprocessors"] == device.multiprocessors:
            return gpu
    return None
