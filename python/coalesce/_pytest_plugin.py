"""pytest shows the accesses behind ``assert p.bank_conflicts == 0`` where it fails.

Loaded by pytest's entry points wherever coalesce is installed; it imports nothing of the package
until a number of a profile is compared and the comparison fails.
"""

from __future__ import annotations

from typing import Any


def pytest_assertrepr_compare(op: str, left: Any, right: Any) -> list[str] | None:
    """Return the explanation of a failed comparison with a number of a profile."""
    for value in (left, right):
        accesses = getattr(value, "accesses", None)
        if type(value).__name__ == "Explained" and accesses:
            from coalesce.profiling import assertions

            return [f"{int(left)} {op} {int(right)}", *assertions.explanation(accesses)]
    return None
