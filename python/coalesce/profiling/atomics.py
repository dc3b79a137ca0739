"""Whether addresses follow from what atomics returned, and so from the order that warps come in.

A kernel that packs what it selects, ``out[atomicAdd(n, 1)] = x``, stores to other places in each
run, on a GPU as here: how many sectors that touches is no exact count. What matters is in the PTX.
The registers that atomics of several warps fill are followed through the instructions, in whatever
order they stand, and through shared and local memory, to the addresses that are made of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

_REGISTER = re.compile(r"%\w+")
_GUARD = re.compile(r"\s*@!?(%\w+)\s")
_SPACES = ("global", "shared", "local")
_NO_RESULT = ("st.", "red.", "bra", "bar", "barrier", "ret", "call", "exit", "membar", "fence")


class _Step(NamedTuple):
    """An instruction: what it fills, what it takes, and the registers of its address."""

    opcode: str
    function: int
    results: tuple[str, ...]
    sources: tuple[str, ...]
    address: tuple[str, ...]

    @property
    def space(self) -> str:
        """The memory it accesses; of a generic address most likely global."""
        words = {word.partition("::")[0] for word in self.opcode.split(".")}
        return next((s for s in _SPACES if s in words), "global")


def spaces(table: Any, ptx: str) -> list[str]:
    """Return the spaces of memory, "global" and others, with such addresses.

    Parameters
    ----------
    table : dict
        Of the instructions of the PTX, as of ``Counts.table()``.
    ptx : str
        Their text.
    """
    opcodes = [str(opcode) for opcode in table["opcode"]]
    if not any(opcode.startswith("atom.") for opcode in opcodes):
        return []
    lines = ptx.splitlines()
    rows = zip(opcodes, table["function"].tolist(), table["ptx_line"].tolist(), strict=True)
    steps = [
        _step(opcode, function, lines[number - 1] if 0 < number <= len(lines) else "")
        for opcode, function, number in rows
    ]
    tainted = _followed(steps)
    return [
        space
        for space in _SPACES
        if any(s.space == space and tainted & {(s.function, r) for r in s.address} for s in steps)
    ]


def _step(opcode: str, function: int, text: str) -> _Step:
    guard = _GUARD.match(text)
    operands = text.partition(opcode)[2]
    address = _REGISTER.findall(operands.partition("[")[2].partition("]")[0])
    results: list[str] = []
    if not opcode.startswith(_NO_RESULT):
        first = re.match(r"\s*(\{[^}]*\}|[^,\[]*)", operands)
        results = _REGISTER.findall(first[0]) if first else []
        operands = operands[first.end() :] if first else operands
    sources = _REGISTER.findall(operands) + ([guard[1]] if guard else [])
    return _Step(opcode, function, tuple(results), tuple(sources), tuple(address))


def _followed(steps: Sequence[_Step]) -> set[tuple[int, str]]:
    """Return the registers, with their functions, that depend on what an atomic returned."""
    tainted: set[tuple[int, str]] = set()
    memory: set[str] = set()
    while True:
        before = len(tainted), len(memory)
        for step in steps:
            taken = not tainted.isdisjoint((step.function, r) for r in step.sources)
            if step.opcode.startswith("st.") and taken and step.space != "global":
                memory.add(step.space)
            loaded = step.opcode.startswith("ld") and "param" not in step.opcode
            if taken or step.opcode.startswith("atom.") or (loaded and step.space in memory):
                tainted.update((step.function, r) for r in step.results)
        if before == (len(tainted), len(memory)):
            return tainted
