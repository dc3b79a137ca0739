"""Whole kernels that neither rules nor models were made from; tests/kernels/unseen_*.cu."""

from __future__ import annotations

from collections.abc import Iterator

import unseen_cases

from counter_cases.case import Case, launch


def cases() -> Iterator[Case]:
    """Yield the case of each launch of unseen_cases.py."""
    for name, arguments in unseen_cases.launches().items():
        yield launch(name, *arguments)
