"""Shows the machine code of a kernel beside its source lines, with decoded control words.

The control word of an instruction is written as by other tools: ``B0-----:R-:W1:Y:S04``. From left
to right: the scoreboards for which the instruction waits, the one that is cleared when its operands
have been read, the one that is cleared when its result is there, whether the warp yields, and the
cycles until the next instruction. csrc/sass/schedule.hpp describes the bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from coalesce.profiling.rows.accesses import Instruction
from coalesce.profiling.rows.machine_instructions import MachineInstruction
from coalesce.render.markup import MONO, tag
from coalesce.render.report import Report

if TYPE_CHECKING:
    from markupsafe import Markup

    from coalesce.profiling.data import ProfileData


class MachineCode(Report):
    """The machine code of a kernel beside its source, as `Profile.machine_code` returns it.

    It prints as text, and notebooks show it as HTML.

    Attributes
    ----------
    title : str
        The title of the profile.

    Examples
    --------
    >>> print(p.machine_code())  # doctest: +SKIP
    """

    def __init__(self, profile: ProfileData, code: Sequence[MachineInstruction]) -> None:
        self.title = f"{profile.title}: machine code"
        rows = list(zip(code, profile.instructions(), strict=True))
        while rows and not rows[-1][1].executed:  # the padding after the code
            rows.pop()
        self._rows = rows
        self._sources = {(line.file, line.number): line for line in profile.lines()}

    def to_dict(self) -> dict[str, Any]:
        """Return the instructions as dicts, for `json.dump`."""
        names = ("file", "line", "executed", "threads")
        return {
            "title": self.title,
            "instructions": [
                {**vars(code), **{name: getattr(row, name) for name in names}}
                for code, row in self._rows
            ],
        }

    def _lines(self) -> Iterator[tuple[str, str]]:
        """Yield the lines of text, each with "source" or "code"."""
        last: tuple[str, int] | None = None
        for code, row in self._rows:
            if (row.file, row.line) != last:
                last = row.file, row.line
                yield "source", self._source(row)
            control = f"{code.offset:04x} {row.executed:>11,}  {code.control}"
            yield "code", f"  {control}  {code.text}"

    def _source(self, row: Instruction) -> str:
        line = self._sources.get((row.file, row.line))
        if line is None or not row.line:
            return "(no source line)"
        return f"{line.place}: {line.source.strip()}"

    def _parts(self, width: int) -> Iterator[Text]:
        yield Text(self.title, "bold")
        yield Text("  offset  executed  control word          instruction", "dim")
        for kind, text in self._lines():
            part = Text(text, "bold" if kind == "source" else "")
            part.truncate(width, overflow="ellipsis")
            yield part

    def _markup(self) -> Markup:
        body = [
            tag("b" if kind == "source" else "span", f"{text}\n") for kind, text in self._lines()
        ]
        return tag("div", [tag("b", self.title), tag("pre", body, MONO)])
