"""Locks that are not locked in a child process after a fork.

A forked child has only the thread that forked. A lock that another thread held at that moment would
stay locked in the child for ever. Therefore the child replaces each of these locks by a new one.
(csrc/fork.hpp does the same for the locks in C++.)
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> threading.RLock:
    """Return a lock. In a child process after a fork, only the thread that forked can hold it.

    It is a plain `threading.RLock`, without a wrapper class in Python. In a method of a wrapper,
    Ctrl-C could come after the method has acquired the lock and before it returns. Then the lock
    would never be released.
    """
    made = threading.RLock()
    _locks.add(made)
    return made


class cached_property(functools.cached_property[T]):  # noqa: N801 (it is used as that one is)
    """A `functools.cached_property` without a lock, which a fork could leave locked.

    Up to Python 3.11, `functools.cached_property` has a lock, which all objects of a class share.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        super().__init__(function)
        if hasattr(self, "lock"):
            self.lock = lock()


def _after_fork() -> None:
    for held in _locks:
        if not held._is_owned():
            held._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
