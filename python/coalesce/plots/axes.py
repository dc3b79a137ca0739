"""Parts that all plots need: axes in a theme's colours, a grid, and a legend for estimates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coalesce.common import require
from coalesce.draw import _palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Theme = Literal["light", "dark", "transparent"]

# A grey whose contrast is about the same on white and on black: 4.6, as WCAG 2.1 defines contrast.
MIDDLE = "#767676"
# Both colours are readable on white and on black.
COUNTED, TIMED = _palette.BLUE.dark, _palette.ALERT.dark
HATCH = "////"  # the hatching of modelled values

_COLOURS = {
    "light": (_palette.PAPER.light, _palette.INK.light, _palette.FAINT.light),
    "dark": (_palette.PAPER.dark, _palette.INK.dark, _palette.FAINT.dark),
    "transparent": ("none", MIDDLE, "#808080"),
}


@contextmanager
def axes_of(
    ax: Any, panels: int, theme: Theme | None, size: tuple[float, float]
) -> Iterator[np.ndarray[Any, Any]]:
    """Yield an array of the Axes to draw into: the caller's Axes `ax`, or the Axes of a new figure.

    `panels` is the number of Axes. A new figure has the colours of `theme`, and `size` is its width
    and height in inches.
    """
    plt = matplotlib()
    if theme is not None:
        require.choice("theme", theme, _COLOURS)
    if ax is not None:
        if theme is not None:
            raise ValueError(
                "`theme` and `ax` cannot be combined, because the axes of `ax` already have their "
                "colours"
            )
        passed = np.array(
            [ax] if not isinstance(ax, (Sequence, np.ndarray)) else ax, object
        ).ravel()
        for one in passed:
            if not isinstance(one, plt.Axes):
                raise TypeError(f"`ax` must be Axes of matplotlib; got {require.shown(one)}")
        if len(passed) < panels:
            raise ValueError(f"`ax` must be {panels} Axes, one for each panel; got {len(passed)}")
        yield passed[:panels]
        return
    with plt.rc_context(_style(theme)):
        _, axes = plt.subplots(
            panels, 1, squeeze=False, sharex=panels > 1, figsize=size, layout="constrained"
        )
        yield axes[:, 0]


def _style(theme: Theme | None) -> dict[str, Any]:
    if theme is None:
        return {}
    paper, ink, grid = _COLOURS[theme]
    text = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    colours = dict.fromkeys(text, ink)
    if theme == "transparent":
        # If all tick labels of a transparent figure are dark, IPython draws a white background
        # behind it. If all of them are light, it draws a black one. Here the labels of x have the
        # colour MIDDLE, which counts as dark, and the labels of y have this grey, which counts as
        # light. So no background is drawn.
        colours["ytick.color"] = "#808080"
    return {
        **colours,
        "figure.facecolor": paper,
        "axes.facecolor": paper,
        "savefig.facecolor": paper,
        "grid.color": grid,
    }


def tidy(panel: Axes, grid: Literal["x", "y", "both"] = "y") -> None:
    """Remove the upper and right border of the Axes `panel`, and draw a faint grid behind the data.

    `grid` says which axis has grid lines: "x", "y" or "both".
    """
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(True, axis=grid, linewidth=0.6, alpha=0.35)
    panel.set_axisbelow(True)


def legend_of_sources(panel: Axes, *, both: bool, marker: bool = False) -> None:
    """Add a legend to the Axes `panel` that says how measured times and estimates are drawn.

    With `both`, the plot has measured times and estimates. Otherwise, it has only estimates. With
    `marker`, the plot has points instead of bars.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    grey = MIDDLE
    handles: list[Any] = []
    for name, filled in (("measured", True), ("modelled (an estimate)", False)):
        if filled and not both:
            continue
        face = grey if filled else "none"
        handles.append(
            Line2D([], [], linestyle="", marker="o", color=grey, markerfacecolor=face, label=name)
            if marker
            else Patch(facecolor=face, edgecolor=grey, hatch="" if filled else HATCH, label=name)
        )
    panel.legend(
        handles=handles,
        frameon=False,
        fontsize="small",
        loc="lower right",
        bbox_to_anchor=(1, 1),
        borderaxespad=0.2,
        ncols=2,
    )


def matplotlib() -> Any:
    """Return the module `matplotlib.pyplot`. If it is not installed, raise ImportError."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            "coalesce.plots needs matplotlib, which is not installed: pip install matplotlib"
        ) from None
    return plt
