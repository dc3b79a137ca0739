"""Draws grids of cells that have states, and shows several pictures one after the other.

A `Player` needs no script: radio buttons choose the picture, and CSS shows it. Where a page removes
styles, as GitHub does, the first and the last picture remain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from markupsafe import Markup

from coalesce.common import require
from coalesce.draw._canvas import INNER, MARGIN, Box, Canvas, Picture, Swatch, text_width
from coalesce.draw._palette import ALERT, BLUE, FAINT, INK, ORANGE, SKY, SOFT, WASH, Paint, on
from coalesce.render import markup
from coalesce.render.markup import tag

# The states of a cell: its colour, whether it is hatched, and its letter in ASCII.
_STATES: dict[str, tuple[Paint, bool, str]] = {
    "": (WASH, False, " "),
    "used": (BLUE, False, "#"),
    "new": (ORANGE, False, "+"),
    "held": (SKY, False, "o"),
    "beside": (BLUE, True, "."),
    "unwritten": (SOFT, True, "?"),
    "wrong": (ALERT, False, "X"),
}
_BETWEEN, _ABOVE, _NOTE = 24.0, 20.0, 16.0
_LARGEST, _NUMBERED = 26.0, 16.0  # the largest cell, and the smallest cell with a text in it


@dataclass(frozen=True)
class Grid:
    """Cells in rows and columns. Each cell has a state, which is drawn as a colour.

    Attributes
    ----------
    name : str
        The name, which is written above the cells.
    states : array of str, shape (rows, columns)
        The state of each cell: ``""``, ``"used"``, ``"new"``, ``"held"``, ``"beside"``,
        ``"unwritten"`` or ``"wrong"``. The legend of the picture says what the states mean.
    texts : array of str, optional
        A text for each cell. Cells that are too small have no text.
    note : str
        A line below the cells.
    """

    name: str
    states: Any
    texts: Any = None
    note: str = ""

    def __post_init__(self) -> None:
        require.text("name", self.name)
        require.text("note", self.note)
        if self.array.ndim != 2 or not self.array.size:
            raise ValueError(
                f"`states` must have rows and columns of cells; got shape {self.array.shape}"
            )
        for state in self.array.ravel():
            require.choice("states", state, _STATES)
        if self.texts is not None and np.shape(self.texts) != np.shape(self.states):
            raise ValueError(
                f"`texts` must have the shape of `states`, {np.shape(self.states)}; "
                f"got {np.shape(self.texts)}"
            )

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The states as an array of two dimensions."""
        return np.atleast_2d(np.asarray(self.states, dtype=object))


def board(
    grids: Sequence[Grid],
    legend: Mapping[str, str],
    *,
    title: str | None = None,
    headline: str,
) -> Picture:
    """Draw grids of cells side by side.

    Parameters
    ----------
    grids : sequence of Grid
        The grids, from left to right.
    legend : mapping of str to str
        What the states of the cells mean.
    title : str, optional
        A line above the headline.
    headline : str
        What the picture shows.

    Returns
    -------
    Picture

    Raises
    ------
    ValueError
        There is no grid, or a cell has a state that the legend does not explain.

    Examples
    --------
    >>> tile = coalesce.draw.Grid("tile", [["used", ""], ["unwritten", "unwritten"]])
    >>> words = {"used": "read", "unwritten": "not written yet"}
    >>> print(coalesce.draw.board([tile], words, headline="One of four words"))
    One of four words
    tile
      |# |
      |??|
    # read  ? not written yet
    """
    grids = require.several("grids", grids, "one Grid or more")
    if not grids:
        raise ValueError("`grids` is empty; pass at least one Grid")
    for grid in grids:
        if not isinstance(grid, Grid):
            raise TypeError(f"`grids` must contain Grid objects; got {require.shown(grid)}")
    if not isinstance(legend, Mapping):
        raise TypeError(f"`legend` must be a mapping of states; got {require.shown(legend)}")
    for state, word in legend.items():
        require.choice("legend", state, _STATES)
        require.text("legend", word)
    require.text("headline", headline)
    shown = {state for grid in grids for state in grid.array.ravel()}
    for state in sorted(shown - {"", *legend}):
        raise ValueError(f"`legend` must explain the state {state!r} of a cell")
    columns = sum(grid.array.shape[1] for grid in grids)
    size = min(_LARGEST, (INNER - _BETWEEN * (len(grids) - 1)) / columns)
    size = min(size, max(320 / max(grid.array.shape[0] for grid in grids), 5))
    canvas = Canvas()
    top = canvas.headline(12, title, headline)
    x, bottom = MARGIN, top
    for grid in grids:
        width = _draw(canvas, grid, x, top, size)
        x += width + _BETWEEN
        bottom = max(
            bottom, top + _ABOVE + grid.array.shape[0] * size + (_NOTE if grid.note else 0)
        )
    entries = {word: _STATES[state] for state, word in legend.items()}
    swatches = [Swatch(word, paint, hatched) for word, (paint, hatched, _) in entries.items()]
    bottom = canvas.legend(bottom + 12, swatches)
    text = [title] if title else []
    text.append(headline)
    for grid in grids:
        text.append(grid.name)
        for row, alike in groupby("".join(_STATES[s][2] for s in row) for row in grid.array):
            count = len(list(alike))
            text += [f"  |{row[:74]}|"] * (count if count <= 4 else 1)
            text += [f"  ... {count - 1} more rows like this"] if count > 4 else []
        text += [f"  {grid.note}"] if grid.note else []
    text.append("  ".join(f"{_STATES[state][2]} {word}" for state, word in legend.items()))
    notes = " ".join(f"{grid.name}: {grid.note}." for grid in grids if grid.note)
    return canvas.picture(
        bottom + 12, headline=headline, description=f"{headline}. {notes}", text="\n".join(text)
    )


def _draw(canvas: Canvas, grid: Grid, x: float, y: float, size: float) -> float:
    """Draw a grid at (x, y), and return its width."""
    rows, cols = grid.array.shape
    canvas.text(x, y + 12, grid.name, size=12.5, bold=True)
    y += _ABOVE
    boxes: dict[str, list[Box]] = {"": [(x, y, cols * size, rows * size)]}
    for (row, col), state in np.ndenumerate(grid.array):
        if not state:
            continue
        run = boxes.setdefault(state, [])
        left, top = x + col * size, y + row * size
        if run and run[-1][1] == top and abs(run[-1][0] + run[-1][2] - left) < 1e-6:
            run[-1] = (run[-1][0], top, run[-1][2] + size, size)  # one box for neighbouring cells
        else:
            run.append((left, top, size, size))
    for state, several in boxes.items():
        paint, hatched, _ = _STATES[state]
        (canvas.hatch if hatched else canvas.fill)(several, paint, {"state": state})
    lines = [f"M{x + i * size:.1f} {y:.1f}v{rows * size:.1f}" for i in range(cols + 1)]
    lines += [f"M{x:.1f} {y + i * size:.1f}h{cols * size:.1f}" for i in range(rows + 1)]
    canvas.path("".join(lines), stroke=FAINT, weight=0.6)
    if grid.texts is not None and size >= _NUMBERED:
        for (row, col), text in np.ndenumerate(np.atleast_2d(np.asarray(grid.texts, dtype=object))):
            paint, hatched, _ = _STATES[grid.array[row, col]]
            place = x + (col + 0.5) * size, y + (row + 0.5) * size + 3.6
            ink = INK if hatched else on(paint)
            if text:
                canvas.text(*place, str(text), size=10, paint=ink, anchor="middle", most=size - 2)
    if grid.note:
        canvas.text(x, y + rows * size + 13, grid.note, size=11, paint=SOFT)
    return max(float(cols) * size, text_width(grid.name, 12.5, True), text_width(grid.note, 11))


class Player:
    """Pictures, of which a notebook shows one. The reader chooses it with buttons.

    It needs no script. Where styles are removed, the first and the last picture remain. As text, it
    prints these two.

    Attributes
    ----------
    frames : dict of str to Picture
        The pictures, each with the label of its button.
    """

    def __init__(self, frames: Mapping[str, Picture]) -> None:
        self.frames = dict(frames)

    def __repr__(self) -> str:
        labels = list(self.frames)
        ends = dict.fromkeys([labels[0], labels[-1]])
        parts = [f"[{label}] {self.frames[label].text}" for label in ends]
        left_out = len(labels) - len(ends)
        if left_out:
            parts.insert(1, f"... {left_out} more: {', '.join(labels[1:-1])}"[:80])
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        content = "".join(label + picture.svg for label, picture in self.frames.items())
        name = "player-" + hashlib.sha256(content.encode()).hexdigest()[:10]  # the same in each run
        buttons, frames, rules = [], [], []
        for number, (label, picture) in enumerate(self.frames.items()):
            one = f"{name}-{number}"
            checked = Markup(" checked") if number == 0 else ""
            buttons.append(_BUTTON.format(name, one, checked))
            buttons.append(tag("label", label, **{"for": one}))
            inner = 0 < number < len(self.frames) - 1
            frames.append(tag("div", markup.image(picture), **({"hidden": ""} if inner else {})))
            rules.append(f"#{one}:checked~.frames>:nth-child({number + 1})")
        style = _STYLE.replace("PLAYER", f"#{name}") + ",".join(rules) + "{display:block!important}"
        sheet = Markup(f"<style>{style}</style>")
        body = [sheet, *buttons, tag("div", frames, **{"class": "frames"})]
        return str(tag("div", body, id=name, **{"class": "coalesce-player"}))


_BUTTON = Markup('<input type="radio" name="{}" id="{}"{}>')
_STYLE = (
    "PLAYER>input{position:absolute;opacity:0}"
    "PLAYER>label{display:inline-block;margin:2px 4px 2px 0;padding:1px 9px;cursor:pointer;"
    "border:1px solid rgba(128,128,128,.6);border-radius:9px;font-size:13px}"
    "PLAYER>input:checked+label{background:#0072b2;border-color:#0072b2;color:#fff}"
    "PLAYER>input:focus-visible+label{outline:2px solid #d55e00}"
    "PLAYER>.frames>*{display:none!important;overflow-x:auto}"
)


def player(frames: Mapping[str, Picture]) -> Player:
    """Show pictures one after the other, with a button for each.

    Parameters
    ----------
    frames : mapping of str to Picture
        The pictures, each with the label of its button.

    Returns
    -------
    Player

    Raises
    ------
    ValueError, TypeError
        `frames` is empty, or has something that is not a picture.

    Examples
    --------
    >>> strides = {
    ...     f"stride {s}": coalesce.draw.warp_access(range(0, 128 * s, 4 * s), 4) for s in (1, 2)
    ... }
    >>> list(coalesce.draw.player(strides).frames)
    ['stride 1', 'stride 2']
    """
    if not isinstance(frames, Mapping):
        raise TypeError(
            f"`frames` must be a mapping from labels to pictures; got {require.shown(frames)}"
        )
    if not frames:
        raise ValueError("`frames` is empty; pass at least one picture")
    for label, picture in frames.items():
        require.text("frames", label, what="a mapping whose labels are strings")
        if not isinstance(picture, Picture):
            raise TypeError(
                f"`frames` must contain pictures; {label!r} is {require.shown(picture)}"
            )
    return Player(frames)
