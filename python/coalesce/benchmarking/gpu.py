"""Times calls on a GPU with CUDA events, and reads the state of the GPU from nvidia-smi."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal

from coalesce._core import cuda
from coalesce.arrays.devices import Device
from coalesce.benchmarking.rounds import Times
from coalesce.catalogue.run import KernelLaunch
from coalesce.catalogue.table import OPERATIONS
from coalesce.common.errors import CoalesceError
from coalesce.launch import gpu as on_gpu
from coalesce.launch.arguments import prepare
from coalesce.launch.record import LaunchRecord

L2 = Literal["kept", "flushed"]
Call = Callable[[], Any]  # enqueues work on a stream of a GPU

# The bytes that are written to flush L2. No GPU has so large an L2 yet.
FLUSHED_BYTES = 256 << 20
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


class GpuClock:
    """Times calls with CUDA events on the default stream of a GPU."""

    def __init__(self, device: Device, l2: L2) -> None:
        self._l2 = l2
        self._device = cuda.Device(device.ordinal)
        self._buffer = self._device.allocate(FLUSHED_BYTES, "the memory that flushes L2")
        self._driver = ctypes.CDLL("libcuda.so.1")
        handle, self._context = ctypes.c_int(), ctypes.c_void_p()
        self._do("cuDeviceGet", ctypes.byref(handle), device.ordinal)
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), handle)

    def runs(self, calls: Sequence[Call], count: int) -> list[Times]:
        """Make `count` runs of `calls`. Return the times of the calls in each run.

        Everything is queued before the first wait. The GPU first writes the buffer. So it still
        works when the host queues the runs, and it need not wait for the host between the events.
        """
        with self._current(), self._events(count * (len(calls) + 1)) as events:
            self._device.synchronize()
            if self._l2 == "kept":
                self._flush()
                self._flush()
                for call in calls:  # its reads and writes fill L2
                    call()
            following = iter(events)
            for _ in range(count):
                if self._l2 == "flushed":
                    self._flush()
                self._do("cuEventRecord", next(following), None)
                for call in calls:
                    call()
                    self._do("cuEventRecord", next(following), None)
            self._do("cuEventSynchronize", events[-1])
            size = len(calls) + 1
            return [
                tuple(self._between(a, b) for a, b in pairwise(run))
                for run in (events[i : i + size] for i in range(0, len(events), size))
            ]

    def _flush(self) -> None:
        self._device.fill(self._buffer.address, 0, FLUSHED_BYTES)

    def _between(self, begin: Any, end: Any) -> float:
        milliseconds = ctypes.c_float()
        self._do("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
        return milliseconds.value

    @contextmanager
    def _current(self) -> Iterator[None]:
        self._do("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self._driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    @contextmanager
    def _events(self, count: int) -> Iterator[list[Any]]:
        events = [ctypes.c_void_p() for _ in range(count)]
        try:
            for event in events:
                self._do("cuEventCreate", ctypes.byref(event), 0)
            yield events
        finally:
            for event in events:
                if event:
                    self._driver.cuEventDestroy_v2(event)

    def _do(self, name: str, *arguments: Any) -> None:
        result = getattr(self._driver, name)(*arguments)
        if result:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(result, ctypes.byref(text))
            raise CoalesceError(f"timing on the GPU: {name}: {(text.value or b'').decode()}")


def launches(
    operation: str, arrays: Sequence[Any], options: Mapping[str, Any], stream: int = 0
) -> list[tuple[str, Call]]:
    """Return the launches of an operation: the names of the kernels, and functions to launch them.

    All arrays must be in GPU memory. The result array lives as long as the functions.
    """
    calls: list[tuple[str, Call]] = []
    alive: list[Any] = []  # the functions hold this list, and so the arrays

    def launcher(launch: KernelLaunch) -> LaunchRecord:
        signature = launch.kernel.signature
        given = prepare(signature, launch.arguments)
        names = [p.name for p in signature.parameters]
        values = [on_gpu.value_of(x, names, given) for x in given]
        function = launch.kernel._function(launch.device)
        cuda.admit(function, launch.grid, launch.block, launch.shared_bytes)
        step = (function, launch.grid, launch.block, launch.shared_bytes, values, stream)
        alive.append(given)
        calls.append((launch.kernel.name, partial(_enqueue, step, alive)))
        return LaunchRecord(0.0, 0.0, 0, 0.0, 0.0, "measured", launch.device.name)

    alive.append(OPERATIONS[operation].run(arrays, options, launcher=launcher))
    return calls


def _enqueue(step: tuple[Any, ...], _alive: Any) -> None:
    cuda.launch(*step)


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
        Why the clock is not higher, by nvidia-smi's names: ``"sw_power_cap"``. Empty if nothing
        limits the clock. None if nvidia-smi does not report it.

    Examples
    --------
    >>> coalesce.benchmark("row_sums", a, variants=["thread_per_row"], device="sim").gpu_state
    """

    sm_mhz: float | None
    power_watts: float | None
    throttle_reasons: tuple[str, ...] | None


def state_under_load(device: Device, load: Call) -> GpuState | None:
    """Return the state of a GPU while it works. Return None if nvidia-smi is missing or fails.

    `load` gives the GPU work. It is called until nvidia-smi has answered.
    """
    gpu = cuda.Device(device.ordinal)
    domain, bus, place = (gpu.attribute(number) for number in (50, 33, 34))  # CU_DEVICE_ATTRIBUTE_*
    return read_state(f"{domain:08X}:{bus:02X}:{place:02X}.0", load)


def read_state(gpu: str = "0", load: Call | None = None) -> GpuState | None:
    """Return the state of a GPU. `gpu` is the number, the UUID or the PCI address of the GPU."""
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
    fields: Sequence[str], gpu: str = "0", load: Call | None = None
) -> dict[str, str] | None:
    """Return fields of ``nvidia-smi --query-gpu`` as text. Return None if this fails.

    `load`, if there is one, is called until nvidia-smi has answered.
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
