"""Finds the variables that have a certain value in local memory, at each instruction.

In the build for the stepper, variables are in local memory. Debug information says where. The
source says on which lines a name is known: from the line after its declaration to the end of the
scope. (The scopes of debug information are ranges of code, which may include code of other scopes.)

But a variable may be declared without a value. And when control enters its scope again, for example
in a loop, the value of the last time is still in memory. So a number counts as known only if an
instruction has stored it, on all ways through the code from the entry of its scope. Parameters
always have a value. Arrays, and numbers that are only stored through their address, count as known;
elements that were never written are masked.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from coalesce.cxx.kept_variables import Scope
from coalesce.cxx.signature import Parameter
from coalesce.stepping.debug_info import DebugInfo, Function, Range, Variable

_BRANCH = re.compile(r"bra\S*\s+([\w$]+)$")
_CONSTANT = re.compile(r"mov\.\w+ \S+, -?[0-9][0-9A-Fa-fxdf]*")  # a mov of a number
_FRAME = ("%SP", "%SPL")  # the registers with the address of a function's local memory
_Known = frozenset[int]  # positions in Function.variables
_T = TypeVar("_T")


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
    results: Mapping[str, int]  # the registers that it writes, with their bytes; 0 for a predicate
    base: str  # for a store: the register with the address; else ""
    offset: int  # the distance of the store from this address
    stored_bytes: int  # for a store: the bytes per lane; else 0
    guarded: bool  # whether it has a guard, such as @%p1
    successors: Sequence[int]  # the instructions of the function that may be next


def with_lines(listing: Sequence[ListedInstruction]) -> list[ListedInstruction]:
    """Return the listing of a build with ``-G`` with better lines of some instructions.

    The compiler leaves the line of an address open. And if several statements need the same
    constant, each ``mov`` of the constant has the line of the first of them. Both prepare the next
    instruction, and get its line.
    """
    result = list(listing)
    for n in range(len(result) - 2, -1, -1):
        i, following = result[n], result[n + 1]
        if (i.line and not _CONSTANT.fullmatch(i.text)) or i.function != following.function:
            continue
        if following.line:
            result[n] = replace(i, file=following.file, line=following.line)
    return result


def known_variables(
    listing: Sequence[ListedInstruction],
    info: DebugInfo,
    file: int,
    scopes: Mapping[tuple[str, int], Scope],
) -> list[dict[str, Variable]]:
    """Return, for each instruction, the variables whose value is certain before it is executed.

    `file` is the number of the source's file, and `scopes` has the scopes of its variables.
    """
    result: list[dict[str, Variable]] = [{} for _ in listing]
    numbers: dict[int, list[int]] = defaultdict(list)
    for n, i in enumerate(listing):
        numbers[i.function].append(n)
    for own in numbers.values():
        first, last = listing[own[0]].ptx_line, listing[own[-1]].ptx_line
        for function in info.functions:
            if function.code[0] <= first and last < function.code[1]:
                for n, known in _Flow(listing, own, function, info.labels).known().items():
                    if listing[n].file == file:
                        result[n] = _visible(function, listing[n], known, file, scopes)
    return result


def _visible(
    function: Function,
    i: ListedInstruction,
    known: _Known,
    file: int,
    scopes: Mapping[tuple[str, int], Scope],
) -> dict[str, Variable]:
    """Return the variables that the source can name at an instruction, and whose value is known.

    On the lines where a scope begins and ends, its variables are not known. They hide variables of
    the same name there.
    """
    inlined = max((level for code, level in function.inlined if _within(i, code)), default=0)
    found: dict[str, Variable | None] = {}
    of_function = [
        (v.depth, v.line, n)
        for n, v in enumerate(function.variables)
        if v.inlined == inlined and _within(i, v.code)
    ]
    for _, _, n in sorted(of_function, reverse=True):  # innermost scopes first
        variable = function.variables[n]
        key = variable.name, variable.line
        if variable.file == file and key in scopes:
            scope = scopes[key]
            in_scope = variable.line <= i.line <= scope.end
            certain = variable.is_parameter or scope.first <= i.line <= scope.whole
        else:
            in_scope, certain = variable.line <= i.line and _within(i, variable.scope), False
        if in_scope and variable.name not in found:
            found[variable.name] = variable if certain and n in known else None
    return {name: variable for name, variable in found.items() if variable is not None}


def _within(i: ListedInstruction, ranges: Sequence[Range]) -> bool:
    return any(first <= i.ptx_line < end for first, end in ranges)


def on_all_ways(
    listing: Sequence[ListedInstruction],
    first: int,
    start: frozenset[_T],
    after: Callable[[frozenset[_T], int], frozenset[_T]],
    followed: Callable[[frozenset[_T], int, int], frozenset[_T]],
) -> dict[int, frozenset[_T]]:
    """Return what is known before each instruction, on all ways to it from instruction `first`.

    `start` is known at the beginning. ``after(known, n)`` is what instruction n makes of it, and
    ``followed(known, n, m)`` what is left on the way from n to m.
    """
    before: dict[int, frozenset[_T]] = {}
    waiting = [(first, start)]
    while waiting:
        n, known = waiting.pop()
        if n in before:
            known &= before[n]
            if known == before[n]:
                continue
        before[n] = known
        waiting += [(m, followed(after(known, n), n, m)) for m in listing[n].successors]
    return before


def branch_target(i: ListedInstruction, labels: Mapping[str, int]) -> int | None:
    """Return the line of the label to which an instruction branches. 0 if the label is not known.

    The result is None if the instruction is no branch.
    """
    if not i.opcode.startswith("br"):
        return None
    target = _BRANCH.search(i.text)
    return labels.get(target[1], 0) if target else 0


class _Flow:
    """Follows the variables of a function through its code."""

    def __init__(
        self,
        listing: Sequence[ListedInstruction],
        numbers: Sequence[int],
        function: Function,
        labels: Mapping[str, int],
    ) -> None:
        self._listing = listing
        self._numbers = numbers
        self._labels = labels
        # The variables that an instruction stores.
        self._stores: dict[int, set[int]] = defaultdict(set)
        entries: list[tuple[int, int]] = []  # the start of a scope in the PTX, and a variable
        others = set()
        for v, variable in enumerate(function.variables):
            if variable.offset is None:
                continue
            stores = [n for n in numbers if _stores(listing[n], variable)]
            if not variable.is_parameter:
                entries += [(first, v) for first, _ in variable.scope]
            if variable.is_parameter or not stores:
                others.add(v)
            else:
                for n in stores:
                    self._stores[n].add(v)
        self._entries = sorted(entries)
        self._others = frozenset(others)

    def known(self) -> dict[int, _Known]:
        """Return the variables that have a value before each instruction."""
        first = self._numbers[0]
        before = on_all_ways(self._listing, first, frozenset(), self._after, self._followed)
        return {n: known | self._others for n, known in before.items()}

    def _after(self, known: _Known, n: int) -> _Known:
        """Return the variables that have a value directly after instruction n."""
        return known | self._stores[n] if n in self._stores else known

    def _followed(self, known: _Known, n: int, m: int) -> _Known:
        """Return the variables that have a value after the way from instruction n to m."""
        here, there = self._listing[n], self._listing[m]
        first = here.ptx_line + 1
        line = branch_target(here, self._labels)
        if line is not None and not (m == n + 1 and here.guarded):
            before = self._listing[m - 1].ptx_line if m > self._numbers[0] else 0
            # Without the label, control may enter every scope that begins before m.
            first = line if before < line <= there.ptx_line else before
        entered = self._entries[
            bisect_left(self._entries, (first, 0)) : bisect_left(self._entries, (there.ptx_line, 0))
        ]
        return known - {v for _, v in entered} if entered else known


def _stores(i: ListedInstruction, variable: Variable) -> bool:
    """Return whether an instruction stores a whole number."""
    return (
        isinstance(variable.type, Parameter)
        and variable.offset is not None
        and i.base in _FRAME
        and not i.guarded
        and i.offset <= variable.offset
        and i.offset + i.stored_bytes >= variable.offset + variable.type.bytes
    )
