"""The errors of the package, one type for each kind of failure.

All derive from `CoalesceError`. A wrong argument is a `TypeError` or a `ValueError` instead.
"""

from __future__ import annotations

from coalesce._core import (
    CoalesceError,
    CompileError,
    DeviceUnavailable,
    LaunchError,
    MemoryFault,
    PtxError,
    UnsupportedInstruction,
)

__all__ = [
    "CoalesceError",
    "CompileError",
    "DeviceUnavailable",
    "LaunchError",
    "MemoryFault",
    "PtxError",
    "UnsupportedInstruction",
]
