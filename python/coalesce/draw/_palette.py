"""The colours of every picture and plot.

LIGHT AND DARK. A picture must be readable on a light page and on a dark page. But an SVG that is
shown as an image does not know the theme of its page. It only knows the theme of the operating
system. Therefore a picture has its own background, and each colour (`Paint`) has a light and a dark
value. The shapes of the SVG contain the light values, and its style sheet contains the dark values.
GitHub removes the style sheet from notebooks. Then the picture is light.

COLOURS. The colours of groups, such as sectors, come from M. Okabe and K. Ito, "Color Universal
Design" (2008). Colour-blind readers can distinguish them. Yellow is not used, because it is too
pale on white. Vermilion is only used for conflicts and other errors. No meaning depends on the
colour alone: sectors also have letters, lanes have numbers, and bytes that are moved but not used
are hatched.
"""

from __future__ import annotations

import string
from dataclasses import dataclass


@dataclass(frozen=True)
class Paint:
    """A colour, with one value for light pages and one for dark pages."""

    name: str
    light: str
    dark: str
    text: str = ""  # the colour of text on top of this colour; "" if there is never such text


_DARK_TEXT, _LIGHT_TEXT = "#14171c", "#ffffff"

PAPER = Paint("paper", "#ffffff", "#14171c")
INK = Paint("ink", "#1b1f24", "#e8ebef")  # headlines, labels
SOFT = Paint("soft", "#59636e", "#a3adb8")  # explanations, axes
FAINT = Paint("faint", "#c4cad2", "#454d57")  # grids
WASH = Paint("wash", "#f1f3f5", "#20252c")  # cells in which nothing happens

BLUE = Paint("blue", "#0072b2", "#1f80bf", _LIGHT_TEXT)
ORANGE = Paint("orange", "#e69f00", "#e69f00", _DARK_TEXT)
GREEN = Paint("green", "#009e73", "#009e73", _DARK_TEXT)
PURPLE = Paint("purple", "#cc79a7", "#cc79a7", _DARK_TEXT)
SKY = Paint("sky", "#56b4e9", "#56b4e9", _DARK_TEXT)
# Darker and lighter versions of the colours, for the groups 5 to 9.
NAVY = Paint("navy", "#2d3f8f", "#5b6fc4", _LIGHT_TEXT)
BROWN = Paint("brown", "#7a5200", "#8f6a1f", _LIGHT_TEXT)
FOREST = Paint("forest", "#005f45", "#1f7a5f", _LIGHT_TEXT)
PLUM = Paint("plum", "#8c3f6b", "#9c5480", _LIGHT_TEXT)
STEEL = Paint("steel", "#8aa4b8", "#8aa4b8", _DARK_TEXT)
ALERT = Paint("alert", "#d55e00", "#d55e00", _DARK_TEXT)

GROUPS = (BLUE, ORANGE, GREEN, PURPLE, SKY, NAVY, BROWN, FOREST, PLUM, STEEL)
PAINTS = (PAPER, INK, SOFT, FAINT, WASH, *GROUPS, ALERT)

# A letter for each sector, in the order of addresses. There are 64 letters, because the largest
# warps have 64 lanes (on AMD GPUs). If the lanes touch more sectors, letter() returns "*" for the
# sectors that follow.
LETTERS = string.ascii_uppercase + string.ascii_lowercase + string.digits + "#@"

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def group(number: int) -> Paint:
    """Return the colour of a sector, warp or half-warp with this number.

    Neighbouring numbers have different colours.
    """
    return GROUPS[number % len(GROUPS)]


def letter(number: int) -> str:
    """Return the letter of the sector with this number: "A" for 0, and "*" for 64 or more."""
    return LETTERS[number] if number < len(LETTERS) else "*"


def on(paint: Paint) -> Paint:
    """Return the colour of a text whose background has the colour `paint`."""
    if not paint.text:
        return INK
    return Paint("onlight" if paint.text == _DARK_TEXT else "ondark", paint.text, paint.text)


def _sheet() -> str:
    light, dark = (
        ";".join(f"--{p.name}:{getattr(p, theme)}" for p in PAINTS if p.light != p.dark)
        for theme in ("light", "dark")
    )
    picture = ".coalesce-picture"
    # The second and the third rule are for pages on which the reader can choose a theme
    # (JupyterLab, VS Code, the Sphinx themes). These rules are more specific than the first rule,
    # so they override the theme of the system.
    dark_pages = ",".join(
        f"{page} {picture}"
        for page in ("[data-jp-theme-light=false]", "[data-theme=dark]", "body.vscode-dark")
    )
    light_pages = ",".join(
        f"{page} {picture}"
        for page in ("[data-jp-theme-light=true]", "[data-theme=light]", "body.vscode-light")
    )
    uses = "".join(
        f"{picture} .{attribute[0]}-{p.name}{{{attribute}:var(--{p.name})}}"
        for p in PAINTS
        for attribute in ("fill", "stroke")
        if p.light != p.dark
    )
    return (
        f"{picture}{{{light}}}"
        f"@media (prefers-color-scheme:dark){{{picture}{{{dark}}}}}"
        f"{dark_pages}{{{dark}}}{light_pages}{{{light}}}{uses}"
    )


SHEET = _sheet()
