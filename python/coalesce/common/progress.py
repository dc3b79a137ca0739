"""A bar that tells how far a long simulation is and how long it will still take."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Shorter launches show nothing.
PATIENCE_SECONDS = 2.0

Report = Callable[[int, int], object]


@contextmanager
def reporter(
    progress: bool | Report | None, what: str, unit: str = "blocks"
) -> Iterator[Report | None]:
    """Give the function to call with the numbers of blocks done and in all, or None.

    Parameters
    ----------
    progress : bool or callable, optional
        False shows nothing, True a bar; a callable is called itself. By default there is a bar
        where somebody watches, a terminal or a notebook, after two seconds.
    what : str
        What the bar says is being simulated, or done.
    unit : str
        What is counted, if not blocks.
    """
    if progress is not None and not isinstance(progress, bool):
        if not callable(progress):
            raise TypeError(
                f"progress must be True, False, None or a function of the numbers of {unit} done "
                f"and in all; got {type(progress).__name__}"
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
    patience = 0.0 if always else PATIENCE_SECONDS
    if _in_notebook():
        return _NotebookBar(what, unit, patience)
    if always or sys.stderr.isatty():
        return _TerminalBar(what, unit, patience)
    return None


class _Bar:
    """Shows itself when it has been called for longer than `patience` seconds."""

    def __init__(self, what: str, unit: str, patience: float) -> None:
        self.what = f"simulating {what}" if unit == "blocks" else what
        self.unit = unit
        self.start = time.monotonic()
        self.patience = patience

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self.start >= self.patience and total > 1:
            self.show(done, total)

    def show(self, done: int, total: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class _TerminalBar(_Bar):
    """Rich's bar on stderr, gone when it is done."""

    _progress: Any = None

    def show(self, done: int, total: int) -> None:
        if self._progress is None:
            from rich import progress
            from rich.console import Console

            self._progress = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.TextColumn(f"{{task.completed:,}} of {{task.total:,}} {self.unit}"),
                progress.TextColumn("{task.fields[left]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task(self.what, total=total, left="")
        left = time_left(time.monotonic() - self.start, done, total)
        self._progress.update(self._task, completed=done, left=left)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()


class _NotebookBar(_Bar):
    """An HTML bar that a notebook updates in place, gone when it is done."""

    _handle: Any = None

    def show(self, done: int, total: int) -> None:
        left = time_left(time.monotonic() - self.start, done, total)
        self._display(
            f'{self.what} <progress value="{done}" max="{total}"></progress> '
            f"{done:,} of {total:,} {self.unit} {left}"
        )

    def close(self) -> None:
        if self._handle is not None:
            self._display("")

    def _display(self, html: str) -> None:
        ipython: Any = importlib.import_module("IPython.display")
        if self._handle is None:
            self._handle = ipython.display(ipython.HTML(html), display_id=True)
        else:
            self._handle.update(ipython.HTML(html))


def time_left(seconds: float, done: int, total: int) -> str:
    """Say how long the rest takes if it goes on as in these seconds: ``"1:05 left"``."""
    if done == 0:
        return ""
    left = round(seconds / done * (total - done))
    hours, minutes = left // 3600, left // 60 % 60
    clock = f"{hours}:{minutes:02}:{left % 60:02}" if hours else f"{minutes}:{left % 60:02}"
    return f"{clock} left"


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell"
