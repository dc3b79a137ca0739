"""HTML for saved notebooks, GitHub and files: light and dark, without scripts.

JupyterLab sanitizes the output of notebooks that are not trusted: it drops `<svg>`, `<style>` and
unknown tags. GitHub drops all styles, too. Therefore reports are tables and text, bars are
characters, styles are inline and only decorate, and pictures are `<img>` with an `alt`. Text has
the colour of the page. The accents (Okabe and Ito's vermilion and blue, which colour-blind readers
can distinguish) are readable on white and on black.

`html.escape` of the standard library suffices here: all text is escaped where it enters an element.
"""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import Protocol

from coalesce.common import checks

BAD, GOOD = "#d55e00", "#2f86c9"
FAINT = "opacity:0.65"
MONO = "font-family:Menlo,Consolas,monospace"
LINE = "border-top:1px solid rgba(128,128,128,0.35)"

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
  :root {{ color-scheme: light dark; }}
  body {{ margin: 2rem auto; padding: 0 1rem; max-width: 64rem; color: #1b1f24; background: #fff;
         font: 15px/1.5 system-ui, sans-serif; }}
  @media (prefers-color-scheme: dark) {{ body {{ color: #e2e5e9; background: #15181c; }} }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def tag(name: str, content: str, style: str = "", **attributes: str) -> str:
    """Return an element; `content` is HTML."""
    if style:
        attributes["style"] = style
    given = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{given}>{content}</{name}>"


def code_of(text: str) -> str:
    """Return a line of source, with its indentation even if styles are dropped."""
    code = text.lstrip()
    indent = "&nbsp;" * len(text[: len(text) - len(code)].expandtabs(4))
    style = f"{MONO};font-size:13px;background-color:transparent;padding:0"
    return tag("code", indent + (escape(code) or "&nbsp;"), style)


def row(cells: list[str], style: str = "") -> str:
    """Return a row of a table, without the striped background that notebooks add."""
    return tag("tr", "".join(cells), f"background-color:transparent;{style}".rstrip(";"))


def cell(content: str, style: str = "", align: str = "left", span: int = 1) -> str:
    """Return a table's cell; `content` is HTML."""
    attributes = {"colspan": str(span)} if span > 1 else {}
    base = f"text-align:{align};vertical-align:top;padding:1px 8px;border:0;white-space:nowrap"
    return tag("td", content, f"{base};{style}".rstrip(";"), **attributes)


def table(rows: list[str], style: str = "") -> str:
    """Return a table that is as wide as its content."""
    base = "border-collapse:collapse;border:0;margin:8px 0"
    return tag("table", tag("tbody", "".join(rows)), f"{base};{style}".rstrip(";"))


class Drawing(Protocol):
    """The attributes of `coalesce.draw.Picture` that an image needs."""

    @property
    def svg(self) -> str: ...
    @property
    def width(self) -> float: ...
    @property
    def headline(self) -> str: ...


def image(picture: Drawing) -> str:
    """Return a picture; its headline is shown if pictures are not."""
    data = "data:image/svg+xml;base64," + base64.b64encode(picture.svg.encode()).decode()
    size = f'width="{picture.width:.0f}" style="max-width:100%"'
    return f'<img alt="{escape(picture.headline)}" {size} src="{data}">'


def folded(summary: str, content: str, *, unfolded: bool = False) -> str:
    """Return folded content under a line that a click opens, without a script."""
    opened = " open" if unfolded else ""
    return f"<details{opened}><summary>{summary}</summary>{content}</details>"


def write(title: str, body: str, path: str | Path | None) -> str | None:
    """Write `body` as a whole page, or return the page if there is no path."""
    where = None if path is None else checks.path("path", path)
    page = _PAGE.format(title=escape(title), body=body)
    if where is None:
        return page
    Path(where).write_text(page, encoding="utf-8")
    return None
