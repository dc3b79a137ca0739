"""The public module `coalesce.counters`: counters that Nsight Compute measured."""

from coalesce.profiling.hardware.counters import (
    MeasuredCounters,
)

__all__ = ["MeasuredCounters"]
