"""Finds out whether blocks of a kernel may communicate.

A block may be simulated without the other blocks if they cannot affect it. Some instructions let
blocks communicate; the C++ core finds them (csrc/analysis/dependence.hpp).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coalesce.common.errors import LaunchError

if TYPE_CHECKING:
    from coalesce.simulate.prepared import Prepared


def may_communicate(launch: Prepared) -> bool:
    """Whether blocks of the kernel may communicate."""
    return bool(launch.program.exchanges(launch.kernel.entry))


def refuse(launch: Prepared, argument: str) -> None:
    """Raise LaunchError if blocks may communicate. `argument` is what the caller must leave out."""
    rows = launch.program.exchanges(launch.kernel.entry)
    if not rows:
        return
    table = launch.program.no_counts(launch.kernel.entry, of_ptx=True).table()
    line, ptx_line, opcode = (table[name][rows[0]] for name in ("line", "ptx_line", "opcode"))
    place = f"line {line}" if line else f"line {ptx_line} of the PTX"
    raise LaunchError(
        f"{launch.kernel.name}: blocks may communicate by `{opcode}` in {place}, so a block may "
        "behave differently if other blocks do not run. Leave out "
        f"{argument}; then all blocks are simulated together"
    )
