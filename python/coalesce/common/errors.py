"""The errors a call can end with, one type each, so that they can be caught by type.

All derive from `CoalesceError`. A wrong argument is a `TypeError` or a `ValueError` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coalesce._core import (
    CoalesceError,
    CompileError,
    DeviceUnavailable,
    LaunchError,
    MemoryFault,
    PtxError,
    UnsupportedInstruction,
)

if TYPE_CHECKING:
    from coalesce.check import Findings

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


class CheckError(CoalesceError):
    """A check found something: the message is the report, `findings` what was found."""

    def __init__(self, message: str, findings: Findings) -> None:
        super().__init__(message)
        self.findings = findings

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.findings)
