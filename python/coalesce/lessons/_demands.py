"""The demands of the exercises: limits for the counts of a reader's kernel.

A demand compares one count of the kernel's profile with a limit. If the count is larger, a message
names the lines that cause it, and gives a hint about the reason.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import numpy as np

from coalesce.common.words import plural
from coalesce.lessons._exercises import Demand, Run
from coalesce.profiling import Profile
from coalesce.profiling.hardware.metrics import SOMETIMES
from coalesce.profiling.rows.accesses import Access
from coalesce.profiling.sentences.advice import wasteful

Kind = Literal["load", "store"]
Quantity = Literal["requests", "sectors"]


def sectors(kind: Kind, most: float) -> Demand:
    """Return a demand: global loads take at most `most` sectors per request on average.

    With the kind "store", the demand is for stores. A kernel whose loads (or stores) are all
    coalesced always meets the demand.
    """

    def judge(run: Run) -> None:
        profile = run.profile
        # Loads of wider elements take more sectors per request, but waste none.
        if not any(wasteful(a) for a in _global(profile, kind)):
            return
        if kind == "load":
            profile.assert_sectors_per_request(load=most)
        else:
            profile.assert_sectors_per_request(store=most)

    text = (
        f"{kind}s of global memory are coalesced, or take at most {most:g} sectors per request on "
        "average"
    )
    return Demand(text, judge)


def _no_conflicts(run: Run) -> None:
    run.profile.assert_no_bank_conflicts()


def _global(profile: Profile, *kinds: str) -> list[Access]:
    return [a for a in profile.accesses() if a.space == "global" and a.kind in kinds]


_ONE_PASS = "one pass over the array takes"
_TILED = "blocks that load their rows of a and columns of b once take"


def _require_few(kind: Kind, quantity: Quantity, most: float, least: str, run: Run) -> None:
    """Raise AssertionError if the kernel loads or stores too often.

    Accessing each element of the case once takes a certain number of requests (or sectors). The
    limit is `most` times this number. `least` describes these accesses in the message.
    """
    accesses, case = _global(run.profile, kind), run.case
    total = sum(getattr(a, quantity) for a in accesses)
    elements = case.elements if kind == "load" and case.elements else case.out.size
    once = -(-elements // (32 if quantity == "requests" else 8))
    if total > most * once:
        message = (
            f"global {kind}s take {total:,} {quantity}, {least} {once:,}; "
            f"at most {most:g} times as many are allowed"
        )
        raise AssertionError("\n".join([message, *_reasons(accesses, quantity, once)]))


def _reasons(accesses: list[Access], quantity: Quantity, once: int) -> list[str]:
    """Return the lines of a message: where the accesses are, and why there are too many of them."""
    lines = []
    for a in accesses:
        noun = "sector" if f"{a.per_request:.3g}" == "1" else "sectors"
        lines.append(
            f"  {a.place}: {a.name}, {plural(a.requests, 'request')}, {a.per_request:.3g} {noun} "
            "per request"
        )
    lanes = sum(a.bytes / a.width for a in accesses) / sum(a.requests for a in accesses)
    if lanes < 16:
        verb = "is" if lanes == 1 else "are"
        return [*lines, f"    Only {lanes:.3g} of 32 lanes {verb} active on average."]
    if quantity == "sectors" and sum(a.requests for a in accesses) < 2 * once / 4:
        return [*lines, "    Several loads visit the same sectors, each for a part of their bytes."]
    repeated = (
        "    The same elements are accessed several times: by neighbouring threads, or by several "
        "blocks.\n    Let a block load each element once, into shared memory or a register."
    )
    return [*lines, repeated]


def _few_atomics(run: Run) -> None:
    profile = run.profile
    blocks = int(np.prod(profile.grid))
    accesses = _global(profile, "atomic", "reduction")
    requests = sum(a.requests for a in accesses)
    if requests > 4 * blocks:
        raise AssertionError(
            f"atomics on global memory take {requests:,} requests; at most {4 * blocks} are "
            "allowed, 4 for each block\n    Many threads of a block add to the same bins. Let each "
            "block count in shared memory first, and then add each of its counts once to global "
            "memory."
        )


def shared_words(most: float) -> Demand:
    """Return a demand for matrix products: the kernel loads few words from shared memory.

    The limit is `most` wavefronts (cycles of shared memory) for each multiply-add instruction of a
    warp.
    """

    def judge(run: Run) -> None:
        profile, case = run.profile, run.case
        accesses = [a for a in profile.accesses() if (a.space, a.kind) == ("shared", "load")]
        wavefronts = sum(a.wavefronts for a in accesses)
        # The number of multiply-adds of all warps.
        steps = case.out.size * case.arguments[0].shape[1] / 32
        if wavefronts > most * steps:
            lines = [
                f"  {a.place}: {a.name}, {a.wavefronts / steps:.3g} wavefronts per multiply-add"
                for a in accesses
            ]
            message = (
                f"shared loads take {wavefronts / steps:.3g} wavefronts per multiply-add of a "
                f"warp; at most {most:g} are allowed"
            )
            advice = (
                "    A thread with R x C elements uses R + C words for R * C multiply-adds. Which "
                "R and C\n    load the fewest words for the same number of elements?"
            )
            if any(a.conflict > 1 for a in accesses):
                advice = (
                    "    Bank conflicts add wavefronts: the lanes of a warp read many rows of a "
                    "tile at once.\n    Which part of the thread's number should choose the row?"
                )
            raise AssertionError("\n".join([message, *lines, advice]))

    text = f"loads of shared memory take at most {most:g} wavefronts per multiply-add of a warp"
    return Demand(text, judge)


def l1_passes(most: float) -> Demand:
    """Return a demand: requests of global memory take few passes of L1's data stage (modelled)."""

    def judge(run: Run) -> None:
        profile = run.profile
        if profile.modelled is None:
            raise AssertionError("the passes of L1 are not known, because no time was modelled")
        accesses = _global(profile, "load", "store")
        passes = profile.modelled.work["tag_lookups"] / sum(a.requests for a in accesses)
        if passes > most:
            lines = [f"  {a.place}: {a.name}, {a.requests:,} requests" for a in accesses]
            message = (
                f"requests of global memory take {passes:.3g} passes of L1 each; at most {most:g} "
                "are allowed"
            )
            advice = (
                "    A column is in few of the 32 banks of L1. Which length of a row changes this?"
            )
            raise AssertionError("\n".join([message, *lines, advice]))

    text = f"requests of global memory take at most {most:g} passes of L1 on average (modelled)"
    return Demand(text, judge)


def instructions(most: float) -> Demand:
    """Return a demand: a warp executes at most `most` instructions on average."""

    def judge(run: Run) -> None:
        profile = run.profile
        warps = math.prod(profile.grid) * -(-math.prod(profile.block) // 32)
        each = profile.metrics()["smsp__inst_executed.sum"] / warps
        if each > most:
            raise AssertionError(
                f"a warp executes {each:.3g} instructions on average; at most {most:g} are "
                "allowed\n    Does each thread add all elements before its own? In a few steps, "
                "the threads\n    can share the sums that others have computed."
            )

    return Demand(f"a warp executes at most {most:g} instructions on average", judge)


def lanes(least: float) -> Demand:
    """Return a demand: on average, at least `least` lanes execute an instruction."""

    def judge(run: Run) -> None:
        profile = run.profile
        if profile.lanes_per_instruction < least:
            raise AssertionError(
                f"{profile.lanes_per_instruction:.3g} of 32 lanes execute an instruction on "
                f"average; at least {least:g} are needed\n    The other lanes wait: they took the "
                "other side of an `if`, or they have nothing to do."
            )

    return Demand(f"at least {least:g} of 32 lanes execute an instruction on average", judge)


def no_padding(most: int) -> Demand:
    """Return a demand: the shared arrays have no padding. Their size is at most `most` bytes."""

    def judge(run: Run) -> None:
        block = run.kernel.step(run.case.grid, run.case.block, *run.case.arguments, device="sim")
        total = sum(array.nbytes for array in block.shared.values())
        if total > most:
            raise AssertionError(
                f"shared memory takes {total:,} bytes; at most {most:,} are allowed\n    Padding "
                "makes the tile larger. Keep the size of the tile, and store the elements of a row "
                "in another order."
            )

    return Demand(f"shared memory of at most {most:,} bytes", judge)


def loads_per_store(most: float) -> Demand:
    """Return a demand: for each store to global memory, there are at most `most` loads."""

    def judge(run: Run) -> None:
        loads, stores = (_global(run.profile, kind) for kind in ("load", "store"))
        each = sum(a.requests for a in loads) / max(1, sum(a.requests for a in stores))
        if each > most:
            lines = [f"  {a.place}: {a.name}, {a.requests:,} requests" for a in loads]
            message = f"there are {each:.3g} load requests per store; at most {most:g} are allowed"
            advice = "    Which of these elements does a thread load again and again?"
            raise AssertionError("\n".join([message, *lines, advice]))

    return Demand(f"at most {most:g} load requests per store request", judge)


def _no_local_memory(run: Run) -> None:
    local = [a for a in run.profile.accesses() if a.space == "local"]
    if local:
        lines = [f"  {a.place}: {a.name}, {a.requests:,} requests" for a in local]
        message = "the kernel uses local memory, which is a part of DRAM"
        advice = "    An array stays in registers if the compiler knows all its indices."
        raise AssertionError("\n".join([message, *lines, advice]))


def metric(name: str, most: float) -> Demand:
    """Return a demand: a metric of Nsight Compute, such as smsp__inst_executed.sum, is small."""

    def judge(run: Run) -> None:
        metrics = run.profile.metrics()
        value = 0 if name in SOMETIMES and name not in metrics else metrics[name]
        if value > most:
            raise AssertionError(f"{name} is {value:,.6g}; at most {most:,.6g} is allowed")

    return Demand(f"{name} of at most {most:,.6g}", judge)


CONFLICTS = Demand("no bank conflicts in shared memory", _no_conflicts)
NO_LOCAL_MEMORY = Demand("no local memory", _no_local_memory)
ATOMICS = Demand("atomics on global memory take at most 4 requests per block", _few_atomics)


def repeats(kind: Kind, quantity: Quantity, most: float) -> Demand:
    """Return a demand: the kernel does not load (or store) the elements again and again.

    To load each element once takes a certain number of requests (or sectors). The limit is `most`
    times this number. `kind` is "load" or "store". `quantity` says what is counted: requests or
    sectors.
    """
    text = (
        f"the {kind}s take at most {most:g} times the {quantity} of one pass over the array, which "
        f"{kind}s each element once"
    )
    return Demand(text, partial(_require_few, kind, quantity, most, _ONE_PASS))


def loads_of_tiles(most: float) -> Demand:
    """Return a demand for matrix products: a limit for the number of load requests.

    If each block loads its rows of a and its columns of b only once, the loads take a certain
    number of requests. The limit is `most` times this number.
    """
    text = (
        f"the loads take at most {most:g} times the requests that are needed if each block loads "
        "its rows of a and its columns of b once"
    )
    return Demand(text, partial(_require_few, "load", "requests", most, _TILED))


ONCE = (repeats("load", "requests", 1.25), repeats("store", "requests", 1.25))
GOOD = (sectors("load", 4.5), sectors("store", 4.5))
