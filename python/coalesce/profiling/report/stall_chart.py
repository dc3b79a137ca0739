"""Draws what the warps of a kernel wait for, and how many issue slots they use, as modelled.

A GPU samples its warps for Nsight Compute's stall reasons. Here, the time of a warp is divided by
the time model: it issues instructions, waits for memory, for shared memory and at barriers, and for
the fixed latency of instructions. The rest of the time, other warps keep the resource busy that
limits the kernel.
"""

from __future__ import annotations

import math
from textwrap import wrap
from typing import TYPE_CHECKING

from coalesce._core import model
from coalesce.draw._canvas import MARGIN, WIDTH, Canvas, Picture
from coalesce.draw._palette import BLUE, ORANGE, SOFT
from coalesce.launch.modelled import BOUNDS

if TYPE_CHECKING:
    from coalesce.profiling.data import ProfileData

_ROW, _BAR = 24.0, 300.0


def stalls(profile: ProfileData) -> dict[str, float]:
    """Return the cycles of an average warp, by what it does or waits for."""
    m = profile.modelled
    if m is None or not m.work["blocks"]:
        why = profile.not_modelled or "the time was not modelled"
        raise ValueError(f"the stalls need the model of the time: {why}")
    name, w = profile.gpu["name"], m.work
    warps = -(-math.prod(profile.block) // 32)

    def cycles(**work: float) -> float:
        alone = model.time_of_blocks(name, 1, warps, {"blocks": 1, **work})["cycles"]["latency"]
        return float(alone)

    answered = {key: w[key] for key in ("from_l2", "from_dram")}
    waits = {
        "L1, L2 and DRAM": cycles(memory_waits=w["memory_waits"], **answered),
        "shared memory": cycles(shared_waits=w["shared_waits"]),
        "barriers": cycles(barriers=w["barriers"]),
    }
    issued = w["instructions_per_warp"]
    fixed = w["latency"] - issued - waits["L1, L2 and DRAM"] - waits["shared memory"]
    waits["earlier instructions"] = max(0.0, fixed)
    resident = min(w["blocks"], m.blocks_on_gpu)
    launch = model.time_of_blocks(name, 1, 1, {})["ms"]
    active = 1e6 * (m.ms - launch) * profile.gpu["clock_ghz"]
    rest = active * resident / w["blocks"] - issued - sum(waits.values())
    busy = "a turn, because the launch ends" if m.bound == "latency" else BOUNDS[m.bound]
    return {"": issued, **waits, busy: max(0.0, rest)}


def stall_chart(profile: ProfileData, title: str | None) -> Picture:
    """Return the picture. `Profile.stall_chart` describes it."""
    parts = stalls(profile)
    m = profile.modelled
    assert m is not None
    slots = m.cycles["issue"] / (1e6 * m.ms * profile.gpu["clock_ghz"])
    headline = f"{slots:.0%} of the issue slots are used (modelled)"
    note = "The shares are those of an average warp while it is on the GPU, as modelled."
    canvas = Canvas()
    y = canvas.headline(16, title or profile.title, headline, note) + 8
    total = sum(parts.values())
    rows = []
    for what, cycles in parts.items():
        share = cycles / total
        label = f"waits for {what.split(',')[0] if len(what) > 40 else what}" if what else "issues"
        canvas.text(MARGIN, y + 12, label, most=WIDTH - 2 * MARGIN - _BAR - 60)
        x = WIDTH - MARGIN - _BAR - 50
        canvas.rect(x, y, max(1, _BAR * share), 15, fill=ORANGE if what else BLUE, tip=what)
        canvas.text(x + _BAR * share + 6, y + 12, f"{share:.0%}", paint=SOFT)
        rows.append(f"{label:<44}{share:>5.0%} {'█' * round(28 * share)}".rstrip())
        y += _ROW
    text = [title or profile.title, headline, "", *rows, "", *wrap(note, 80)]
    return canvas.picture(
        y + 12, headline=headline, description=f"{headline}. {note}", text="\n".join(text)
    )
