"""A pytest plugin that explains why a test of a profile's counts failed.

For example, if ``assert p.bank_conflicts == 0`` fails, pytest shows the accesses that cause the
bank conflicts.

pytest loads this plugin if coalesce is installed. The plugin imports no other module of the
package. So it does not slow down tests that do not use coalesce.
"""

from __future__ import annotations

import sys
from typing import Any


def pytest_assertrepr_compare(op: str, left: Any, right: Any) -> list[str] | None:
    """Return the lines that pytest shows if a comparison with a count of a profile fails.

    pytest calls this function for a failed ``assert left op right``, where `op` is an operator such
    as "==". If neither side is a count of a profile, return None. pytest then shows its own
    explanation.
    """
    data = sys.modules.get("coalesce.profiling.data")
    assertions = sys.modules.get("coalesce.profiling.assertions")
    if data is None or assertions is None:  # there is no profile, so neither side is a count of one
        return None
    for value in (left, right):
        # Check the type first. The object may belong to another package, and reading one of its
        # attributes could run that package's code.
        if type(value) is data.Explained and value.accesses:
            try:
                return [f"{int(left)} {op} {int(right)}", *assertions.explanation(value.accesses)]
            except Exception:  # the test's own AssertionError is more important than any error here
                return None
    return None
