"""The analyses of coalesce as methods of Numba's kernels, such as ``kernel.check``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from coalesce import launched

_T = TypeVar("_T")


def add_methods(dispatcher: Any) -> None:
    """Give the class of Numba's kernels the methods `check`, `profile`, `trace` and `step`."""
    for analysis in (launched.check, launched.profile, launched.trace, launched.step):
        setattr(dispatcher, analysis.__name__, _method(analysis))


def _method(analysis: Callable[..., _T]) -> Callable[..., _T]:
    def method(
        kernel: Any, grid: Any, block: Any, *arguments: Any, shared_bytes: int = 0, **options: Any
    ) -> _T:
        return analysis(lambda: kernel[grid, block, 0, shared_bytes](*arguments), **options)

    method.__name__, method.__doc__ = analysis.__name__, analysis.__doc__
    return method
