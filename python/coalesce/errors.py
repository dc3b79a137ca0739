"""The exceptions of the package, at their public path."""

from coalesce.common.errors import (
    CheckError,
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
