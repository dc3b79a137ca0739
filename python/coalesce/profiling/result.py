"""The class `Profile`: the profile of one launch of a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from coalesce.common import require
from coalesce.draw import Picture
from coalesce.profiling.assertions import Assertions
from coalesce.profiling.data import ProfileData
from coalesce.profiling.hardware import ncu_report
from coalesce.profiling.report import export, memory_chart, roofline_chart, stall_chart
from coalesce.profiling.sentences.gains import Gain, gains
from coalesce.render.report import Report

if TYPE_CHECKING:
    from markupsafe import Markup
    from rich.table import Table
    from rich.text import Text

    from coalesce.profiling.hardware.counters import MeasuredCounters
    from coalesce.profiling.report.machine_code import MachineCode


class Profile(Report, ProfileData, Assertions):
    """The counts of one launch: instructions and memory accesses, as Nsight Compute counts them.

    `profile` and `Kernel.profile` return it. It prints as a report, and notebooks show the report.

    Attributes
    ----------
    kernel : str
        The name of the kernel.
    title : str
        The title of the report: the kernel's name, or the operation and its variant.
    source : str
        The source text. The line numbers of `lines` refer to it.
    grid, block : tuple of int
        The grid and the block of the launch, as (x, y, z).
    shared_bytes : int
        The dynamic shared memory, in bytes per block.
    device : Device
        The device that the caller chose. Even if it is a GPU, the counts come from the simulator.
    arrays : tuple of ArrayInfo
        The array arguments of the kernel.
    modelled_ms : float or None
        The time on the simulated GPU in milliseconds, as the time model estimates it.
    modelled : Modelled or None
        The results of the models of caches and time. ``modelled.why`` says what limits the speed of
        the kernel.
    not_modelled : str
        Why the models cannot estimate the time of this kernel, for example because it has bulk
        copies. Empty if the models can estimate the time.
    measured_ms : float or None
        If `device` is a GPU: the median time on this GPU in milliseconds, timed by CUDA events.
    preparation : tuple of Profile
        The profiles of the other kernels that the operation launched. Such a kernel prepares
        operands before this kernel runs, or adds up partial results afterwards.

    Examples
    --------
    >>> p = coalesce.profile("matmul", a, b, variant="naive")
    >>> p.sectors_per_request
    {'load': 4.5, 'store': 8.0}
    """

    preparation: tuple[Profile, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as a dict that `json.dump` can write.

        Returns
        -------
        dict
            The keys are:

            - ``coalesce``: the version of the package;
            - ``kernel``, ``title``, ``grid``, ``block``, ``shared_bytes``, ``device``, ``arrays``,
              ``modelled_ms``, ``not_modelled``, ``measured_ms``: the attributes of the profile;
            - ``modelled``: None, or the attributes of `Modelled`;
            - ``verdict``, ``inexact``: attributes of the profile;
            - ``metrics``: the result of the method `metrics`;
            - ``lines``: a list of dicts, one for each `Line`, with the attributes of the line. The
              attribute ``accesses`` is again a list of dicts, one for each `Access`. The dict of an
              access contains the attributes of the access, a dict ``pattern``, and a dict
              ``example`` (with ``block``, ``warp``, ``mask`` and ``addresses``);
            - ``instructions``: a list of dicts, one for each `Instruction`, with its attributes;
            - ``preparation``: a list with a dict for each profile in the attribute `preparation`.
              This dict is what `to_dict` returns for that profile.
        """
        return export.as_dict(self)

    def gains(self) -> list[Gain]:
        """Return what would make the kernel faster, and how much, the largest gain first.

        For each gain, the time is modelled again without one cause of cost.

        Returns
        -------
        list of Gain
            Empty if the caches were not modelled. A gain below 5 % is left out.

        Examples
        --------
        >>> p = coalesce.profile("matmul", a, b, variant="naive")
        >>> all(gain.ms < p.modelled_ms for gain in p.gains())
        True
        """
        return gains(self)

    def memory_chart(self, *, title: str | None = None) -> Picture:
        """Draw how many bytes the kernel moves between the memories.

        The picture has the kernel, L1, L2 and DRAM from left to right. Between two of them, one
        arrow shows the reads, and one the writes. The arrows at the kernel count the sectors that
        its requests touch, so they show more bytes than the lanes need if accesses are not
        coalesced. Local memory, asynchronous copies and the copy engine (TMA) are included.

        Parameters
        ----------
        title : str, optional
            A line above the headline. By default, it is the title of the profile.

        Returns
        -------
        Picture
            The traffic of L2 and DRAM is modelled. If it cannot be modelled, these boxes are
            missing, and a note says why.

        Examples
        --------
        >>> p = coalesce.profile("matmul", a, b, variant="naive")
        >>> print(p.memory_chart())  # doctest: +SKIP
        """
        return memory_chart.memory_chart(self, title)

    def machine_code(self) -> MachineCode:
        """Show the machine code beside the source lines, with decoded control words.

        Each instruction has its offset, how often warps executed it, and its control word, such as
        ``B0-----:R-:W1:Y:S04``: it waits for scoreboard 0, uses no scoreboard for its operands and
        scoreboard 1 for its result, the warp yields, and its next instruction can follow after 4
        cycles.

        Returns
        -------
        MachineCode
            It prints as text, and notebooks show it.

        Raises
        ------
        ValueError
            The profile was counted on the PTX, not on machine code.

        Examples
        --------
        >>> print(kernel.profile(1, 32, x, 2.0, 5).machine_code())  # doctest: +SKIP
        """
        from coalesce.profiling.report.machine_code import MachineCode

        if not self._results.code:
            raise ValueError(f"{self.kernel} was counted on its PTX, so there is no machine code")
        return MachineCode(self, self._results.code)

    def roofline_chart(self, *, title: str | None = None) -> Picture:
        """Draw the kernel under the rooflines of L1, L2 and DRAM.

        For each memory, the picture has the operations per byte that this memory delivers, and the
        largest rate of operations that this allows. `coalesce.plots.roofline` plots several
        kernels.

        Parameters
        ----------
        title : str, optional
            A line above the headline. By default, it is the title of the profile.

        Returns
        -------
        Picture
            The rates are modelled. As text, it is a table.

        Raises
        ------
        ValueError
            The kernel has no floating-point operations, or the caches were not modelled.

        Examples
        --------
        >>> p = coalesce.profile("matmul", a, b, variant="naive")
        >>> print(p.roofline_chart())  # doctest: +SKIP
        """
        return roofline_chart.roofline_chart(self, title)

    def stall_chart(self, *, title: str | None = None) -> Picture:
        """Draw what an average warp waits for, and how many issue slots are used, as modelled.

        Parameters
        ----------
        title : str, optional
            A line above the headline. By default, it is the title of the profile.

        Returns
        -------
        Picture

        Raises
        ------
        ValueError
            The time was not modelled.

        Examples
        --------
        >>> p = coalesce.profile("matmul", a, b, variant="naive")
        >>> print(p.stall_chart())  # doctest: +SKIP
        """
        return stall_chart.stall_chart(self, title)

    def to_dataframe(self, by: Literal["line", "access", "instruction"] = "access") -> Any:
        """Return the profile as a pandas DataFrame.

        Parameters
        ----------
        by : {"access", "line", "instruction"}
            ``"access"``: a row for each `Access`, with its attributes as columns. ``"line"`` and
            ``"instruction"``: the same for each `Line` and each `Instruction`.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        return export.as_dataframe(self, by)

    def to_csv(
        self, path: str | Path | None = None, *, style: Literal["ncu"] = "ncu"
    ) -> str | None:
        """Return the metrics as a table of comma-separated values, or write it to a file.

        Parameters
        ----------
        path : str or Path, optional
            The file to write. Without a path, the table is returned.
        style : {"ncu"}
            The format: that of ``ncu --csv --page raw --print-units base``, with one launch.
            Programs that read Nsight Compute's tables can read it.

        Returns
        -------
        str or None
            The table, or None if it was written to `path`.

        Examples
        --------
        >>> p.to_csv("naive.csv")  # doctest: +SKIP
        """
        require.choice("style", style, ("ncu",))
        table = ncu_report.as_csv(self)
        if path is None:
            return table
        Path(path).write_text(table, encoding="utf-8")
        return None

    def measured_counters(
        self,
        *,
        ncu: str | Path | None = None,
        timeout: float = 600,
        report: str | Path | None = None,
        launch: int = 0,
    ) -> MeasuredCounters:
        """Compare the profile with hardware counters: measured now, or read from a report.

        Without a report, the program ``ncu`` of Nsight Compute launches the kernel again. The
        launch runs in another process on the first GPU, with the same arguments.

        Parameters
        ----------
        report : str or Path, optional
            A report of Nsight Compute, which needs no GPU to be read: the output of
            ``ncu --csv --page raw --print-units base``, or a file ``.ncu-rep`` (if ncu is
            installed). It must have a launch of this kernel with the same grid and block.
        launch : int
            If the report has several such launches: which one to take, from 0.
        ncu : str or Path, optional
            The path or the name of ``ncu``. By default, it is looked for on the PATH, then in the
            usual installation folders.
        timeout : float
            The longest time to wait, in seconds.

        Returns
        -------
        MeasuredCounters
            A mapping from metrics to measured numbers. It prints as a table of the measured numbers
            and the counts of the profile.

        Raises
        ------
        DeviceUnavailable
            There is no GPU, no ``ncu``, or no permission to read counters. The message says what is
            missing and what to do.
        LaunchError
            ``ncu`` failed for another reason.
        ValueError
            The report has no table, or no launch of this kernel with this grid and block.
        OSError
            The report cannot be read.

        Examples
        --------
        >>> p.measured_counters().mismatches  # doctest: +SKIP
        {}
        """
        from coalesce.profiling.hardware.counters import MeasuredCounters
        from coalesce.profiling.hardware.ncu import find, measure

        if report is not None:
            report = require.path("report", report)
            program = find(ncu) if Path(report).suffix == ".ncu-rep" else None
            chosen = ncu_report.choose(
                ncu_report.read(report, program, timeout), self, launch, report
            )
            return self.compared(chosen.metrics)
        measured = measure(self._launch, self.metrics(), ncu, timeout)
        name = self.device.description.removeprefix("simulated ")
        return MeasuredCounters(measured, self.metrics(), self.inexact, name)

    def compared(self, measured: Mapping[str, float]) -> MeasuredCounters:
        """Compare the profile with metrics of a GPU, such as those of a recorded launch.

        Parameters
        ----------
        measured : mapping of str to float
            The metrics by Nsight Compute's names. Metrics that the simulator does not count are
            left out, because Nsight Compute has thousands of them.

        Returns
        -------
        MeasuredCounters

        Examples
        --------
        >>> p = coalesce.profile("transpose", a, variant="padded")
        >>> p.compared(p.metrics()).mismatches
        {}
        """
        from coalesce.profiling.hardware.counters import MeasuredCounters

        known = self.metrics()
        common = {name: value for name, value in measured.items() if name in known}
        return MeasuredCounters(common, known, self.inexact, "report")

    def _parts(self, width: int) -> Iterator[Text | Table]:
        from coalesce.profiling.report import text as profile_text

        return profile_text.report(self, width)

    def _markup(self) -> Markup:
        from coalesce.profiling.report import html as profile_html

        return profile_html.report(self)
