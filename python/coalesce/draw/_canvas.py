"""Canvases: shapes and text that become one static SVG.

The SVG has no ids, so a page can contain any number of pictures. It has no scripts, so it can be
used like any image. Shapes have invisible ``data-`` attributes, from which tests and other programs
can read what a shape stands for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from coalesce.common import require
from coalesce.draw import _palette
from coalesce.draw._palette import FAINT, INK, PAPER, SOFT, Paint
from coalesce.render import markup

WIDTH = 760.0  # the width of every picture in CSS pixels; it fits a notebook's cell on a laptop
MARGIN = 28.0
INNER = WIDTH - 2 * MARGIN

Anchor = Literal["start", "middle", "end"]
Data = dict[str, object]  # data attributes of a mark, which are not visible
Box = tuple[float, float, float, float]  # x, y, width, height

_HATCH = 5.0  # the distance between two lines of a hatching, in pixels


class Picture:
    """A static picture: SVG in a notebook or file, plain text in a terminal.

    Notebooks show the picture. ``print(picture)`` and pytest show its text.

    Attributes
    ----------
    svg : str
        The picture as one ``<svg>`` element, without scripts and ids.
    text : str
        The same content in ASCII, at most 80 columns wide.
    headline : str
        A sentence: what the picture shows.
    width, height : float
        The size in CSS pixels; the picture can be scaled.

    Examples
    --------
    >>> picture = coalesce.draw.warp_access(range(0, 128, 4), 4)
    >>> picture.headline
    '32 lanes, 4-byte loads → 4 sectors in 1 line, 100 % of the bytes used'
    >>> picture.svg[:4]
    '<svg'
    """

    def __init__(self, svg: str, *, text: str, headline: str, width: float, height: float) -> None:
        self.svg = svg
        self.text = text
        self.headline = headline
        self.width = width
        self.height = height

    def __repr__(self) -> str:
        return self.text

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        # An <object> can have tooltips, but an image cannot. GitHub, and notebooks that are not
        # trusted, remove the <object>. They keep its content, which is the same picture as an
        # image.
        attributes = {"type": "image/svg+xml", "data": markup.data_url(self.svg)}
        attributes["width"] = number(self.width)
        return str(markup.tag("object", markup.image(self), "max-width:100%", **attributes))

    def save(self, path: str | Path) -> Path:
        """Write the SVG to a file.

        Parameters
        ----------
        path : str or Path
            The file; its name must end in ``.svg``.

        Returns
        -------
        Path
            The path of the file.

        Raises
        ------
        ValueError
            The name has another ending. To make a PNG, convert the SVG with a browser or Inkscape.
        """
        path = Path(require.path("path", path))
        if path.suffix != ".svg":
            raise ValueError(
                f"path must end in .svg, the only format of pictures; got {path.name!r}"
            )
        path.write_text(self.svg + "\n", encoding="utf-8")
        return path


@dataclass(frozen=True)
class Swatch:
    """An entry of a legend."""

    word: str
    paint: Paint | None = None
    hatched: bool = False
    letter: str = ""


class Canvas:
    """Collects shapes from the top down. `picture` makes an SVG of them."""

    def __init__(self, width: float = WIDTH) -> None:
        self.width = width
        self._body: list[str] = []

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: Paint | None = None,
        stroke: Paint | None = None,
        weight: float = 1,
        radius: float = 0,
        opacity: float = 1,
        tip: str = "",
        data: Data | None = None,
    ) -> None:
        """Draw a rectangle, with a tooltip and invisible ``data-`` attributes if passed."""
        place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
        if radius:
            place += f' rx="{number(radius)}"'
        if opacity != 1:
            place += f' opacity="{number(opacity)}"'
        self._shape("rect", place, fill, stroke, weight, tip, data)

    def path(
        self,
        d: str,
        *,
        stroke: Paint,
        weight: float = 1,
        dash: str = "",
        opacity: float = 1,
        data: Data | None = None,
    ) -> None:
        """Draw a line along the commands of an SVG path."""
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        if opacity != 1:
            extra += f' opacity="{number(opacity)}"'
        self._shape("path", f'd="{d}"{extra}', None, stroke, weight, "", data)

    def fill(self, boxes: list[Box], paint: Paint, data: Data | None = None) -> None:
        """Fill rectangles, all in one path."""
        d = "".join(
            f"M{number(x)} {number(y)}h{number(w)}v{number(h)}h-{number(w)}z"
            for x, y, w, h in boxes
        )
        self._shape("path", f'd="{d}"', paint, None, 1, "", data)

    def hatch(self, boxes: list[Box], paint: Paint, data: Data | None = None) -> None:
        """Fill rectangles with diagonal lines. They mark bytes that are moved but not used."""
        tint, lines = [], []
        for x, y, width, height in boxes:
            w, h = number(width), number(height)
            tint.append(f"M{number(x)} {number(y)}h{w}v{h}h-{w}z")
            start = _HATCH / 2 - height  # the x at which the first line meets the bottom edge
            while start < width:
                low, high = max(start, 0.0), min(start + height, width)
                d = number(high - low)
                lines.append(f"M{number(x + low)} {number(y + height - (low - start))}l{d}-{d}")
                start += _HATCH
        self._shape("path", f'd="{"".join(tint)}" opacity=".16"', paint, None, 1, "", data)
        self.path("".join(lines), stroke=paint, weight=0.9, opacity=0.75)

    def text(
        self,
        x: float,
        y: float,
        content: str,
        *,
        size: float = 11,
        paint: Paint = INK,
        anchor: Anchor = "start",
        bold: bool = False,
        most: float = 0,
    ) -> None:
        """Write a line of text with its baseline at y.

        If the line would be wider than `most`, the letters are made smaller.
        """
        if most:
            size = min(size, size * most / text_width(content, size, bold))
        style = f'font-size="{number(size)}"'
        if anchor != "start":
            style += f' text-anchor="{anchor}"'
        if bold:
            style += ' font-weight="600"'
        self._body.append(
            f'<text x="{number(x)}" y="{number(y)}" {style} {_paint("fill", paint)}>'
            f"{clean(content)}</text>"
        )

    def row(
        self,
        y: float,
        entries: list[tuple[float, str]],
        *,
        size: float = 11,
        paint: Paint = INK,
        bold: bool = False,
    ) -> None:
        """Write short texts on one baseline, each centred on its x."""
        if not entries:
            return
        weight = ' font-weight="600"' if bold else ""
        spans = "".join(
            f'<tspan x="{number(x)}">{clean(content)}</tspan>' for x, content in entries
        )
        self._body.append(
            f'<text y="{number(y)}" font-size="{number(size)}" text-anchor="middle"{weight} '
            f"{_paint('fill', paint)}>{spans}</text>"
        )

    def headline(self, y: float, title: str | None, headline: str, note: str = "") -> float:
        """Write the title, headline and note at the top. Return the y coordinate below them."""
        if title is not None:
            require.text("title", title)
        if title:
            y += 13
            self.text(MARGIN, y, title, size=12.5, paint=SOFT, most=INNER)
            y += 5
        y += 16
        self.text(MARGIN, y, headline, size=15, bold=True, most=INNER)
        if note:
            y += 19
            self.text(MARGIN, y, note, size=12.5, paint=SOFT, most=INNER)
        return y + 14

    def legend(self, y: float, entries: list[Swatch]) -> float:
        """Draw the legend of colours and hatchings in one or more rows. Return the y below it."""
        x = MARGIN
        for entry in entries:
            wide = 22 + text_width(entry.word, 11)
            if x > MARGIN and x + wide > self.width - MARGIN:
                x, y = MARGIN, y + 18
            if entry.letter:
                self.text(x + 8, y + 10, entry.letter, bold=True, anchor="middle")
            elif entry.paint and entry.hatched:
                self.hatch([(x, y, 16, 11)], entry.paint)
                self.rect(x, y, 16, 11, stroke=entry.paint)
            elif entry.paint:
                outline = entry.paint if entry.paint.text else FAINT
                self.rect(x, y, 16, 11, fill=entry.paint, stroke=outline)
            self.text(x + 22, y + 9.5, entry.word, paint=SOFT)
            x += wide + 16
        return y + 11

    def picture(
        self, height: float, *, headline: str, description: str, text: str, paper: bool = True
    ) -> Picture:
        """Return the picture: a background as large as the drawing, and all shapes on top of it."""
        sheet = (
            f'<rect width="100%" height="100%" rx="6" {_paint("fill", PAPER)}/>' if paper else ""
        )
        size = f'width="{number(self.width)}" height="{number(height)}"'
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="coalesce-picture" {size} '
            f'viewBox="0 0 {number(self.width)} {number(height)}" role="img" '
            f'aria-label={quoteattr(legal(headline))} font-family="{_palette.FONT}" '
            'style="max-width:100%;height:auto">'
            f"<desc>{clean(description)}</desc><style>{_palette.SHEET}</style>"
            f"{sheet}{''.join(self._body)}</svg>"
        )
        return Picture(svg, text=text, headline=headline, width=self.width, height=height)

    def _shape(
        self,
        kind: str,
        place: str,
        fill: Paint | None,
        stroke: Paint | None,
        weight: float,
        tip: str,
        data: Data | None,
    ) -> None:
        classes = [
            f"{c}-{p.name}" for c, p in (("f", fill), ("s", stroke)) if p and p.light != p.dark
        ]
        style = f' class="{" ".join(classes)}"' if classes else ""
        style += f' fill="{fill.light if fill else "none"}"'
        if stroke:
            style += f' stroke="{stroke.light}"'
            if weight != 1:
                style += f' stroke-width="{number(weight)}"'
        end = f"><title>{clean(tip)}</title></{kind}>" if tip else "/>"
        self._body.append(f"<{kind} {place}{style}{_data(data)}{end}")


def _paint(attribute: Literal["fill", "stroke"], paint: Paint) -> str:
    themed = f'class="{attribute[0]}-{paint.name}" ' if paint.light != paint.dark else ""
    return f'{themed}{attribute}="{paint.light}"'


def _data(data: Data | None) -> str:
    return "".join(
        f" data-{name}={quoteattr(legal(str(value)))}" for name, value in (data or {}).items()
    )


def number(value: float) -> str:
    """Return a number as text: with one decimal at most, or two if it is smaller than 1."""
    return (
        f"{value:.2f}".rstrip("0").rstrip(".")
        if abs(value) < 1
        else f"{value:.1f}".removesuffix(".0")
    )


def text_width(content: str, size: float, bold: bool = False) -> float:
    """Return an upper estimate of the width of a text, in a wide font (DejaVu Sans)."""
    return len(content) * size * (0.66 if bold else 0.6)


def legal(content: str) -> str:
    """Replace characters that XML forbids, even as references such as ``&#0;``, by U+FFFD."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", content)


def clean(content: str) -> str:
    """Return text escaped for XML."""
    return escape(legal(content))
