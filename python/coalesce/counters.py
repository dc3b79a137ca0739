"""Counters that Nsight Compute measured, at their public path."""

from coalesce.profiling.counters import (
    MeasuredCounters,
)

__all__ = ["MeasuredCounters"]
