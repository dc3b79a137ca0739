"""The memory of the simulated driver, as the simulator knows it.

The driver (csrc/cudart) allocates the memory for Numba and for other packages. But the kernels run
in the simulator of the module `coalesce._core`. So before a launch, each allocation of the driver
becomes a `DriverMemory`, at the same address and with the same bytes.
"""

from __future__ import annotations

import bisect
import ctypes
from typing import Any

import numpy as np

from coalesce.arrays.simulated_memory import SimulatedMemory

_BYTE = np.dtype(np.uint8)


class _Described(ctypes.Structure):
    """An allocation of the driver (csrc/cudart/abi/in_python.cpp)."""

    _fields_ = (
        ("address", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("host", ctypes.c_uint64),
        ("undefined", ctypes.c_uint64),
    )


class DriverMemory(SimulatedMemory):
    """An allocation of the driver. The driver also notes which bytes were written."""

    def __init__(self, described: _Described, device: str) -> None:
        super().__init__((described.bytes,), _BYTE, device, described.address, described.host)
        self.described = bytes(described)
        if described.undefined and described.bytes:
            flags = (ctypes.c_bool * described.bytes).from_address(described.undefined)
            self._mask = np.frombuffer(flags, np.bool_)

    def define(self, start: int, stop: int) -> None:
        """Mark the bytes from `start` to `stop` as defined. (`stop` is exclusive.)"""
        if self._mask is not None:
            self._mask[start:stop] = False


class DeviceMemory:
    """All allocations of the driver."""

    def __init__(self, library: ctypes.CDLL, device: str) -> None:
        self._library, self._device = library, device
        for name in ("coalesce_memory_changes", "coalesce_memory"):
            getattr(library, name).restype = ctypes.c_uint64
        self._changes = 0
        self._allocations: list[DriverMemory] = []  # sorted by address

    def update(self) -> None:
        """Take over what the driver has allocated and freed."""
        changes = self._library.coalesce_memory_changes()
        if changes == self._changes:
            return
        room = len(self._allocations) + 64
        while True:
            described: Any = (_Described * room)()
            count = self._library.coalesce_memory(described, ctypes.c_uint64(room))
            if count <= room:
                break
            room = count
        known = {memory.described: memory for memory in self._allocations}
        self._allocations.clear()  # frees the addresses that another allocation may have now
        kept = [known.pop(bytes(d), None) for d in described[:count]]
        known.clear()
        self._allocations = [
            memory or DriverMemory(d, self._device)
            for memory, d in zip(kept, described, strict=False)
        ]
        self._changes = changes

    def at(self, address: int) -> DriverMemory | None:
        """Return the allocation that contains an address, or None."""
        place = bisect.bisect_right(self._allocations, address, key=lambda m: m.address)
        if place == 0:
            return None
        memory = self._allocations[place - 1]
        return memory if address < memory.address + memory.size else None
