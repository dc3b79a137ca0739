"""Waits for a GPU. Ctrl-C ends the wait, and a long wait shows the name of the running kernel."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from coalesce.common.progress import GPU, Report, reporter

_SLICE_MS = 100  # the time between two checks for Ctrl-C


def until_done(gpu: Any, stream: int = 0, what: str = "waiting for the GPU") -> None:
    """Wait until a GPU has finished the work on a stream.

    The driver's own function for waiting cannot be interrupted by Ctrl-C. Therefore this function
    waits for 100 ms, checks for Ctrl-C, and waits again. Ctrl-C ends only the wait. The kernel
    keeps running, and later work on the same stream waits for the kernel.

    Parameters
    ----------
    gpu : coalesce._core.cuda.Device
        The GPU.
    stream : int
        The handle of the stream. By default, it is the default stream.
    what : str
        What the caller is doing. Error messages contain this text.
    """
    if gpu.finishes_within(_SLICE_MS, stream, what):
        return
    with wait_reporter(gpu) as report:
        while not gpu.finishes_within(_SLICE_MS, stream, what):
            if report is not None:
                report(0, 1)


def wait_reporter(gpu: Any) -> AbstractContextManager[Report | None]:
    """Return a context manager that shows the name of the running kernel if a wait takes long.

    Use it as ``with wait_reporter(gpu) as report``. If nothing is to be shown, `report` is None.
    Otherwise, it is a function that the caller must call again and again during the wait.
    `coalesce.common.progress.reporter` describes the arguments of `report`.
    """
    return reporter(None, f"running kernel `{gpu.last_kernel}` on cuda:{gpu.ordinal}", GPU)
