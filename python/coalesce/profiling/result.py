"""`Profile`: the result of profiling one launch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from coalesce.profiling import export
from coalesce.profiling.assertions import Assertions
from coalesce.profiling.data import ProfileData

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from coalesce.profiling.counters import MeasuredCounters


class Profile(ProfileData, Assertions):
    """The instructions and memory traffic of one launch, counted as Nsight Compute counts them.

    `profile` and `Kernel.profile` return it. It prints as a report, and notebooks show the report.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    title : str
        The kernel's name, or the operation and its variant.
    source : str
        The source text. The line numbers of `lines` refer to it.
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
        Why the models cannot estimate this kernel: it has bulk copies, or products of warpgroups.
        Empty if they can.
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

    Examples
    --------
    >>> p = coalesce.profile("matmul", a, b, variant="naive")
    >>> p.sectors_per_request
    {'load': 4.5, 'store': 8.0}
    """

    preparation: tuple[Profile, ...]

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
        return export.as_dict(self)

    def to_dataframe(self, by: Literal["line", "access", "instruction"] = "access") -> Any:
        """Return the profile as a pandas DataFrame.

        Parameters
        ----------
        by : {"access", "line", "instruction"}
            What each row stands for. The columns are the attributes of `Access`, `Line` or
            `Instruction`.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        return export.as_dataframe(self, by)

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
            A mapping from metrics to measured values. It prints as a table of measured and
            predicted values.

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
