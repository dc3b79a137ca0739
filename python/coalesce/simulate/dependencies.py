"""Finds out whether the blocks of a kernel may communicate.

Blocks communicate by certain instructions, such as an atomic whose result is used. The C++ core
finds these instructions (csrc/analysis/counts/dependence.hpp). If a kernel has none of them, its
blocks do not affect each other. Then a block can be simulated without the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coalesce.common.errors import LaunchError

if TYPE_CHECKING:
    from coalesce.launch.launch import Launch


def may_communicate(launch: Launch) -> bool:
    """Return whether the blocks of the launch's kernel may communicate."""
    return bool(launch.program.exchanges(launch.kernel.entry))


def require_independent_blocks(launch: Launch) -> None:
    """Raise LaunchError if the blocks may communicate, so that an executor cannot divide them."""
    rows = launch.program.exchanges(launch.kernel.entry)
    if not rows:
        return
    table = launch.ptx.table()
    line, ptx_line, opcode = (table[name][rows[0]] for name in ("line", "ptx_line", "opcode"))
    place = f"line {line}" if line else f"line {ptx_line} of the PTX"
    raise LaunchError(
        f"{launch.kernel.name}: the blocks may communicate, with the instruction `{opcode}` in "
        f"{place}. A block may behave differently if other blocks do not run. To simulate all "
        "blocks, leave out `executor`"
    )
