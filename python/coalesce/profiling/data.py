"""The data of a profile: the counts of one launch, by instruction, by line and by array."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from coalesce._core import model
from coalesce.arrays.devices import Device, modelled_gpu
from coalesce.common import require
from coalesce.common.forks import cached_property
from coalesce.common.geometry import Extent
from coalesce.launch.launch import Launch
from coalesce.launch.modelled import Modelled
from coalesce.profiling.hardware.metrics import SETS, Metrics
from coalesce.profiling.rows import grouping
from coalesce.profiling.rows.accesses import Access, Instruction, Line
from coalesce.profiling.rows.machine_instructions import MachineInstruction
from coalesce.profiling.sentences import advice
from coalesce.profiling.sentences import verdict as profiling_verdict

if TYPE_CHECKING:
    from coalesce.profiling.sentences.verdict import Total


@dataclass(frozen=True)
class ArrayInfo:
    """An array argument of a kernel.

    Attributes
    ----------
    name : str
        The name of the kernel's parameter.
    shape : tuple of int
        The shape of the array.
    dtype : str
        The dtype of the array, such as ``"float32"``.

    Examples
    --------
    >>> coalesce.profile("transpose", a, variant="padded").arrays[0].name
    'in'
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


class Explained(int):
    """A count of a profile. Its attribute `accesses` has the accesses that cause the count.

    If a test compares the count with another number and fails, pytest shows these accesses.
    """

    accesses: tuple[Access, ...]

    def __new__(cls, value: int, accesses: Iterable[Access]) -> Explained:  # noqa: PYI034
        made = super().__new__(cls, value)
        made.accesses = tuple(accesses)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)


@dataclass(frozen=True)
class Results:
    """What a profile computes from the counts of a launch.

    Attributes
    ----------
    metrics : dict
        The metrics of Nsight Compute. `ProfileData.metrics` describes them.
    inexact : dict
        For each metric that may differ from the counters of a GPU: the reason.
    instructions : Instructions
        The counts of the instructions.
    flops : dict
        The floating-point operations of each type.
    code : tuple of MachineInstruction
        The machine code. Empty if the PTX was counted.
    """

    metrics: dict[str, float]
    inexact: dict[str, str]
    instructions: grouping.Instructions
    flops: dict[str, int]
    code: tuple[MachineInstruction, ...]


class ProfileData:
    """The data of a `Profile`. The docstring of `Profile` describes the attributes."""

    def __init__(
        self,
        *,
        kernel: str,
        source: str,
        grid: Extent,
        block: Extent,
        shared_bytes: int,
        registers: int = 0,
        device: Device,
        results: Callable[[], Results],
        arrays: Sequence[ArrayInfo] = (),
        modelled: Modelled | None = None,
        not_modelled: str = "",
        measured_ms: float | None = None,
        title: str = "",
        launch: Launch | None = None,
    ) -> None:
        # Not for users: `profile` and `Kernel.profile` call this. To save time, `results` is called
        # when the results are first used.
        self.kernel = kernel
        self.title = title or kernel
        self.source = source
        self.grid = grid
        self.block = block
        self.shared_bytes = shared_bytes
        self.registers = registers
        self.device = device
        self.arrays = tuple(arrays)
        self.modelled = modelled
        self.modelled_ms = None if modelled is None else modelled.ms
        self.not_modelled = not_modelled
        self.measured_ms = measured_ms
        self.preparation: tuple[ProfileData, ...] = ()
        self._compute = results
        self._launch = launch

    def metrics(
        self,
        set: Literal["all", "instructions", "memory", "time"] = "all",  # noqa: A002
    ) -> Metrics:
        """Return the counts of the whole kernel as metrics of Nsight Compute.

        Parameters
        ----------
        set : {"all", "instructions", "memory", "time"}
            Which metrics to return.

        Returns
        -------
        dict
            The keys are names of metrics, such as
            ``"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"``. The values are numbers in Nsight
            Compute's base units: bytes, nanoseconds, percent. `exact` lists the metrics that are
            equal to the counters of a GPU. `inexact` says why the others may differ. If you ask
            for a name that is not there, such as a metric of nvprof, the KeyError says what to use
            instead.

        Examples
        --------
        >>> p.metrics()["gld_efficiency"]  # doctest: +SKIP
        KeyError: 'gld_efficiency': nvprof's name; Nsight Compute's name is ...
        """
        require.choice("set", set, SETS)
        return Metrics(self._results.metrics, self._launch_metrics).only(set)

    @cached_property
    def _launch_metrics(self) -> dict[str, float]:
        """The metrics of the launch itself, which need no counter."""
        blocks, threads = math.prod(self.grid), math.prod(self.block)
        metrics: dict[str, float] = {
            "launch__grid_size": blocks,
            "launch__block_size": threads,
            "launch__thread_count": blocks * threads,
            "launch__shared_mem_per_block_dynamic": self.shared_bytes,
            "smsp__warps_launched.sum": blocks * -(-threads // 32),
        }
        if self.registers:
            metrics["launch__registers_per_thread"] = self.registers
        if self.modelled is not None:
            warps = self.modelled.blocks_per_multiprocessor * -(-threads // 32)
            metrics["launch__waves_per_multiprocessor"] = blocks / self.modelled.blocks_on_gpu
            metrics["sm__maximum_warps_per_active_cycle_pct"] = 100 * warps / self.gpu["warps"]
        return metrics

    @property
    def gpu(self) -> dict[str, Any]:
        """The figures of the modelled GPU, such as ``gpu["dram_gbps"]``."""
        name = modelled_gpu(self.device)
        return next(g for g in model.gpus() if g["name"] == name)

    @property
    def exact(self) -> frozenset[str]:
        """The names of the exact metrics: they are equal to the counters of a GPU."""
        return frozenset(self._results.metrics) - frozenset(self._results.inexact)

    @property
    def inexact(self) -> dict[str, str]:
        """A dict of the metrics that may differ from the counters of a GPU, with the reasons."""
        return dict(self._results.inexact)

    def lines(self) -> list[Line]:
        """Return the counts of each source line.

        Returns
        -------
        list of Line
            The lines with at least one executed instruction: first the lines of the kernel's own
            file, in order, then the lines of headers.

        Examples
        --------
        >>> worst = max(p.lines(), key=lambda line: line.sectors)
        >>> worst.source.strip()
        'sum += a[INDEX(row) * K + k] * b[INDEX(k) * N + col];'
        """
        return list(self._lines)

    def accesses(self) -> list[Access]:
        """Return the memory accesses of each source line.

        Returns
        -------
        list of Access
            The accesses, in the order of `lines`. A line has an `Access` for each array that it
            loads from, and one for each array that it stores to.

        Examples
        --------
        >>> max(p.accesses(), key=lambda access: access.excess).name
        'load a'
        """
        return [access for line in self._lines for access in line.accesses]

    def instructions(self) -> list[Instruction]:
        """Return the counts of each instruction of the kernel.

        Returns
        -------
        list of Instruction
            All instructions in the order of the code. Instructions that were never executed are in
            the list, too.
        """
        return list(self._results.instructions)

    def totals(self) -> list[Total]:
        """Return the total counts of global loads, global stores, shared loads and so on.

        Returns
        -------
        list of Total
            A `Total` for each kind of access that the kernel has.

        Examples
        --------
        >>> [(t.name, t.requests) for t in p.totals()]  # doctest: +SKIP
        [('global load', 6144), ('global store', 64)]
        """
        return profiling_verdict.totals(self.accesses())

    @property
    def sectors_per_request(self) -> dict[str, float]:
        """The average number of sectors per request to global memory, for loads and for stores.

        For example: ``{"load": 16.5, "store": 32.0}``.
        """
        return {t.kind: t.per_request for t in self.totals() if t.space == "global"}

    @property
    def bank_conflicts(self) -> int:
        """How many wavefronts (cycles of shared memory) the bank conflicts cost."""
        conflicted = [a for a in self.accesses() if a.space == "shared" and a.excess]
        return Explained(sum(a.excess for a in conflicted), conflicted)

    @property
    def verdict(self) -> list[str]:
        """The verdict: sentences about idle lanes and about each kind of memory, waste first."""
        return [
            f.text for f in profiling_verdict.verdict(self._lines, self.block, self.instructions())
        ]

    @property
    def lanes_per_instruction(self) -> float:
        """How many lanes of a warp execute an instruction on average: at most 32.

        It is less than 32 if the lanes of a warp diverge, or if warps have lanes without a thread.
        """
        ratio = "smsp__thread_inst_executed_per_inst_executed.ratio"
        return self._results.metrics.get(ratio, 0.0)

    @property
    def flops(self) -> dict[str, int]:
        """The floating-point operations outside the tensor cores, for float16, float32 and float64.

        An addition and a multiplication are one operation, and a multiply-add is two. Lanes whose
        guard is false do not count. Divisions, roots and sines count as the additions and
        multiplications that the compiler makes of them. Nsight Compute has the instructions in
        ``smsp__sass_thread_inst_executed_op_ffma_pred_on.sum`` and similar metrics. They include
        instructions that only move a number; `flops` leaves these out. All are 0 if the kernel was
        counted on its PTX.

        Examples
        --------
        >>> a = np.ones((64, 64), np.float32)
        >>> p = coalesce.profile("matmul", a, a, variant="coalesced")
        >>> p.flops  # 2 x 64^3 for the product, and 64^2 because the sums are multiplied by alpha
        {'float16': 0, 'float32': 528384, 'float64': 0}
        """
        return dict(self._results.flops)

    def __getstate__(self) -> dict[str, Any]:
        # Leave out what is computed from the others, and the function, which cannot be pickled.
        left_out = ("_lines", "_compute")
        state = {k: v for k, v in self.__dict__.items() if k not in left_out}
        return {**state, "_results": self._results}

    @cached_property
    def _results(self) -> Results:
        return self._compute()

    @cached_property
    def _lines(self) -> tuple[Line, ...]:
        rows = self._results.instructions
        return grouping.lines(rows, self.source, advice.sentence)
