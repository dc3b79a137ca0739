"""The metrics of a profile, by Nsight Compute's names, and answers to the names that it lacks.

A name may be missing for one of four reasons, and the KeyError says which:

- It is a name of nvprof, the profiler before Nsight Compute: NVIDIA's table of both is in "nvprof
  Transition Guide" (docs.nvidia.com/nsight-compute, Nsight Compute CLI).
- The same count has another suffix: `.sum` is counted, and `.avg` and `.per_second` are not.
- The quantity depends on how long a GPU takes, such as cycles, stalls or the achieved occupancy.
- The kernel has no such accesses, or the simulator does not count the quantity.

Some metrics follow from others, such as bytes from sectors. They are computed when they are asked
for, and not listed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from coalesce._core import model

_LOADS, _STORES = "_mem_global_op_ld", "_mem_global_op_st"
_SECTORS, _PER_REQUEST = (
    "l1tex__t_sectors_pipe_lsu",
    "l1tex__average_t_sectors_per_request_pipe_lsu",
)
_USED = "smsp__sass_average_data_bytes_per_sector"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared"

# The metrics and events of nvprof whose quantity is counted, and Nsight Compute's names.
OF_NVPROF = {
    "gld_efficiency": f"{_USED}{_LOADS}.pct",
    "gst_efficiency": f"{_USED}{_STORES}.pct",
    "gld_transactions": f"{_SECTORS}{_LOADS}.sum",
    "gst_transactions": f"{_SECTORS}{_STORES}.sum",
    "gld_transactions_per_request": f"{_PER_REQUEST}{_LOADS}.ratio",
    "gst_transactions_per_request": f"{_PER_REQUEST}{_STORES}.ratio",
    "global_load_requests": f"l1tex__t_requests_pipe_lsu{_LOADS}.sum",
    "global_store_requests": f"l1tex__t_requests_pipe_lsu{_STORES}.sum",
    "global_hit_rate": "l1tex__t_sector_hit_rate.pct",
    "tex_cache_hit_rate": "l1tex__t_sector_hit_rate.pct",
    "local_load_transactions": f"{_SECTORS}_mem_local_op_ld.sum",
    "local_store_transactions": f"{_SECTORS}_mem_local_op_st.sum",
    "local_load_transactions_per_request": f"{_PER_REQUEST}_mem_local_op_ld.ratio",
    "local_store_transactions_per_request": f"{_PER_REQUEST}_mem_local_op_st.ratio",
    "shared_load_transactions": f"{_WAVEFRONTS}_op_ld.sum",
    "shared_store_transactions": f"{_WAVEFRONTS}_op_st.sum",
    "l2_tex_read_transactions": "lts__t_sectors_srcunit_tex_op_read.sum",
    "l2_tex_write_transactions": "lts__t_sectors_srcunit_tex_op_write.sum",
    "l2_tex_hit_rate": "lts__t_sector_hit_rate.pct",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "inst_executed": "smsp__inst_executed.sum",
    "thread_inst_executed": "smsp__thread_inst_executed.sum",
    "warp_execution_efficiency": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "warp_nonpred_execution_efficiency": (
        "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
    ),
    "inst_executed_global_loads": "smsp__inst_executed_op_global_ld.sum",
    "inst_executed_global_stores": "smsp__inst_executed_op_global_st.sum",
    "inst_executed_global_reductions": "smsp__inst_executed_op_global_red.sum",
    "inst_executed_shared_loads": "smsp__inst_executed_op_shared_ld.sum",
    "inst_executed_shared_stores": "smsp__inst_executed_op_shared_st.sum",
    "inst_executed_local_loads": "smsp__inst_executed_op_local_ld.sum",
    "inst_executed_local_stores": "smsp__inst_executed_op_local_st.sum",
}
_OTHER_UNIT = {
    "warp_execution_efficiency": "of 32 lanes; nvprof gives percent",
    "warp_nonpred_execution_efficiency": "of 32 lanes; nvprof gives percent",
    "gld_efficiency": "in percent",
    "gst_efficiency": "in percent",
}
OF_NVPROF |= {
    f"flop_count_{nvprof}_{name}": f"smsp__sass_thread_inst_executed_op_{letter}{name}_pred_on.sum"
    for letter, nvprof in (("h", "hp"), ("f", "sp"), ("d", "dp"))
    for name in ("add", "mul", "fma")
}
# The other metrics and events of nvprof, and the labels of Nsight Compute's report, with Nsight
# Compute's metrics.
OF_OTHERS = dict(
    line.rsplit(maxsplit=1)
    for line in """
achieved_occupancy sm__warps_active.avg.pct_of_peak_sustained_active
achieved occupancy sm__warps_active.avg.pct_of_peak_sustained_active
active_cycles sm__cycles_active.sum
active_warps sm__warps_active.sum
atomic_transactions l1tex__t_set_accesses_pipe_lsu_mem_global_op_atom.sum
branch_efficiency smsp__sass_average_branch_targets_threads_uniform.pct
cf_executed smsp__inst_executed_pipe_cbu.sum
compute (sm) throughput sm__throughput.avg.pct_of_peak_sustained_elapsed
double_precision_fu_utilization smsp__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active
dram throughput dram__throughput.avg.pct_of_peak_sustained_elapsed
dram_read_throughput dram__bytes_read.sum.per_second
dram_read_transactions dram__sectors_read.sum
dram_utilization dram__throughput.avg.pct_of_peak_sustained_elapsed
dram_write_throughput dram__bytes_write.sum.per_second
dram_write_transactions dram__sectors_write.sum
duration gpu__time_duration.sum
elapsed_cycles_sm sm__cycles_elapsed.sum
eligible_warps_per_cycle smsp__warps_eligible.sum.per_cycle_active
executed ipc active sm__inst_executed.avg.per_cycle_active
flop_count_sp_special smsp__sass_thread_inst_executed_op_mufu_pred_on.sum
flop_dp_efficiency smsp__sass_thread_inst_executed_ops_dadd_dmul_dfma_pred_on.avg.pct_of_peak_sustained_elapsed
flop_hp_efficiency smsp__sass_thread_inst_executed_ops_hadd_hmul_hfma_pred_on.avg.pct_of_peak_sustained_elapsed
flop_sp_efficiency smsp__sass_thread_inst_executed_ops_fadd_fmul_ffma_pred_on.avg.pct_of_peak_sustained_elapsed
gld_request l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum
gld_throughput l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum.per_second
global_atomic_requests l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum
global_reduction_requests l1tex__t_requests_pipe_lsu_mem_global_op_red.sum
gst_request l1tex__t_requests_pipe_lsu_mem_global_op_st.sum
gst_throughput l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum.per_second
half_precision_fu_utilization smsp__inst_executed_pipe_fp16.avg.pct_of_peak_sustained_active
inst_bit_convert smsp__sass_thread_inst_executed_op_conversion_pred_on.sum
inst_compute_ld_st smsp__sass_thread_inst_executed_op_memory_pred_on.sum
inst_control smsp__sass_thread_inst_executed_op_control_pred_on.sum
inst_executed_global_atomics smsp__inst_executed_op_global_atom.sum
inst_executed_shared_atomics smsp__inst_executed_op_shared_atom.sum
inst_executed_surface_atomics smsp__inst_executed_op_surface_atom.sum
inst_executed_surface_loads smsp__inst_executed_op_surface_ld.sum
inst_executed_surface_reductions smsp__inst_executed_op_surface_red.sum
inst_executed_surface_stores smsp__inst_executed_op_surface_st.sum
inst_executed_tex_ops smsp__inst_executed_op_texture.sum
inst_fp_16 smsp__sass_thread_inst_executed_op_fp16_pred_on.sum
inst_fp_32 smsp__sass_thread_inst_executed_op_fp32_pred_on.sum
inst_fp_64 smsp__sass_thread_inst_executed_op_fp64_pred_on.sum
inst_integer smsp__sass_thread_inst_executed_op_integer_pred_on.sum
inst_inter_thread_communication smsp__sass_thread_inst_executed_op_inter_thread_communication_pred_on.sum
inst_issued smsp__inst_issued.sum
inst_misc smsp__sass_thread_inst_executed_op_misc_pred_on.sum
inst_per_warp smsp__average_inst_executed_per_warp.ratio
ipc smsp__inst_executed.avg.per_cycle_active
issue_slot_utilization smsp__issue_active.avg.pct_of_peak_sustained_active
issue_slots smsp__inst_issued.sum
issued_ipc smsp__inst_issued.avg.per_cycle_active
l1/tex hit rate l1tex__t_sector_hit_rate.pct
l1_sm_lg_utilization l1tex__lsu_writeback_active.avg.pct_of_peak_sustained_active
l2 hit rate lts__t_sector_hit_rate.pct
l2_atomic_throughput lts__t_sectors_srcunit_tex_op_atom.sum.per_second
l2_atomic_transactions lts__t_sectors_srcunit_tex_op_atom.sum
l2_global_atomic_store_bytes lts__t_bytes_equiv_l1sectormiss_pipe_lsu_mem_global_op_atom.sum
l2_global_load_bytes lts__t_bytes_equiv_l1sectormiss_pipe_lsu_mem_global_op_ld.sum
l2_local_global_store_bytes lts__t_bytes_equiv_l1sectormiss_pipe_lsu_mem_global_op_st.sum
l2_local_load_bytes lts__t_bytes_equiv_l1sectormiss_pipe_lsu_mem_local_op_ld.sum
l2_read_throughput lts__t_sectors_op_read.sum.per_second
l2_read_transactions lts__t_sectors_op_read.sum
l2_surface_load_bytes lts__t_bytes_equiv_l1sectormiss_pipe_tex_mem_surface_op_ld.sum
l2_surface_store_bytes lts__t_bytes_equiv_l1sectormiss_pipe_tex_mem_surface_op_st.sum
l2_tex_read_hit_rate lts__t_sector_op_read_hit_rate.pct
l2_tex_read_throughput lts__t_sectors_srcunit_tex_op_read.sum.per_second
l2_tex_write_hit_rate lts__t_sector_op_write_hit_rate.pct
l2_tex_write_throughput lts__t_sectors_srcunit_tex_op_write.sum.per_second
l2_utilization lts__t_sectors.avg.pct_of_peak_sustained_elapsed
l2_write_throughput lts__t_sectors_op_write.sum.per_second
l2_write_transactions lts__t_sectors_op_write.sum
ldst_executed smsp__inst_executed_pipe_lsu.sum
ldst_fu_utilization smsp__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active
local_load_requests l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum
local_load_throughput l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum.per_second
local_store_requests l1tex__t_requests_pipe_lsu_mem_local_op_st.sum
local_store_throughput l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum.per_second
memory throughput gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed
registers per thread launch__registers_per_thread
shared_efficiency smsp__sass_average_data_bytes_per_wavefront_mem_shared.pct
shared_load_throughput l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum.per_second
shared_store_throughput l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum.per_second
shared_utilization l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed
single_precision_fu_utilization smsp__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active
sm_efficiency smsp__cycles_active.avg.pct_of_peak_sustained_elapsed
sm_tex_utilization l1tex__texin_sm2tex_req_cycles_active.avg.pct_of_peak_sustained_elapsed
special_fu_utilization smsp__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active
stall_constant_memory_dependency smsp__warp_issue_stalled_imc_miss_per_warp_active.pct
stall_exec_dependency smsp__warp_issue_stalled_wait_per_warp_active.pct
stall_inst_fetch smsp__warp_issue_stalled_no_instruction_per_warp_active.pct
stall_memory_dependency smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct
stall_memory_throttle smsp__warp_issue_stalled_lg_throttle_per_warp_active.pct
stall_not_selected smsp__warp_issue_stalled_not_selected_per_warp_active.pct
stall_other smsp__warp_issue_stalled_misc_per_warp_active.pct
stall_pipe_busy smsp__warp_issue_stalled_math_pipe_throttle_per_warp_active.pct
stall_sleeping smsp__warp_issue_stalled_sleeping_per_warp_active.pct
stall_sync smsp__warp_issue_stalled_barrier_per_warp_active.pct
stall_texture smsp__warp_issue_stalled_tex_throttle_per_warp_active.pct
surface_atomic_requests l1tex__t_requests_pipe_tex_mem_surface_op_atom.sum
surface_load_requests l1tex__t_requests_pipe_tex_mem_surface_op_ld.sum
surface_reduction_requests l1tex__t_requests_pipe_tex_mem_surface_op_red.sum
surface_store_requests l1tex__t_requests_pipe_tex_mem_surface_op_st.sum
sysmem_read_bytes lts__t_bytes_aperture_sysmem_op_read.sum
sysmem_read_throughput lts__t_sectors_aperture_sysmem_op_read.sum.per_second
sysmem_read_transactions lts__t_sectors_aperture_sysmem_op_read.sum
sysmem_write_bytes lts__t_bytes_aperture_sysmem_op_write.sum
sysmem_write_throughput lts__t_sectors_aperture_sysmem_op_write.sum.per_second
sysmem_write_transactions lts__t_sectors_aperture_sysmem_op_write.sum
tensor_precision_fu_utilization sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active
tex_fu_utilization smsp__inst_executed_pipe_tex.avg.pct_of_peak_sustained_active
tex_sm_tex_utilization l1tex__f_tex2sm_cycles_active.avg.pct_of_peak_sustained_elapsed
tex_sm_utilization sm__mio2rf_writeback_active.avg.pct_of_peak_sustained_elapsed
texture_load_requests l1tex__t_requests_pipe_tex_mem_texture.sum
theoretical occupancy sm__maximum_warps_per_active_cycle_pct
warps_launched smsp__warps_launched.sum
waves per sm launch__waves_per_multiprocessor
""".strip().splitlines()  # noqa: E501
)
# The quantities of nvprof that no GPU has a counter for any more (nvprof Transition Guide).
_NO_COUNTER = (
    "cf_fu_utilization",
    "cf_issued",
    "gld_requested_throughput",
    "gst_requested_throughput",
    "inst_replay_overhead",
    "ldst_issued",
    "shared_load_transactions_per_request",
    "shared_store_transactions_per_request",
    "shared_replay_overhead",
    "tex_utilization",
    "nvlink",
    "pcie",
    "ecc",
)
_CONFLICTS = ("l1tex__data_bank_conflicts", "shared_ld_bank_conflict", "shared_st_bank_conflict")
_TIMED = (
    "cycles",
    "stall",
    "warps_active",
    "warps_eligible",
    "issue",
    "throughput",
    "per_second",
    "pct_of_peak",
    "per_cycle",
    "achieved_occupancy",
    "efficiency",
    "utilization",
    "ipc",
    "writeback_active",
    "inst_issued",
    "pcsamp",
)
# What to use instead of other metrics: words of their names, and the sentence.
_TOPICS = {
    "bank_conflict _replay": "Profile.bank_conflicts has the wavefronts that bank conflicts cost",
    "branch diverge serialize": "Profile.lanes_per_instruction says how many lanes are active",
    "occupancy": "see Profile.modelled.blocks_per_multiprocessor, and .limit for what limits it",
    "hit miss": "hits and misses are modelled for all accesses together: Profile.modelled.caches",
    "_pipe_fma _pipe_alu _pipe_fp _pipe_xu _pipe_tensor": (
        "Profile.modelled.work has the instructions of the arithmetic pipes"
    ),
    "lts__t_": "see lts__t_sectors_srcunit_tex_op_read.sum, and the same for write",
    "_texture _surface pipe_tex texture_": "accesses of textures and surfaces are not counted",
    "sysmem pcie nvlink": "there is no host memory behind the simulated GPU",
    "launch__": "Profile.grid, .block and .shared_bytes describe the launch",
}
_SETS = {
    "instructions": ("inst_executed", "pipe_tensor", "ops_path"),
    "memory": ("l1tex__", "memory_", "lts__", "dram__", "data_bytes", "wavefronts"),
    "time": ("gpu__time",),
}
SETS = ("all", *_SETS)


class Metrics(dict[str, float]):
    """A dict of metrics. The KeyError of a name that it lacks says what to use instead.

    `launch` has the metrics of the launch itself, such as its grid. They are not listed either.
    """

    def __init__(
        self,
        metrics: Mapping[str, float] | Iterable[tuple[str, float]],
        launch: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(metrics)
        self.launch = launch or {}

    def __missing__(self, name: object) -> float:
        value = _derived(str(name), self)
        if value is not None:
            return value
        raise KeyError(Explanation(f"{name!r}: {_reason(str(name), self)}"))

    def only(self, name: str) -> Metrics:
        """Return only the metrics of a set: one of `SETS`."""
        if name == "all":
            return self
        chosen = ((m, v) for m, v in self.items() if any(p in m for p in _SETS[name]))
        return Metrics(chosen, self.launch)


class Explanation(str):
    """The text of a KeyError, which Python would print with quotes and escapes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _derived(name: str, known: Metrics) -> float | None:
    """Return the value of a metric that follows from others, or None."""
    if name in known.launch:
        return known.launch[name]
    if name == "smsp__average_inst_executed_per_warp.ratio":
        return known["smsp__inst_executed.sum"] / known.launch["smsp__warps_launched.sum"]
    if name == "dram__bytes.sum" and "dram__bytes_read.sum" in known:
        return known["dram__bytes_read.sum"] + known["dram__bytes_write.sum"]
    # The four parts (smsp) of each multiprocessor (sm) count the same instructions.
    for part, other, factor in (
        ("sm__", "smsp__", 1.0),
        ("__t_bytes_", "__t_sectors_", model.SECTOR_BYTES),
        ("dram__sectors_", "dram__bytes_", 1 / model.SECTOR_BYTES),
    ):
        if part in name and name.endswith(".sum") and (of := name.replace(part, other)) in known:
            value = float(known[of] * factor)
            return int(value) if value.is_integer() else value
    return None


def _reason(name: str, known: Metrics) -> str:
    """Say why there is no metric of this name, and what to use instead."""
    if name in OF_NVPROF:
        now, unit = OF_NVPROF[name], _OTHER_UNIT.get(name)
        of_unit = f" ({unit})" if unit else ""
        return f"nvprof's name; Nsight Compute's name is {now}{of_unit}{_value(now, known)}"
    if name.lower() in OF_OTHERS:
        now = OF_OTHERS[name.lower()]
        value = _value(now, known)
        whose = "nvprof's name" if "_" in name else "a label of Nsight Compute's report"
        return f"{whose}; the metric is {now}{value or f': {_reason(now, known)}'}"
    if name.startswith(_NO_COUNTER):
        return "nvprof's name; Nsight Compute has no such metric, and the simulator counts none"
    if name.startswith(_CONFLICTS):
        return (
            "the hardware counts delays by other warps, too, so this count differs from run to "
            "run; Profile.bank_conflicts has the wavefronts that the kernel's bank conflicts cost"
        )
    if name in SOMETIMES:
        return "the kernel has no accesses of this kind"
    if any(word in name for word in _TIMED):
        return (
            "it depends on how long a GPU takes; the simulator models only the time: see "
            "Profile.modelled. On a GPU, Profile.measured_counters() reads the counters"
        )
    base = name.split(".")[0]
    same = [m for m in known if m.split(".")[0] == base]
    if same:
        return f"the simulator counts {', '.join(same)}"
    for words, instead in _TOPICS.items():
        if any(word in name for word in words.split()):
            return f"the simulator does not count it; {instead}"
    near = difflib.get_close_matches(name, known, 2, 0.8)
    if near:
        return f"the simulator does not count it; near: {', '.join(near)}"
    return "the simulator does not count it; Profile.metrics() lists what it counts"


def _value(name: str, known: Metrics) -> str:
    """Return the value of a metric as the end of a sentence, or "" if it has none."""
    value = known.get(name)
    if value is None:
        value = _derived(name, known)
    return "" if value is None else f"; its value is {value:,.10g}"


# These metrics are only set if a kernel has such accesses.
SOMETIMES = frozenset(
    f"{_PER_REQUEST}_mem_{what}.ratio"
    for what in (
        "global_op_ld",
        "global_op_st",
        "global_op_atom",
        "global_op_red",
        "global_op_ldgsts_cache_access",
        "local_op_ld",
        "local_op_st",
    )
)
