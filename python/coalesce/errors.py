"""The public module `coalesce.errors`: the exceptions of the package."""

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
