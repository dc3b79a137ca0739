"""`Timing` at its public path."""

from coalesce.common.timing import (
    Timing,
    milliseconds,
)

__all__ = ["Timing", "milliseconds"]
