"""The exceptions of the package, at their public path."""

from coalesce.check import CheckError
from coalesce.common.errors import (
    CoalesceError,
    CompileError,
    DeviceUnavailable,
    LaunchError,
    MemoryFault,
    PtxError,
    UnsupportedInstruction,
)

__all__ = [
    "CheckError",
    "CoalesceError",
    "CompileError",
    "DeviceUnavailable",
    "LaunchError",
    "MemoryFault",
    "PtxError",
    "UnsupportedInstruction",
]
