"""Locks that are open in a forked child.

A forked child has only the thread that forked. A lock that another thread held at that moment would
stay locked in the child for ever. Therefore the child replaces each of these locks by a new one.
(csrc/fork.hpp does the same for the locks in C++.)
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A `threading.RLock` that is open in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(
            RuntimeError
        ):  # the process forked in between, so the lock is open
            self._lock.release()

    def _remake(self) -> None:
        self._lock = threading.RLock()


class cached_property(functools.cached_property[T]):  # noqa: N801 (it is used as that one is)
    """A `functools.cached_property` without a lock, which a fork could leave locked.

    `functools` has one up to Python 3.11, shared by all objects of a class.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        super().__init__(function)
        if hasattr(self, "lock"):
            self.lock = Lock()


def _after_fork() -> None:
    for lock in _locks:
        lock._remake()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
