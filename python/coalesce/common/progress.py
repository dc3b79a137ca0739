"""Progress bars for long launches and compilations. A bar also says how to stop the run."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

# Shorter launches show nothing.
PATIENCE_SECONDS = 2.0
# After this number of seconds, a progress bar also says how to stop the run, even if the progress
# is not known. If there is no terminal and no notebook, a line on stderr names the running kernel.
NOTICE_SECONDS = 10.0
# Two special values of `unit`. SECONDS: the progress is the elapsed time, and the total is the time
# limit. GPU: the kernel runs on a GPU, where Ctrl-C ends only the wait for the kernel.
SECONDS = "seconds"
GPU = "kernels of a GPU"
_STOP = "Ctrl-C stops it"
_STOP_CELL = "interrupting the cell stops it"
_WAIT_ONLY = {
    _STOP: "Ctrl-C stops the wait, and only the end of this process stops the kernel",
    _STOP_CELL: "interrupting the cell stops the wait, and only a restart stops the GPU's kernel",
}

Report = Callable[[int, int], object]


@contextmanager
def reporter(
    progress: bool | Report | None, what: str, unit: str = "blocks"
) -> Iterator[Report | None]:
    """Show the progress of a run: ``with reporter(...) as report``.

    `report` is a function. The run calls it with two numbers: how many blocks are finished, and how
    many there are in all. If nothing is to be shown, `report` is None.

    Parameters
    ----------
    progress : bool or callable, optional
        False shows nothing. True shows a bar. If you pass a function, the run calls it directly.
        None shows a bar after two seconds in a terminal or a notebook. Elsewhere, None writes one
        line to stderr after ten seconds. With None, only runs of the main thread are shown. There
        is never more than one bar at a time.
    what : str
        The text of the bar: what runs.
    unit : str
        The unit of the two numbers, by default blocks.
    """
    if progress is not None and not isinstance(progress, bool):
        if not callable(progress):
            raise TypeError(
                f"`progress` must be True, False, None, or a function of two numbers: the number "
                f"of finished {unit} and the number of all {unit}; got {type(progress).__name__}"
            )
        yield progress
        return
    bar = None if progress is False else _bar(what, unit, always=progress is True)
    try:
        yield bar
    finally:
        if bar is not None:
            bar.close()


def _bar(what: str, unit: str, always: bool) -> _Bar | None:
    if not always and threading.current_thread() is not threading.main_thread():
        return None
    patience = 0.0 if always else PATIENCE_SECONDS
    if _in_notebook():
        return _NotebookBar(what, unit, patience)
    if always or (sys.stderr is not None and sys.stderr.isatty()):
        return _TerminalBar(what, unit, patience)
    return _TerminalLine(what, unit, NOTICE_SECONDS)


class _Bar:
    """A progress bar. It appears at the first update that comes after `patience` seconds."""

    # The bar that is shown now. If a second bar starts in the meantime, it is not shown.
    _shown: ClassVar[_Bar | None] = None
    stop = _STOP

    def __init__(self, what: str, unit: str, patience: float) -> None:
        self.what = f"simulating {what}" if unit == "blocks" else what
        self.unit = unit
        self.start = time.monotonic()
        self.patience = patience

    def __call__(self, done: int, total: int) -> None:
        seconds = time.monotonic() - self.start
        countable = total > 1 and self.unit != SECONDS
        if seconds < (self.patience if countable else max(self.patience, _notice(self.patience))):
            return
        if _Bar._shown is None:
            _Bar._shown = self
        if _Bar._shown is self:
            self.show(done, total)

    def counted(self, done: int, total: int) -> str:
        """Return "1,234 of 5,678 blocks", or the time since the start if nothing is counted."""
        seconds = time.monotonic() - self.start
        if self.unit == SECONDS:
            text = f"{done:,} of at most {total:,} seconds"
        elif total > 1:
            text = f"{done:,} of {total:,} {self.unit}"
        else:
            text = f"for {clock(seconds)}"
        stop = _WAIT_ONLY[self.stop] if self.unit == GPU else self.stop
        return f"{text}; {stop}" if seconds >= NOTICE_SECONDS else text

    def left(self, done: int, total: int) -> str:
        """Return the remaining time as text. The text is empty if the time is not known."""
        if self.unit == SECONDS or total <= 1:
            return ""
        return time_left(time.monotonic() - self.start, done, total)

    def show(self, done: int, total: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Remove the bar from the screen."""
        if _Bar._shown is self:
            _Bar._shown = None
            self.clear()

    def clear(self) -> None:
        raise NotImplementedError


def _notice(patience: float) -> float:
    """Return after how many seconds to show a run whose progress cannot be counted."""
    return 0.0 if patience == 0 else NOTICE_SECONDS


class _TerminalLine(_Bar):
    """One line on stderr, for logs."""

    _said = False

    def show(self, done: int, total: int) -> None:
        if not self._said and sys.stderr is not None:
            self._said = True
            print(f"coalesce: {self.what}: {self.counted(done, total)}", file=sys.stderr)

    def clear(self) -> None:
        pass


class _TerminalBar(_Bar):
    """A progress bar of the package rich on stderr. It is removed at the end."""

    _progress: Any = None

    def show(self, done: int, total: int) -> None:
        if self._progress is None:
            from rich import progress
            from rich.console import Console

            self._progress = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.TextColumn("{task.fields[counted]}"),
                progress.TextColumn("{task.fields[left]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task(self.what, total=total, counted="", left="")
        counted, left = self.counted(done, total), self.left(done, total)
        self._progress.update(self._task, completed=done, counted=counted, left=left)

    def clear(self) -> None:
        if self._progress is not None:
            self._progress.stop()


class _NotebookBar(_Bar):
    """An HTML bar that a notebook updates in place. It is removed at the end."""

    _handle: Any = None
    stop = _STOP_CELL

    def show(self, done: int, total: int) -> None:
        self._display(
            f'{self.what} <progress value="{done}" max="{total}"></progress> '
            f"{self.counted(done, total)} {self.left(done, total)}"
        )

    def clear(self) -> None:
        if self._handle is not None:
            self._display("")

    def _display(self, html: str) -> None:
        ipython: Any = importlib.import_module("IPython.display")
        if self._handle is None:
            self._handle = ipython.display(ipython.HTML(html), display_id=True)
        else:
            self._handle.update(ipython.HTML(html))


def time_left(seconds: float, done: int, total: int) -> str:
    """Estimate the remaining time of a run from its rate so far: ``"1:05 left"``.

    `seconds` is the time so far, in which `done` of `total` parts were finished. If `done` is 0,
    the text is empty.
    """
    if done == 0:
        return ""
    return f"{clock(seconds / done * (total - done))} left"


def clock(seconds: float) -> str:
    """Return a time as text, such as "1:05" for 65 seconds and "1:00:05" for 3605 seconds."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell"
