"""The rows of a profile: what each instruction, access and source line executed and moved.

An *instruction* is a machine instruction, or a PTX instruction if the kernel's PTX was counted. An
*access* is what one source line does with one array: all instructions of the line that load from
the array, or all that store to it. In an unrolled loop these are several instructions. A *line* has
the accesses of one line of the source. Requests, sectors and wavefronts have the same meaning as in
Nsight Compute.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from coalesce._core import model
from coalesce.cxx.declarations import lines_of
from coalesce.profiling.examples import Example, typical
from coalesce.profiling.patterns import Pattern

if TYPE_CHECKING:
    from coalesce.draw import Picture


# An access is called wasteful if its cost is more than this factor times its ideal cost.
TOLERANCE = 1.05

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
_KINDS = {"async_copy": "copy"}


@dataclass(frozen=True)
class Instruction:
    """What one instruction, of the machine code or of the PTX, executed and moved.

    Attributes
    ----------
    line : int
        Line of the CUDA source; 0 if it is not known.
    file : str
        The source file; ``""`` for the file that the kernel is in.
    ptx_line : int
        Line of the PTX text.
    opcode : str
        ``"LDG.E.CONSTANT"`` in machine code, ``"ld.global.nc.f32"`` in PTX.
    space : str
        ``"global"``, ``"shared"``, ``"local"``, ``"constant"``, ``"generic"``; ``""`` if the
        instruction does not access memory.
    kind : str
        ``"load"``, ``"store"``, ``"atomic"``, ``"reduction"``, ``"async_copy"``; or ``""``.
    width : int
        Bytes that a lane accesses.
    executed, threads : int
        How often a warp executed the instruction, and the number of active threads, summed over
        these executions.
    requests, accesses, bytes : int
        How often a warp accessed memory with the instruction, the number of lanes that did so,
        summed up, and the bytes that these lanes asked for.
    sectors, lines : int
        Distinct 32-byte sectors and 128-byte lines that each request touched, summed up.
    wavefronts : int
        The passes in which shared memory served the requests.
    ideal : int
        Sectors (wavefronts for shared memory) that the same lanes would take if their elements were
        adjacent.
    merged : int
        How many instructions of the PTX the assembler merged into this one; 1 if it did not merge.
    array : str
        Name of the parameter or the variable that is accessed; ``""`` if it is not known.
    examples : tuple of Example
        The addresses with which some warps executed the instruction.
    index : int
        Index among the kernel's instructions; a `Trace` refers to it.
    """

    line: int
    file: str
    ptx_line: int
    opcode: str
    space: str
    kind: str
    width: int
    executed: int
    threads: int
    requests: int
    accesses: int
    bytes: int
    sectors: int
    lines: int
    wavefronts: int
    ideal: int
    merged: int = 1
    array: str = ""
    examples: tuple[Example, ...] = ()
    index: int = -1


@dataclass(frozen=True)
class Access:
    """What one source line does with one array: all its loads, or all its stores, and so on.

    Attributes
    ----------
    line, file, space, kind, width, array
        As in `Instruction`; equal for all of its `instructions`.
    instructions : tuple of Instruction
        The instructions; several if the compiler unrolled a loop.
    source : str
        The text of the line.
    requests, sectors, wavefronts, ideal, bytes : int
        Sums over the instructions.
    share : float
        Share of the kernel's sectors (of its wavefronts for shared memory), from 0 to 1.
    example : Example or None
        The addresses of a typical warp. If the access is wasteful, the example is wasteful, too;
        None if there is no such example.
    sentence : str
        The pattern in words and, if the access is wasteful, what to do.
    error : float
        The standard error of `cost` in an estimate from a sample of the blocks; else 0.
    """

    line: int
    file: str
    space: str
    kind: str
    width: int
    array: str
    source: str
    instructions: tuple[Instruction, ...]
    requests: int
    bytes: int
    sectors: int
    wavefronts: int
    ideal: int
    share: float
    example: Example | None = None
    sentence: str = ""
    error: float = 0.0

    @property
    def name(self) -> str:
        """The kind and the array: ``"load a"``."""
        kind = _KINDS.get(self.kind, self.kind)
        what = self.array or ("" if self.space == "global" else self.space)
        return f"{kind} {what}".rstrip()

    @property
    def place(self) -> str:
        """The place as text: ``"line 28"``, or ``"a.h:17"`` if it is not in the kernel's file."""
        if self.file:
            return f"{PurePath(self.file).name}:{self.line}"
        return f"line {self.line}" if self.line else "unknown line"

    @property
    def merged(self) -> int:
        """How many accesses of the PTX the assembler merged into one, or 1 if it did not merge."""
        return max(instruction.merged for instruction in self.instructions)

    @property
    def merge(self) -> str:
        """A sentence about what the assembler merged. It is empty if it merged nothing."""
        n = self.merged
        if n == 1:
            return ""
        each = self.width // n
        what = f"{_KINDS.get(self.kind, self.kind)}s of {each} byte{'s' * (each != 1)}"
        return f"The assembler merged every {n} {what} into one of {self.width}."

    @property
    def pattern(self) -> Pattern | None:
        """The pattern of a typical warp, or None for local memory or without an example."""
        if self.example is None or self.space == "local":
            return None
        return self.example.pattern

    @property
    def cost(self) -> int:
        """Wavefronts for shared memory, sectors for other memory."""
        return self.wavefronts if self.space == "shared" else self.sectors

    @property
    def unit(self) -> str:
        """The unit of `cost`: ``"sectors"`` or ``"wavefronts"``."""
        return "wavefronts" if self.space == "shared" else "sectors"

    @property
    def takes(self) -> str:
        """The average cost of a request, in words: ``"32 sectors"``, ``"1 wavefront"``."""
        each = number(self.per_request)
        return f"{each} {self.unit if each != '1' else self.unit[:-1]}"

    @property
    def per_request(self) -> float:
        """Sectors (wavefronts for shared memory) per request."""
        return self.cost / self.requests if self.requests else 0.0

    @property
    def ideal_per_request(self) -> float:
        """Sectors or wavefronts per request if the lanes' elements were adjacent."""
        return self.ideal / self.requests if self.requests else 0.0

    @property
    def excess(self) -> int:
        """Sectors or wavefronts above the ideal; 0 if the cost is below it, as for a broadcast."""
        return max(0, self.cost - self.ideal)

    @property
    def needed(self) -> int:
        """The smaller of `cost` and `ideal`. `cost` may be smaller if lanes share addresses."""
        return min(self.cost, self.ideal)

    @property
    def needed_per_request(self) -> float:
        """Sectors or wavefronts per request that would suffice."""
        return self.needed / self.requests if self.requests else 0.0

    @property
    def conflict(self) -> float:
        """For shared memory, the n of an n-way bank conflict, or 1 without a conflict."""
        return max(1.0, self.wavefronts / self.ideal) if self.ideal else 1.0

    @property
    def bytes_moved(self) -> int:
        """Bytes of the sectors that were moved, or 0 for shared memory."""
        return 0 if self.space == "shared" else self.sectors * model.SECTOR_BYTES

    @property
    def bytes_used(self) -> int:
        """Bytes that the lanes asked for, but at most `bytes_moved`.

        If several lanes ask for the same bytes, the sum of their bytes can be larger than that.
        """
        return min(self.bytes, self.bytes_moved)

    @property
    def efficiency(self) -> float:
        """Bytes used / bytes moved, from 0 to 1. It is 1 for shared memory."""
        return self.bytes_used / self.bytes_moved if self.bytes_moved else 1.0

    def picture(self) -> Picture | None:
        """Draw a typical warp: its lanes above the cache lines, or on the banks of shared memory.

        Returns
        -------
        coalesce.draw.Picture or None
            None without an example, and for local memory, where each thread has its own addresses.
        """
        if self.example is None or self.space == "local":
            return None
        return self.example.picture(f"{self.place}: {self.source.strip()}")


@dataclass(frozen=True)
class Line:
    """What the instructions of one source line executed and moved.

    Attributes
    ----------
    number : int
        Number of the line, from 1. Line 0 has the instructions whose line is not known.
    file : str
        The source file; ``""`` for the file that the kernel is in, which comes first.
    source : str
        Text of the line; ``""`` if it is not known.
    accesses : tuple of Access
        The memory accesses of the line, the most costly first.
    executed : int
        Warp instructions.
    requests, sectors, ideal_sectors : int
        Sums for global and local memory.
    bytes_used, bytes_moved : int
        As in `Access`.
    shared_requests, wavefronts, ideal_wavefronts : int
        Sums for shared memory.
    share, shared_share : float
        Share of the kernel's sectors and of its wavefronts, from 0 to 1.
    """

    number: int
    file: str
    source: str
    accesses: tuple[Access, ...]
    executed: int
    requests: int
    sectors: int
    ideal_sectors: int
    bytes_used: int
    bytes_moved: int
    shared_requests: int
    wavefronts: int
    ideal_wavefronts: int
    share: float
    shared_share: float

    @property
    def sectors_per_request(self) -> float:
        """Sectors per request to global and local memory, or 0 without requests."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def ideal_sectors_per_request(self) -> float:
        """Sectors per request to global and local memory if the lanes' elements were adjacent."""
        return self.ideal_sectors / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """Bytes used / bytes moved, from 0 to 1. It is 1 if nothing was moved."""
        return self.bytes_used / self.bytes_moved if self.bytes_moved else 1.0

    @property
    def conflict(self) -> float:
        """The n of the worst n-way bank conflict of the line, or 1 without conflicts."""
        return max((a.conflict for a in self.accesses if a.space == "shared"), default=1.0)

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts of shared memory above the ideal."""
        return sum(a.excess for a in self.accesses if a.space == "shared")

    @property
    def sentence(self) -> str:
        """Sentences: the patterns of the accesses and, if they are wasteful, what to do."""
        return " ".join(said for a in self.accesses for said in (a.sentence, a.merge) if said)


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

    `parameters` has the names of the kernel's parameters. `examples` maps the number of a row of
    the table to its examples. All counts are multiplied by `scale`. `ptx_widths` maps a line of the
    PTX to the number of bytes that its instruction accesses in each lane. If the machine
    instruction of this line accesses more bytes, the assembler has merged several PTX instructions
    into it.
    """
    texts = ("opcode", "space", "kind", "variable")
    names = [c for c in _COUNTERS if c in table]
    column = {
        name: table[name].tolist()
        for name in (*names, *texts, "ptx_line", "line", "file", "width", "parameter")
    }
    for name in names if scale != 1 else ():
        column[name] = [round(count * scale) for count in column[name]]
    counters = zip(*(column[name] for name in names), strict=True)
    widths = ptx_widths or {}
    files_of = {number: name for number, name in files.items() if number != own_file}
    rows = []
    for i, (counts, line, file, ptx_line, opcode, space, kind, width) in enumerate(
        zip(
            counters,
            *(column[c] for c in ("line", "file", "ptx_line", "opcode", "space", "kind", "width")),
            strict=True,
        )
    ):
        shown = tuple(examples.get(i, ()))
        rows.append(
            Instruction(
                line=line,
                file=files_of.get(file, ""),
                ptx_line=ptx_line,
                opcode=opcode,
                space=space,
                kind=kind,
                width=width,
                merged=_merged(width, widths.get(ptx_line, 0)),
                array=_array(column["parameter"][i], column["variable"][i], parameters, shown),
                examples=shown,
                index=i,
                **dict(zip(names, counts, strict=True)),
            )
        )
    return tuple(rows)


def _merged(width: int, of_ptx: int) -> int:
    return max(1, width // of_ptx) if of_ptx else 1


def _array(
    parameter: int, variable: str, parameters: Sequence[str], examples: Sequence[Example]
) -> str:
    """Return the name of the accessed array. If the counts lack it, take it from an example."""
    if parameter >= 0:
        return parameters[parameter]
    return variable or next((e.array.name for e in examples if e.array is not None), "")


# Returns the standard error of the sum of a counter over the instructions with these indices.
Errors = Callable[[Sequence[int], str], float]


def lines(
    rows: Iterable[Instruction],
    source: str,
    advise: Callable[[Access], str],
    errors: Errors | None = None,
) -> tuple[Line, ...]:
    """Group the instructions by source line, and the memory accesses of a line by array and kind.

    `source` is the text of the kernel's file. `advise` returns the sentence about an access.
    `errors` returns the standard errors of an estimate.
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
    """Return a key: instructions of a line with equal keys are shown as one access.

    A line may access unknown arrays, or one array by two indices. Such accesses are shown
    separately if one takes about twice as many sectors per request as the other. The instructions
    of an unrolled loop differ less: some of them begin at the start of a sector and others do not.
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


def number(value: float) -> str:
    """Return a ratio with as few digits as make sense: 4, 2.5, 1.03, 1,234."""
    if value >= 100 or abs(value - round(value)) < 0.005:
        return f"{value:,.0f}"
    if value >= 10 or abs(10 * value - round(10 * value)) < 0.05:
        return f"{value:.1f}"
    return f"{value:.2f}"
