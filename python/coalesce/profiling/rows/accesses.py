"""The rows of a profile: the counts of each instruction, of each access and of each source line.

- An *instruction* is a machine instruction, or a PTX instruction if the kernel's PTX was counted.
- An *access* is a group: all loads of one source line from one array, or all stores of one source
  line to one array. The group has several instructions if, for example, the compiler unrolled a
  loop.
- A *line* has all accesses of one source line.

Requests, sectors and wavefronts have the same meaning as in Nsight Compute. A wavefront is the work
that shared memory does in one cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from coalesce._core import model
from coalesce.profiling.patterns.classification import Pattern
from coalesce.profiling.patterns.examples import Example

if TYPE_CHECKING:
    from coalesce.draw import Picture


# An access is called wasteful if its cost is more than this factor times its ideal cost.
TOLERANCE = 1.05

# What an access costs is counted in these units, or else in sectors. Constant memory delivers one
# word to all lanes that ask for it; lanes that ask for other words wait.
UNITS = {"shared": "wavefronts", "constant": "words"}


def unit_of(space: str) -> str:
    """Return the unit of an access's cost: ``"sectors"``, if the memory is behind the caches."""
    return UNITS.get(space, "sectors")


KINDS = {"async_copy": "copy", "tma_load": "TMA load", "tma_store": "TMA store"}


@dataclass(frozen=True)
class Instruction:
    """The counts of one instruction of the machine code, or of the PTX.

    Attributes
    ----------
    line : int
        The line of the CUDA source. It is 0 if the line is not known.
    file : str
        The source file. It is ``""`` for the kernel's own file.
    ptx_line : int
        The line of the PTX text.
    opcode : str
        The opcode, such as ``"LDG.E.CONSTANT"`` in machine code, or ``"ld.global.nc.f32"`` in PTX.
    space : str
        The memory: ``"global"``, ``"shared"``, ``"local"``, ``"constant"`` or ``"generic"``. It is
        ``""`` if the instruction does not access memory.
    kind : str
        The kind of access: ``"load"``, ``"store"``, ``"atomic"``, ``"reduction"`` or
        ``"async_copy"``. Copies by the copy engine (TMA) are ``"tma_load"`` to shared memory, and
        ``"tma_store"`` to global memory. It is ``""`` if the instruction does not access memory.
    width : int
        The number of bytes that each lane accesses.
    executed, threads : int
        `executed` is the number of executions: how often warps executed the instruction. `threads`
        is the number of active threads, summed over all executions.
    requests : int
        How often warps accessed memory with the instruction. For the copy engine, the number of
        copies.
    accesses, bytes : int
        `accesses` is the number of lanes that accessed memory, and `bytes` is the number of bytes
        that they asked for. Both are summed over the requests.
    sectors, lines : int
        The number of distinct 32-byte sectors, and of distinct 128-byte cache lines, that a request
        touched. Both are summed over the requests.
    wavefronts : int
        The number of cycles in which shared memory served the requests.
    words : int
        For constant memory: the number of different words that a request reads, summed over the
        requests. They are read one after the other.
    ideal : int
        The number of sectors that the requests would need if the lanes' elements were adjacent. For
        shared memory, the number of wavefronts that they would need. For constant memory, one word
        for each request.
    merged : int
        How many PTX instructions the assembler merged into this instruction. It is 1 if nothing was
        merged.
    array : str
        The name of the parameter or of the variable that is accessed. It is ``""`` if the name is
        not known.
    examples : sequence of Example
        The addresses of some executions of the instruction.
    index : int
        The index of the instruction in the kernel. A `Trace` uses the same indices.
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
    words: int = 0
    array: str = ""
    examples: Sequence[Example] = ()
    index: int = -1


@dataclass(frozen=True)
class Padding:
    """Padding for the rows of a shared array: elements at the end of each row that nobody uses.

    Attributes
    ----------
    elements : int
        How many elements to add to each row.
    ways : int
        The degree of the access's bank conflict with this padding. It is 1 without a conflict.
    """

    elements: int
    ways: int


@dataclass(frozen=True)
class Access:
    """All memory instructions of one source line that have the same kind and array.

    For example, all loads of `a` in a line are one `Access`. Its `name` is ``"load a"``.

    Attributes
    ----------
    line, file, space, kind, width, array
        As in `Instruction`. They are the same for all `instructions`.
    instructions : tuple of Instruction
        The instructions. There may be several, for example if the compiler unrolled a loop.
    source : str
        The text of the line.
    requests, sectors, wavefronts, words, ideal, bytes : int
        The counts of `Instruction`, summed over the instructions.
    share : float
        The share of the kernel's sectors that this access takes, from 0 to 1. For shared memory,
        the share of the wavefronts, and for constant memory, of the words.
    example : Example or None
        The addresses of a typical warp. None if there is no example. The example of a wasteful
        access is also wasteful.
    sentence : str
        Sentences about the access: the pattern and, if the access is wasteful, what to do.
    padding : Padding or None
        For an access with a bank conflict: the padding with which all accesses to the array take
        the fewest wavefronts, if it also reduces the conflict of this access. If there is no such
        padding, its `elements` is 0. None if the rows of the array are not known, or if the access
        has no bank conflict.
    widest : int
        For shared memory: the bytes per lane of the widest access to the same array. Padding must
        keep its addresses aligned.
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
    padding: Padding | None = None
    words: int = 0
    widest: int = 0

    @property
    def name(self) -> str:
        """The kind of access and the array, such as ``"load a"``."""
        kind = KINDS.get(self.kind, self.kind)
        what = self.array or ("" if self.space == "global" else self.space)
        return f"{kind} {what}".rstrip()

    @property
    def place(self) -> str:
        """The source line as text: ``"line 28"``, or ``"a.h:17"`` if it is in another file."""
        return _place(self.file, self.line)

    @property
    def merged(self) -> int:
        """How many PTX accesses the assembler merged into one. It is 1 if nothing was merged."""
        return max(instruction.merged for instruction in self.instructions)

    @property
    def merge_note(self) -> str:
        """A sentence about the accesses that the assembler merged. Empty if nothing was merged."""
        n = self.merged
        if n == 1:
            return ""
        each = self.width // n
        what = f"{KINDS.get(self.kind, self.kind)}s of {each} byte{'s' * (each != 1)}"
        return f"The assembler merged every {n} {what} into one of {self.width}."

    @property
    def pattern(self) -> Pattern | None:
        """The access pattern of the example.

        None for local and constant memory, or if there is no example.
        """
        if self.example is None or self.space in ("local", "constant"):
            return None
        return self.example.pattern

    @property
    def cost(self) -> int:
        """The cost of the access, counted in `unit`."""
        return int(getattr(self, self.unit))

    @property
    def unit(self) -> str:
        """The unit of `cost`: ``"sectors"``, ``"wavefronts"`` or ``"words"``."""
        return unit_of(self.space)

    @property
    def takes(self) -> str:
        """The average cost of a request, in words: ``"32 sectors"``, ``"1 wavefront"``."""
        each = number(self.per_request)
        return f"{each} {self.unit if each != '1' else self.unit[:-1]}"

    @property
    def per_request(self) -> float:
        """The average cost of a request, in `unit`."""
        return self.cost / self.requests if self.requests else 0.0

    @property
    def ideal_per_request(self) -> float:
        """The value that `per_request` would have if the lanes' elements were adjacent."""
        return self.ideal / self.requests if self.requests else 0.0

    @property
    def excess(self) -> int:
        """`cost` minus `ideal`, or 0 if `cost` is smaller than `ideal`."""
        return max(0, self.cost - self.ideal)

    @property
    def needed(self) -> int:
        """How many sectors or wavefronts the access needs: `ideal`, or `cost` if that is smaller.

        `ideal` is the cost of an access to adjacent elements, with one element per lane. If several
        lanes access the same element, `cost` can be smaller than `ideal`.
        """
        return min(self.cost, self.ideal)

    @property
    def needed_per_request(self) -> float:
        """The average number of sectors or wavefronts that each request needs."""
        return self.needed / self.requests if self.requests else 0.0

    @property
    def conflict(self) -> float:
        """The degree of the bank conflict: 4.0 for a 4-way bank conflict.

        It is 1 without a conflict, and for memory that is not shared memory.
        """
        return max(1.0, self.wavefronts / self.ideal) if self.ideal else 1.0

    @property
    def bytes_moved(self) -> int:
        """The bytes of all touched sectors. It is 0 for shared and constant memory."""
        return self.cost * model.SECTOR_BYTES if self.unit == "sectors" else 0

    @property
    def bytes_used(self) -> int:
        """The sum of the bytes that the lanes asked for, but at most `bytes_moved`.

        The sum alone could be larger than `bytes_moved`, because several lanes may ask for the same
        bytes.
        """
        return min(self.bytes, self.bytes_moved)

    @property
    def efficiency(self) -> float:
        """`bytes_used` divided by `bytes_moved`, from 0 to 1. It is 1 for shared memory."""
        return self.bytes_used / self.bytes_moved if self.bytes_moved else 1.0

    def picture(self) -> Picture | None:
        """Draw the example: the lanes, and the cache lines or the banks that they access.

        Returns
        -------
        coalesce.draw.Picture or None
            The picture. None if there is no example. Also None for constant memory, and for local
            memory, where each thread has its own addresses. Also None for some asynchronous copies;
            then `Example.not_drawn` says why.
        """
        if self.example is None or self.space in ("local", "constant"):
            return None
        return self.example.picture(f"{self.place}: {self.source.strip()}")


@dataclass(frozen=True)
class Line:
    """The counts of one source line: the sums over its instructions.

    Attributes
    ----------
    number : int
        The line number, from 1. Line 0 has the instructions whose line is not known.
    file : str
        The source file. It is ``""`` for the kernel's own file.
    source : str
        The text of the line. It is ``""`` if the text is not known.
    accesses : tuple of Access
        The memory accesses of the line. The access with the highest cost comes first.
    executed, threads : int
        `executed` is how often warps executed an instruction of the line. `threads` is the number
        of active threads, summed over these executions.
    requests, sectors, ideal_sectors : int
        The sums over the accesses to global and local memory.
    bytes_used, bytes_moved : int
        The sums of the same attributes of `Access`.
    shared_requests, wavefronts, ideal_wavefronts : int
        The sums over the accesses to shared memory.
    share, shared_share : float
        The line's share of the kernel's sectors, and its share of the kernel's wavefronts, from 0
        to 1.
    """

    number: int
    file: str
    source: str
    accesses: tuple[Access, ...]
    executed: int
    threads: int
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
    def place(self) -> str:
        """The line as text: ``"line 28"``, or ``"a.h:17"`` if it is in another file."""
        return _place(self.file, self.number)

    @property
    def lanes(self) -> float:
        """How many of the 32 lanes of a warp are active, on average over the instructions."""
        return self.threads / self.executed

    @property
    def sectors_per_request(self) -> float:
        """The average sectors per request to global and local memory. It is 0 without requests."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def ideal_sectors_per_request(self) -> float:
        """The value of `sectors_per_request` if the lanes' elements were adjacent."""
        return self.ideal_sectors / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """`bytes_used` divided by `bytes_moved`, from 0 to 1. It is 1 if nothing was moved."""
        return self.bytes_used / self.bytes_moved if self.bytes_moved else 1.0

    @property
    def conflict(self) -> float:
        """The degree of the worst bank conflict of the line: 4.0 for a 4-way bank conflict.

        It is 1 without a conflict.
        """
        return max((a.conflict for a in self.accesses if a.space == "shared"), default=1.0)

    @property
    def bank_conflicts(self) -> int:
        """How many wavefronts (cycles of shared memory) the line's bank conflicts cost.

        The line would save these wavefronts if the lanes' elements were adjacent.
        """
        return sum(a.excess for a in self.accesses if a.space == "shared")

    @property
    def sentence(self) -> str:
        """The sentences about all accesses of the line, as one string.

        They describe the pattern of each access. For a wasteful access, they also say what to do.
        """
        return " ".join(text for a in self.accesses for text in (a.sentence, a.merge_note) if text)


def _place(file: str, line: int) -> str:
    if file:
        return f"{PurePath(file).name}:{line}"
    return f"line {line}" if line else "unknown line"


def number(value: float) -> str:
    """Return a ratio as text with at most two decimal places: "4", "2.5", "1,234"."""
    if value >= 100 or abs(value - round(value)) < 0.005:
        return f"{value:,.0f}"
    if value >= 10 or abs(10 * value - round(10 * value)) < 0.05:
        return f"{value:.1f}"
    return f"{value:.2f}"
