"""Estimates what a change of the kernel would gain: the time model, with less work.

Each change takes one cause of cost out of the counts of the kernel, such as the bank conflicts of
one array. Then the time is modelled again. Other costs of the change are not known, such as the
instructions that a tile in shared memory needs, so the result is called "up to".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coalesce._core import model
from coalesce.launch.modelled import Modelled
from coalesce.profiling.patterns.classification import LANES
from coalesce.profiling.rows.accesses import KINDS, Access, number
from coalesce.profiling.sentences.advice import contended, remedy, wasteful

if TYPE_CHECKING:
    from coalesce.profiling.data import ProfileData

_LEAST = 1.05  # a smaller factor is not worth a sentence
_LINE_SECTORS = model.LINE_BYTES // model.SECTOR_BYTES
_SUMS = (
    "instructions",
    "fp32",
    "fp64",
    "alu",
    "xu",
    "tensor_cycles",
    "requests",
    "tag_lookups",
    "shared_wavefronts",
    "constant_lookups",
)
Work = dict[str, float]


@dataclass(frozen=True)
class Gain:
    """A change of the kernel, and the time that the model expects after it.

    Attributes
    ----------
    factor : float
        How many times as fast the kernel would be, at most.
    ms : float
        The modelled time after the change, in milliseconds.
    text : str
        The condition, as it follows "if", and what to do.
    place : str
        The source line, such as ``"line 28"``, or ``""`` if the whole launch is meant.

    Examples
    --------
    >>> p = coalesce.profile("transpose", a, variant="naive")
    >>> p.gains()[0].place
    'line 18'
    """

    factor: float
    ms: float
    text: str
    place: str = ""


def gains(profile: ProfileData) -> list[Gain]:
    """Return the changes that would make the kernel faster, the largest gain first."""
    m = profile.modelled
    if m is None or m.caches is None or not m.work["blocks"]:
        return []
    threads = math.prod(profile.block)
    warps = -(-threads // LANES)
    found = {}
    for text, place, work, blocks in (
        *_accesses(profile.accesses(), m, warps),
        *_launch(profile, m, warps),
    ):
        ms = model.time_of_blocks(profile.gpu["name"], blocks, warps, work)["ms"]
        if m.ms >= _LEAST * ms:
            found[text] = Gain(m.ms / ms, ms, text, place)
    return sorted(found.values(), key=lambda gain: gain.ms)


_Change = tuple[str, str, Work, int]


def _accesses(accesses: Sequence[Access], m: Modelled, warps: int) -> Iterator[_Change]:
    """Yield the changes of single accesses."""
    lines = sum(i.lines for a in accesses for i in a.instructions if a.unit == "sectors")
    for access in accesses:
        work = dict(m.work)
        what = f"the {KINDS.get(access.kind, access.kind)}"
        what += f" of {access.array}" * bool(access.array) + f" in {access.place}"
        if access.space == "local":
            _less_traffic(work, m, access, accesses, 0, lines, warps)
            text = f"local memory were not used in {access.place}: use fewer registers per thread, "
            text += "or indices that the compiler knows"
        elif contended(access) and access.space != "shared":
            work["atomics"] = 0
            text = f"{what} updated each address once per warp: {remedy(access)}"
        elif not wasteful(access):
            continue
        elif access.unit == "sectors":
            _less_traffic(work, m, access, accesses, access.ideal, lines, warps)
            text = _fewer(what, access)
        else:
            excess = access.cost - access.ideal
            what_waits = "shared_wavefronts" if access.space == "shared" else "constant_lookups"
            work[what_waits] = max(0, work[what_waits] - excess)
            _shorter(work, excess, warps)
            text = _fewer(what, access)
        yield text, access.place, work, m.blocks_per_multiprocessor


def _fewer(what: str, access: Access) -> str:
    least = number(access.ideal_per_request)
    unit = access.unit.removesuffix("s") if least == "1" else access.unit
    return f"{what} took {least} {unit} per request, not {number(access.per_request)}: " + remedy(
        access
    )


def _less_traffic(
    work: Work,
    m: Modelled,
    access: Access,
    accesses: Sequence[Access],
    sectors: int,
    lines: int,
    warps: int,
) -> None:
    """Reduce the work as if an access touched only this number of sectors."""
    own = sum(i.lines for i in access.instructions)
    saved = work["tag_lookups"] * (own - min(own, -(-sectors // _LINE_SECTORS))) / max(1, lines)
    work["tag_lookups"] -= saved
    _shorter(work, saved, warps)
    assert m.caches is not None
    store = access.kind in ("store", "reduction", "atomic")
    of_kind = [a for a in accesses if a.unit == "sectors"]
    of_kind = [a for a in of_kind if (a.kind in ("store", "reduction", "atomic")) == store]
    # L2 cannot be asked for more sectors than the requests touch. If L1 has kept most of them
    # away, fewer would not help L2.
    most = sum(a.cost for a in of_kind) - access.cost + sectors
    reads, writes = work["l2_sectors"] - work["l2_writes"], work["l2_writes"]
    dram = [m.caches["dram_read_bytes"], m.caches["dram_written_bytes"]]
    if store:
        partial = max(0, work["l2_partial_writes"] - access.cost)
        writes = min(writes, most)
        work["l2_partial_writes"] = min(partial, writes)
    else:
        reads = min(reads, most)
    work["l2_sectors"], work["l2_writes"] = reads + writes, writes
    unit = model.SECTOR_BYTES
    work["dram_bytes"] = min(dram[0], unit * reads) + min(dram[1], unit * writes)


def _shorter(work: Work, passes: float, warps: int) -> None:
    """Shorten the time of a warp by passes that are distributed over all warps."""
    of_warp = passes / (work["blocks"] * warps)
    work["latency"] = max(0.1 * work["latency"], work["latency"] - of_warp)


def _launch(profile: ProfileData, m: Modelled, warps: int) -> Iterator[_Change]:
    """Yield the changes of the launch, and of the way the threads share the work."""
    blocks, fit = int(m.work["blocks"]), m.blocks_per_multiprocessor
    threads, sms = math.prod(profile.block), profile.gpu["multiprocessors"]
    full = max(1, profile.gpu["warps"] // warps)
    if blocks < m.blocks_on_gpu and m.work["latency"]:
        more = m.blocks_on_gpu / blocks
        work = {**m.work, "blocks": m.blocks_on_gpu, "latency": m.work["latency"] / more}
        work["instructions_per_warp"] /= more
        text = (
            f"the same work were shared by {m.blocks_on_gpu:,} blocks, not {blocks:,}: the GPU has "
            f"{sms} multiprocessors with room for {fit} such blocks each. Give each thread less "
            "to do"
        )
        yield text, "", work, fit
    elif fit < full and m.limit != "warps":
        what = {
            "registers": "use fewer registers per thread (__launch_bounds__)",
            "shared memory": "use less shared memory per block",
            "blocks": "launch larger blocks",
        }[m.limit]
        yield (
            f"{full * warps} warps fitted on a multiprocessor, not {fit * warps}: {what}",
            "",
            dict(m.work),
            full,
        )
    even = blocks / sms
    if blocks > sms and math.ceil(even) > 1.1 * even:
        work = {**m.work, **{name: m.work[name] * even / math.ceil(even) for name in _SUMS}}
        text = (
            f"all multiprocessors had equal work: {blocks:,} blocks on {sms} multiprocessors are "
            f"{math.ceil(even)} for some and {int(even)} for others. Launch smaller blocks, or a "
            f"multiple of {sms}"
        )
        yield text, "", work, fit
    if max(m.work["slowest"], m.work["slowest_in_block"]) > 1.2:
        text = (
            f"all warps did equal work: the slowest does {m.work['slowest']:.1f} times the "
            "average. Share the long loops among more threads"
        )
        yield text, "", {**m.work, "slowest": 1, "slowest_in_block": 1}, fit
    filled = threads / (LANES * warps)
    lanes = profile.lanes_per_instruction / LANES
    if filled < 0.75:
        work = {**m.work, "blocks": max(1, round(blocks * filled))}
        work.update((name, m.work[name] * filled) for name in _SUMS)
        text = (
            f"each warp had {LANES} threads, not {number(LANES * filled)}: launch blocks of a "
            f"multiple of {LANES} threads"
        )
        yield text, "", work, fit
    elif 0 < lanes < 0.75:
        work = {**m.work, "latency": m.work["latency"] * lanes}
        work.update((name, m.work[name] * lanes) for name in _SUMS[:6])
        worst = max(profile.lines(), key=lambda line: LANES * line.executed - line.threads)
        text = (
            f"all {LANES} lanes had work, not {number(LANES * lanes)} on average: most idle lanes "
            f"are in {worst.place}"
        )
        yield text, worst.place, work, fit
