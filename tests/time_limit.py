"""Ends a block of code that takes too long."""

import contextlib
import faulthandler
import signal
from collections.abc import Iterator
from typing import Any


class TooLong(BaseException):
    """The block took longer than its limit."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Interrupt the block after its limit; end the process if the interrupt does not help."""

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + 60, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
