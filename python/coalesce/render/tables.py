"""Plain text tables, for `repr`: they fit 100 columns and need no terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 100


def as_text(columns: Sequence[str], rows: Sequence[Sequence[str]], wrap: Sequence[str] = ()) -> str:
    """Lay out rows under their column names, folding the columns named in `wrap` to fit."""
    widths = [max([len(name), *(len(row[i]) for row in rows)]) for i, name in enumerate(columns)]
    folded = [i for i, name in enumerate(columns) if name in wrap]
    while folded and sum(widths) + 2 * (len(columns) - 1) > WIDTH:
        widest = max(folded, key=lambda i: widths[i])
        widths[widest] -= 1

    lines: list[str] = []
    for row in [columns, ["-" * width for width in widths], *rows]:
        cells = [
            textwrap.wrap(cell, widths[i]) or [""] if i in folded else [cell]
            for i, cell in enumerate(row)
        ]
        for k in range(max(len(cell) for cell in cells)):
            parts = [
                (cell[k] if k < len(cell) else "").ljust(w)
                for cell, w in zip(cells, widths, strict=True)
            ]
            lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)
