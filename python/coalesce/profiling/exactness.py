"""Which counters need not equal the hardware's, to the last unit, and why.

What is counted of the machine code equals what a GPU counts, except where the GPU itself counts
differently from run to run: where lanes that a branch parted happen to meet, where warps compete.
The rules come of the recordings in tests/data; `tests/python/test_hardware_counters.py` holds the
counters that are called exact against them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from coalesce._core import sim

TOTALS = ("smsp__inst_executed.sum", "smsp__thread_inst_executed.sum")

PARTED = (
    "lanes that a branch has parted wait for each other, and how often the hardware issues the "
    "instruction that waits differs from run to run"
)
UNJOINED = (
    "a branch parts lanes, and no barrier brings them together before they access memory: whether "
    "they do it together differs from run to run"
)
ARBITRATED = "the hardware adds what competing warps cost each other, which differs between runs"
DIVIDED = (
    "lanes of an atomic that is scattered over many lines share sectors, which the hardware sends "
    "once or twice, differing from run to run"
)
CONTENDED = (
    "a loop of compare-and-swap turns as often as the other warps of the block make it, or what "
    "lies in memory that nobody wrote, which differs from run to run"
)
WATCHING = (
    "a loop follows what other warps write meanwhile, by an atomic's result or a volatile load: "
    "how often it turns, and where that leads, differs from run to run"
)
ORDERED = (
    "addresses follow from what atomics returned, and so from the order that warps come in, which "
    "differs from run to run"
)
GENERIC = "of an atomic by a generic address the hardware counts a wavefront of shared memory, too"
COPIED = (
    "an asynchronous copy conflicts in shared memory, or passes by the first-level cache out of "
    "order: Nsight Compute's formula for these is not known"
)
SOME_LANES = (
    "some lanes load 16 bytes each that conflict or are shared: Nsight Compute's formula, not the "
    "hardware, is now and then off by one"
)
_WITH_ARBITRATION = "l1tex__data_pipe_lsu_wavefronts_mem_shared"


def inexact(counts: sim.Counts) -> dict[str, str]:
    """Return the metrics of counts of machine code that need not be the hardware's, and why.

    Parameters
    ----------
    counts : Counts
        Of the machine code.

    Returns
    -------
    dict
        Reasons by the metric's name; all other metrics of ``counts.metrics()`` are exact.
    """
    table, metrics = counts.table(), counts.metrics()
    found: dict[str, str] = {}

    def add(names: Iterable[str], why: str) -> None:
        found.update(dict.fromkeys(names, why))

    if table["parted"].any():
        add(TOTALS, PARTED)
    add([n for n in metrics if n.startswith(_WITH_ARBITRATION) and metrics[n]], ARBITRATED)
    for kind, op in (("atomic", "atom"), ("reduction", "red")):
        if table["divided"][table["kind"] == kind].any():
            add([n for n in metrics if "t_sectors" in n and f"_global_op_{op}." in n], DIVIDED)
    for space in ("global", "shared", "local"):
        if table["unjoined"][_touches(table["space"], space)].any():
            add([n for n in metrics if space in n], UNJOINED)
    if (table["generic"] & (table["kind"] == "atomic") & (table["executed"] > 0)).any():
        add([f"{_WITH_ARBITRATION}_op_atom.sum"], GENERIC)
    copies = table["kind"] == "async_copy"
    if (copies & (table["wavefronts"] > table["ideal_wavefronts"])).any():
        add([n for n in metrics if _of_copies(n)], COPIED)
    if (copies & (table["divided"] > 0)).any():
        past = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
        add([n for n in metrics if _of_copies(n) or n == past], COPIED)
        add([n for n in metrics if n.startswith("memory_l2_theoretical_sectors_global")], COPIED)
    if _some_lanes_conflict(table).any():
        add([n for n in metrics if n.startswith("memory_l1_wavefronts_shared")], SOME_LANES)
        add(["smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"], SOME_LANES)
    if _watches_in_a_loop(table).any():
        add([n for n in metrics if "global" in n], WATCHING)
        add(TOTALS, WATCHING)
    if table["contended"].any():
        add([n for n in metrics if "shared" in n], CONTENDED)
        add(TOTALS, CONTENDED)
    return found


def ordered(metrics: Iterable[str], space: str) -> dict[str, str]:
    """Return the metrics of addresses in `space` that follow from what atomics returned."""
    of_addresses = ("sector", "tag_requests", "wavefronts")
    return {n: ORDERED for n in metrics if space in n and any(word in n for word in of_addresses)}


def _touches(spaces: Any, space: str) -> Any:
    return (spaces == space) | (spaces == "generic")


def _of_copies(metric: str) -> bool:
    copied = metric.endswith("wavefronts_mem_shared_op_ldgsts.sum")
    return copied or metric.startswith("memory_l1_wavefronts_shared")


def _watches_in_a_loop(table: Any) -> Any:
    """Global atomics with a result, and volatile loads, that warps execute more than once."""
    kind = table["kind"]
    watches = (kind == "atomic") | ((kind == "load") & table["strong"])
    warps = next((n for n in table["executed"].tolist() if n), 0)  # of the first instruction
    return watches & _touches(table["space"], "global") & (table["executed"] > warps)


def _some_lanes_conflict(table: Any) -> Any:
    """16-byte loads of shared memory by part of a warp, of which not each has words of its own."""
    some = table["accesses"] < 32 * table["requests"]
    spare = table["wavefronts"] * 128 - table["bytes"].astype(np.int64)
    packed = (table["wavefronts"] == table["ideal_wavefronts"]) & (
        (spare >= 0) & (spare < 128 * table["requests"])
    )
    loads = (table["space"] == "shared") & (table["kind"] == "load") & (table["width"] == 16)
    return loads & some & ~packed
