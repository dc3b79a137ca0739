"""Whole kernels of tests/kernels/unseen_*.cu.

They were not used to find the counting rules or to fit the models.
"""

from collections.abc import Iterator

import unseen_cases

from counter_cases.case import Case, launch


def cases() -> Iterator[Case]:
    """Yield the case of each launch of unseen_cases.py."""
    for name, arguments in unseen_cases.launches().items():
        yield launch(name, *arguments)
