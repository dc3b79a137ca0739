"""Finds the PTX registers that hold variables of the source, from the line information.

PTX does not have the names of variables, but it has the source line of each instruction. A line
such as ``float x = a[i];`` or ``sum += x * y;`` assigns one variable. The instructions of this line
write several registers. Most of these registers hold intermediate results: another instruction of
the line reads them. Usually, there is only one register that no other instruction of the line
reads. This register holds the variable, if the size of the register fits the declared type of the
variable.

No register is found in these cases:

- The compiler removed the variable.
- The compiler merged the line with another line.
- There are several registers that no other instruction of the line reads, for example because the
  line has several statements.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coalesce.cxx import declarations, definitions
from coalesce.cxx.element_types import SCALARS


@dataclass(frozen=True)
class ListedInstruction:
    """A PTX instruction of the kernel, with its source line and its registers."""

    text: str
    opcode: str
    ptx_line: int
    file: int
    line: int  # the line in the file; 0 if it is not known
    function: int
    parameter: int  # the number of the kernel's parameter that the address comes from; -1 for none
    element_bytes: int  # for a load: the size of an element; else 0
    extends: bool  # a load or a conversion, which may extend its result to a wider register
    results: Mapping[str, int]  # the registers that it writes, with their bytes; 0 for a predicate
    reads: Sequence[str]


class Register(NamedTuple):
    """A PTX register: the index of the function that uses it, and its name, such as "%f1".

    The index is needed because two functions may have registers of the same name.
    """

    function: int
    name: str


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
    source: str, options: Sequence[str], file: int, listing: Sequence[ListedInstruction]
) -> dict[str, list[Register]]:
    """Return a dict from the name of each variable to the registers that hold it.

    Parameters
    ----------
    source : str
        The CUDA C++ source.
    options : sequence of str
        The compiler options. Only the -D options are used.
    file : int
        The number that the file of the source has in `listing`.
    listing : sequence of ListedInstruction
        The instructions of the kernel.
    """
    text = declarations.bare(source)
    known = definitions.replacements(text, options)
    types = _types_of(text, known)
    # The instructions of a line may be in several functions, if its function is inlined in others.
    by_line: dict[int, dict[int, list[ListedInstruction]]] = {}
    for i in listing:
        if i.file == file and i.line:
            by_line.setdefault(i.line, {}).setdefault(i.function, []).append(i)
    by_name: dict[str, list[Register]] = {}
    for number, line in enumerate(declarations.lines_of(text), start=1):
        statement = _ASSIGNMENT.match(line)
        if statement is None or number not in by_line or statement["name"] in _NOT_NAMES:
            continue
        if len(declarations.split(statement["value"])) > 1 or _CHANGES.search(statement["value"]):
            continue
        wanted = types.get(statement["name"], "")
        for function, instructions in by_line[number].items():
            result = _results(instructions, compound=statement["how"] is not None)
            if result and _fits(Register(function, result[0]), wanted, listing):
                registers = by_name.setdefault(statement["name"], [])
                targets = [Register(function, r) for r in result]
                registers += [r for r in targets if r not in registers]
    # If a register could hold either of two variables, it is used for neither.
    claims: dict[Register, int] = {}
    for registers in by_name.values():
        for register in registers:
            claims[register] = claims.get(register, 0) + 1
    return {
        name: unshared
        for name, rs in by_name.items()
        if (unshared := [r for r in rs if claims[r] == 1])
    }


def _types_of(text: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return the C++ type of each variable by name; "" if a name is declared with several types."""
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


def _results(line: Sequence[ListedInstruction], compound: bool) -> list[str]:
    """Return the registers that hold the result of a source line.

    Usually this is one register: the one that the instructions of the line compute last. If a loop
    with ``sum += ...`` was unrolled, there is one register for each copy of the line. If it is not
    clear which register has the result, none is returned.
    """
    read = {r for i in line for r in i.reads if r not in i.results}
    roots = [r for i in line for r, bytes_ in i.results.items() if bytes_ and r not in read]
    # The compiler moves conversions of pointers to lines with which they have nothing to do.
    converted = {r for i in line if i.opcode.startswith("cvta") for r in i.results}
    roots = [r for r in dict.fromkeys(roots) if r not in converted] or list(dict.fromkeys(roots))
    if len(roots) != 1:
        return []
    if not compound:
        return roots
    writer = {r: i for i in line for r in i.results}
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


def _fits(register: Register, spelled: str, listing: Sequence[ListedInstruction]) -> bool:
    """Whether a register can hold a C++ type, by its width. An unknown type fits every register."""
    code = SCALARS.get(spelled)
    if code is None:
        return spelled in ("", "auto")
    size = max(2, int(code[1:]))  # no register is narrower
    return all(
        i.results[register.name] == size or (i.extends and i.results[register.name] > size)
        for i in listing
        if i.function == register.function and register.name in i.results
    )
