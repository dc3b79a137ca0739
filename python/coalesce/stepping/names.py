"""Finds the PTX registers that hold variables of the source, from the line information.

PTX does not name variables, but it names the source line of each instruction. A line such as
``float x = a[i];`` or ``sum += x * y;`` assigns one variable. If its instructions compute exactly
one register that none of them reads again, and its type matches the declaration, that register is
the variable. Variables that were optimised away, merged with another line, or computed by several
statements of one line are not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coalesce.cxx import declarations, definitions
from coalesce.cxx.element_types import SCALARS


@dataclass(frozen=True)
class Instruction:
    """A PTX instruction of the program."""

    text: str
    opcode: str
    ptx_line: int
    file: int
    line: int  # the line in the file; 0 if it is not known
    function: int
    parameter: int  # the number of the kernel's parameter that the address comes from; -1 for none
    writes: Sequence[str]  # the registers that the instruction writes
    reads: Sequence[str]


_TYPE = (
    r"(?:(?:const|volatile|static|register|unsigned|signed|long|short|struct)\s+)*[A-Za-z_]\w*"
    r"(?:::\w+)*(?:<[^<>;]*>)?"
)
_ASSIGNMENT = re.compile(
    rf"^\s*(?:(?P<type>{_TYPE})\s+)?(?P<name>[A-Za-z_]\w*)\s*"
    r"(?P<how>[-+*/%&|^]|<<|>>)?=(?!=)(?P<value>[^;{}]*);\s*\}?\s*$"
)
_DECLARED = re.compile(rf"\b(?P<type>{_TYPE})\s+(?P<names>[A-Za-z_]\w*\s*(?:=|;|,)[^;{{}}()]*)")
_CHANGES = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)")  # changes of a variable inside an expression
_NOT_NAMES = {"return", "else", "case", "goto", "typedef", "using", "auto"}


def variables_of(
    source: str, options: Sequence[str], file: int, listing: Sequence[Instruction]
) -> dict[str, list[str]]:
    """Return {variable: registers}. These registers hold no other value than the variable.

    Parameters
    ----------
    source : str
        The CUDA C++.
    options : sequence of str
        The options for the compiler; -D options are used.
    file : int
        The number of the source among the files of `listing`.
    """
    text = declarations.bare(source)
    known = definitions.replacements(text, options)
    types = _types_of(text, known)
    by_line: dict[int, list[Instruction]] = {}
    for instruction in listing:
        if instruction.file == file and instruction.line:
            by_line.setdefault(instruction.line, []).append(instruction)
    by_name: dict[str, list[str]] = {}
    for number, line in enumerate(declarations.lines_of(text), start=1):
        statement = _ASSIGNMENT.match(line)
        if statement is None or number not in by_line or statement["name"] in _NOT_NAMES:
            continue
        if len(declarations.split(statement["value"])) > 1 or _CHANGES.search(statement["value"]):
            continue
        result = _results(by_line[number], compound=statement["how"] is not None)
        wanted = types.get(statement["name"], "")
        if result and all(_fits(r, wanted, listing) for r in result[:1]):
            registers = by_name.setdefault(statement["name"], [])
            registers += [r for r in result if r not in registers]
    # If a register could be one of two variables, it is not shown.
    claims: dict[str, int] = {}
    for registers in by_name.values():
        for register in registers:
            claims[register] = claims.get(register, 0) + 1
    return {
        name: kept for name, rs in by_name.items() if (kept := [r for r in rs if claims[r] == 1])
    }


def _types_of(text: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return the C++ types of variables by name, or "" for a name of several types."""
    types: dict[str, str] = {}
    for match in _DECLARED.finditer(text):
        words = re.findall(r"\w+|[<>:,*]", declarations.replaced(match["type"], known))
        skipped = {"const", "volatile", "static", "register"}
        spelled = declarations.normalized([w for w in words if w not in skipped])
        spelled = "" if definitions.UNKNOWN in words else spelled
        for part in declarations.split(match["names"]):
            name = re.match(r"\s*([A-Za-z_]\w*)", part)
            if name is not None and types.setdefault(name[1], spelled) != spelled:
                types[name[1]] = ""
    return types


def _results(line: Sequence[Instruction], compound: bool) -> list[str]:
    """Return the register that a line's instructions compute last, and its predecessors.

    The result is empty if there is no such register or several. For an unrolled ``sum += ...``, it
    has each step of the sum.
    """
    read = {r for i in line for r in i.reads if r not in i.writes}
    roots = [
        r
        for i in line
        for r in i.writes
        if r not in read and not r.startswith("%p") and not i.opcode.startswith("setp")
    ]
    roots = list(dict.fromkeys(roots))
    if len(roots) != 1:
        return []
    if not compound:
        return roots
    writer = {r: i for i in line for r in i.writes}
    chain, last = list(roots), writer[roots[0]]
    while True:
        before = [
            r
            for r in last.reads
            if r in writer and writer[r].opcode == last.opcode and r not in chain
        ]
        if len(before) != 1:
            return chain
        chain.append(before[0])
        last = writer[before[0]]


def _fits(register: str, spelled: str, listing: Sequence[Instruction]) -> bool:
    """Whether a register can hold a type, by the width in its name; "" is any type."""
    code = SCALARS.get(spelled)
    if code is None:
        return spelled in ("", "auto")
    size = 8 * max(2, int(code[1:]))
    for instruction in listing:
        if register in instruction.writes:
            written = re.search(r"\.[a-z]+(\d+)(?:x\d)?$", instruction.opcode)
            wide = ".wide." in instruction.opcode
            if written is not None and not instruction.opcode.startswith(("setp", "cvt")):
                bits = int(written[1]) * (2 if wide else 1)
                if max(bits, 16) != size and not instruction.opcode.startswith("ld"):
                    return False
    return True
