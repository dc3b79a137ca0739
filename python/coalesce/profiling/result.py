"""`Profile`: the result of profiling one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from coalesce.arrays.devices import Device
from coalesce.common.forks import cached_property
from coalesce.common.geometry import Extent
from coalesce.launch.modelled import Modelled
from coalesce.profiling import advice
from coalesce.profiling import data as profile_data
from coalesce.profiling import rows as profiling_rows
from coalesce.profiling import verdict as profiling_verdict
from coalesce.profiling.assertions import Assertions, Explained
from coalesce.profiling.rows import Access, Instruction, Line
from coalesce.simulate.sampling import Estimate

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from coalesce.profiling.counters import MeasuredCounters
    from coalesce.profiling.ncu import Launch
    from coalesce.profiling.verdict import Total


@dataclass(frozen=True)
class ArrayInfo:
    """An array argument of a kernel.

    Attributes
    ----------
    name : str
        Name of the kernel's parameter.
    shape : tuple of int
        Shape of the array.
    dtype : str
        Its dtype: ``"float32"``.

    Examples
    --------
    >>> coalesce.profile("transpose", a, variant="padded").arrays[0].name
    'in'
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


class Profile(Assertions):
    """The instructions and memory traffic of one launch, counted as Nsight Compute counts them.

    `profile` and `Kernel.profile` return it. It prints as a report, and notebooks show the report.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    title : str
        The kernel's name, or the operation and its variant.
    source : str
        The source text; `lines` has its line numbers.
    grid, block : tuple of int
        Extents of the launch as (x, y, z).
    shared_bytes : int
        Dynamic shared memory in bytes per block.
    device : Device
        The device that was chosen. The counts come from the simulator on every device.
    arrays : tuple of ArrayInfo
        The array arguments of the kernel.
    modelled_ms : float or None
        Milliseconds on the simulated GPU, estimated by the time model.
    modelled : Modelled or None
        The results of the models of caches and time. ``modelled.why`` says what bounds the kernel.
    not_modelled : str
        Why the models do not know this kernel: it has bulk copies, or products of warpgroups. Empty
        if they do.
    measured_ms : float or None
        If `device` is a GPU, milliseconds on it: the median, timed by CUDA events.
    preparation : tuple of Profile
        Profiles of the other kernels that the operation launched: before this one, to prepare
        operands, or after it, to add up parts.
    estimate : Estimate or None
        With a sample, the part of the blocks that was simulated: ``estimate.share``. All counts are
        then estimates.
    errors : dict
        With a sample, the standard errors of the metrics by name; else empty.
    """

    def __init__(
        self,
        *,
        kernel: str,
        source: str,
        grid: Extent,
        block: Extent,
        shared_bytes: int,
        device: Device,
        metrics: Mapping[str, float],
        inexact: Mapping[str, str],
        instructions: Sequence[Instruction],
        arrays: Sequence[ArrayInfo] = (),
        modelled: Modelled | None = None,
        not_modelled: str = "",
        measured_ms: float | None = None,
        title: str = "",
        launch: Launch | None = None,
        estimate: Estimate | None = None,
        errors: Mapping[str, float] | None = None,
    ) -> None:
        # Not for users: `profile` and `Kernel.profile` call this.
        self.kernel = kernel
        self.title = title or kernel
        self.source = source
        self.grid = grid
        self.block = block
        self.shared_bytes = shared_bytes
        self.device = device
        self.arrays = tuple(arrays)
        self.modelled = modelled
        self.modelled_ms = None if modelled is None else modelled.ms
        self.not_modelled = not_modelled
        self.measured_ms = measured_ms
        self.preparation: tuple[Profile, ...] = ()
        self._metrics = {name: _whole(value) for name, value in metrics.items()}
        self._inexact = {name: why for name, why in inexact.items() if name in metrics}
        self._instructions = tuple(instructions)
        self._launch = launch
        self.estimate = estimate
        self.errors = dict(errors or {})

    def metrics(self) -> dict[str, float]:
        """Return the counts of the whole kernel by Nsight Compute's names.

        Returns
        -------
        dict
            Maps names such as ``"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"`` to numbers in
            Nsight Compute's base units: bytes, nanoseconds, percent. `exact` lists the metrics that
            equal the hardware's counters; `inexact` says why others may differ.
        """
        return dict(self._metrics)

    @property
    def exact(self) -> frozenset[str]:
        """The names of the metrics that are exact, that is, equal to the counters of a GPU."""
        return frozenset(self._metrics) - frozenset(self._inexact)

    @property
    def inexact(self) -> dict[str, str]:
        """The other metrics, with the reason why they may differ from a GPU: ``"modelled"``, ..."""
        return dict(self._inexact)

    def lines(self) -> list[Line]:
        """Return what each source line executed and moved.

        Returns
        -------
        list of Line
            The lines that executed something: first the lines of the kernel's own file in order,
            then the lines of other files (headers).

        Examples
        --------
        >>> worst = max(p.lines(), key=lambda line: line.sectors)
        >>> worst.source.strip()
        'sum += a[INDEX(row) * K + k] * b[INDEX(k) * N + col];'
        """
        return list(self._lines)

    def accesses(self) -> list[Access]:
        """Return what each source line did with each array.

        Returns
        -------
        list of Access
            One for each array, kind of access and state space of a line, in the order of `lines`.

        Examples
        --------
        >>> max(p.accesses(), key=lambda access: access.excess).name  # doctest: +SKIP
        'load a'
        """
        return [access for line in self._lines for access in line.accesses]

    def instructions(self) -> list[Instruction]:
        """Return what each instruction of the kernel executed and moved."""
        return list(self._instructions)

    def totals(self) -> list[Total]:
        """Return the sums of the accesses by state space and kind.

        Returns
        -------
        list of Total
            One for each kind that occurs: global loads, global stores, shared loads and so on.

        Examples
        --------
        >>> [(t.name, t.requests) for t in p.totals()]  # doctest: +SKIP
        [('global load', 6144), ('global store', 64)]
        """
        return profiling_verdict.totals(self.accesses(), self._errors)

    @property
    def sectors_per_request(self) -> dict[str, float]:
        """Sectors per request to global memory by kind: ``{"load": 16.5, "store": 32.0}``."""
        return {t.kind: t.per_request for t in self.totals() if t.space == "global"}

    @property
    def bank_conflicts(self) -> int:
        """The wavefronts of shared memory that bank conflicts add."""
        conflicted = [a for a in self.accesses() if a.space == "shared" and a.excess]
        return Explained(sum(a.excess for a in conflicted), conflicted)

    @property
    def verdict(self) -> list[str]:
        """The verdict: a sentence for each memory. Memories with waste come first."""
        return [finding.text for finding in profiling_verdict.verdict(self.accesses())]

    def to_text(self, width: int = 100, *, color: bool = False) -> str:
        """Return the report as text.

        Parameters
        ----------
        width : int
            Columns, at least 80. At most 100 are used.
        color : bool
            Whether to colour the text with escape sequences for terminals.

        Returns
        -------
        str
            The report, several lines.
        """
        from coalesce.render.console import as_text

        return as_text(self, width, color=color)

    def to_html(self, path: str | Path | None = None) -> str | None:
        """Write the report as one HTML page without scripts, for light and dark mode.

        Parameters
        ----------
        path : str or Path, optional
            The file to write. By default the page is returned.

        Returns
        -------
        str or None
            The page; None if it was written to `path`.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        from coalesce.profiling import html as profile_html
        from coalesce.render import markup

        return markup.write(self.title, profile_html.report(self), path)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, strings and numbers, for `json.dump`.

        Returns
        -------
        dict
            The keys are:

            - ``coalesce``: the version of the package;
            - ``kernel``, ``title``, ``grid``, ``block``, ``shared_bytes``, ``device``, ``arrays``,
              ``modelled_ms``, ``not_modelled``, ``measured_ms``: the attributes of the profile;
            - ``modelled``: None, or the attributes of `Modelled`;
            - ``estimate``: None, or ``share``, ``blocks_run``, ``blocks_total`` and ``errors``;
            - ``verdict``, ``metrics``, ``inexact``: the results of the methods;
            - ``lines``: the attributes of each `Line`. Its ``accesses`` have the attributes of
              `Access`, with a ``pattern`` and an ``example`` (``block``, ``warp``, ``mask`` and
              ``addresses``);
            - ``instructions``: the attributes of each `Instruction`;
            - ``preparation``: a list of such dicts.
        """
        return profile_data.as_dict(self)

    def to_dataframe(self, by: Literal["line", "access", "instruction"] = "access") -> Any:
        """Return the rows as a pandas DataFrame.

        Parameters
        ----------
        by : {"access", "line", "instruction"}
            What each row stands for. The columns are the attributes of `Access`, `Line` or
            `Instruction`.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        return profile_data.as_dataframe(self, by)

    def measured_counters(
        self, *, ncu: str | Path | None = None, timeout: float = 600
    ) -> MeasuredCounters:
        """Launch the kernel again under Nsight Compute and compare its counters with the profile.

        The kernel is launched in another process on the first GPU, with the same arguments.

        Parameters
        ----------
        ncu : str or Path, optional
            The path or name of Nsight Compute's program ``ncu``. By default the one on the PATH,
            else the one in a usual installation folder.
        timeout : float
            The longest time to wait, in seconds.

        Returns
        -------
        MeasuredCounters
            A mapping from metrics to measured values. It prints both values.

        Raises
        ------
        DeviceUnavailable
            There is no GPU, no ``ncu``, or no permission to read counters. The message says which
            it is, and what to do.
        LaunchError
            ``ncu`` failed for another reason.

        Examples
        --------
        >>> p.measured_counters().mismatches  # doctest: +SKIP
        {}
        """
        from coalesce.profiling.counters import MeasuredCounters
        from coalesce.profiling.ncu import measure

        measured = measure(self._launch, self._metrics, ncu, timeout)
        name = self.device.description.removeprefix("simulated ")
        return MeasuredCounters(measured, self.metrics(), self.inexact, name)

    def __str__(self) -> str:
        from coalesce.render.console import shown

        return shown(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from coalesce.profiling import html as profile_html

        return str(profile_html.report(self))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        from coalesce.profiling import text as profile_text

        yield from profile_text.report(self, options.max_width)

    def __getstate__(self) -> dict[str, Any]:
        # Leave out values that are computed from the others. One of them is a function, which
        # cannot be pickled.
        return {k: v for k, v in self.__dict__.items() if k not in ("_lines", "_errors")}

    @cached_property
    def _lines(self) -> tuple[Line, ...]:
        return profiling_rows.lines(self._instructions, self.source, advice.sentence, self._errors)

    @cached_property
    def _errors(self) -> profiling_rows.Errors | None:
        """Standard errors of sums over instructions, or None if the counts are not estimates."""
        if self.estimate is None:
            return None
        estimate = self.estimate
        tables = {id(counts): counts.table() for counts in estimate.groups}

        def error(rows: Sequence[int], counter: str) -> float:
            return estimate.error(lambda c: float(tables[id(c)][counter][list(rows)].sum()))

        return error


def _whole(value: float) -> float:
    """Return a count as an int, so that it is printed without decimals."""
    return int(value) if float(value).is_integer() else value
