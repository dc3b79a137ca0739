"""Draws pictures of memory accesses.

Most functions take numbers, such as the addresses that the lanes of a warp access. `event` and
`steps` take a `Trace` instead. Each function returns a `Picture`. It contains an SVG, which
notebooks show, and the same picture in ASCII, which terminals show.
"""

from __future__ import annotations

from coalesce.draw._banks import bank_board
from coalesce.draw._block import thread_block
from coalesce.draw._canvas import Picture
from coalesce.draw._frames import matrices, matrix_cells
from coalesce.draw._matrix import Matrix
from coalesce.draw._player import Grid, Player, board, player
from coalesce.draw._traces import event, steps
from coalesce.draw._warp import warp_access

__all__ = [
    "Grid",
    "Matrix",
    "Picture",
    "Player",
    "bank_board",
    "board",
    "event",
    "matrices",
    "matrix_cells",
    "player",
    "steps",
    "thread_block",
    "warp_access",
]
