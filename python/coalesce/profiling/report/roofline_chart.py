"""Draws a kernel under the rooflines of L1, L2 and DRAM.

Each memory has a roof: with few operations per byte that it delivers, it limits the arithmetic. The
rates of the memories are those of the time model (docs/models.md): L1 delivers 128 bytes per cycle
and multiprocessor, L2 what an H200 was recorded to deliver to reads, and DRAM the share of its
published bandwidth that kernels reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from coalesce._core import model
from coalesce.draw._canvas import MARGIN, WIDTH, Canvas, Picture
from coalesce.draw._palette import BLUE, FAINT, GREEN, INK, ORANGE, SOFT
from coalesce.launch.modelled import of_bytes

if TYPE_CHECKING:
    from coalesce.profiling.data import ProfileData

_PAINTS = {"L1": BLUE, "L2": GREEN, "DRAM": ORANGE}
_LEFT, _HEIGHT = MARGIN + 70, 230.0


@dataclass(frozen=True)
class Level:
    """A memory: the bytes that it delivers to the kernel, and its largest rate in bytes per s."""

    name: str
    bytes: float
    rate: float


def rates(gpu: dict[str, Any]) -> dict[str, float]:
    """Return the bytes per second that L1, L2 and DRAM of a GPU can deliver, by the time model."""
    many, sms = 1e12, gpu["multiprocessors"]
    result = {}
    for name, work, resource, unit in (
        ("L1", "tag_lookups", "data", model.LINE_BYTES),
        ("L2", "l2_sectors", "l2", model.SECTOR_BYTES),
        ("DRAM", "dram_bytes", "dram", 1),
    ):
        cycles = model.time_of_blocks(gpu["name"], 1, 1, {"blocks": sms, work: many})["cycles"]
        result[name] = many * unit / cycles[resource] * gpu["clock_ghz"] * 1e9
    return result


def peaks(gpu: dict[str, Any]) -> dict[str, float]:
    """Return the operations per second of each type, without tensor cores."""
    of_lane = 2 * gpu["multiprocessors"] * gpu["clock_ghz"] * 1e9  # a multiply-add is two
    single = gpu["fp32_lanes"] * of_lane
    return {"float16": 2 * single, "float32": single, "float64": gpu["fp64_lanes"] * of_lane}


def roofline_chart(profile: ProfileData, title: str | None) -> Picture:
    """Return the picture. `Profile.roofline_chart` describes it."""
    m, flops = profile.modelled, sum(profile.flops.values())
    if m is None or m.caches is None:
        why = profile.not_modelled or "the profile was made without models of the caches"
        raise ValueError(f"the roofline needs the traffic of L2 and DRAM: {why}")
    if not flops:
        raise ValueError(
            f"{profile.kernel} has no floating-point operations outside of tensor cores, so it has "
            "no roofline; memory_chart() shows its bytes"
        )
    peak = flops / sum(n / peaks(profile.gpu)[dtype] for dtype, n in profile.flops.items())
    reached = flops / (1e-3 * m.ms)
    of = rates(profile.gpu)
    moved = {
        "L1": sum(t.bytes_moved for t in profile.totals() if t.space not in ("shared", "constant")),
        "L2": model.SECTOR_BYTES * m.work["l2_sectors"],
        "DRAM": m.work["dram_bytes"],
    }
    levels = [Level(name, size, of[name]) for name, size in moved.items() if size]
    headline = f"{_of_flops(reached)} (modelled), {reached / peak:.0%} of the peak"
    note = "All rates are modelled. Tensor cores and shared memory are not included."
    canvas = Canvas()
    top = canvas.headline(16, title or profile.title, headline, note) + 10
    _draw(canvas, top, levels, flops, reached, peak)
    rows = [f"{'':6}{'bytes':>10}{'FLOP/byte':>12}{'delivers':>12}{'at most':>15}{'reached':>9}"]
    for level in levels:
        most = min(peak, flops / level.bytes * level.rate)
        rows.append(
            f"{level.name:6}{of_bytes(level.bytes):>10}{flops / level.bytes:>12.3g}"
            f"{of_bytes(level.rate) + '/s':>12}{_of_flops(most):>15}{reached / most:>9.0%}"
        )
    text = [title or profile.title, headline, "", *rows, "", *wrap(note, 80)]
    return canvas.picture(
        top + _HEIGHT + 34,
        headline=headline,
        description=f"{headline}. {note}",
        text="\n".join(text),
    )


def _draw(
    canvas: Canvas, top: float, levels: list[Level], flops: float, reached: float, peak: float
) -> None:
    """Draw the roofs, and a point on a vertical line for each memory."""
    intensities = [flops / level.bytes for level in levels]
    ridges = [peak / level.rate for level in levels]
    low, high = min(*intensities, *ridges) / 3, max(*intensities, *ridges) * 3
    least, most = min(reached, low * min(level.rate for level in levels)) / 2, peak * 2

    def x(intensity: float) -> float:
        return _LEFT + (WIDTH - MARGIN - _LEFT) * math.log(intensity / low) / math.log(high / low)

    def y(rate: float) -> float:
        return top + _HEIGHT * (1 - math.log(max(rate, least) / least) / math.log(most / least))

    canvas.path(f"M{_LEFT} {top}V{top + _HEIGHT}H{WIDTH - MARGIN}", stroke=FAINT)
    canvas.path(f"M{x(min(ridges)):.1f} {y(peak):.1f}H{x(high):.1f}", stroke=INK, weight=1.6)
    canvas.text(x(high), y(peak) - 5, _of_flops(peak), anchor="end", paint=SOFT)
    canvas.text(_LEFT - 6, y(reached) + 4, _of_flops(reached), anchor="end", most=_LEFT - 10)
    for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
        canvas.text(x(10**power), top + _HEIGHT + 16, f"{10.0**power:g}", anchor="middle")
    canvas.text(WIDTH - MARGIN, top + _HEIGHT + 30, "operations per byte", anchor="end", paint=SOFT)
    for level in levels:
        paint, start = _PAINTS[level.name], max(low, least / level.rate)
        end, at = peak / level.rate, flops / level.bytes
        canvas.path(
            f"M{x(start):.1f} {y(start * level.rate):.1f}L{x(end):.1f} {y(peak):.1f}",
            stroke=paint,
            weight=1.8,
        )
        name = f"{level.name}: {of_bytes(level.rate)}/s"
        below = 16 if level.name == "DRAM" else -6
        canvas.text(x(start) + 6, y(start * level.rate) + below, name, paint=paint)
        canvas.path(f"M{x(at):.1f} {y(reached):.1f}V{top + _HEIGHT}", stroke=paint, dash="3 3")
        canvas.rect(x(at) - 4, y(reached) - 4, 8, 8, fill=paint, radius=4, tip=level.name)


def _of_flops(rate: float) -> str:
    for unit in ("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s"):
        if rate < 999.5 or unit == "TFLOP/s":
            break
        rate /= 1000
    return f"{rate:.3g} {unit}"
