"""Reads the source files that compiled code names, for the lines in messages and profiles.

PTX can name any file. So a file is read only if it is a regular file of limited size, and if the
user gave it: it is in one of the user's folders, or it is Python code of this process.
"""

from __future__ import annotations

import linecache
import os
import stat
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from coalesce._core import printable

_MOST_BYTES = 2**24


def is_given(name: str, folders: Iterable[Path]) -> bool:
    """Return whether the user gave a source file: in one of `folders`, or as code of this process.

    A cell of a notebook is not a file, but Python's linecache has its text.
    """
    if name in linecache.cache:
        return True
    try:
        path = Path(name).resolve()
        if any(path.is_relative_to(folder.resolve()) for folder in folders):
            return True
    except (OSError, ValueError):
        return False
    files = (getattr(module, "__file__", None) for module in [*sys.modules.values()])
    return name.endswith(".py") and path in {Path(file).resolve() for file in files if file}


def lines_of(name: str) -> list[str]:
    """Return the lines of a source file for a report, without line breaks.

    The list is empty if there is no such file, or if it is not a regular file of limited size.
    """
    if name in linecache.cache:
        return printable("".join(linecache.getlines(name))).splitlines()
    try:
        return list(_lines(name, Path(name).stat().st_mtime_ns))
    except (OSError, ValueError):
        return []


@lru_cache(maxsize=64)
def _lines(name: str, changed: int) -> tuple[str, ...]:
    """Return the lines of a file that was changed at the time `changed`."""
    del changed
    # Without O_NONBLOCK, the opening of a pipe would wait for ever.
    with os.fdopen(os.open(name, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return ()
        return tuple(printable(file.read(status.st_size).decode(errors="replace")).splitlines())
