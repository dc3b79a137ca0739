"""Finds the counts that may differ from the hardware's counters, and says why.

The counts of the machine code are equal to the counters of a GPU, with two exceptions:

- Some counters of a GPU differ from run to run. They depend on the order of the warps, or on
  whether diverged lanes reconverge.
- For some accesses, it is not known by which formula a GPU counts them. For other accesses, no
  counters of a GPU were recorded.

The rules in this file say which counts of a kernel are exceptions. All other counts are called
exact. The rules were made from the recordings in tests/data.
`tests/python/counters/test_hardware_counters.py` compares the exact counts with the recordings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

TOTALS = (
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__thread_inst_executed_per_inst_executed.ratio",
    "smsp__thread_inst_executed_pred_on.sum",
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
)
# The threads that add, multiply, or multiply and add. How lanes diverge does not change them.
ARITHMETIC = "smsp__sass_thread_inst_executed_op_"

DIVERGED = (
    "diverged lanes wait for each other; the number of times that the hardware issues the waiting "
    "instruction differs from run to run"
)
NOT_RECONVERGED = (
    "lanes diverge at a branch, and no barrier reconverges them before they access memory; in some "
    "runs they access memory together, in others one after the other, so the counts differ"
)
ARBITRATED = (
    "warps that access shared memory at the same time delay each other; the hardware counts these "
    "delays, too, and they differ from run to run"
)
DIVIDED = (
    "an atomic accesses many cache lines, and some of its lanes share a sector; the hardware sends "
    "such a sector once in some runs, and twice in others"
)
CONTENDED = (
    "the number of iterations of a compare-and-swap loop depends on the other warps of the block, "
    "or on memory that was never written; this number differs from run to run"
)
WATCHING = (
    "a loop reads values that other warps write at the same time, with an atomic or a volatile "
    "load; the number of its iterations, and the code that runs after it, differ from run to run"
)
ORDERED = (
    "addresses depend on the results of atomics; these results depend on the order of the warps, "
    "and this order differs from run to run"
)
GENERIC = (
    "the hardware also counts a wavefront of shared memory for an atomic with a generic address"
)
COPIED = (
    "several lanes of an asynchronous copy that bypasses L1 have the same destination; it is not "
    "known how often the hardware then counts a sector"
)
GUARDED = (
    "the guard of an asynchronous copy that bypasses L1 excludes lanes; Nsight Compute also counts "
    "the addresses in the registers of these lanes, which may have any values"
)
SOME_LANES = (
    "only some lanes of a warp load, 16 bytes each, and these lanes have bank conflicts or share "
    "words; for such loads, the result of Nsight Compute's formula is sometimes wrong by one"
)
OUTSIDE = (
    "the kernel called printf, malloc or free; on a GPU, these functions execute hundreds of loads "
    "and stores, which the simulator does not execute"
)
DISTANT = (
    "atomics on the shared memory of other blocks of the cluster are not counted, because it is "
    "not known what the hardware counts"
)
MBARRIERS = "how often a loop tests an mbarrier differs from run to run"
REGISTERS = (
    "a warp asks for registers (setmaxnreg) until other warps have given up theirs; how often it "
    "asks differs from run to run"
)
AFTER_WAITS = (
    "addresses, or the number of accesses, depend on how often a thread tested an mbarrier or a "
    "value that others write; this number differs from run to run"
)
SYSTEM_FENCE = (
    "for a fence of the whole system (__threadfence_system(), or the scope .sys), the GPU runs a "
    "routine of the driver; the hardware counts its instructions, but they are not simulated"
)
UNRECORDED = "the kernel has a kind of access for which no counters of a GPU were recorded"
UNRECORDED_COPY = (
    "some copies by the TMA have a form for which no counters of a GPU were recorded; their "
    "sectors are computed by the rule of the recorded forms"
)
BESIDE_OTHERS = (
    "the tensor cores also execute the instruction HFMA2.MMA; it takes a number of cycles that "
    "depends on what the other warps execute at the same time"
)
_TENSOR_CYCLES = "sm__pipe_tensor_cycles_active.sum"
_WITH_ARBITRATION = "l1tex__data_pipe_lsu_wavefronts_mem_shared"


def inexact(table: Mapping[str, Any], metrics: Mapping[str, float]) -> dict[str, str]:
    """Return the metrics that may differ from the hardware's counters, and the reasons.

    Parameters
    ----------
    table, metrics : dict
        The counts of the machine code: ``counts.table()`` and ``counts.metrics()``.

    Returns
    -------
    dict
        The keys are names of metrics, and the values are the reasons. All other metrics are exact.
    """
    reasons: dict[str, str] = {}

    def add(names: Iterable[str], why: str) -> None:
        reasons.update(dict.fromkeys(names, why))

    totals = [*TOTALS, *(n for n in metrics if n.startswith(ARITHMETIC))]
    executed = table["executed"] > 0
    for column, why in (
        ("calls_outside", OUTSIDE),
        ("system_fence", SYSTEM_FENCE),
        ("unrecorded", UNRECORDED),
    ):
        if (table[column] & executed).any():
            return dict.fromkeys(metrics, why)
    if table["diverged"].any():
        add(TOTALS, DIVERGED)
    if (executed & table["requests_registers"]).any():
        add(totals, REGISTERS)
    if (executed & table["tests_mbarrier"]).any():
        add(totals, MBARRIERS)
    if _TENSOR_CYCLES in metrics and (executed & table["tensor_cycles_vary"]).any():
        add([_TENSOR_CYCLES], BESIDE_OTHERS)
    add([n for n in metrics if n.startswith(_WITH_ARBITRATION) and metrics[n]], ARBITRATED)
    for kind, op in (("atomic", "atom"), ("reduction", "red")):
        if table["divided"][table["kind"] == kind].any():
            add([n for n in metrics if "t_sectors" in n and f"_global_op_{op}." in n], DIVIDED)
    ordinary = [n for n in metrics if not _of_copy_engine(n)]
    for space in ("global", "shared", "local"):
        if table["unjoined"][_touches(table, space)].any():
            add([n for n in ordinary if space in n], NOT_RECONVERGED)
    copies_of_engine = table["bulk"] & executed
    if table["unjoined"][copies_of_engine].any():
        add(filter(_of_copy_engine, metrics), NOT_RECONVERGED)
    for kind, part in (("tma_load", "read_"), ("tma_store", "write_")):
        if table["divided"][table["kind"] == kind].any():
            add([n for n in metrics if n.startswith("l1tex__m_") and part in n], UNRECORDED_COPY)
    atomics = table["generic"] & (table["kind"] == "atomic") & executed
    if atomics.any():
        add([f"{_WITH_ARBITRATION}_op_atom.sum"], GENERIC)
    if table["divided"][table["kind"] == "async_copy"].any():
        add(["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"], COPIED)
    if table["guarded"].any():
        add([n for n in metrics if _by_addresses_of_copies(n)], GUARDED)
    if _some_lanes_conflict(table).any():
        add([n for n in metrics if n.startswith("memory_l1_wavefronts_shared")], SOME_LANES)
        add(["smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"], SOME_LANES)
    for space in ("global", "shared", "local"):
        if table["after_waits"][_touches(table, space)].any():
            add([n for n in ordinary if space in n or "generic" in n], AFTER_WAITS)
            add(totals, AFTER_WAITS)
    if table["after_waits"][copies_of_engine | (executed & table["ends_bulk_group"])].any():
        add(filter(_of_copy_engine, metrics), AFTER_WAITS)
        add(totals, AFTER_WAITS)
    if table["after_waits"][table["tensor"]].any():
        add(filter(_of_tensor_cores, metrics), AFTER_WAITS)
        add(totals, AFTER_WAITS)
    if _waits_in_a_loop(table).any() or table["waits"].any():
        add([n for n in metrics if "global" in n or "generic" in n], WATCHING)
        add(filter(_of_copy_engine, metrics), WATCHING)
        # The bytes of generic accesses count as bytes of local memory, too.
        add([n for n in metrics if "data_bytes_mem_local" in n and metrics[n]], WATCHING)
        # HFMA2.MMA sets registers to constants, in a loop, too, and counts as a tensor instruction.
        add([n for n in metrics if "pipe_tensor" in n and metrics[n]], WATCHING)
        add(totals, WATCHING)
    if (table["cluster"] & executed).any() and atomics.any():
        add([n for n in metrics if "shared" in n], DISTANT)
    if table["contended"].any():
        add([n for n in metrics if "shared" in n], CONTENDED)
        add(totals, CONTENDED)
    return reasons


def order_dependent(metrics: Iterable[str], space: str) -> dict[str, str]:
    """Return the metrics that depend on the order of the warps, as a dict with the reason for each.

    Call this function for a kernel whose addresses depend on the order of the warps. `space` is the
    memory of these addresses, such as "global". `metrics` are the names of all metrics. The result
    has the metrics that count sectors, tag requests (look-ups of cache lines) or wavefronts of this
    memory.
    """
    of_addresses = ("sector", "tag_requests", "wavefronts")
    names = [n for n in metrics if space in n or (space == "global" and "pipe_tma" in n)]
    return {n: ORDERED for n in names if any(word in n for word in of_addresses)}


def _touches(table: Any, space: str) -> Any:
    """Select the instructions of the load/store unit that may access a memory space."""
    return ((table["space"] == space) | (table["space"] == "generic")) & ~table["bulk"]


def _by_addresses_of_copies(metric: str) -> bool:
    """Select the metrics that Nsight Compute computes from the addresses of asynchronous copies."""
    shown = ("memory_l1_wavefronts_shared", "memory_l2_theoretical_sectors_global")
    return metric.startswith(shown) or metric.endswith("wavefronts_mem_shared_op_ldgsts.sum")


def _of_copy_engine(metric: str) -> bool:
    return "tma" in metric


def _of_tensor_cores(metric: str) -> bool:
    # Products of warpgroups read shared memory.
    return "tensor" in metric or "gmma" in metric or metric.startswith("memory_l1_wavefronts")


def _waits_in_a_loop(table: Any) -> Any:
    """Select the instructions with which warps may wait in a loop for a value in global memory.

    These are atomics with a result and volatile loads that were executed more often than there are
    warps.
    """
    kind = table["kind"]
    watches = (kind == "atomic") | ((kind == "load") & table["strong"])
    # The number of warps that executed the first instruction.
    warps = next((n for n in table["executed"].tolist() if n), 0)
    return watches & _touches(table, "global") & (table["executed"] > warps)


def _some_lanes_conflict(table: Any) -> Any:
    """Select 16-byte loads of shared memory with inactive lanes and with lanes that share banks."""
    some = table["accesses"] < 32 * table["requests"]
    spare = table["wavefronts"] * 128 - table["bytes"].astype(np.int64)
    packed = (table["wavefronts"] == table["ideal_wavefronts"]) & (
        (spare >= 0) & (spare < 128 * table["requests"])
    )
    loads = (table["space"] == "shared") & (table["kind"] == "load") & (table["width"] == 16)
    return loads & some & ~packed
