"""Whether addresses depend on results of atomics, and therefore on the order of the warps.

A kernel that packs selected elements, ``out[atomicAdd(n, 1)] = x``, stores to different places in
each run, on a GPU and on the simulator. The number of sectors of such stores is not exact.

The analysis uses the PTX. It starts with the results of atomics that several warps execute. It
follows these results through registers, in any order of the instructions, and through shared and
local memory. It ends at the addresses that depend on the results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

_REGISTER = re.compile(r"%\w+")
_GUARD = re.compile(r"\s*@!?(%\w+)\s")
_SPACES = ("global", "shared", "local")


class _Step(NamedTuple):
    """An instruction: the registers that it writes, reads, and uses for its address."""

    kind: str  # such as "load" or "atomic"; "" if the instruction accesses no memory
    space: str  # the accessed memory; a generic address most likely means global
    function: int
    results: tuple[str, ...]
    sources: tuple[str, ...]
    address: tuple[str, ...]


def spaces(table: Any, ptx: str) -> list[str]:
    """Return the state spaces ("global" and others) in which the results of atomics are addresses.

    Parameters
    ----------
    table : dict
        The instructions of the PTX, as ``Counts.table()`` returns them.
    ptx : str
        The text of the PTX.
    """
    if "atomic" not in table["kind"]:
        return []
    lines = ptx.splitlines()
    columns = ("opcode", "kind", "space", "function", "has_result", "ptx_line")
    rows = zip(*(table[name].tolist() for name in columns), strict=True)
    steps = [
        _step(
            opcode,
            kind,
            space,
            function,
            has_result,
            lines[number - 1] if 0 < number <= len(lines) else "",
        )
        for opcode, kind, space, function, has_result, number in rows
    ]
    tainted = _followed(steps)
    return [
        space
        for space in _SPACES
        if any(s.space == space and tainted & {(s.function, r) for r in s.address} for s in steps)
    ]


def _step(opcode: str, kind: str, space: str, function: int, has_result: bool, text: str) -> _Step:
    guard = _GUARD.match(text)
    operands = text.partition(opcode)[2]
    address = _REGISTER.findall(operands.partition("[")[2].partition("]")[0])
    results: list[str] = []
    if has_result:
        first = re.match(r"\s*(\{[^}]*\}|[^,\[]*)", operands)
        results = _REGISTER.findall(first[0]) if first else []
        operands = operands[first.end() :] if first else operands
    sources = _REGISTER.findall(operands) + ([guard[1]] if guard else [])
    space = space if space in _SPACES else "global"
    return _Step(kind, space, function, tuple(results), tuple(sources), tuple(address))


def _followed(steps: Sequence[_Step]) -> set[tuple[int, str]]:
    """Return the registers, with their functions, that depend on what an atomic returned."""
    tainted: set[tuple[int, str]] = set()
    memory: set[str] = set()
    while True:
        before = len(tainted), len(memory)
        for step in steps:
            taken = not tainted.isdisjoint((step.function, r) for r in step.sources)
            if step.kind == "store" and taken and step.space != "global":
                memory.add(step.space)
            loaded = step.kind == "load" and step.space in memory
            if taken or step.kind == "atomic" or loaded:
                tainted.update((step.function, r) for r in step.results)
        if before == (len(tainted), len(memory)):
            return tainted
