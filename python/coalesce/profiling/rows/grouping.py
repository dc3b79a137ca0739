"""Groups the counts of a launch by instruction, by access and by source line.

`Instructions` makes an `Instruction` from each row of the table of counts. `lines` makes a `Line`
for each source line. A `Line` has an `Access` for each array that the line loads from or stores to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce.common import source_files
from coalesce.common.forks import cached_property
from coalesce.cxx.declarations import lines_of
from coalesce.profiling.patterns.examples import Example, Examples, distinct, examples, typical
from coalesce.profiling.rows.accesses import TOLERANCE, UNITS, Access, Instruction, Line, unit_of
from coalesce.profiling.rows.padding import padding_of

if TYPE_CHECKING:
    from coalesce.simulate.events import Trace

_COUNTERS = (
    "executed",
    "threads",
    "requests",
    "accesses",
    "bytes",
    "sectors",
    "lines",
    "wavefronts",
    "ideal",
)


class Instructions(Sequence[Instruction]):
    """The rows of a `Counts.table()`, each as an `Instruction`.

    A kernel may have hundreds of instructions, but a report shows only the instructions that access
    memory. To save time, an `Instruction` is made when it is first used. The same is true for the
    `Example` objects in `Instruction.examples`.

    Attributes
    ----------
    column : dict
        The values of all instructions, by attribute. For example, ``column["requests"]`` is a list
        with the attribute `requests` of each `Instruction`.
    accesses : list of bool
        Whether each instruction made requests that Nsight Compute counts. Nsight Compute does
        not count accesses to mbarriers.
    """

    def __init__(
        self,
        table: Mapping[str, Any],
        files: Mapping[int, str],
        own_file: int,
        parameters: Sequence[str],
        trace: Trace | None,
        ptx_widths: Mapping[int, int] | None = None,
        shown_files: Iterable[str] = (),
    ) -> None:
        """Take the counts of a launch.

        `parameters` has the names of the kernel's parameters. `trace` has the examples.

        `ptx_widths` is a dict from a line of the PTX to the bytes that its instruction accesses in
        each lane. If the machine instruction of this line accesses more bytes, the assembler has
        merged several PTX instructions into one.

        `shown_files` are the other files whose lines may be shown (see `Module.may_show`).
        """
        self.shown_files = frozenset(shown_files)
        names = [c for c in _COUNTERS if c in table]
        columns = (*names, "opcode", "space", "kind", "line", "ptx_line", "width")
        self.column: dict[str, list[Any]] = {name: table[name].tolist() for name in columns}
        files_of = {number: name for number, name in files.items() if number != own_file}
        constant = table["space"] == "constant"
        words = table["distinct_bytes"] // np.maximum(1, table["width"])
        self.column["words"] = np.where(constant, words, 0).tolist()
        self.column["ideal"] = np.where(constant, table["requests"], table["ideal"]).tolist()
        self.column["file"] = [files_of.get(file, "") for file in table["file"].tolist()]
        counted = (table["requests"] > 0) & (table["bulk"] | ~table["mbarrier"])
        self.accesses: list[bool] = counted.tolist()
        self._parameter, self._variable = table["parameter"], table["variable"]
        self._parameters = parameters
        self._ptx_widths = ptx_widths or {}
        self._trace = trace
        self._made: dict[int, Instruction] = {}

    def __len__(self) -> int:
        return len(self.column["line"])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        index = range(len(self))[index]
        if index not in self._made:
            self._made[index] = self._make(index)
        return self._made[index]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_examples": self._examples, "_trace": None}

    @cached_property
    def _examples(self) -> Mapping[int, Examples]:
        return {} if self._trace is None else examples(self._trace)

    def _make(self, index: int) -> Instruction:
        """Return an `Instruction`, without the constructor of the class, which takes long.

        The constructor of a frozen class sets one attribute after the other.
        """
        row = object.__new__(Instruction)
        shown = self._examples.get(index, ())
        row.__dict__.update({name: values[index] for name, values in self.column.items()})
        of_ptx = self._ptx_widths.get(row.ptx_line, 0)
        row.__dict__.update(
            merged=max(1, row.width // of_ptx) if of_ptx else 1,
            array=self._array(index, shown),
            examples=shown,
            index=index,
        )
        return row

    def _array(self, index: int, shown: Sequence[Example]) -> str:
        """Return the name of the accessed array, from the counts or else from an example."""
        parameter, variable = int(self._parameter[index]), str(self._variable[index])
        if parameter >= 0:
            return self._parameters[parameter]
        return variable or next((e.array.name for e in shown if e.array is not None), "")


def lines(
    rows: Instructions,
    source: str,
    advise: Callable[[Access], str],
) -> tuple[Line, ...]:
    """Group the instructions by source line, and the memory accesses of a line by array and kind.

    `rows` are the instructions, and `source` is the text of the kernel's file. `advise` is a
    function that returns the text for `Access.sentence`.
    """
    column = rows.column
    totals = dict.fromkeys(("sectors", *UNITS.values()), 0)
    for index, space in enumerate(column["space"]):
        if rows.accesses[index] and space in (*_CACHED, *UNITS):
            unit = unit_of(space)
            totals[unit] += column[unit][index]
    executed, threads = column["executed"], column["threads"]
    by_place: dict[tuple[str, int], list[int]] = {}
    for index, (file, line) in enumerate(zip(column["file"], column["line"], strict=True)):
        if executed[index]:
            by_place.setdefault((file if line else "", line), []).append(index)
    texts = {"": lines_of(source)}
    of_shared = _of_shared_arrays(rows)
    listed = []
    # Line 0 means that the line is not known. It comes after all lines of the kernel's own file,
    # and the lines of other files come last.
    for file, number in sorted(by_place, key=lambda at: (at[0] != "", at[0], at[1] == 0, at[1])):
        group = by_place[file, number]
        if file not in texts:
            texts[file] = source_files.lines_of(file) if file in rows.shown_files else []
        written = texts[file][number - 1] if 0 < number <= len(texts[file]) else ""
        accessing = [rows[index] for index in group if rows.accesses[index]]
        accesses = _accesses(accessing, written, totals)
        accesses = _with_sentences(accesses, of_shared, advise)
        cached = [a for a in accesses if a.space in _CACHED]
        shared = [a for a in accesses if a.space == "shared"]
        sectors, wavefronts = _sum(cached, "sectors"), _sum(shared, "wavefronts")
        listed.append(
            Line(
                number=number,
                file=file,
                source=written,
                accesses=accesses,
                executed=sum(executed[index] for index in group),
                threads=sum(threads[index] for index in group),
                requests=_sum(cached, "requests"),
                sectors=sectors,
                ideal_sectors=_sum(cached, "ideal"),
                bytes_used=_sum(cached, "bytes_used"),
                bytes_moved=_sum(cached, "bytes_moved"),
                shared_requests=_sum(shared, "requests"),
                wavefronts=wavefronts,
                ideal_wavefronts=_sum(shared, "ideal"),
                share=_share(sectors, totals["sectors"]),
                shared_share=_share(wavefronts, totals["wavefronts"]),
            )
        )
    return tuple(listed)


_CACHED = ("global", "local", "generic")  # state spaces whose accesses move sectors


def _accesses(
    rows: Sequence[Instruction],
    source: str,
    totals: Mapping[str, int],
) -> tuple[Access, ...]:
    groups: dict[Any, list[Instruction]] = {}
    for row in rows:
        if row.space in (*_CACHED, *UNITS):
            groups.setdefault(_access_key(row), []).append(row)
    accesses = [_access(group, source, totals) for group in groups.values()]
    return tuple(sorted(accesses, key=lambda a: (-a.share, -a.excess)))


def _of_shared_arrays(rows: Instructions) -> dict[str, list[Instruction]]:
    """Return the instructions that access each shared array whose rows could be padded.

    Copies by the copy engine and products of warpgroups need rows without padding. Their addresses
    in shared memory are not known. If there is such an instruction, the result is empty.
    """
    of_array: dict[str, list[Instruction]] = {}
    column = rows.column
    for index, executed in enumerate(column["executed"]):
        if not executed:
            continue
        opcode = column["opcode"][index].upper()
        if column["kind"][index].startswith("tma_") or "GMMA" in opcode:
            return {}
        if column["space"][index] == "shared" and rows.accesses[index]:
            of_array.setdefault(rows[index].array, []).append(rows[index])
    return of_array


def _with_sentences(
    accesses: Sequence[Access],
    of_shared: Mapping[str, Sequence[Instruction]],
    advise: Callable[[Access], str],
) -> tuple[Access, ...]:
    padded = []
    for access in accesses:
        if access.space == "shared":
            others = of_shared.get(access.array, ())
            widest = max((row.width for row in others), default=access.width)
            access = replace(access, padding=padding_of(access, others), widest=widest)
        padded.append(replace(access, sentence=advise(access)))
    return tuple(padded)


def _access_key(row: Instruction) -> tuple[Any, ...]:
    """Return a key. The instructions of a line that have equal keys are shown as one access.

    A line may access one array with two different indices, or several arrays whose names are not
    known. These accesses are shown separately if one takes about twice as many sectors per request
    as the other. The instructions of an unrolled loop get the same key. Their numbers of sectors
    differ less: an access may or may not begin at the start of a sector.
    """
    cost = getattr(row, unit_of(row.space))
    magnitude = round(math.log2(max(1, cost / row.requests)))
    return (row.space, row.kind, row.width, row.array, magnitude)


def _access(rows: Sequence[Instruction], source: str, totals: Mapping[str, int]) -> Access:
    first = rows[0]
    unit = unit_of(first.space)
    requests, sectors = _sum(rows, "requests"), _sum(rows, "sectors")
    cost = _sum(rows, unit)
    example = typical(
        [e for row in rows for e in distinct(row.examples)],
        cost / requests,
        _sum(rows, "accesses") / requests,
        wasteful=cost > _sum(rows, "ideal"),
    )
    unexplained = first.kind in ("load", "store") and cost > TOLERANCE * _sum(rows, "ideal")
    if example is not None and unexplained and not (example.wastes or example.split):
        example = None  # the waste happened in other warps; this example would not show the cause
    if example is not None and example.array is not None and first.array:
        # If two arrays share memory, take the name that this access uses.
        example = replace(example, array=example.array._replace(name=first.array))
    return Access(
        line=first.line,
        file=first.file,
        space=first.space,
        kind=first.kind,
        width=first.width,
        array=first.array,
        source=source,
        instructions=tuple(rows),
        requests=requests,
        bytes=_sum(rows, "bytes"),
        sectors=sectors,
        wavefronts=_sum(rows, "wavefronts"),
        words=_sum(rows, "words"),
        ideal=_sum(rows, "ideal"),
        share=_share(cost, totals[unit]),
        example=example,
    )


def _sum(items: Iterable[Any], name: str) -> int:
    return sum(getattr(item, name) for item in items)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
