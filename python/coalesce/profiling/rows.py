"""The rows of a profile: what each instruction, access and source line executed and moved.

An *instruction* is a machine instruction, or a PTX instruction if the kernel's PTX was counted. An
*access* is what one source line does with one array: all instructions of the line that load from
the array, or all that store to it. In an unrolled loop these are several instructions. A *line* has
the accesses of one line of the source. Requests, sectors and wavefronts have the same meaning as in
Nsight Compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from coalesce._core import model
from coalesce.profiling.examples import Example
from coalesce.profiling.patterns import Pattern

if TYPE_CHECKING:
    from coalesce.draw import Picture


# An access is called wasteful if its cost is more than this factor times its ideal cost.
TOLERANCE = 1.05

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
    requests : int
        How often a warp accessed memory with the instruction.
    accesses, bytes : int
        The number of lanes that accessed memory, and the bytes that they asked for, summed over the
        requests.
    sectors, lines : int
        Distinct 32-byte sectors and 128-byte lines that each request touched, summed over the
        requests.
    wavefronts : int
        The wavefronts in which shared memory served the requests.
    ideal : int
        The sectors (for shared memory, the wavefronts) that the same lanes would take if their
        elements were adjacent.
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
        Share of the kernel's sectors, from 0 to 1; for shared memory, of its wavefronts.
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
        """Sectors or wavefronts above the ideal; 0 if the cost is below it."""
        return max(0, self.cost - self.ideal)

    @property
    def needed(self) -> int:
        """The sectors or wavefronts that would suffice: the smaller of `cost` and `ideal`.

        `cost` may be the smaller one, because lanes may share addresses.
        """
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
        """The sum of the bytes that the lanes asked for, but at most `bytes_moved`.

        Without this limit, the sum could be larger, because several lanes may ask for the same
        bytes.
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


def number(value: float) -> str:
    """Return a ratio with as few digits as make sense: 4, 2.5, 1.03, 1,234."""
    if value >= 100 or abs(value - round(value)) < 0.005:
        return f"{value:,.0f}"
    if value >= 10 or abs(10 * value - round(10 * value)) < 0.05:
        return f"{value:.1f}"
    return f"{value:.2f}"
