"""The metrics of a profile, by Nsight Compute's names, and answers to the names that it lacks.

A name may be missing for one of four reasons, and the KeyError says which:

- It is a name of nvprof, the profiler before Nsight Compute: NVIDIA's table of both is in "nvprof
  Transition Guide" (docs.nvidia.com/nsight-compute, Nsight Compute CLI).
- The same count has another suffix: `.sum` is counted, and `.avg` and `.per_second` are not.
- The quantity depends on how long a GPU takes, such as cycles, stalls or the achieved occupancy.
- The kernel has no such accesses, or the simulator does not count the quantity.
"""

from __future__ import annotations

import difflib

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
    "occupancy",
    "efficiency",
    "utilization",
    "ipc",
)
_SETS = {
    "instructions": ("inst_executed", "pipe_tensor", "ops_path"),
    "memory": ("l1tex__", "memory_", "lts__", "dram__", "data_bytes", "wavefronts"),
    "time": ("gpu__time",),
}
SETS = ("all", *_SETS)


class Metrics(dict[str, float]):
    """A dict of metrics. The KeyError of a name that it lacks says what to use instead."""

    def __missing__(self, name: object) -> float:
        raise KeyError(Explanation(f"{name!r}: {_reason(str(name), self)}"))

    def only(self, name: str) -> Metrics:
        """Return only the metrics of a set: one of `SETS`."""
        if name == "all":
            return self
        return Metrics((m, v) for m, v in self.items() if any(p in m for p in _SETS[name]))


class Explanation(str):
    """The text of a KeyError, which Python would print with quotes and escapes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _reason(name: str, known: Metrics) -> str:
    """Say why there is no metric of this name, and what to use instead."""
    if name in OF_NVPROF:
        now, unit = OF_NVPROF[name], _OTHER_UNIT.get(name)
        return f"nvprof's name; Nsight Compute's name is {now}{f' ({unit})' if unit else ''}"
    if name.startswith(_CONFLICTS):
        return (
            "the hardware counts delays by other warps, too, so this count differs from run to "
            "run; Profile.bank_conflicts has the wavefronts that the kernel's bank conflicts cost"
        )
    if name in SOMETIMES:
        return "the kernel has no accesses of this kind"
    base = name.split(".")[0]
    same = [m for m in known if m.split(".")[0] == base]
    if same:
        return f"the simulator counts {', '.join(same)}"
    near = difflib.get_close_matches(name, known, 2, 0.8)
    if near:
        return f"there is no such metric; near: {', '.join(near)}"
    if any(word in name for word in _TIMED):
        return (
            "it depends on how long a GPU takes; the simulator models only the time: see "
            "Profile.modelled. On a GPU, Profile.measured_counters() reads the counters"
        )
    return "the simulator does not count it; Profile.metrics() lists what it counts"


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
