"""The instructions by which blocks of a kernel may communicate.

A block may be simulated without the other blocks if they cannot affect it. They can affect it in
three cases. The block uses the result of an atomic operation on global memory. Or it executes a
volatile, relaxed or acquire load. Or it belongs to a cluster. (If a plain load reads data that
another block writes in the same launch, this is a race.)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce.common.errors import LaunchError

if TYPE_CHECKING:
    from coalesce.simulate.prepared import Prepared


def exchanges(launch: Prepared) -> list[dict[str, Any]]:
    """Return the instructions by which blocks may communicate: rows of the kernel's table."""
    listing = launch.program.no_counts(launch.kernel.entry, of_ptx=True)
    table = listing.table()
    lines = launch.kernel._module.compiled(launch.device).ptx.splitlines()
    text = [lines[number - 1] if 0 < number <= len(lines) else "" for number in table["ptx_line"]]
    rows = []
    for row, opcode in enumerate(table["opcode"].tolist()):
        if opcode.startswith(("barrier.cluster", "mapa")):
            rows.append({name: column[row].item() for name, column in table.items()})
        if table["space"][row] not in ("global", "generic"):
            continue
        if table["kind"][row] == "atomic":
            same = np.flatnonzero(table["function"] == table["function"][row])
            others = "\n".join(text[i] for i in same if i != row)
            used = any(
                re.search(rf"{re.escape(register)}\b", others)
                for register in re.findall(r"%\w+", _destination(text[row], opcode))
            )
        else:
            used = table["kind"][row] == "load" and table["strong"][row]
        if used:
            rows.append({name: column[row].item() for name, column in table.items()})
    return rows


def refuse(launch: Prepared, argument: str) -> None:
    """Raise LaunchError if blocks cannot be simulated without the others."""
    for row in exchanges(launch):
        place = f"line {row['line']}" if row["line"] else f"line {row['ptx_line']} of the PTX"
        raise LaunchError(
            f"{launch.kernel.name}: blocks may communicate by `{row['opcode']}` in {place},"
            f" so what one does may depend on the others; leave out {argument} to simulate them "
            "all together"
        )


def _destination(text: str, opcode: str) -> str:
    """Return the operands before the address."""
    return text.partition(opcode)[2].partition("[")[0]
