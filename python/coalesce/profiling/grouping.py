"""Groups the counts of a launch by instruction, by access and by source line.

`instructions` makes an `Instruction` from each row of the table of counts. `lines` makes a `Line`
for each source line. A `Line` has an `Access` for each array that the line loads from or stores to.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from coalesce.cxx.declarations import lines_of
from coalesce.profiling.examples import Example, typical
from coalesce.profiling.rows import TOLERANCE, Access, Instruction, Line

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


def instructions(
    table: Mapping[str, Any],
    files: Mapping[int, str],
    own_file: int,
    parameters: Sequence[str],
    examples: Mapping[int, Sequence[Example]],
    scale: float = 1,
    ptx_widths: Mapping[int, int] | None = None,
) -> tuple[Instruction, ...]:
    """Return an `Instruction` for each row of a `Counts.table()`.

    `parameters` has the names of the kernel's parameters. `examples` is a dict from the number of a
    row to the examples of this row. All counts are multiplied by `scale`.

    `ptx_widths` is a dict from a line of the PTX to the bytes that its instruction accesses in each
    lane. If the machine instruction of this line accesses more bytes, the assembler has merged
    several PTX instructions into one.
    """
    texts = ("opcode", "space", "kind", "variable")
    names = [c for c in _COUNTERS if c in table]
    column = {
        name: table[name].tolist()
        for name in (*names, *texts, "ptx_line", "line", "file", "width", "parameter")
    }
    for name in names if scale != 1 else ():
        column[name] = [round(count * scale) for count in column[name]]
    widths = ptx_widths or {}
    files_of = {number: name for number, name in files.items() if number != own_file}
    of_row = [tuple(examples.get(i, ())) for i in range(len(column["line"]))]
    columns = {
        **{name: column[name] for name in (*names, *texts[:3], "line", "ptx_line", "width")},
        "file": [files_of.get(file, "") for file in column["file"]],
        "merged": [
            _merged(width, widths.get(line, 0))
            for width, line in zip(column["width"], column["ptx_line"], strict=True)
        ],
        "array": [
            _array(parameter, variable, parameters, shown)
            for parameter, variable, shown in zip(
                column["parameter"], column["variable"], of_row, strict=True
            )
        ],
        "examples": of_row,
        "index": range(len(of_row)),
    }
    return tuple(_instruction(columns, row) for row in zip(*columns.values(), strict=True))


def _instruction(names: Iterable[str], values: Iterable[Any]) -> Instruction:
    """Return an `Instruction`. A kernel may have hundreds, and its constructor takes long.

    The constructor of a frozen class sets one attribute after the other.
    """
    row = object.__new__(Instruction)
    row.__dict__.update(zip(names, values, strict=True))
    return row


def _merged(width: int, of_ptx: int) -> int:
    return max(1, width // of_ptx) if of_ptx else 1


def _array(
    parameter: int, variable: str, parameters: Sequence[str], examples: Sequence[Example]
) -> str:
    """Return the name of the accessed array, from the counts or else from an example."""
    if parameter >= 0:
        return parameters[parameter]
    return variable or next((e.array.name for e in examples if e.array is not None), "")


# A function that returns the standard error of a sum. Its arguments are the indices of the
# instructions whose counts are added up, and the name of the counter.
Errors = Callable[[Sequence[int], str], float]


def lines(
    rows: Iterable[Instruction],
    source: str,
    advise: Callable[[Access], str],
    errors: Errors | None = None,
) -> tuple[Line, ...]:
    """Group the instructions by source line, and the memory accesses of a line by array and kind.

    `source` is the text of the kernel's file. `advise` is a function that returns the sentence
    about an access. `errors` is a function that returns standard errors, or None if the counts are
    exact.
    """
    executed = [row for row in rows if row.executed]
    totals = {
        "sectors": sum(r.sectors for r in executed if r.space in _CACHED),
        "wavefronts": sum(r.wavefronts for r in executed if r.space == "shared"),
    }
    by_place: dict[tuple[str, int], list[Instruction]] = {}
    for row in executed:
        by_place.setdefault((row.file if row.line else "", row.line), []).append(row)
    text = lines_of(source)
    listed = []
    # Line 0 means that the line is not known. It comes after all lines of the kernel's own file,
    # and the lines of other files come last.
    for file, number in sorted(by_place, key=lambda at: (at[0] != "", at[0], at[1] == 0, at[1])):
        group = by_place[file, number]
        written = _text_of(file, number, text)
        accesses = _accesses(group, written, totals, advise, errors)
        cached = [a for a in accesses if a.space in _CACHED]
        shared = [a for a in accesses if a.space == "shared"]
        sectors, wavefronts = _sum(cached, "sectors"), _sum(shared, "wavefronts")
        listed.append(
            Line(
                number=number,
                file=file,
                source=written,
                accesses=accesses,
                executed=_sum(group, "executed"),
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
    advise: Callable[[Access], str],
    errors: Errors | None,
) -> tuple[Access, ...]:
    groups: dict[Any, list[Instruction]] = {}
    for row in rows:
        if row.requests and row.space in (*_CACHED, "shared"):
            groups.setdefault(_alike(row), []).append(row)
    accesses = [_access(group, source, totals, errors) for group in groups.values()]
    accesses = [replace(access, sentence=advise(access)) for access in accesses]
    return tuple(sorted(accesses, key=lambda a: (-a.share, -a.excess)))


def _alike(row: Instruction) -> tuple[Any, ...]:
    """Return a key. The instructions of a line that have equal keys are shown as one access.

    A line may access one array with two different indices, or several arrays whose names are not
    known. These accesses are shown separately if one takes about twice as many sectors per request
    as the other. The instructions of an unrolled loop get the same key, because their numbers of
    sectors differ less: some of them begin at the start of a sector and others do not.
    """
    cost = row.wavefronts if row.space == "shared" else row.sectors
    magnitude = round(math.log2(max(1, cost / row.requests)))
    return (row.space, row.kind, row.width, row.array, magnitude)


def _access(
    rows: Sequence[Instruction], source: str, totals: Mapping[str, int], errors: Errors | None
) -> Access:
    first = rows[0]
    unit = "wavefronts" if first.space == "shared" else "sectors"
    requests, sectors = _sum(rows, "requests"), _sum(rows, "sectors")
    cost = _sum(rows, unit)
    example = typical(
        [e for row in rows for e in row.examples],
        cost / requests,
        wasteful=cost > _sum(rows, "ideal"),
    )
    unexplained = first.kind in ("load", "store") and cost > TOLERANCE * _sum(rows, "ideal")
    if example is not None and unexplained and not example.wastes:
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
        ideal=_sum(rows, "ideal"),
        share=_share(cost, totals[unit]),
        error=0.0 if errors is None else errors([row.index for row in rows], unit),
        example=example,
    )


def _sum(items: Iterable[Any], name: str) -> int:
    return sum(getattr(item, name) for item in items)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _text_of(file: str, number: int, own: Sequence[str]) -> str:
    if number == 0:
        return ""
    if file == "":
        return own[number - 1] if number <= len(own) else ""
    return linecache.getline(file, number).rstrip("\n")
