"""Comparisons of profiles, at their public path."""

from coalesce.profiling.comparison import (
    Comparison,
    Row,
    compare,
    same_cost,
)

__all__ = ["Comparison", "Row", "compare", "same_cost"]
