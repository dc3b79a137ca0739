"""What the lessons say after a prediction: why, and which thought leads to a wrong number.

The cells of the lessons hold the questions and compute the answers. The explanations are kept
here, so that a reader who has the cell before him does not read the answer with the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Answer:
    """The explanation of an answer, and a sentence for each wrong guess that many make."""

    why: str = ""
    mistakes: Mapping[float | str, str] = field(default_factory=dict)


_LESSON_0 = {
    "next thread": Answer(
        "x runs fastest: after (3, 0) the row is full, and the line goes on at (0, 1), which has "
        "t = 0 + 1 · 4 = 4. These 16 threads are half a warp. The other 16 lanes exist and idle.",
        {
            "(4, 0)": "A row of this block ends at x = 3; there is no thread (4, 0).",
            "(3, 1)": "You let y run fastest. In CUDA x does: (3, 1) has t = 3 + 1 · 4 = 7.",
        },
    ),
    "rows of a warp": Answer(
        "A warp is 32 consecutive threads of the line, and a row has 16 of them.",
        {
            1: "You took a row for a warp. A warp has 32 threads whatever the block's shape is.",
            16: "You took the block for a warp. It has 256 threads, which are 8 warps.",
            8: "That is the number of warps in the block: 256 / 32.",
        },
    ),
    "idle lanes": Answer(
        "120 threads need 4 warps, which have 128 lanes. Rows of 24 do not get warps of their own: "
        "warps span rows, and only the last warp has empty lanes.",
        {
            40: "You gave each row a warp of its own: 5 · (32 - 24). Warps are cut from the line.",
            0: "120 is no multiple of 32: three warps hold 96 threads, the fourth the other 24.",
            24: "That is how many lanes of the last warp are used.",
        },
    ),
    "requests of 24 x 5": Answer(
        "120 threads take four warps, as 128 would, so each block issues 4 load requests, and "
        "there are 20 x 96 blocks.",
        {
            7200: "You divided all threads by 32. Each block is cut into warps for itself, "
            "and the rest of its last warp is not filled by the next block.",
            9600: "You gave each row of a block a warp of its own. A warp goes on in the next row.",
        },
    ),
    "extra sectors": Answer(
        "A sector holds 8 floats. Rows of 32, 16 and 24 floats are whole sectors, so where they "
        "are cut no sector is cut. Rows of 20 and 12 end in the middle of a sector, and another "
        "warp moves that sector again. A partly empty warp costs requests, not sectors: 24 x 5 "
        "has one.",
        {
            "all whose rows are not 32 threads": "16 x 8 and 24 x 5 move no sector twice: "
            "two rows in one warp are two pieces of whole sectors.",
            "those whose last warp is partly empty": "24 x 5 has a partly empty warp in each "
            "block and moves no sector too many. Lanes without a thread touch no memory.",
        },
    ),
    "flattening": Answer(
        "Thread t of the flat block and thread (t % 32, t / 32) of the square one have the same "
        "place in the line: same warp, same lane.",
        {
            1024: "The shape gives the threads other names. Their order in the line is the same.",
            992: "You expected a warp of the square block to be a column. x runs fastest, so it is "
            "a row, as in the flat block.",
        },
    ),
}

ANSWERS: dict[str, Answer] = {**_LESSON_0}
