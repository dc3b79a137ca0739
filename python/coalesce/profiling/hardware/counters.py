"""Compares the hardware counters of a GPU with the counts of a profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True, repr=False)
class MeasuredCounters(Mapping[str, float]):
    """The hardware counters of a launch, as a mapping from metrics to numbers.

    `Profile.measured_counters` returns it. It prints as a table of the measured and the predicted
    numbers.

    Attributes
    ----------
    measured, predicted : dict
        The counters that `ncu` read, and the counts of the profile. The keys are Nsight Compute's
        names of the metrics. Metrics that the GPU does not have are only in `predicted`.
    inexact : dict
        The metrics whose predictions may differ from the counters, each with the reason. See
        `Profile.inexact`.
    device : str
        The name of the GPU, such as ``"NVIDIA H200"``.
    """

    measured: Mapping[str, float]
    predicted: Mapping[str, float]
    inexact: Mapping[str, str]
    device: str

    def __getitem__(self, name: str) -> float:
        return self.measured[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.measured)

    def __len__(self) -> int:
        return len(self.measured)

    @property
    def mismatches(self) -> dict[str, tuple[float, float]]:
        """The metrics that the profile calls exact, but whose predicted number is wrong.

        This is a dict from the name of the metric to a pair: the predicted and the measured number.
        """
        return {
            name: (self.predicted[name], self.measured[name])
            for name in self.measured
            if name in self.predicted
            and name not in self.inexact
            and not _equal(self.predicted[name], self.measured[name])
        }

    def __repr__(self) -> str:
        from coalesce.render.console import shown

        return shown(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from coalesce.render.tables import table as empty_table

        del console, options
        heads = ("metric", "predicted", self.device, "")
        table = empty_table(heads, right=heads[1:3])
        table.columns[0].max_width = 58
        for name, value, judgement in self._rows():
            wrong = name in self.mismatches
            predicted = self.predicted.get(name)
            style = "bold red" if wrong else ""
            table.add_row(name, _text(predicted), _text(value), judgement, style=style)
        yield table
        yield from self._notes()
        yield self._conclusion()

    def _repr_html_(self) -> str:
        from coalesce.render.markup import FAINT, LINE, cell, joined, row, table, tag

        heads = ("metric", "predicted", self.device, "")
        rows = [row([cell(head, FAINT) for head in heads])]
        for name, value, judgement in self._rows():
            numbers = [_text(self.predicted.get(name)), _text(value)]
            text = tag("b", judgement) if name in self.mismatches else judgement
            cells = [cell(name), *(cell(n, align="right") for n in numbers), cell(text)]
            rows.append(row(cells, LINE))
        below = [*self._notes(), self._conclusion()]
        return str(table(rows) + joined(tag("div", text, FAINT) for text in below))

    def _rows(self) -> Iterator[tuple[str, float, str]]:
        """Yield the name of each metric, its measured value, and how the prediction compares.

        Wrong predictions come first, then the other exact ones. Metrics that are 0 in both are left
        out.
        """
        wrong = self.mismatches
        for name in sorted(self.measured, key=lambda n: (n not in wrong, n in self.inexact, n)):
            value = self.measured[name]
            if not value and self.predicted.get(name) == 0:
                continue
            if name not in self.predicted:
                judgement = ""
            elif _equal(self.predicted[name], value):
                judgement = "equal"
            elif value:
                judgement = f"{(self.predicted[name] - value) / value:+.1%}"
            else:
                judgement = "differs"
            if name in self.inexact:
                judgement = (
                    f"{judgement} [{self._reasons().index(self.inexact[name]) + 1}]".lstrip()
                )
            yield name, value, judgement

    def _reasons(self) -> list[str]:
        """Return the different reasons why predictions may be inexact."""
        return list(dict.fromkeys(self.inexact[n] for n in sorted(self.inexact) if n in self))

    def _notes(self) -> list[str]:
        return [f"[{number}] {why}" for number, why in enumerate(self._reasons(), 1)]

    def _conclusion(self) -> str:
        judged = [n for n in self.measured if n in self.predicted and n not in self.inexact]
        wrong = len(self.mismatches)
        if wrong:
            return f"{wrong} of {len(judged)} exact predictions differ. Please report this kernel."
        return f"All {len(judged)} exact predictions equal the hardware's counters."


def _equal(a: float, b: float) -> bool:
    """Whether two values are equal, up to the digits of `b`.

    ncu prints 31.625 as "31.625000" or, without ``--print-fp``, as "31.63".
    """
    if a == b or isinstance(b, int):
        return a == b
    rounding = 10.0 ** int(Decimal(repr(b)).as_tuple().exponent)
    return abs(a - b) <= max(1e-4 * abs(b), rounding / 2)


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
