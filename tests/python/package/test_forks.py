"""The package's locks are still usable after a signal and after a fork."""

import os
import signal
import sys
import threading

import pytest

from coalesce.common import forks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def is_open(lock: threading.RLock) -> bool:
    """Return whether another thread can acquire the lock."""
    acquired: list[bool] = []

    def ask() -> None:
        if lock.acquire(blocking=False):
            lock.release()
            acquired.append(True)

    asker = threading.Thread(target=ask)
    asker.start()
    asker.join()
    return bool(acquired)


@pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="Python 3.14 looks for signals within `with` statements"
)
def test_a_signal_leaves_no_lock_behind() -> None:
    """A signal handler may raise at any time, even while a thread acquires the lock."""
    lock = forks.lock()
    stop = threading.Event()

    def contend() -> None:
        while not stop.is_set():
            with lock:
                sum(range(2000))

    class RaisedError(Exception):
        pass

    def raise_it(*_: object) -> None:
        raise RaisedError

    others = [threading.Thread(target=contend, daemon=True) for _ in range(2)]
    switches = sys.getswitchinterval()
    before = signal.signal(signal.SIGALRM, raise_it)
    sys.setswitchinterval(1e-4)
    try:
        for thread in others:
            thread.start()
        for n in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + n * 1e-5)
                while True:
                    with lock:
                        pass
            except RaisedError:
                pass
            assert not lock._is_owned(), f"signal {n} left the lock locked"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.setswitchinterval(switches)
        stop.set()
        if lock._is_owned():  # release it, so that the threads end
            lock.release()
    for thread in others:
        thread.join()
    assert is_open(lock)


def test_a_fork_opens_the_locks_of_other_threads_only() -> None:
    mine, others = forks.lock(), forks.lock()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with others:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    with mine:
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            right = is_open(others) and not is_open(mine)
            mine.release()
            os._exit(0 if right and is_open(mine) else 1)
        _, status = os.waitpid(child, 0)
    done.set()
    holder.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert is_open(mine)
    assert is_open(others)
