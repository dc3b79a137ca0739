"""The public module `coalesce.timing`: the class `Timing`."""

from coalesce.common.timing import (
    Timing,
    milliseconds,
)

__all__ = ["Timing", "milliseconds"]
