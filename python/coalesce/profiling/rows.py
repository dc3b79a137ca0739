"""The rows of a profile: what each instruction, access and source line executed and moved.

An *instruction* is one of the PTX. An *access* is what one source line does with one array: the
instructions that load (or store) it there, of which an unrolled loop has several. A *line* has the
accesses of one line of the source. Requests, sectors and wavefronts are Nsight Compute's.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from coalesce.cxx.declarations import lines_of
from coalesce.profiling.examples import Example, typical
from coalesce.profiling.patterns import Pattern

if TYPE_CHECKING:
    from coalesce.draw import Picture

SECTOR_BYTES = 32

# How much more than its ideal an access may cost before it is called wasteful.
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
    """One instruction, of the machine code or else of the PTX, and what it executed and moved.

    Attributes
    ----------
    line : int
        Line of the CUDA source; 0 where the PTX does not tell.
    file : str
        The source file; ``""`` for the one that the kernel is in.
    ptx_line : int
        Line of the PTX text.
    opcode : str
        ``"LDG.E.CONSTANT"``, or of the PTX ``"ld.global.nc.f32"``.
    space, kind : str
        ``"global"``, ``"shared"``, ``"local"``, ``"constant"``, and ``"load"``, ``"store"``,
        ``"atomic"``, ``"reduction"``, ``"async_copy"``; both ``""`` for no memory access.
    width : int
        Bytes a lane accesses.
    executed, threads : int
        Warp instructions, and the active threads of all of them.
    requests, accesses, bytes : int
        Warp instructions that accessed memory, the lanes that did, the bytes they asked for.
    sectors, lines : int
        Distinct 32-byte sectors and 128-byte lines a request touched, over all requests.
    wavefronts : int
        Passes that shared memory took.
    ideal : int
        Sectors, or wavefronts of shared memory, that the same lanes would take with their elements
        packed.
    merged : int
        How many instructions of the PTX the assembler merged into this one; 1 where it is one.
    array : str
        What it accesses, by the name of the parameter or the variable; ``""`` where that is not
        known.
    examples : tuple of Example
        How some warps executed it.
    index : int
        Its place among the kernel's instructions, which a `Trace` refers to.
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
    """What one source line does with one array, in one way.

    Attributes
    ----------
    line, file, space, kind, width, array
        As of its `instructions`.
    instructions : tuple of Instruction
        Several where the compiler unrolled a loop.
    source : str
        The text of the line.
    requests, sectors, wavefronts, ideal, bytes : int
        Sums over the instructions.
    share : float
        Of the kernel's sectors, or of its wavefronts for shared memory, from 0 to 1.
    example : Example or None
        How a typical warp executed it; where the access wastes, a typical one of those that do, and
        None if no warp was looked at that does.
    sentence : str
        The pattern in words and, where it costs, what to do.
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
        """``"load a"``."""
        kind = _KINDS.get(self.kind, self.kind)
        what = self.array or ("" if self.space == "global" else self.space)
        return f"{kind} {what}".rstrip()

    @property
    def place(self) -> str:
        """``"line 28"``, or ``"cuda_fp16.h:17"`` in another file than the kernel's."""
        if self.file:
            return f"{PurePath(self.file).name}:{self.line}"
        return f"line {self.line}" if self.line else "unknown line"

    @property
    def merged(self) -> int:
        """How many accesses that the kernel spells the assembler merged into one; 1 where none."""
        return max(instruction.merged for instruction in self.instructions)

    @property
    def merge(self) -> str:
        """What the assembler merged, as a sentence; empty where it merged nothing."""
        n = self.merged
        if n == 1:
            return ""
        each = self.width // n
        what = f"{_KINDS.get(self.kind, self.kind)}s of {each} byte{'s' * (each != 1)}"
        return f"The assembler merged every {n} {what} into one of {self.width}."

    @property
    def pattern(self) -> Pattern | None:
        """How a typical warp's lanes lie; None of local memory, or where no warp was looked at."""
        if self.example is None or self.space == "local":
            return None
        return self.example.pattern

    @property
    def cost(self) -> int:
        """Wavefronts of shared memory, sectors of other memory."""
        return self.wavefronts if self.space == "shared" else self.sectors

    @property
    def unit(self) -> str:
        """What `cost` counts: ``"sectors"`` or ``"wavefronts"``."""
        return "wavefronts" if self.space == "shared" else "sectors"

    @property
    def takes(self) -> str:
        """What a request takes: ``"32 sectors"``, ``"1 wavefront"``."""
        each = number(self.per_request)
        return f"{each} {self.unit if each != '1' else self.unit[:-1]}"

    @property
    def per_request(self) -> float:
        """Sectors, or wavefronts of shared memory, a request."""
        return self.cost / self.requests if self.requests else 0.0

    @property
    def ideal_per_request(self) -> float:
        """What that would be with the lanes' elements packed."""
        return self.ideal / self.requests if self.requests else 0.0

    @property
    def excess(self) -> int:
        """Sectors or wavefronts beyond the ideal; 0 for a broadcast, which takes fewer."""
        return max(0, self.cost - self.ideal)

    @property
    def needed(self) -> int:
        """What would do: the ideal, or less where lanes share addresses."""
        return min(self.cost, self.ideal)

    @property
    def needed_per_request(self) -> float:
        """What would do for a request."""
        return self.needed / self.requests if self.requests else 0.0

    @property
    def conflict(self) -> float:
        """Of shared memory the n of an n-way bank conflict; 1 where there is none."""
        return max(1.0, self.wavefronts / self.ideal) if self.ideal else 1.0

    @property
    def bytes_moved(self) -> int:
        """Bytes of the sectors; 0 for shared memory."""
        return 0 if self.space == "shared" else self.sectors * SECTOR_BYTES

    @property
    def bytes_used(self) -> int:
        """Bytes the lanes asked for, but no more than moved: a broadcast gives all a sector."""
        return min(self.bytes, self.bytes_moved)

    @property
    def efficiency(self) -> float:
        """Bytes used / bytes moved, from 0 to 1; 1 for shared memory."""
        return self.bytes_used / self.bytes_moved if self.bytes_moved else 1.0

    def picture(self) -> Picture | None:
        """Draw how a typical warp executed it: lanes over memory, or on shared memory's banks.

        Returns
        -------
        coalesce.draw.Picture or None
            None where no warp was looked at, and of local memory, where each thread has its own.
        """
        if self.example is None or self.space == "local":
            return None
        return self.example.picture(f"{self.place}: {self.source.strip()}")


@dataclass(frozen=True)
class Line:
    """A line of the source and what its instructions executed and moved.

    Attributes
    ----------
    number : int
        From 1; 0 gathers the instructions of unknown lines.
    file : str
        ``""`` for the file that the kernel is in, which comes first.
    source : str
        The line's text, ``""`` where it is not known.
    accesses : tuple of Access
        Its memory accesses, the costliest first.
    executed : int
        Warp instructions.
    requests, sectors, ideal_sectors : int
        Of global and local memory.
    bytes_used, bytes_moved : int
        As of `Access`.
    shared_requests, wavefronts, ideal_wavefronts : int
        Of shared memory.
    share, shared_share : float
        Of the kernel's sectors and of its wavefronts, from 0 to 1.
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
        """Sectors a request of global and local memory; 0 without any."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def ideal_sectors_per_request(self) -> float:
        """What that would be with the lanes' elements packed."""
        return self.ideal_sectors / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """Bytes used / bytes moved, from 0 to 1; 1 where nothing moved."""
        return self.bytes_used / self.bytes_moved if self.bytes_moved else 1.0

    @property
    def conflict(self) -> float:
        """The n of the worst n-way bank conflict among the accesses; 1 without conflicts."""
        return max((a.conflict for a in self.accesses if a.space == "shared"), default=1.0)

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts of shared memory beyond the ideal."""
        return sum(a.excess for a in self.accesses if a.space == "shared")

    @property
    def sentence(self) -> str:
        """What its accesses do and, where that costs, what to do; one sentence or more."""
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
    """Make the rows of a `Counts.table()`.

    `parameters` are the names of the kernel's parameters, `examples` are by row; the counters are
    multiplied by `scale`. `ptx_widths` has the bytes a lane that the PTX's instructions access, by
    line of the PTX: a machine instruction that accesses more stands for several.
    """
    names = [c for c in _COUNTERS if c in table]
    columns = {name: table[name].tolist() for name in (*names, "ptx_line", "line", "file", "width")}
    widths = ptx_widths or {}
    return tuple(
        Instruction(
            line=columns["line"][i],
            file="" if columns["file"][i] == own_file else files.get(columns["file"][i], ""),
            ptx_line=columns["ptx_line"][i],
            opcode=str(table["opcode"][i]),
            space=str(table["space"][i]),
            kind=str(table["kind"][i]),
            width=columns["width"][i],
            merged=_merged(columns["width"][i], widths.get(columns["ptx_line"][i], 0)),
            array=_array(table, i, parameters, examples.get(i, ())),
            examples=tuple(examples.get(i, ())),
            index=i,
            **{name: _scaled(columns[name][i], scale) for name in names},
        )
        for i in range(len(table["line"]))
    )


def _merged(width: int, of_ptx: int) -> int:
    return max(1, width // of_ptx) if of_ptx else 1


def _scaled(count: int, scale: float) -> int:
    return count if scale == 1 else round(count * scale)


def _array(
    table: Mapping[str, Any], i: int, parameters: Sequence[str], examples: Sequence[Example]
) -> str:
    """Return what an instruction accesses: as its address says, or else as its examples do."""
    if table["parameter"][i] >= 0:
        return parameters[int(table["parameter"][i])]
    if table["variable"][i]:
        return str(table["variable"][i])
    return next((e.array.name for e in examples if e.array is not None), "")


# The standard error of a counter's sum over some instructions, given their indices.
Errors = Callable[[Sequence[int], str], float]


def lines(
    rows: Iterable[Instruction],
    source: str,
    advise: Callable[[Access], str],
    errors: Errors | None = None,
) -> tuple[Line, ...]:
    """Group instructions by source line, and those that access memory by what they access.

    `source` is the text of the kernel's file; `advise` makes the sentence of an access; `errors`
    tells those of an estimate.
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
    found = []
    # Line 0, what has no line, after all lines of the kernel's own file; other files last.
    for file, number in sorted(by_place, key=lambda at: (at[0] != "", at[0], at[1] == 0, at[1])):
        group = by_place[file, number]
        written = _text_of(file, number, text)
        accesses = _accesses(group, written, totals, advise, errors)
        cached = [a for a in accesses if a.space in _CACHED]
        shared = [a for a in accesses if a.space == "shared"]
        sectors, wavefronts = _sum(cached, "sectors"), _sum(shared, "wavefronts")
        found.append(
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
    return tuple(found)


_CACHED = ("global", "local", "generic")  # spaces whose accesses move sectors


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
    found = [_access(group, source, totals, errors) for group in groups.values()]
    found = [replace(access, sentence=advise(access)) for access in found]
    return tuple(sorted(found, key=lambda a: (-a.share, -a.excess)))


def _alike(row: Instruction) -> tuple[Any, ...]:
    """Return what instructions of a line have in common that are one access to the reader.

    Two accesses of unknown arrays, or of one array by two indices, are told apart where they cost
    clearly different: a request twice as many sectors. The instructions of an unrolled loop differ
    less, where some of them begin at a sector and others do not.
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
    untold = first.kind in ("load", "store") and cost > TOLERANCE * _sum(rows, "ideal")
    if example is not None and untold and not example.wastes:
        example = None  # what wastes happened elsewhere: it would not tell why
    if example is not None and example.array is not None and first.array:
        # Of one memory that has two names, the one that this access uses.
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
    """Write a ratio as short as it reads: 4, 2.5, 1.03, 1,234."""
    if value >= 100 or abs(value - round(value)) < 0.005:
        return f"{value:,.0f}"
    if value >= 10 or abs(10 * value - round(10 * value)) < 0.05:
        return f"{value:.1f}"
    return f"{value:.2f}"
