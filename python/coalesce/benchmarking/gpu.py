"""The launches of an operation on a GPU, and the state of the GPU as nvidia-smi reports it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from coalesce._core import cuda, ops
from coalesce.arrays import foreign
from coalesce.arrays.creation import to_device
from coalesce.arrays.devices import Device
from coalesce.benchmarking.clock import Call
from coalesce.catalogue.table import OPERATIONS
from coalesce.common.dtypes import code_of
from coalesce.launch import gpu as on_gpu
from coalesce.launch.launch import Launch
from coalesce.launch.record import LaunchRecord

# The bits of `clocks_event_reasons.active`, and the names that nvidia-smi has for them.
_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}


def copy_to_gpu(array: np.ndarray[Any, Any], device: str) -> Any:
    """Return a copy of a NumPy array in GPU memory. The dtype of the array may be bfloat16."""
    if code_of(array.dtype) != "V2":
        return to_device(array, device=device)
    bits = to_device(array.view(np.uint16), device=device)
    return replace(foreign.require_gpu_array(bits), code="V2")


def launches(
    operation: str, arrays: Sequence[Any], options: Mapping[str, Any]
) -> list[tuple[str, Call]]:
    """Return a pair for each launch of an operation: the kernel's name and a function to launch it.

    All arrays must be in GPU memory. The returned functions keep the result array alive.
    """
    calls: list[tuple[str, Call]] = []
    alive: list[Any] = []  # the functions hold this list, and so the arrays

    def launcher(launch: Launch, _variant: ops.Variant) -> LaunchRecord:
        step = (on_gpu.admitted(launch), launch, on_gpu.values_of(launch))
        calls.append((launch.kernel.name, partial(_enqueue, step, alive)))
        return LaunchRecord(source="measured", device=launch.device.name)

    alive.append(OPERATIONS[operation].run(arrays, options, launcher=launcher))
    return calls


def _enqueue(step: tuple[Any, Launch, list[bytes]], _alive: Any, stream: int) -> None:
    cuda.launch(*step, stream)


@dataclass(frozen=True)
class GpuState:
    """The clock, the power and the throttle reasons of a GPU, as nvidia-smi reports them.

    Attributes
    ----------
    sm_mhz : float or None
        The clock of the multiprocessors in MHz. None if nvidia-smi does not report it.
    power_watts : float or None
        The power of the GPU in watts. None if nvidia-smi does not report it.
    throttle_reasons : tuple of str or None
        The reasons why the clock is limited, as nvidia-smi names them: ``"sw_power_cap"``, for
        example. Empty if nothing limits the clock. None if nvidia-smi does not report the reasons.

    Examples
    --------
    >>> coalesce.benchmark("row_sums", a, variants=["thread_per_row"], device="sim").gpu_state
    """

    sm_mhz: float | None
    power_watts: float | None
    throttle_reasons: tuple[str, ...] | None


def state_under_load(device: Device, load: Callable[[], object]) -> GpuState | None:
    """Return the state of a GPU while it works. Return None if nvidia-smi is missing or fails.

    `load` is a function that starts work on the GPU. It is called again and again, until nvidia-smi
    has answered.
    """
    gpu = cuda.Device(device.ordinal)
    domain, bus, place = (gpu.attribute(number) for number in (50, 33, 34))  # CU_DEVICE_ATTRIBUTE_*
    return read_state(f"{domain:08X}:{bus:02X}:{place:02X}.0", load)


def read_state(gpu: str = "0", load: Callable[[], object] | None = None) -> GpuState | None:
    """Return the state of a GPU. Return None if nvidia-smi is missing or fails.

    `gpu` is the index, the UUID or the PCI address of the GPU. `load` is None, or a function that
    starts work on the GPU. It is called again and again, until nvidia-smi has answered.
    """
    for word in ("event", "throttle"):  # drivers older than 535 have the second word
        fields = ("clocks.sm", "power.draw", f"clocks_{word}_reasons.active")
        values = nvidia_smi(fields, gpu, load)
        if values is not None:
            reasons = _number(values[fields[2]], 16)
            return GpuState(
                _number(values[fields[0]]),
                _number(values[fields[1]]),
                None if reasons is None else _named(int(reasons)),
            )
    return None


def _named(reasons: int) -> tuple[str, ...]:
    return tuple(
        _REASONS.get(1 << bit, f"reason {1 << bit:#x}") for bit in range(64) if reasons >> bit & 1
    )


def _number(text: str, base: int = 10) -> float | None:
    try:
        return int(text, base) if base != 10 else float(text.split()[0])
    except (ValueError, IndexError):  # such as "[N/A]"
        return None


def nvidia_smi(
    fields: Sequence[str], gpu: str = "0", load: Callable[[], object] | None = None
) -> dict[str, str] | None:
    """Return a dict from fields of ``nvidia-smi --query-gpu`` to their values as text.

    If nvidia-smi is missing or fails, return None. For `gpu` and `load`, see `read_state`.
    """
    command = ["nvidia-smi", f"--id={gpu}", f"--query-gpu={','.join(fields)}"]
    try:
        running = subprocess.Popen(
            [*command, "--format=csv,noheader"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except OSError:
        return None
    try:
        while load is not None:
            load()
            if running.poll() is not None:
                break
        output, _ = running.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        output = ""
    finally:
        if running.poll() is None:
            running.kill()
            running.communicate()
    values = output.strip().split(", ")
    if running.returncode or len(values) != len(fields):
        return None
    return dict(zip(fields, values, strict=True))
