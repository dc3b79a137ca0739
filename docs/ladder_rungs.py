"""Makes the section of docs/ladder.md with a paragraph for each rung.

A paragraph says what the counts of a rung are, how much faster the model of units expects it to be
than an earlier rung, how much faster it is, and why the two differ. The figures come from counters
of an H200: tests/data/models_h200.json (`tools/record_counters.py models`), and for the newest
rungs docs/measured/units.json (`benchmarks/units.py`).
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recorded_ladder import LADDER, Shape

COUNTERS = Path(__file__).parents[1] / "tests" / "data" / "models_h200.json"
MULTIPROCESSORS = 132
MULTIPLY_ADDS = LADDER[0] * LADDER[1] * LADDER[2] / 32  # a warp executes 32 at once
# What a multiprocessor can do in one cycle; lesson 7 and docs/models.md explain these figures.
ISSUED, REQUESTS, PASSES, FFMAS = 4, 0.8, 1, 4
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


@dataclass(frozen=True)
class Rung:
    """What was counted for a rung, per multiply-add of a warp, and how busy the units were."""

    instructions: float
    requests: float | None  # None if they were not recorded
    passes: float
    busy: dict[str, float]  # percentages of the time; "warps": their number

    @property
    def units(self) -> dict[str, float]:
        """The cycles that each unit of a multiprocessor needs for a multiply-add of a warp."""
        return {
            "schedulers": self.instructions / ISSUED,
            "load-store unit": (self.requests or 0) / REQUESTS,
            "data stage": self.passes / PASSES,
            "float32 pipes": 1 / FFMAS,
        }

    @property
    def bound(self) -> str:
        """The unit that needs the most cycles."""
        return max(self.units, key=lambda unit: self.units[unit])

    @property
    def cycles(self) -> float:
        """The cycles of the unit that needs the most."""
        return self.units[self.bound]


def counted(units: dict[str, Any]) -> dict[str, Rung]:
    """Return the counts of each rung."""
    rungs = {}
    recorded = json.loads(COUNTERS.read_text(encoding="utf-8"))
    for entry in recorded["launches"]:
        name = entry["kernel"]
        if entry["case"] == "matmul/{} {}x{}x{} float32".format(name, *LADDER):
            rungs[name] = _of_models(dict(zip(recorded["metrics"], entry["values"], strict=True)))
    for name in ("tma", "split_k", "tensor_map"):
        m = units["rows"][name]
        data = m["l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"]
        cycles = m["sm__cycles_elapsed.max"] * MULTIPROCESSORS
        rungs[name] = Rung(
            m["smsp__inst_executed.sum"] / MULTIPLY_ADDS,
            None,
            data / 100 * cycles / MULTIPLY_ADDS,
            {"issue": m["smsp__issue_active.avg.pct_of_peak_sustained_active"], "data": data},
        )
    return rungs


def _of_models(m: dict[str, float]) -> Rung:
    whole = m["smsp__average_warp_latency_per_inst_issued.ratio"]

    def waits(*reasons: str) -> float:
        return 100 * sum(m[STALLED.format(reason)] for reason in reasons) / whole

    busy = {
        "issue": m["smsp__issue_active.avg.pct_of_peak_sustained_active"],
        "requests": m["l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"] / REQUESTS,
        "data": m["l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"],
        "queue": waits("lg_throttle", "mio_throttle"),
        "shared": waits("short_scoreboard"),
        "far": waits("long_scoreboard"),
        "barrier": waits("barrier"),
        "warps": 0.64 * m["sm__warps_active.avg.pct_of_peak_sustained_active"],
    }
    return Rung(
        m["smsp__inst_executed.sum"] / MULTIPLY_ADDS,
        m["l1tex__lsuin_requests.sum"] / MULTIPLY_ADDS,
        m["l1tex__data_pipe_lsu_wavefronts.sum"] / MULTIPLY_ADDS,
        busy,
    )


def section(ladder: Shape, units: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the section."""
    rungs = counted(units)
    ms = {name.partition(" ")[0]: row.ms for name, row in ladder.rungs.items()}
    naive, naive_2d = rungs["naive"].cycles, rungs["naive_2d"].cycles
    example = {"naive": naive, "naive_2d": naive_2d, "gain": naive / naive_2d}
    yield from _INTRODUCTION.format(**example).splitlines()
    yield ""
    heads = ("rung", "over", "instructions", "requests", "passes", "bound", "predicted", "measured")
    yield "| " + " | ".join(heads) + " |"
    yield "|---" * len(heads) + "|"
    for name, (over, _) in RUNGS.items():
        rung = rungs[name]
        gains = ("", "")
        if over:
            gains = (
                f"{rungs[over].cycles / rung.cycles:.2f}",
                f"{ms[over] / ms[name]:.2f}",
            )
        cells = (
            f"`{name}`",
            f"`{over}`" * bool(over),
            f"{rung.instructions:.2f}",
            "" if rung.requests is None else f"{rung.requests:.2f}",
            f"{rung.passes:.2f}",
            rung.bound,
            *gains,
        )
        yield "| " + " | ".join(cells) + " |"
    for name, (over, words) in RUNGS.items():
        yield ""
        text = " ".join(words.split()).format(
            **rungs[name].busy,
            **{f"over_{unit}": value for unit, value in rungs[over or name].busy.items()},
        )
        compared = f", compared with `{over}`" * bool(over)
        yield from textwrap.wrap(f"**`{name}`**{compared}. {text}", 100, break_on_hyphens=False)


_INTRODUCTION = """\
## Rung by rung

The table compares each rung with an earlier one, which the column *over* names. A gain of 2 means
that the rung is twice as fast. The *measured* gain follows from the times above. The *predicted*
gain follows from counts alone:

- An H200 counted three things: executed instructions, requests to the load-store unit, and passes
  of the data stage (the part of L1 that reads data). The table has these counts per multiply-add of
  a warp.
- In one cycle, the schedulers of a multiprocessor can issue 4 instructions, and its float32 pipes
  can start 4 of these multiply-adds. Its load-store unit can take 0.8 requests, and its data stage
  can make one pass ([Caches and time](models.md)). A count, divided by the figure of its unit,
  gives the cycles that the unit needs per multiply-add. For example, 2 requests need 2 / 0.8 = 2.5
  cycles of the load-store unit. The unit that needs the most cycles is the *bound*.
- The predicted gain is a ratio: the cycles that the bound of the earlier rung needs, divided by
  the cycles that the bound of this rung needs. For example, `naive` needs {naive:.2f} cycles for
  its passes, and `naive_2d` needs {naive_2d:.2f} cycles for its requests. So the predicted gain of
  `naive_2d` over `naive` is {naive:.2f} / {naive_2d:.2f} = {gain:.2f}.

The prediction ignores that warps wait. The text below the table says where this matters, with
figures from counters of the H200."""

# For each rung: the rung with which it is compared, and the text. section() fills in the numbers in
# braces from `busy`. Names that begin with over_ are numbers of the other rung.
RUNGS = {
    "naive": (
        "",
        """
        Neighbouring lanes read neighbouring rows of `a`. So a load of `a` touches 32
        cache lines, and takes 32 passes of the data stage. The data stage is busy for
        {data:.0f} % of the time.
        """,
    ),
    "naive_2d": (
        "naive",
        """
        Neighbouring lanes read the same element of `a` and neighbouring elements of `b`.
        Each load takes one pass. Now the load-store unit is the bound, because each
        multiply-add needs two loads. The gain is smaller than predicted: the load-store
        unit is busy for {requests:.0f} % of the time, and warps wait for data from L1 and L2 for
        {far:.0f} % of their time.
        """,
    ),
    "coalesced": (
        "naive",
        """
        The accesses and the counts are those of `naive_2d`, but the block has one
        dimension. The load-store unit is busy for {requests:.0f} % of the time.
        """,
    ),
    "coalesced_swapped": (
        "coalesced",
        """
        In `coalesced`, thread `t` has row `t / TILE` and column `t % TILE`. Here, the
        division and the remainder are swapped, so neighbouring lanes read neighbouring
        rows. The counts are the same as those of `naive`. The bound (the data stage) is busy
        for {data:.0f} % of the time, so the measured gain is nearly the predicted gain.
        """,
    ),
    "untiled": (
        "coalesced",
        """
        The loop is split into tiles, but the tiles are not stored in shared memory. The
        loads are those of `coalesced`, so the model predicts no change. But there are more
        instructions, and warps wait for data from L1 and L2 for {far:.0f} % of their time,
        instead of {over_far:.0f} % in `coalesced`. The load-store unit is busy for only
        {requests:.0f} % of the time, instead of {over_requests:.0f} % in `coalesced`.
        """,
    ),
    "tiled": (
        "coalesced",
        """
        The tiles are in shared memory, so few loads go to global memory. But each
        multiply-add still needs loads, now from shared memory. The load-store unit gets
        fewer requests, but it is still the bound. It is busy for {requests:.0f} % of the time.
        Warps also wait at barriers, for {barrier:.0f} % of their time.
        """,
    ),
    "tiled_transposed": (
        "tiled",
        """
        The tile of `b` is stored transposed, and accesses to it have bank conflicts. So there
        are six times as many passes as in `tiled`, and the data stage is busy for
        {data:.0f} % of the time. The loss against `tiled` is a little smaller than predicted,
        because `tiled` is slower than predicted. In `tiled`, the bound (the load-store unit) is
        busy for only {over_requests:.0f} % of the time.
        """,
    ),
    "blocktiled_1d": (
        "tiled",
        """
        Each thread computes 8 elements and uses each word of `b` 8 times. So it needs
        fewer requests and passes. But a thread needs more registers, so a multiprocessor
        holds only {warps:.0f} warps, instead of {over_warps:.0f} in `tiled`. These warps are too
        few to hide all waits. A warp waits at barriers for {barrier:.0f} % of its time, and for
        data from L1, L2 and DRAM for {far:.0f} %. The data stage is busy for only
        {data:.0f} % of the time.
        """,
    ),
    "blocktiled_2d": (
        "blocktiled_1d",
        """
        Each thread computes 8 x 8 elements. For each multiply-add, it reads only a quarter
        of a word of shared memory: 16 words for 64 multiply-adds. Yet the gain is small,
        because a multiprocessor holds only {warps:.0f} warps. They wait for shared memory
        for {shared:.0f} % of their time, and for data from L1, L2 and DRAM for {far:.0f} %.
        No unit is busy for more than {data:.0f} % of the time.
        """,
    ),
    "vectorized": (
        "blocktiled_2d",
        """
        A load reads 16 bytes per lane, so there are fewer loads to wait for. The gain is
        larger than predicted, because warps also wait less for shared memory:
        {shared:.0f} % of their time, instead of {over_shared:.0f} % in `blocktiled_2d`.
        """,
    ),
    "warptiled": (
        "vectorized",
        """
        The lanes of a warp share a compact tile, so more lanes load the same elements,
        and there are no bank conflicts. A load of 16 bytes per lane takes 3 passes
        instead of 5 in `vectorized`. But fewer passes help little, because the data stage of
        `vectorized` is busy for only {over_data:.0f} % of the time. Also, warps wait longer for
        data from L1, L2 and DRAM: {far:.0f} % of their time, instead of {over_far:.0f} % in
        `vectorized`.
        """,
    ),
    "pipelined": (
        "warptiled",
        """
        Shared memory holds four tiles of each operand. The threads multiply one of them,
        and at the same time asynchronous copies fill the other three. Copying costs more
        instructions than in `warptiled`, so the model predicts a loss. But warps no longer
        wait for data from L1, L2 and DRAM: {far:.0f} % of their time, instead of
        {over_far:.0f} % in `warptiled`. So the schedulers are busy for {issue:.0f} % of the
        time, instead of {over_issue:.0f} % in `warptiled`.
        """,
    ),
    "tma": (
        "pipelined",
        """
        The copy engine (TMA) copies the tiles, so the threads execute few instructions
        for the copies. A thread computes 16 x 8 elements, so it needs few loads. Nearly
        all instructions are multiply-adds. The gain is larger than predicted, because the
        schedulers are also busier: {issue:.0f} % of the time, instead of {over_issue:.0f} %
        in `pipelined`. `tma` has two kernels. The first one packs `a`: it copies the
        elements of `a` to a new array, in another order. The second one multiplies. The
        measured time includes both kernels. The counts in the table are those of the
        second kernel.
        """,
    ),
    "split_k": (
        "pipelined",
        """
        This rung is for small products. For 4096 x 4096 matrices, as here, its tiles are
        smaller than those of `tma`. The schedulers are busy for {issue:.0f} % of the time,
        instead of {over_issue:.0f} % in `pipelined`.
        """,
    ),
    "tensor_map": (
        "tma",
        """
        The counts are nearly the same as those of `tma`. But `tma` needs another kernel, which
        packs `a` first. In `tensor_map`, warps transpose the tiles of `a` in shared memory
        instead. Also, the schedulers are busy for {issue:.0f} % of the time, instead of
        {over_issue:.0f} % in `tma`.
        """,
    ),
}
