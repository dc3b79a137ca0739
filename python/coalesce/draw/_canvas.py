"""Makes an SVG from shapes and text.

The SVG has no ids. Therefore a page can contain any number of pictures. The SVG has no scripts
either, so it can be used like any other image. Shapes have invisible ``data-`` attributes. From
these attributes, tests and other programs can read what a shape means.
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
    """A picture, as an SVG and as text.

    Notebooks show the SVG. ``print(picture)`` and pytest show the text.

    Attributes
    ----------
    svg : str
        The picture as an ``<svg>`` element, without scripts and ids.
    text : str
        The picture in ASCII. It is at most 80 columns wide.
    headline : str
        A sentence that says what the picture shows.
    width, height : float
        The size in CSS pixels. A page may show the picture larger or smaller.

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
            The path of the file. The name must end in ``.svg``.

        Returns
        -------
        Path
            The path of the file.

        Raises
        ------
        ValueError
            The name does not end in ``.svg``. If you need a PNG, convert the SVG with a browser or
            with Inkscape.
        """
        path = Path(require.path("path", path))
        if path.suffix != ".svg":
            raise ValueError(
                f"`path` must end in .svg, the only format of pictures; got {path.name!r}"
            )
        path.write_text(self.svg + "\n", encoding="utf-8")
        return path


@dataclass(frozen=True)
class Swatch:
    """An entry of a legend: a colour, a hatching or a letter, and its explanation."""

    word: str  # the explanation
    paint: Paint | None = None
    hatched: bool = False
    letter: str = ""


class Canvas:
    """Collects shapes and text. The method `picture` makes an SVG of them."""

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
        """Draw a rectangle.

        Its upper left corner is (x, y). `fill` is the colour inside, and `stroke` is the colour of
        the outline. `weight` is the width of the outline, and `radius` is the radius of the
        corners, in pixels. `opacity` runs from 0 (invisible) to 1. `tip` is a tooltip. `data` are
        invisible ``data-`` attributes.
        """
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
        """Draw a line. `d` describes the line in the syntax of SVG, such as "M0 0h10".

        `stroke` is the colour of the line, and `weight` is its width in pixels. `dash` makes the
        line dashed: with "3 2", each dash has 3 pixels, and each gap has 2. `opacity` and `data`
        are the same as for `rect`.
        """
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        if opacity != 1:
            extra += f' opacity="{number(opacity)}"'
        self._shape("path", f'd="{d}"{extra}', None, stroke, weight, "", data)

    def fill(self, boxes: list[Box], paint: Paint, data: Data | None = None) -> None:
        """Fill several rectangles with the colour `paint`. Together, they are one SVG element.

        `boxes` has an (x, y, width, height) tuple for each rectangle. `data` is the same as for
        `rect`.
        """
        d = "".join(
            f"M{number(x)} {number(y)}h{number(w)}v{number(h)}h-{number(w)}z"
            for x, y, w, h in boxes
        )
        self._shape("path", f'd="{d}"', paint, None, 1, "", data)

    def hatch(self, boxes: list[Box], paint: Paint, data: Data | None = None) -> None:
        """Fill several rectangles with diagonal lines of the colour `paint`.

        In pictures, such lines mean bytes that are moved but not used. `boxes` has an
        (x, y, width, height) tuple for each rectangle. `data` is the same as for `rect`.
        """
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
        """Write the line of text `content` with its baseline at y.

        `size` is the font size in pixels, and `paint` is the colour. `anchor` says which point of
        the line is at x: its "start", "middle" or "end". If the line would be wider than `most`
        pixels, the letters are made smaller. With 0, there is no limit.
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
        """Write several short texts on the same baseline.

        `entries` has an (x, text) pair for each text. Each text is centred at its coordinate x.
        The other parameters are the same as for the method `text`.
        """
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
        """Write the title, the headline and the note below the y coordinate `y`.

        Return the y coordinate below these texts.

        `title` may be None, and `note` may be empty.
        """
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
        """Draw a legend of `entries` in one or more rows, the first at the y coordinate `y`.

        Return the y coordinate below the legend.
        """
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
        """Make a picture of all shapes that were drawn.

        `height` is its height in pixels. `headline` says what the picture shows, `description`
        describes it to readers who cannot see it, and `text` is the picture in ASCII. With `paper`,
        the picture has a background.
        """
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
    """Return a number as text with at most one decimal place, or two for numbers below 1."""
    return (
        f"{value:.2f}".rstrip("0").rstrip(".")
        if abs(value) < 1
        else f"{value:.1f}".removesuffix(".0")
    )


def text_width(content: str, size: float, bold: bool = False) -> float:
    """Estimate the width of a text in pixels.

    The estimate is for a wide font (DejaVu Sans). In most other fonts, the text is narrower.
    """
    return len(content) * size * (0.66 if bold else 0.6)


def legal(content: str) -> str:
    """Replace each character that XML does not allow, such as a NUL character, by U+FFFD."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", content)


def clean(content: str) -> str:
    """Escape a text for XML: ``<`` becomes ``&lt;``, and so on."""
    return escape(legal(content))
