"""pytest shows the accesses behind ``assert p.bank_conflicts == 0`` where it fails.

Loaded by pytest's entry points wherever coalesce is installed; it imports nothing of the package
until a number of a profile is compared and the comparison fails.
"""

from __future__ import annotations

import sys
from typing import Any


def pytest_assertrepr_compare(op: str, left: Any, right: Any) -> list[str] | None:
    """Return the explanation of a failed comparison with a number of a profile."""
    module = sys.modules.get("coalesce.profiling.assertions")
    if module is None:  # no profile was made, so no number of one is compared
        return None
    for value in (left, right):
        # The type first: attributes of other objects are not this plugin's to read.
        if type(value) is module.Explained and value.accesses:
            try:
                return [f"{int(left)} {op} {int(right)}", *module.explanation(value.accesses)]
            except Exception:  # whatever it is, the test's own AssertionError matters more
                return None
    return None
