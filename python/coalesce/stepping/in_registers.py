"""Finds the variables whose value is certain in a register, at each instruction.

In a debug build of Numba's compiler, numbers are in registers. Debug information says for each
range of the code which register has the value of a variable, or which constant it is. But the
compiler makes these ranges in the order of the text. After a branch, a range may name the register
of the other side. So a value counts as known only if the code has entered its range on all ways to
an instruction, and if nothing has written the register since.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from coalesce.stepping.debug_info import DebugInfo, Function, Value
from coalesce.stepping.debug_info import Variable as Described
from coalesce.stepping.locations import ListedInstruction, branch_target, on_all_ways

_Known = frozenset[tuple[int, Value]]  # positions in Function.variables, and their values

Found = tuple[Described, Value]


def known_values(
    listing: Sequence[ListedInstruction], info: DebugInfo, names: frozenset[str]
) -> list[dict[str, Found]]:
    """Return, for each instruction, the variables whose value is certain before it is executed.

    `names` has the variables of the source. The compiler adds others, of functions of its own.
    """
    result: list[dict[str, Found]] = [{} for _ in listing]
    numbers: dict[int, list[int]] = defaultdict(list)
    for n, i in enumerate(listing):
        numbers[i.function].append(n)
    for own in numbers.values():
        first, last = listing[own[0]].ptx_line, listing[own[-1]].ptx_line
        for function in info.functions:
            if function.code[0] <= first and last < function.code[1]:
                for n, known in _Flow(listing, own, function, info.labels).known().items():
                    found = _named(function, listing[n], known)
                    result[n] = {name: found[name] for name in found.keys() & names}
    return result


def _named(function: Function, i: ListedInstruction, known: _Known) -> dict[str, Found]:
    """Return the variables that the source can name at an instruction."""
    for ranges, _ in function.inlined:
        if any(first <= i.ptx_line < end for first, end in ranges):
            return {}  # this is code of another function
    count = Counter(v.name for v in function.variables)
    found = ((function.variables[v], value) for v, value in known)
    return {each.name: (each, value) for each, value in found if count[each.name] == 1}


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
        writers = Counter(r for n in numbers for r in listing[n].results)
        self._entries: list[tuple[int, int, Value]] = []  # the start of a range in the PTX
        self._whole: dict[str, list[tuple[int, Value]]] = defaultdict(list)  # by register
        for v, variable in enumerate(function.variables):
            for value in variable.values if variable.inlined == 0 else ():
                if variable.in_list:
                    self._entries.append((value.code[0], v, value))
                elif writers[value.register] == 1:
                    self._whole[value.register].append((v, value))
        self._entries.sort(key=lambda entry: entry[0])

    def known(self) -> dict[int, _Known]:
        """Return the values that are known before each instruction."""
        first = self._numbers[0]
        start = self._entered(frozenset(), 0, 0, first)
        return on_all_ways(self._listing, first, start, self._after, self._followed)

    def _after(self, known: _Known, n: int) -> _Known:
        """Return the values that are known directly after instruction n."""
        i = self._listing[n]
        kept = {(v, value) for v, value in known if value.register not in i.results}
        if not i.guarded:
            for register in i.results:
                kept.update(self._whole.get(register, ()))
        return frozenset(kept)

    def _followed(self, known: _Known, n: int, m: int) -> _Known:
        """Return the values that are known after the way from instruction n to m."""
        here = self._listing[n]
        previous = self._listing[m - 1].ptx_line if m > self._numbers[0] else 0
        target = None if m == n + 1 and here.guarded else branch_target(here, self._labels)
        unknown = self._listing[m].ptx_line + 1  # the way enters none of the ranges for certain
        return self._entered(known, previous, previous if target is None else target or unknown, m)

    def _entered(self, known: _Known, previous: int, first: int, m: int) -> _Known:
        """Return what is known after the ranges that begin directly before instruction m.

        A branch to the line `first` skips the ranges between the line `previous` and its target.
        The variables of these ranges are not known.
        """
        line = self._listing[m].ptx_line
        begun = [e for e in self._entries if previous < e[0] <= line]
        changed = {v for _, v, _ in begun}
        result = {(v, value) for v, value in known if v not in changed}
        latest = {
            v: value for start, v, value in sorted(begun, key=lambda e: e[:2]) if start >= first
        }
        result |= set(latest.items())
        return frozenset((v, value) for v, value in result if value.code[0] <= line < value.code[1])
