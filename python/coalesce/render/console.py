"""Converts reports, which are objects of the package ``rich``, to text.

In a terminal, the text has colours. Elsewhere, it is plain text.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

LEAST, MOST = 80, 100  # the smallest and largest width of reports, in columns

# Replacements for characters that the encoding of stdout does not have.
_ASCII = str.maketrans("█▉▊▋▌▍▎▏▒▲✓│±…↳", "######||=!+|~.>")


def as_text(item: Any, width: int = MOST, *, color: bool = False) -> str:
    """Check `width` and `color`, which the user passed. Then return ``render(item, ...)``."""
    # require imports numpy, which takes long. `render` also serves programs that do without numpy.
    from coalesce.common import require

    return render(item, require.whole("width", width, 1), color=require.flag("color", color))


def render(item: Any, width: int = MOST, *, color: bool = False) -> str:
    """Return the text of `item`, which is a table or another object of the package ``rich``.

    Lines have at most `width` characters. A width below 80 counts as 80, and a width above 100 as
    100. With `color`, the text has the codes that make a terminal show colours.
    """
    from rich.console import Console

    console = Console(
        file=io.StringIO(),
        width=max(LEAST, min(MOST, width)),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,  # "[b]" in the name of a kernel is no style
        emoji=False,
        legacy_windows=False,
        force_jupyter=False,  # otherwise rich would also display the output itself
    )
    with console.capture() as capture:
        console.print(item, soft_wrap=True)
    return "\n".join(line if color else line.rstrip() for line in capture.get().splitlines())


def columns(terminal: bool) -> int:
    """Return the columns of stdout: those of the terminal, or else COLUMNS, or else 100."""
    if terminal:
        return shutil.get_terminal_size((MOST, 24)).columns
    wanted = os.environ.get("COLUMNS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) else MOST


def shown(item: Any) -> str:
    """Return the text that stdout shows for a table or other object of the package ``rich``.

    If stdout is a terminal with colours, the text has colours. Characters that the encoding of
    stdout does not have are replaced.
    """
    from rich.console import Console

    console = Console()  # it reads NO_COLOR, FORCE_COLOR and TERM, and recognizes notebooks
    color = console.is_terminal and not console.no_color and console.color_system is not None
    text = render(item, columns(console.is_terminal), color=color)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text


def wrapped(lines: Iterable[str]) -> str:
    """Join lines, and break those of more than 79 characters between words.

    The rest of a broken line is indented as far as the line, and behind its mark ("-" or "1.").
    """
    broken = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        mark = re.match(r"(- |\d+\. )?", line[indent:])
        rest = " " * (indent + (mark.end() if mark else 0))
        broken.append(textwrap.fill(line, LEAST - 1, subsequent_indent=rest))
    return "\n".join(line for line in broken if line)
