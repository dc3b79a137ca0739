"""Corrects the source lines in the PTX that Triton's compiler makes.

Triton loads and stores with pieces of inline assembly. If a piece has several instructions, LLVM
counts on: it gives the second one the number of the next line of the Python code. Here, all
instructions of a piece get the line at which it begins. This happens before the machine code is
made, so that its lines are right, too.
"""

from __future__ import annotations

import functools
import re
from typing import Any

_PIECE = re.compile(r"// begin inline asm\n(.*?)// end inline asm", re.DOTALL)
_LOCATION = re.compile(r"^\s*\.loc\b[^\n]*\n", re.MULTILINE)


def install(backend: Any) -> None:
    """Let a class of Triton's compilers correct the lines. Call this once."""
    make, key = backend.make_ptx, backend.hash

    @functools.wraps(make)
    def make_ptx(*arguments: Any, **options: Any) -> str:
        return corrected(make(*arguments, **options))

    def own_key(self: Any) -> str:
        # Without this, Triton's cache would return code with wrong lines.
        return f"{key(self)}-coalesce"

    backend.make_ptx, backend.hash = make_ptx, own_key


def corrected(ptx: str) -> str:
    """Return PTX in which each piece of inline assembly belongs to one line."""
    return _PIECE.sub(_with_one_line, ptx)


def _with_one_line(piece: re.Match[str]) -> str:
    found = list(_LOCATION.finditer(piece[0]))
    if len(found) < 2:
        return piece[0]
    rest = _LOCATION.sub("", piece[0][found[0].end() :])
    return piece[0][: found[0].end()] + rest
