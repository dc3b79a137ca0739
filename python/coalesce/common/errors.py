"""The exceptions of the package, one class for each kind of failure.

All of them derive from `CoalesceError`. If an argument is wrong, the package raises a `TypeError`
or a `ValueError` instead.
"""

from __future__ import annotations

from coalesce._core import (
    CoalesceError,
    CompileError,
    DeviceUnavailable,
    InstructionLimit,
    LaunchError,
    MemoryFault,
    PtxError,
    UnsupportedInstruction,
)

__all__ = [
    "CoalesceError",
    "CompileError",
    "DeviceUnavailable",
    "InstructionLimit",
    "LaunchError",
    "MemoryFault",
    "PtxError",
    "UnsupportedInstruction",
]
