"""Launches of tests/kernels/unseen_*.cu on the simulator, and comparisons of their results."""

from __future__ import annotations

from typing import Any

import counter_cases
import numpy as np
import unseen_cases

import coalesce

LAUNCHES = unseen_cases.launches()


def run(name: str, checked: bool = False) -> tuple[tuple[Any, ...], list[Any], Any]:
    """Launch a kernel on copies of its arguments; return the arguments, the copies and findings."""
    launch = LAUNCHES[name]
    kernel = coalesce.Kernel((counter_cases.case.KERNELS / launch.file).read_text(), launch.entry)
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in launch.arguments]
    how: Any = kernel.check if checked else kernel.launch
    where = {} if checked else {"device": "sim"}
    result = how(launch.grid, launch.block, *given, shared_bytes=launch.shared_bytes, **where)
    return launch.arguments, given, result


def close(got: np.ndarray, wanted: Any, tolerance: float = 1e-4) -> None:
    """Check that the elements are equal up to rounding."""
    wanted = np.asarray(wanted)
    np.testing.assert_allclose(
        got.ravel()[: wanted.size].astype(np.float64), wanted.ravel(), tolerance, tolerance
    )


def equal(got: np.ndarray, wanted: Any) -> None:
    """Check that the elements are equal."""
    wanted = np.asarray(wanted)
    np.testing.assert_array_equal(got.ravel()[: wanted.size], wanted.ravel())
