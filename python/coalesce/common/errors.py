"""The exceptions of the package, one class for each kind of failure.

All of them derive from `CoalesceError`. If an argument is wrong, the package raises a `TypeError`
or a `ValueError` instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

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


@contextlib.contextmanager
def short() -> Iterator[None]:
    """Let notebooks show only the message of an error that the user can fix, and no traceback."""
    try:
        yield
    except (CoalesceError, TypeError, ValueError, MemoryError, KeyboardInterrupt) as error:
        text = f"\x1b[31m{type(error).__name__}\x1b[0m: {error}".rstrip(": ")
        # A note says which line of a kernel was interrupted.
        text = "\n".join([text, *getattr(error, "__notes__", ())])
        # IPython calls this method of an exception and shows what it returns.
        error._render_traceback_ = lambda: text.splitlines()  # type: ignore[union-attr]
        raise
