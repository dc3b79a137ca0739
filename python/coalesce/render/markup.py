"""Makes the HTML of reports, for notebooks, for GitHub and for files.

A report must stay readable where parts of its HTML are removed. JupyterLab removes `<svg>`,
`<style>` and unknown tags from notebooks that are not trusted. GitHub also removes all styles.
Therefore:

- Reports consist of tables and text. There are no scripts.
- Bars are made of characters. Pictures are `<img>` with an `alt` text.
- Styles are inline, and the report is readable without them.
- Text has the colour of the page, which may be light or dark. Only good and bad values have their
  own colours: Okabe and Ito's blue and vermilion. Colour-blind readers can distinguish the two, and
  both are readable on white and on black.

The functions return `markupsafe.Markup`, a string that is HTML. If you pass a plain string to these
functions, they escape it. If you pass `Markup`, they do not change it. So pass plain text, and do
not escape it yourself. Connect pieces with `joined` or ``+``, and not with an f-string: the
result of an f-string is a plain string, and would be escaped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, TypeAlias

from markupsafe import Markup, escape

from coalesce.common import require

BAD, GOOD = "#d55e00", "#2f86c9"
FAINT = "opacity:0.65"
MONO = "font-family:Menlo,Consolas,monospace"
LINE = "border-top:1px solid rgba(128,128,128,0.35)"

# Text or HTML, in one piece or in several.
Content: TypeAlias = str | Iterable[str]

_PAGE = Markup(
    """\
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
)


def joined(parts: Iterable[str], between: str = "") -> Markup:
    """Join the pieces in `parts` to one piece of HTML, with the separator `between`.

    Pieces of text are escaped. Pieces of HTML (`Markup`) are not changed.
    """
    return escape(between).join(parts)


def tag(name: str, content: Content | None = None, style: str = "", **attributes: str) -> Markup:
    """Return the HTML element `name`, such as "p", with its content.

    `style` is CSS, such as "color:red", and `attributes` are other attributes of the element. If
    `content` is None, the element has no end tag, as for ``<img>``.
    """
    if style:
        attributes["style"] = style
    text = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    if content is None:
        return Markup(f"<{name}{text}>")
    inner = escape(content) if isinstance(content, str) else joined(content)
    return Markup(f"<{name}{text}>{inner}</{name}>")


def code_of(text: str) -> Markup:
    """Return a line of source code as HTML. Its indentation stays even if styles are removed."""
    code = text.lstrip()
    space = Markup("&nbsp;")
    indent = space * len(text[: len(text) - len(code)].expandtabs(4))
    style = f"{MONO};font-size:13px;background-color:transparent;padding:0"
    return tag("code", indent + (code or space), style)


def row(cells: Content, style: str = "") -> Markup:
    """Return a row of a table, without the striped background that notebooks add.

    `cells` are the results of `cell`. `style` is CSS, such as "color:red".
    """
    return tag("tr", cells, f"background-color:transparent;{style}".rstrip(";"))


def cell(content: Content, style: str = "", align: str = "left", span: int = 1) -> Markup:
    """Return a cell of a table.

    `content` is text or HTML. `style` is CSS, such as "color:red". `align` is "left", "right" or
    "center". `span` is the number of columns that the cell covers.
    """
    attributes = {"colspan": str(span)} if span > 1 else {}
    base = f"text-align:{align};vertical-align:top;padding:1px 8px;border:0;white-space:nowrap"
    return tag("td", content, f"{base};{style}".rstrip(";"), **attributes)


def table(rows: Content, style: str = "") -> Markup:
    """Return a table that is as wide as its content.

    `rows` are the results of `row`. `style` is CSS, such as "color:red".
    """
    base = "border-collapse:collapse;border:0;margin:8px 0"
    return tag("table", tag("tbody", rows), f"{base};{style}".rstrip(";"))


class Drawing(Protocol):
    """A picture with the attributes that `image` needs, such as `coalesce.draw.Picture`."""

    @property
    def svg(self) -> str: ...
    @property
    def width(self) -> float: ...
    @property
    def headline(self) -> str: ...


def image(picture: Drawing) -> Markup:
    """Return a picture as HTML. If the image is missing, a reader sees the picture's headline."""
    return image_of(picture.svg, picture.headline, width=f"{picture.width:.0f}")


def image_of(svg: str, alt: str, style: str = "max-width:100%", **attributes: str) -> Markup:
    """Return an ``<img>`` that contains the whole SVG. `alt` is shown if the image is missing.

    `style` is CSS, and `attributes` are other attributes of the element.
    """
    return tag("img", None, style, alt=alt, src=data_url(svg), **attributes)


def data_url(svg: str) -> str:
    """Return a ``data:`` URL that contains the whole SVG, so that no other file is needed."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def folded(summary: Content, content: str, *, unfolded: bool = False) -> Markup:
    """Return HTML that shows the line `summary` and hides `content`.

    If the reader clicks on the line, the content is shown below it. With `unfolded`, the content
    is shown from the start. This is HTML's <details>, which needs no JavaScript.
    """
    opened = {"open": ""} if unfolded else {}
    return tag("details", [tag("summary", summary), content], **opened)


def write(title: str, body: Markup, path: str | Path | None) -> str | None:
    """Write an HTML page with this title and body to a file. If `path` is None, return the page."""
    where = None if path is None else require.path("path", path)
    page = str(_PAGE.format(title=title, body=body))
    if where is None:
        return page
    Path(where).write_text(page, encoding="utf-8")
    return None
