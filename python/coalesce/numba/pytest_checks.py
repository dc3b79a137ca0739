"""Checks the launches of each test: pytest's option ``--cuda-check``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coalesce.launched import checked


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Let a test fail if one of its launches has a mistake."""
    with checked() as found:
        result = yield
    if found:
        pytest.fail("\n\n".join(map(str, found)), pytrace=False)
    return result
