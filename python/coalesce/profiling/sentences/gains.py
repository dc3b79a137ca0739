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
_WIDEST = 16  # bytes that a lane can access with one instruction
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
    >>> p = coalesce.profile("matmul", a, b, variant="naive")
    >>> all(gain.factor > 1 for gain in p.gains())
    True
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
        *_occupancy(profile, m, warps),
        *_balance(profile, m),
        *_wider(profile, m),
        *_lanes(profile, m, warps),
    ):
        ms = model.time_of_blocks(profile.gpu["name"], blocks, warps, work)["ms"]
        if m.ms >= _LEAST * ms:
            found[text] = Gain(m.ms / ms, ms, text, place)
    return sorted(found.values(), key=lambda gain: gain.ms)


_Change = tuple[str, str, Work, int]


def _accesses(accesses: Sequence[Access], m: Modelled, warps: int) -> Iterator[_Change]:
    """Yield the changes of single accesses, and of all accesses to one array."""
    lines = sum(i.lines for a in accesses for i in a.instructions if a.unit == "sectors")
    groups: dict[tuple[str, str], list[Access]] = {}
    for access in accesses:
        if access.space == "local" or wasteful(access):
            of = "" if access.space == "local" else access.array or access.place
            groups.setdefault((access.space, of), []).append(access)
        if contended(access) and access.space != "shared":
            text = f"{_named(access)} updated each address once per warp. {remedy(access)}"
            yield text, access.place, {**m.work, "atomics": 0}, m.blocks_per_multiprocessor
    for (space, _), group in groups.items():
        work = dict(m.work)
        for access in group:
            needed = 0 if space == "local" else access.ideal
            if access.unit == "sectors":
                _less_traffic(work, m, access, accesses, needed, lines, warps)
            else:
                excess = access.cost - needed
                name = "shared_wavefronts" if space == "shared" else "constant_lookups"
                work[name] = max(0, work[name] - excess)
                _shorter(work, excess, warps)
        worst = max(group, key=lambda a: a.excess or a.cost)
        *others, last = dict.fromkeys(a.place for a in group)
        places = f"{', '.join(others)} and {last}" if others else last
        if space == "local":
            text = (
                f"the local memory of {places} were not used. Spilled registers: allow more "
                "registers per thread. Arrays: use indices that the compiler knows"
            )
        elif len(group) == 1:
            text = _fewer(_named(worst), worst)
        else:
            of = f" to {worst.array}" * bool(worst.array)
            text = f"the accesses{of} in {places} took as little as needed. {remedy(worst)}"
        yield text, worst.place, work, m.blocks_per_multiprocessor


def _named(access: Access) -> str:
    of_array = f" of {access.array}" * bool(access.array)
    return f"the {KINDS.get(access.kind, access.kind)}{of_array} in {access.place}"


def _fewer(what: str, access: Access) -> str:
    least = number(access.ideal_per_request)
    unit = access.unit.removesuffix("s") if least == "1" else access.unit
    return f"{what} took {least} {unit} per request, not {number(access.per_request)}. " + remedy(
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
    # L2 gets at most the sectors that the requests touch. If L1 has most of them, fewer would not
    # help L2.
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


def _launched(profile: ProfileData, m: Modelled) -> tuple[int, int, int]:
    """Return the blocks that fit on a multiprocessor, all blocks, and the multiprocessors."""
    return m.blocks_per_multiprocessor, int(m.work["blocks"]), profile.gpu["multiprocessors"]


def _occupancy(profile: ProfileData, m: Modelled, warps: int) -> Iterator[_Change]:
    """Yield the change that more warps are on the GPU at once."""
    fit, blocks, sms = _launched(profile, m)
    full = max(1, profile.gpu["warps"] // warps)
    if blocks < m.blocks_on_gpu and (m.bound == "latency" or blocks < sms):
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
            "registers": (
                f"use at most {_registers_for(profile, full)} registers per thread, not "
                f"{profile.registers} (__launch_bounds__)"
            ),
            "shared memory": "use less shared memory per block",
            "blocks": "launch larger blocks",
        }[m.limit]
        yield (
            f"{full * warps} warps fitted on a multiprocessor, not {fit * warps}: {what}",
            "",
            dict(m.work),
            full,
        )


def _balance(profile: ProfileData, m: Modelled) -> Iterator[_Change]:
    """Yield the changes that multiprocessors and warps have equal work, and wait less."""
    fit, blocks, sms = _launched(profile, m)
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
    if m.work["barriers"]:
        text = (
            f"its warps did not wait {number(m.work['barriers'])} times at a barrier: combine the "
            "steps between barriers, or use __syncwarp() for data of one warp"
        )
        yield text, "", {**m.work, "barriers": 0}, fit


def _lanes(profile: ProfileData, m: Modelled, warps: int) -> Iterator[_Change]:
    """Yield the change that all lanes of the warps have work."""
    fit, blocks, _ = _launched(profile, m)
    threads = math.prod(profile.block)
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


def _registers_for(profile: ProfileData, blocks: int) -> int:
    """Return the largest number of registers per thread with which so many blocks fit.

    Each of a multiprocessor's four schedulers has 16,384 registers, and a warp takes a multiple of
    256. So 8 blocks of 256 threads (64 warps) fit with 32 registers per thread, and 6 with 40.
    """
    threads, name = math.prod(profile.block), profile.gpu["name"]
    counts = range(profile.registers, 1, -1)
    return next((n for n in counts if model.occupancy(name, threads, n, 0)["blocks"] >= blocks), 1)


def _wider(profile: ProfileData, m: Modelled) -> Iterator[_Change]:
    """Yield the change that each lane accesses 16 bytes at once, if the kernel is a simple map."""
    accesses = profile.accesses()
    widths = {a.width for a in accesses if a.space == "global" and a.width}
    maps = all(a.space == "global" and not wasteful(a) for a in accesses)
    fit, blocks, _ = _launched(profile, m)
    full = math.prod(profile.block) >= LANES
    if not (widths and maps and full and m.bound == "latency" and blocks > m.blocks_on_gpu):
        return
    more = _WIDEST / max(widths)
    if more > 1:
        work = {**m.work, "blocks": max(m.blocks_on_gpu, round(blocks / more))}
        text = (
            f"each lane accessed {_WIDEST} bytes at once, not {max(widths)}: use types such as "
            "float4 or uchar4, and fewer blocks"
        )
        yield text, "", work, fit
