"""Waiting for a GPU: Ctrl-C ends the wait, and a long wait says which kernel runs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from coalesce.common.progress import GPU, Report, reporter

_SLICE_MS = 100  # the time between two checks for Ctrl-C


def until_done(gpu: Any, stream: int = 0, what: str = "waiting for the GPU") -> None:
    """Wait for the work on a stream of a GPU.

    The driver's own wait cannot be interrupted, so this function waits for a short time, checks for
    Ctrl-C, and waits again. Ctrl-C does not stop the kernel: it keeps running, and later work on
    the same stream waits for it.

    Parameters
    ----------
    gpu : coalesce._core.cuda.Device
        The GPU.
    stream : int
        The stream, by default the default stream.
    what : str
        What the caller is doing. Error messages say this.
    """
    if gpu.finishes_within(_SLICE_MS, stream, what):
        return
    with reported(gpu) as report:
        while not gpu.finishes_within(_SLICE_MS, stream, what):
            if report is not None:
                report(0, 1)


def reported(gpu: Any) -> AbstractContextManager[Report | None]:
    """Return a context manager that shows which kernel runs, if the wait is long.

    The context manager yields a function, or None if nothing is to be shown (`reporter`). The
    caller calls the function after each check.
    """
    return reporter(None, f"running kernel `{gpu.last_kernel}` on cuda:{gpu.ordinal}", GPU)
