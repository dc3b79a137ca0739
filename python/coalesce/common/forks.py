"""Locks that a fork leaves open in the child.

A forked child has only the thread that forked. A lock that another thread held at that moment would
stay locked in the child for ever, so the child makes each of these locks anew. (csrc/fork.hpp does
the same for the locks in C++.)
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref

_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A `threading.RLock` that is open in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(RuntimeError):  # forked in between: it is open already
            self._lock.release()

    def _remake(self) -> None:
        self._lock = threading.RLock()


def _after_fork() -> None:
    for lock in _locks:
        lock._remake()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
