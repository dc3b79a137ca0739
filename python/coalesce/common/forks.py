"""Locks that a process can use after a fork.

A forked child process has only one thread: the one that called fork. If another thread held a lock
at that moment, the lock would stay locked in the child for ever. Therefore the child resets all
locks of this module. (csrc/fork.hpp does the same for the locks in C++.)
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
    """Return a lock that is reset in a forked child, unless the thread that forked holds it.

    It is a plain `threading.RLock`, without a wrapper class in Python. A method of a wrapper could
    be interrupted by Ctrl-C between acquiring the lock and returning. Then the lock would never be
    released.
    """
    made = threading.RLock()
    _locks.add(made)
    return made


class cached_property(functools.cached_property[T]):  # noqa: N801 (it is used as that one is)
    """A `functools.cached_property` that a process can use after a fork.

    Up to Python 3.11, a `functools.cached_property` has a lock, which all objects of the class
    share. Here it is a lock of this module. Later versions of Python have no such lock.
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
