"""Lists the devices, chooses the device of a call, and says why a GPU cannot be used."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from coalesce._core import cuda as _cuda
from coalesce._core import model
from coalesce.arrays import foreign
from coalesce.common.errors import CompileError, DeviceUnavailable
from coalesce.compile import nvrtc


@dataclass(frozen=True)
class Device:
    """A device that kernels run on: a GPU or a simulated GPU.

    Attributes
    ----------
    name : str
        The name, such as ``"cuda:0"`` or ``"sim:h200"``. You can pass it to functions as the
        argument `device`.
    description : str
        The model, such as ``"NVIDIA H200"`` or ``"simulated NVIDIA H200 SXM"``.
    kind : {"cuda", "sim"}
        "cuda" for a GPU, "sim" for a simulated GPU.
    compute_capability : tuple of int
        The compute capability, such as ``(9, 0)``.
    memory : int or None
        The size of the device memory in bytes. None for a simulated GPU, which uses the memory of
        the host.
    multiprocessors : int or None
        The number of multiprocessors. The simulator uses it to estimate the times of a simulated
        GPU.
    checked : bool or None
        For a simulated GPU: whether its counts and times were compared with those of a real GPU.
        None for a GPU.

    Examples
    --------
    >>> [device.name for device in coalesce.devices() if device.kind == "sim"]
    ['sim:h200', ...]
    """

    name: str
    description: str
    kind: Literal["cuda", "sim"]
    compute_capability: tuple[int, int]
    memory: int | None = None
    multiprocessors: int | None = None
    checked: bool | None = None

    @property
    def ordinal(self) -> int:
        """The index of a GPU: 1 for "cuda:1"."""
        return int(self.name.partition(":")[2])


SIMULATED: Mapping[str, Device] = {
    f"sim:{gpu['name']}": Device(
        f"sim:{gpu['name']}",
        f"simulated {gpu['title']}",
        "sim",
        gpu["compute_capability"],
        multiprocessors=gpu["multiprocessors"],
        checked=gpu["checked"],
    )
    for gpu in model.gpus()
}
DEFAULT_SIMULATED = "sim:h200"
_GPU_NAME = re.compile(r"cuda(?::(\d+))?")


@dataclass(frozen=True)
class GpuStatus:
    """Says whether a GPU can be used. If not, it says why and what to do.

    In a condition (``if coalesce.gpu_status():``), the object is true if a GPU can be used.

    Attributes
    ----------
    state : {"ok", "no driver", "driver too old", "no device"}
        "ok" if a GPU can be used. The other values say why no GPU can be used.
    message : str
        One or two sentences with the reason and what to do.
    driver : str or None
        The version of the driver, such as ``"580.65.06"``. None if it is not known.
    cuda : tuple of int or None
        The newest CUDA version that the driver supports, such as ``(13, 0)``. None without a
        driver.

    Examples
    --------
    >>> status = coalesce.gpu_status()
    >>> bool(status) == (status.state == "ok")
    True
    """

    state: Literal["ok", "no driver", "driver too old", "no device"]
    message: str
    driver: str | None = None
    cuda: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return self.state == "ok"

    def __str__(self) -> str:
        return f"{self.state}: {self.message}"


def gpu_status() -> GpuStatus:
    """Return whether a GPU can be used. If not, the result says why.

    Returns
    -------
    GpuStatus
        Its `state` is ``"ok"``, ``"no driver"``, ``"driver too old"`` or ``"no device"``. Its
        `message` gives the reason, and says what to do.

    Examples
    --------
    >>> coalesce.gpu_status().state in ("ok", "no driver", "driver too old", "no device")
    True
    """
    driver = _cuda.driver_status()
    if driver["status"] == "no driver":
        return GpuStatus(
            "no driver",
            f"NVIDIA's driver library was not found ({driver['detail']}). To use a GPU, install "
            f"the driver, release {_needed_release()} or newer; the simulator needs no driver.",
        )
    release = _driver_release()
    cuda = tuple(driver["version"])
    if driver["status"] == "ok":
        needed = _nvrtc_major()
        if needed is not None and cuda[0] < needed:
            return GpuStatus("driver too old", _too_old(release, cuda, needed), release, cuda)
        count = driver["devices"]
        return GpuStatus("ok", f"{count} GPU{'s' * (count != 1)}", release, cuda)
    if driver["status"] == "no device":
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        hint = f" CUDA_VISIBLE_DEVICES is {hidden!r}." if hidden is not None else ""
        return GpuStatus(
            "no device",
            f"the driver is installed, but finds no CUDA GPU.{hint} In a container, start it with "
            "access to the GPU (docker run --gpus all).",
            release,
            cuda,
        )
    return GpuStatus(
        "no device",
        f"the driver does not start: {driver['detail']}. `nvidia-smi` may say more. After an "
        "update of the driver, restart the machine.",
        release,
        cuda,
    )


def devices() -> list[Device]:
    """List the devices that kernels can run on: GPUs first, then simulated GPUs.

    Returns
    -------
    list of Device
        The list is never empty. The first device is the default device, unless the environment
        variable ``COALESCE_DEVICE`` names another.

    Examples
    --------
    >>> [device.name for device in coalesce.devices()][-2:]
    ['sim:rtx3090', 'sim:rtx4090']
    """
    return [*_gpus(), *SIMULATED.values()]


def modelled_gpu(device: Device) -> str:
    """Return the name of the simulated GPU that represents `device` in models: ``"h200"``.

    - For a simulated GPU, this is its own name.
    - For a real H200, it is the simulated H200, and so on.
    - For any other real GPU, it is the newest simulated GPU that is not newer than `device`. If all
      simulated GPUs are newer than `device`, it is the oldest simulated GPU. Here, "newer" means a
      higher compute capability.
    """
    if device.kind == "sim":
        return device.name.removeprefix("sim:")
    words = device.description.lower().replace("rtx ", "rtx").split()
    listed = model.gpus()
    for gpu in listed:
        if gpu["name"] in words:
            return str(gpu["name"])
    own = device.compute_capability
    older = [gpu for gpu in listed if gpu["compute_capability"] <= own]
    newest = max(older, key=lambda gpu: gpu["compute_capability"], default=None)
    oldest = min(listed, key=lambda gpu: gpu["compute_capability"])
    return str((newest or oldest)["name"])


def resolve(device: str | Device | None = None, gpu_arrays: Sequence[Any] = ()) -> Device:
    """Return the device that a call runs on.

    The argument `device` of a call is a name, a `Device` or None. None means the first of these
    devices that exists:

    1. the device that the environment variable ``COALESCE_DEVICE`` names
    2. the GPU whose memory holds the first array of `gpu_arrays`
    3. the first usable GPU
    4. the simulator

    Raises ValueError for an unknown name, and DeviceUnavailable for a missing GPU.
    """
    if device is None:
        name = os.environ.get("COALESCE_DEVICE")
        if name:
            return _named(name, "COALESCE_DEVICE")
        gpus = _gpus()
        if gpus and gpu_arrays and len(gpus) > 1:
            return gpus[foreign.require_gpu_array(gpu_arrays[0]).ordinal]
        if not gpus:
            _warn_of_an_old_driver()
        return gpus[0] if gpus else SIMULATED[DEFAULT_SIMULATED]
    if isinstance(device, Device):
        device = device.name
    if not isinstance(device, str):
        raise TypeError(
            f'`device` must be a name such as "cuda" or "sim"; got {type(device).__name__}'
        )
    return _named(device, "device")


def is_gpu(device: object) -> bool:
    """Return True if `device` (a name or a `Device`) is a GPU, even one that is not installed."""
    name = device.name if isinstance(device, Device) else device
    return isinstance(name, str) and _GPU_NAME.fullmatch(name) is not None


def _named(name: str, argument: str) -> Device:
    if name == "sim":
        return SIMULATED[DEFAULT_SIMULATED]
    if name in SIMULATED:
        return SIMULATED[name]
    match = _GPU_NAME.fullmatch(name)
    if match is None:
        valid = ", ".join(repr(n) for n in ("cuda", "cuda:0", "sim", *SIMULATED))
        raise ValueError(f"unknown {argument} {name!r}; the known names are {valid}")
    gpus = _gpus()
    if not gpus:
        raise DeviceUnavailable(
            f'{argument} "{name}": {gpu_status()}\n  device="sim" runs the same call on the CPU.'
        )
    ordinal = int(match[1] or 0)
    if ordinal >= len(gpus):
        raise DeviceUnavailable(
            f'{argument} "{name}": there {"are" if len(gpus) > 1 else "is"} {len(gpus)} '
            f"GPU{'s' * (len(gpus) > 1)}, {', '.join(gpu.name for gpu in gpus)}"
        )
    return gpus[ordinal]


@lru_cache(maxsize=1)
def _gpus() -> tuple[Device, ...]:
    """Return the usable GPUs. If the driver is too old for the compiler, there are none."""
    # Look for the driver first: without a driver, the compiler need not be loaded.
    if _cuda.driver_status()["status"] != "ok" or not gpu_status():
        return ()
    gpus = []
    for ordinal in range(_cuda.driver_status()["devices"]):
        gpu = _cuda.Device(ordinal)
        gpus.append(
            Device(
                f"cuda:{ordinal}",
                gpu.name,
                "cuda",
                tuple(gpu.compute_capability),
                gpu.total_memory,
                gpu.attribute(_MULTIPROCESSOR_COUNT),
            )
        )
    return tuple(gpus)


@lru_cache(maxsize=1)
def _warn_of_an_old_driver() -> None:
    """If this machine has a GPU, but its driver is too old, say once why the simulator runs."""
    status = gpu_status()
    if status.state == "driver too old":
        message = f"kernels run on the simulator, not on the GPU: {status.message}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)


_MULTIPROCESSOR_COUNT = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT


def _nvrtc_major() -> int | None:
    try:
        return int(nvrtc.nvrtc().version[0])
    except CompileError:
        return None


def _needed_release() -> str:
    return str(_cuda.needed_driver(_nvrtc_major() or 13)) or "the newest"


def _too_old(release: str | None, cuda: tuple[Any, ...], needed: int) -> str:
    have = f"driver {release}" if release else "the driver"
    return (
        f"{have} supports CUDA {cuda[0]}.{cuda[1]}; the installed compiler, NVRTC {needed}.x, "
        f"needs driver {_needed_release()} or newer. Update the driver, or install the compiler "
        f"of the driver's CUDA: pip install nvidia-cuda-nvrtc-cu{cuda[0]}"
    )


def _driver_release() -> str | None:
    """Return the version of the driver, such as "580.65.06". If Linux does not report it: None."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    match = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    return match[1] if match else None
