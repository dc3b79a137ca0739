"""The simulator's estimates of the time and the cache traffic of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coalesce._core import model

# The resources that can limit a kernel: the name in the model, and the words for reports.
BOUNDS = {
    "issue": "the issue of instructions",
    "fp32": "the float32 pipes",
    "fp64": "the float64 pipes",
    "alu": "the pipes for integers, logic and comparisons",
    "xu": "conversions and transcendental functions",
    "tensor": "the tensor cores",
    "requests": "the load-store unit, which takes one memory instruction at a time",
    "data": "the data stage of L1",
    "constants": "loads from constant memory with different addresses",
    "l2": "the L2 cache",
    "atomics": "atomics in L2, to the same address or to too many",
    "dram": "DRAM",
    "latency": "latency",
}


# What limits the blocks of a multiprocessor: the name in the model, and the words for reports.
_LIMITS = {
    "blocks": "the small blocks",
    "registers": "the registers of a thread",
    "shared memory": "the shared memory of a block",
}


@dataclass(frozen=True)
class Modelled:
    """The time and the cache traffic of a launch, as the simulator's models estimate them.

    Attributes
    ----------
    ms : float
        The time of the kernel in milliseconds.
    bound : str
        The resource that takes longest and so limits the time, such as ``"dram"`` or ``"latency"``.
        `why` says the same in words.
    cycles : dict
        For each resource, how many cycles its work takes on the busiest multiprocessor. The keys
        are the possible values of `bound`.
    work : dict
        The counts that the time is computed from, such as ``"global_requests"`` or
        ``"dram_bytes"``. ``coalesce::model::Work`` in ``csrc/model/time.hpp`` describes them.
    blocks_per_multiprocessor : int
        The number of blocks that fit on a multiprocessor together.
    blocks_on_gpu : int
        The number of blocks that fit on all multiprocessors together.
    limit : str
        What limits `blocks_per_multiprocessor`, such as ``"warps"`` or ``"registers"``.
    l1_bytes : int
        The size of L1 in bytes. (L1 and shared memory are parts of one memory, so more shared
        memory means a smaller L1.)
    caches : dict or None
        The traffic of the caches, such as ``"l2_reads"`` in sectors or ``"dram_read_bytes"``.
        ``"blocks"`` is the number of blocks. The model of the caches may use only some of these
        blocks; ``"blocks_replayed"`` says how many. ``coalesce::model::CacheCounts``
        describes all keys. `caches` is None if the caches were not modelled.

    Examples
    --------
    >>> modelled = coalesce.profile("matmul", a, b, variant="naive").modelled
    >>> modelled.bound in modelled.cycles
    True
    """

    ms: float
    bound: str
    cycles: Mapping[str, float]
    work: Mapping[str, float]
    blocks_per_multiprocessor: int
    blocks_on_gpu: int
    limit: str
    l1_bytes: int
    caches: Mapping[str, int] | None

    @classmethod
    def of(cls, model: Mapping[str, Any]) -> Modelled:
        """Make the object from ``LaunchResult.model``, the result of the simulator in C++."""
        time, occupancy = model["time"], model["occupancy"]
        return cls(
            ms=time["ms"],
            bound=time["bound"],
            cycles=time["cycles"],
            work=model["work"],
            blocks_per_multiprocessor=occupancy["blocks"],
            blocks_on_gpu=occupancy["on_gpu"],
            limit=occupancy["limit"],
            l1_bytes=occupancy["cache_bytes"],
            caches=model["caches"],
        )

    @property
    def share(self) -> float | None:
        """The share of the blocks that were used by the model of the caches, from 0 to 1.

        None if the caches were not modelled.
        """
        if self.caches is None:
            return None
        return self.caches["blocks_replayed"] / max(1, self.caches["blocks"])

    def metrics(self) -> dict[str, float]:
        """Return the estimates as a dict, with Nsight Compute's names and units.

        For example, "gpu__time_duration.sum" is the time in nanoseconds.
        """
        metrics = {"gpu__time_duration.sum": 1e6 * self.ms}
        if self.caches is None:
            return metrics
        c = self.caches
        sectors = c["l1_loads"] + c["l1_stores"]
        hits = c["l1_load_hits"] + c["l1_store_hits"]
        return metrics | {
            "l1tex__t_sector_hit_rate.pct": 100 * hits / sectors if sectors else 0.0,
            "lts__t_sectors_srcunit_tex_op_read.sum": c["l2_reads"],
            "lts__t_sectors_srcunit_tex_op_write.sum": c["l2_writes"],
            "lts__t_sector_hit_rate.pct": 100 * c["l2_hits"] / max(1, c["l2_lookups"]),
            "dram__bytes_read.sum": c["dram_read_bytes"],
            "dram__bytes_write.sum": c["dram_written_bytes"],
        }

    @property
    def why(self) -> str:
        """What limits the kernel's time, in words, such as "bound by DRAM: 8.39 MB"."""
        return f"bound by {BOUNDS[self.bound]}{self._detail()}"

    def _detail(self) -> str:
        work = self.work
        if self.bound == "data":
            tags, wavefronts = work["tag_lookups"], work["shared_wavefronts"]
            if wavefronts > tags:
                return f": {int(wavefronts):,} wavefronts of shared memory"
            return f": {int(tags):,} passes of global and local memory"
        if self.bound == "dram":
            return f": {of_bytes(work['dram_bytes'])}"
        if self.bound == "l2":
            return f": {of_bytes(model.SECTOR_BYTES * work['l2_sectors'])}"
        if self.bound == "latency" and self.cycles["latency"] < 1.5 * work["blocks"]:
            return f": {int(work['blocks']):,} blocks, and a GPU starts about one per cycle"
        if self.bound == "latency" and work["blocks"] < self.blocks_on_gpu:
            blocks = f"{int(work['blocks']):,} block{'s' * (work['blocks'] != 1)}"
            return f", with too few warps to hide it: {blocks}, room for {self.blocks_on_gpu:,}"
        if self.bound == "latency" and self.limit != "warps":
            return f", with too few warps to hide it, because of {_LIMITS[self.limit]}"
        if self.bound == "latency":
            # A multiprocessor holds as many warps as it can. Then more warps are no remedy.
            return ", which the warps do not hide: too few loads in flight, or waits at barriers"
        return ""


def of_bytes(count: float) -> str:
    """Return a number of bytes as text, such as "8.39 MB"."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5 or unit == "TB":
            break
        count /= 1000
    return f"{count:.3g} {unit}"
