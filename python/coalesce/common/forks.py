"""Locks that a process can still use after a fork.

A forked child process has only one thread: the thread that called fork. Another thread may have
held a lock at that moment. In the child, no thread would ever release this lock. Therefore the
child resets all locks of this module. (csrc/fork.hpp does the same for the locks in C++.)
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
    """Return a new lock that a process can still use after a fork.

    If another thread holds the lock, the child process resets the lock. If the forking thread holds
    the lock, the child does not reset it: the forking thread also runs in the child, and will
    release the lock there.
    """
    # Not a class of this package: Ctrl-C could interrupt a method of such a class after the method
    # acquired the lock, and then the lock would never be released.
    made = threading.RLock()
    _locks.add(made)
    return made


class cached_property(functools.cached_property[T]):  # noqa: N801 (lower case, as in functools)
    """A `functools.cached_property` that a process can still use after a fork.

    Up to Python 3.11, a `functools.cached_property` contains a lock. This class replaces the lock
    by the result of `lock()`, which a process can still use after a fork. Later versions of Python
    have no such lock.
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
