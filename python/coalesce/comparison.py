"""The public module `coalesce.comparison`: comparisons of profiles."""

from coalesce.profiling.comparison import Comparison, compare
from coalesce.profiling.comparison_data import Row, same_cost

__all__ = ["Comparison", "Row", "compare", "same_cost"]
