"""Plots with matplotlib: `sweep`, `ladder`, `bars` and `roofline`.

Times that were measured on a GPU are drawn as solid bars and lines. Estimates of a model are
hatched or dashed, and the legend says so. Exact counts are drawn as steps or bars.

The functions draw into the `Axes` that you pass, or into a new figure. They return the Axes, so you
can change titles and limits, and save the figure. The colours follow matplotlib's style. Figures
with ``theme="transparent"`` are readable on light and on dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coalesce.common import require
from coalesce.draw import _palette
from coalesce.plots.axes import (
    COUNTED,
    HATCH,
    MIDDLE,
    TIMED,
    Theme,
    axes_of,
    legend_of_sources,
    tidy,
)
from coalesce.plots.inputs import ProfileLike, TimingLike, Work, named, quantity, work_of
from coalesce.plots.sweeps import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Sweep", "Work", "bars", "ladder", "roofline", "sweep"]


def sweep(
    sweep: Sweep | str,
    values: Iterable[int] | None = None,
    *,
    itemsize: int = 4,
    device: Any = None,
    ax: Axes | Sequence[Axes] | None = None,
    theme: Theme | None = None,
) -> np.ndarray[Any, Any]:
    """Plot the sectors per load and the bandwidth of an access pattern.

    The horizontal axis shows strides, offsets or widths.

    Parameters
    ----------
    sweep : Sweep or str
        A `Sweep`, or the name of a pattern to run: ``"stride"``, ``"offset"`` or ``"vector"``.
    values, itemsize, device
        See `Sweep.run`. They are used only if `sweep` is the name of a pattern.
    ax : Axes or two of them, optional
        The Axes to draw into. The first is for the sectors. The second is for the bandwidth, and is
        needed only if the sweep has a bandwidth. By default, a new figure is made.
    theme : {"light", "dark", "transparent"}, optional
        The colours of a new figure. The default is matplotlib's style.

    Returns
    -------
    array of Axes, shape (1,) or (2,)
        The Axes of the sectors, then the Axes of the bandwidth. The bandwidth is missing if the
        pattern was not timed. It is timed if there is a GPU, or if you pass a simulated `device`.
        The bandwidth of a simulated device is marked as modelled.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        There is no such pattern, the pattern does not support a value, or `ax` has too few Axes.

    Examples
    --------
    >>> axes = coalesce.plots.sweep("stride", range(1, 33))
    >>> axes[0].get_ylabel()
    'sectors per request'
    """
    data = (
        sweep
        if isinstance(sweep, Sweep)
        else Sweep.run(sweep, values, itemsize=itemsize, device=device)
    )
    panels = 1 if data.gbps is None else 2
    with axes_of(ax, panels, theme, (6.4, 2.6 * panels + 0.6)) as axes:
        top = axes[0]
        top.step(data.values, data.sectors, where="mid", color=COUNTED, linewidth=1.8)
        top.plot(data.values, data.sectors, "o", color=COUNTED, markersize=3.5)
        top.plot(data.values, data.ideal, color=MIDDLE, linewidth=1, linestyle=":")
        label = "if the bytes were contiguous"
        top.annotate(
            label,
            (data.values[-1], data.ideal[-1]),
            (0, -3),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize="small",
            color=MIDDLE,
        )
        top.set_ylabel("sectors per request")
        top.set_ylim(0, max(float(data.sectors.max()) * 1.08, 4.5))
        top.set_title(f"{data.pattern}, {data.itemsize}-byte elements", loc="left")
        if data.gbps is not None:
            _bandwidth(axes[1], data)
        axes[-1].set_xlabel(data.axis_label)
        for panel in axes:
            tidy(panel)
    return axes


def _bandwidth(panel: Axes, data: Sweep) -> None:
    assert data.gbps is not None
    measured = data.source == "measured"
    panel.plot(
        data.values,
        data.gbps,
        "o-" if measured else "o--",
        color=TIMED,
        linewidth=1.8,
        markersize=4,
        markerfacecolor=TIMED if measured else "none",
        label=f"{data.source} on {data.device}" if data.device else data.source,
    )
    panel.set_ylabel("GB/s asked for")
    panel.set_ylim(0, float(data.gbps.max()) * 1.1)
    panel.legend(frameon=False, loc="best", fontsize="small")


def bars(
    values: Mapping[str, float],
    *,
    modelled: bool | Iterable[str] = False,
    label: str = "",
    format: str | Callable[[float], str] = "{:.4g}",  # noqa: A002
    highlight: Iterable[str] = (),
    ax: Axes | None = None,
    theme: Theme | None = None,
) -> Axes:
    """Plot a horizontal bar for each value, and write the value next to the bar.

    The first bar is on top.

    Parameters
    ----------
    values : mapping of str to float
        Maps the name of each bar to its value. Values must be finite and at least 0.
    modelled : bool or iterable of str
        The names of the bars that show estimates. If True, all bars show estimates. Bars of
        estimates are hatched, and the legend says so.
    label : str
        The label of the axis. It should name the quantity and the unit.
    format : str or callable
        How to write the values: a format such as ``"{:.4g}"``, or a function that returns the text
        of a value.
    highlight : iterable of str
        The names of the bars to draw in a second colour.
    ax, theme
        See `sweep`.

    Returns
    -------
    Axes

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        There are no bars, a value is negative or not finite, or a name is unknown.

    Examples
    --------
    >>> ax = coalesce.plots.bars({"naive": 32, "coalesced": 4}, label="sectors per request")
    >>> [int(patch.get_width()) for patch in ax.patches]
    [32, 4]
    """
    if not isinstance(values, Mapping):
        raise TypeError(
            f"`values` must be a dict from names to numbers; got {require.shown(values)}"
        )
    names = list(values)
    if not names:
        raise ValueError("`values` must contain at least one bar")
    for name, value in values.items():
        if not math.isfinite(require.number("values", value)) or value < 0:
            raise ValueError(
                f"each number in `values` must be finite and at least 0; {name!r} is {value!r}"
            )
    estimated = set(names if modelled is True else [] if modelled is False else modelled)
    special = set(highlight)
    for what, names_passed in (("modelled", estimated), ("highlight", special)):
        unknown = sorted(names_passed - set(names))
        if unknown:
            raise ValueError(f"`{what}` contains {unknown[0]!r}, which is not a key of `values`")
    write = format if callable(format) else format.format

    with axes_of(ax, 1, theme, (6.4, 0.9 + 0.34 * len(names))) as (panel,):
        for place, (name, value) in enumerate(values.items()):
            colour = TIMED if name in special else COUNTED
            look = (
                {"facecolor": "none", "edgecolor": colour, "hatch": HATCH}
                if name in estimated
                else {"facecolor": colour, "edgecolor": colour}
            )
            panel.barh(place, float(value), height=0.66, linewidth=1.2, **look)
            panel.annotate(
                write(value),
                (value, place),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize="small",
            )
        panel.set_yticks(range(len(names)), names)
        panel.set_ylim(len(names) - 0.4, -0.6)
        panel.set_xlim(0, max([*values.values(), 0]) * 1.14 or 1)
        panel.set_xlabel(label)
        if estimated:
            legend_of_sources(panel, both=len(estimated) < len(names))
        tidy(panel, grid="x")
    result: Axes = panel
    return result


def ladder(
    variants: Mapping[str, ProfileLike | TimingLike] | Iterable[ProfileLike],
    *,
    of: Literal["time", "sectors", "gflops", "gbps"] = "time",
    kind: Literal["load", "store"] = "load",
    ax: Axes | None = None,
    theme: Theme | None = None,
) -> Axes:
    """Plot a bar for each variant of an operation, one below the other.

    Parameters
    ----------
    variants : mapping of str to Profile or Timing, or iterable of Profile
        The variants. The first one is on top.
    of : {"time", "sectors", "gflops", "gbps"}
        The quantity to show. ``"time"`` shows milliseconds. ``"sectors"`` shows how many sectors of
        global memory all loads of the kernel move (or all its stores, see `kind`); it needs
        profiles. ``"gflops"`` and ``"gbps"`` show GFLOP/s and GB/s; they need timings.
    kind : {"load", "store"}
        For ``of="sectors"``: whether to show the sectors of loads or of stores.
    ax, theme
        See `sweep`.

    Returns
    -------
    Axes
        The Axes with the bars. Bars of measured times are solid, and bars of modelled times are
        hatched.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        There are no variants, or a variant does not have the quantity.

    Notes
    -----
    There is no plot of sectors per request, because this quantity can mislead. Broadcasts need only
    one sector per request. So a kernel with many broadcasts has few sectors per request, although
    it may move many sectors.

    Examples
    --------
    >>> profiles = [coalesce.profile("matmul", a, b, variant=v) for v in ("naive", "tiled")]
    >>> ax = coalesce.plots.ladder(profiles, of="sectors")
    >>> ax.get_xlabel()
    'sectors, global loads'
    """
    labels = {
        "time": "milliseconds",
        "sectors": f"sectors, global {kind}s",
        "gflops": "GFLOP/s",
        "gbps": "GB/s",
    }
    require.choice("of", of, labels)
    require.choice("kind", kind, ("load", "store"))
    rungs = named("variants", variants)
    values, modelled = {}, []
    for name, variant in rungs.items():
        values[name], estimate = quantity(name, variant, of, kind)
        if estimate:
            modelled.append(name)
    return bars(
        values,
        modelled=modelled,
        label=labels[of],
        format="{:,.0f}" if of == "sectors" else "{:.3g}",
        ax=ax,
        theme=theme,
    )


def roofline(
    kernels: Mapping[str, ProfileLike | Work] | Iterable[ProfileLike],
    *,
    peak_gflops: float,
    peak_gbps: float,
    flops: Mapping[str, float] | float | None = None,
    ax: Axes | None = None,
    theme: Theme | None = None,
) -> Axes:
    """Plot kernels under the roofline of a GPU.

    A kernel with few operations per byte is bound by memory and lies under the slope. A kernel with
    many operations per byte is bound by arithmetic and lies under the flat part.

    Parameters
    ----------
    kernels : mapping of str to Profile or Work, or iterable of Profile
        The kernels. Each is a point of the plot.
    peak_gflops, peak_gbps : float
        The peaks of the GPU, in 1e9 operations and 1e9 bytes per second.
    flops : float or mapping of str to float, optional
        The floating-point operations of the kernels, such as 2 M N K for a product. By default,
        they are the sum of `Profile.flops`, which leaves out the tensor cores. A `Work` already has
        them.
    ax, theme
        See `sweep`.

    Returns
    -------
    Axes
        The Axes with the points. A point is filled if its time was measured, and hollow if it was
        modelled.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        There are no kernels, a peak is not positive, or a profile lacks its time or traffic.

    References
    ----------
    S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model for
    Multicore Architectures", Communications of the ACM 52(4), 2009.

    Examples
    --------
    >>> tiled = coalesce.plots.Work(flops=2 * 4096**3, dram_bytes=5e9, ms=15.6, measured=True)
    >>> ax = coalesce.plots.roofline({"tiled": tiled}, peak_gflops=66_900, peak_gbps=4_800)
    >>> ax.get_ylabel()
    'GFLOP/s'
    """
    for what, peak in (("peak_gflops", peak_gflops), ("peak_gbps", peak_gbps)):
        require.positive(what, peak)
    points = {
        name: kernel if isinstance(kernel, Work) else work_of(name, kernel, flops)
        for name, kernel in named("kernels", kernels).items()
    }
    with axes_of(ax, 1, theme, (6.4, 4.4)) as (panel,):
        _roof(panel, points, peak_gflops, peak_gbps)
        places = [(w.flops / w.dram_bytes, w.flops / w.ms / 1e6) for w in points.values()]
        for number, (name, work) in enumerate(points.items()):
            x, y = places[number]
            colour = _palette.group(number).dark
            panel.plot(
                x,
                y,
                "osD^v"[number % 5],
                color=colour,
                markersize=7,
                markeredgewidth=1.6,
                markerfacecolor=colour if work.measured else "none",
            )
            left = any(_would_cover((x, y), other, panel) for other in places)
            panel.annotate(
                name,
                (x, y),
                (-7 if left else 7, -3 + _apart(number, places, panel)),
                textcoords="offset points",
                ha="right" if left else "left",
                fontsize="small",
            )
        panel.set_xlabel("operations per byte of the GPU's memory")
        panel.set_ylabel("GFLOP/s")
        if not all(work.measured for work in points.values()):
            legend_of_sources(
                panel, both=any(work.measured for work in points.values()), marker=True
            )
        tidy(panel, grid="both")
    result: Axes = panel
    return result


def _would_cover(at: tuple[float, float], other: tuple[float, float], panel: Axes) -> bool:
    """Whether a name to the right of a point would cover another point."""
    to_axes = panel.transData + panel.transAxes.inverted()
    (x, y), (x_other, y_other) = to_axes.transform(at), to_axes.transform(other)
    return bool(0.01 < x_other - x < 0.2 and abs(y_other - y) < 0.03)


def _apart(number: int, places: Sequence[tuple[float, float]], panel: Axes) -> float:
    """Return how far up, in points, a name must move to avoid names at the same height."""
    to_axes = panel.transData + panel.transAxes.inverted()
    at = [tuple(to_axes.transform(place)) for place in places]
    x, y = at[number]
    near = [i for i, (u, v) in enumerate(at) if abs(u - x) < 0.2 and abs(v - y) < 0.04]
    rank = sorted(near, key=lambda i: (at[i][1], i)).index(number)
    return 11 * (rank - (len(near) - 1) / 2)


def _roof(panel: Axes, points: Mapping[str, Work], gflops: float, gbps: float) -> None:
    """Draw the roof: the slope of memory, the ridge point and the flat part of arithmetic."""
    ridge = gflops / gbps
    intensities = [work.flops / work.dram_bytes for work in points.values()]
    rates = [work.flops / work.ms / 1e6 for work in points.values()]
    left, right = min([*intensities, ridge]) / 4, max([*intensities, ridge]) * 4
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.plot([left, ridge, right], [left * gbps, gflops, gflops], color=MIDDLE, linewidth=1.6)
    panel.set_xlim(left, right)
    panel.set_ylim(min([*rates, left * gbps]) / 1.6, gflops * 2.2)
    panel.annotate(
        f"{gflops:,.0f} GFLOP/s",
        (right, gflops),
        (-4, 4),
        textcoords="offset points",
        ha="right",
        fontsize="small",
        color=MIDDLE,
    )
    panel.annotate(
        f"{gbps:,.0f} GB/s",
        (left, left * gbps),
        (6, 0),
        textcoords="offset points",
        va="top",
        fontsize="small",
        color=MIDDLE,
    )
