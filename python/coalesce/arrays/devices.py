"""Which devices there are, which one a call runs on, and why there is no GPU."""

from __future__ import annotations

import os
import re
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
    """A device that kernels run on.

    Attributes
    ----------
    name : str
        What `device=` takes: ``"cuda:0"``, ``"sim:h200"``.
    description : str
        ``"NVIDIA H200"``; for the simulator what it simulates.
    kind : {"cuda", "sim"}
    compute_capability : tuple of int
        ``(9, 0)``.
    memory : int or None
        Bytes of device memory; None on the simulator, which uses the host's.
    multiprocessors : int or None
        How many; of a simulated GPU those that its times are modelled for.
    checked : bool or None
        Of a simulated GPU, whether what is counted and modelled for it was held against hardware.
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
        """The GPU's number."""
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


@dataclass(frozen=True)
class GpuStatus:
    """Whether a GPU can be used, and if not, why and what to do. True where one can.

    Attributes
    ----------
    state : {"ok", "no driver", "driver too old", "no device"}
    message : str
        One or two sentences for a person.
    driver : str or None
        The driver's release, such as ``"580.65.06"``, where the system tells it.
    cuda : tuple of int or None
        The newest CUDA the driver supports: ``(13, 0)``.
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
    """Say whether there is a GPU to run on, and if not, which of the reasons holds.

    Returns
    -------
    GpuStatus
        Its `state` is ``"ok"``, ``"no driver"``, ``"driver too old"`` or ``"no device"``; its text
        says what to do.

    Examples
    --------
    >>> print(coalesce.gpu_status())
    no driver: libcuda.so.1 was not found. Install NVIDIA's driver ...
    """
    found = _cuda.driver_status()
    release = _driver_release()
    cuda = tuple(found["version"])
    if found["status"] == "no driver":
        return GpuStatus(
            "no driver",
            f"NVIDIA's driver library was not found ({found['detail']}). To use a GPU, install the "
            f"driver, release {_needed_release()} or newer; the simulator needs none.",
        )
    if found["status"] == "ok":
        needed = _nvrtc_major()
        if needed is not None and cuda[0] < needed:
            return GpuStatus("driver too old", _too_old(release, cuda, needed), release, cuda)
        count = found["devices"]
        return GpuStatus("ok", f"{count} GPU{'s' * (count != 1)}", release, cuda)
    if found["status"] == "no device":
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        hint = f" CUDA_VISIBLE_DEVICES is {hidden!r}." if hidden is not None else ""
        return GpuStatus(
            "no device",
            f"the driver is there, but sees no CUDA GPU.{hint} In a container, start it with "
            "access to the GPU (docker run --gpus all).",
            release,
            cuda,
        )
    return GpuStatus(
        "no device",
        f"the driver does not start: {found['detail']}. `nvidia-smi` may say more; after an update "
        "of the driver the machine has to be started again.",
        release,
        cuda,
    )


def devices() -> list[Device]:
    """List what kernels can run on: the GPUs, then the simulated ones.

    Returns
    -------
    list of Device
        Never empty. The first is the default, unless ``COALESCE_DEVICE`` names another.

    Examples
    --------
    >>> [device.name for device in coalesce.devices()][:3]
    ['sim:h200', 'sim:h100', 'sim:a100']
    """
    return [*_gpus(), *SIMULATED.values()]


def modelled_gpu(device: Device) -> str:
    """Return the name of the simulated GPU that stands for a device: ``"h200"``.

    For a GPU that is not in the table it is the newest there that has not a later compute
    capability, or else the oldest.
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
    """Return the device that a call with ``device=device`` runs on.

    None is ``COALESCE_DEVICE`` if that is set, else the GPU that the first of `gpu_arrays` lies on,
    else the first GPU if one is usable, else the simulator. Raises ValueError for an unknown name,
    DeviceUnavailable for a GPU that is not there.
    """
    if device is None:
        given = os.environ.get("COALESCE_DEVICE")
        if given:
            return _named(given, "COALESCE_DEVICE")
        gpus = _gpus()
        if gpus and gpu_arrays and len(gpus) > 1:
            return gpus[foreign.seen(gpu_arrays[0]).ordinal]
        return gpus[0] if gpus else SIMULATED[DEFAULT_SIMULATED]
    if isinstance(device, Device):
        device = device.name
    if not isinstance(device, str):
        raise TypeError(
            f'device must be a name such as "cuda" or "sim"; got {type(device).__name__}'
        )
    return _named(device, "device")


def _named(name: str, argument: str) -> Device:
    if name == "sim":
        return SIMULATED[DEFAULT_SIMULATED]
    if name in SIMULATED:
        return SIMULATED[name]
    match = re.fullmatch(r"cuda(?::(\d+))?", name)
    if match is None:
        valid = ", ".join(repr(n) for n in ("cuda", "cuda:0", "sim", *SIMULATED))
        raise ValueError(f"unknown {argument} {name!r}; there are {valid}")
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
    """Return the usable GPUs; none where the driver is too old for the compiler."""
    # The driver first: where there is none, the compiler need not be looked for.
    if _cuda.driver_status()["status"] != "ok" or not gpu_status():
        return ()
    found = []
    for ordinal in range(_cuda.driver_status()["devices"]):
        gpu = _cuda.Device(ordinal)
        found.append(
            Device(
                f"cuda:{ordinal}",
                gpu.name,
                "cuda",
                tuple(gpu.compute_capability),
                gpu.total_memory,
                gpu.attribute(_MULTIPROCESSOR_COUNT),
            )
        )
    return tuple(found)


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
    """Return the driver's release where Linux tells it: "580.65.06"."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    match = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    return match[1] if match else None
