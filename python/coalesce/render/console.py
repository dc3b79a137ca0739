"""Renders objects of the package rich as text: coloured in a terminal, plain elsewhere."""

from __future__ import annotations

import io
import shutil
import sys
from typing import Any

from coalesce.common import require
from coalesce.render import plain

LEAST, MOST = 80, 100  # the smallest and largest width of reports, in columns

# The characters to write if the encoding of a stream lacks these.
_ASCII = str.maketrans("█▉▊▋▌▍▎▏▒▲✓│±…↳", "######||=!+|~.>")


def as_text(item: Any, width: int = MOST, *, color: bool = False) -> str:
    """Render an item at a width of 80 to 100 columns; without colour as plain text."""
    from rich.console import Console

    width = require.whole("width", width, 1)
    color = require.flag("color", color)
    console = Console(
        file=io.StringIO(),
        width=max(LEAST, min(MOST, width)),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        legacy_windows=False,
        force_jupyter=False,  # otherwise rich would also display the output itself
    )
    lines = plain.printed(item, console) if color else plain.lines(item, console)
    return "\n".join(line if color else line.rstrip() for line in lines)


def shown(item: Any) -> str:
    """Return an item as text for `repr`, with colours if stdout is a terminal that has them.

    Characters that the encoding of stdout lacks are replaced.
    """
    from rich.console import Console

    console = Console()  # it reads NO_COLOR, FORCE_COLOR and TERM, and recognizes notebooks
    color = console.is_terminal and not console.no_color and console.color_system is not None
    width = shutil.get_terminal_size((MOST, 24)).columns if console.is_terminal else MOST
    text = as_text(item, width, color=color)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text
