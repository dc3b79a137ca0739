"""What the models of caches and time say of a launch; estimates, and labelled as such."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coalesce._core import model

# What a kernel can be bound by: the models' names, and what a person is told.
BOUNDS = {
    "issue": "the issue of instructions",
    "fp32": "the float32 pipes",
    "fp64": "the float64 pipes",
    "alu": "the pipes for integers, logic and comparisons",
    "xu": "conversions and transcendental functions",
    "requests": "the load-store unit, a memory instruction at a time",
    "data": "the data stage of L1",
    "constants": "loads from constant memory with different addresses",
    "l2": "the L2 cache",
    "atomics": "atomics of one place, or of too many, in L2",
    "dram": "DRAM",
    "latency": "latency, which the warps at hand do not hide",
}


@dataclass(frozen=True)
class Modelled:
    """What was modelled of a launch.

    Attributes
    ----------
    ms : float
        The kernel's time.
    bound : str
        What takes longest, a key of `BOUNDS`.
    cycles : dict
        Cycles of the busiest multiprocessor that each of the resources takes, by the same keys.
    work : dict
        What the times were made of: `coalesce::model::Work`.
    blocks_a_multiprocessor : int
    limit : str
        What keeps a multiprocessor from holding more: ``"warps"``, ``"registers"``, ...
    first_level_bytes : int
        First-level cache of a multiprocessor, next to its shared memory.
    caches : dict or None
        What went through the caches, where they were asked for: `coalesce::model::CacheCounts`,
        and ``blocks_replayed`` of ``blocks``.
    """

    ms: float
    bound: str
    cycles: Mapping[str, float]
    work: Mapping[str, float]
    blocks_a_multiprocessor: int
    limit: str
    first_level_bytes: int
    caches: Mapping[str, int] | None

    @classmethod
    def of(cls, model: Mapping[str, Any]) -> Modelled:
        """Return what a result of the simulator says (``LaunchResult.model``)."""
        time, occupancy = model["time"], model["occupancy"]
        return cls(
            ms=time["ms"],
            bound=time["bound"],
            cycles=time["cycles"],
            work=model["work"],
            blocks_a_multiprocessor=occupancy["blocks"],
            limit=occupancy["limit"],
            first_level_bytes=occupancy["cache_bytes"],
            caches=model["caches"],
        )

    @property
    def share(self) -> float | None:
        """The share of the blocks that was replayed through the caches; None without caches."""
        if self.caches is None:
            return None
        return self.caches["blocks_replayed"] / max(1, self.caches["blocks"])

    def metrics(self) -> dict[str, float]:
        """Return what was modelled by Nsight Compute's names, in its base units."""
        found = {"gpu__time_duration.sum": 1e6 * self.ms}
        if self.caches is None:
            return found
        c = self.caches
        sectors = c["l1_loads"] + c["l1_stores"]
        hits = c["l1_load_hits"] + c["l1_store_hits"]
        return found | {
            "l1tex__t_sector_hit_rate.pct": 100 * hits / sectors if sectors else 0.0,
            "lts__t_sectors_srcunit_tex_op_read.sum": c["l2_reads"],
            "lts__t_sectors_srcunit_tex_op_write.sum": c["l2_writes"],
            "lts__t_sector_hit_rate.pct": 100 * c["l2_hits"] / max(1, c["l2_lookups"]),
            "dram__bytes_read.sum": c["dram_read_bytes"],
            "dram__bytes_write.sum": c["dram_written_bytes"],
        }

    @property
    def why(self) -> str:
        """What the kernel is bound by, as a person is told."""
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
        return ""


def of_bytes(count: float) -> str:
    """Write a number of bytes: ``"8.39 MB"``."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5 or unit == "TB":
            break
        count /= 1000
    return f"{count:.3g} {unit}"
