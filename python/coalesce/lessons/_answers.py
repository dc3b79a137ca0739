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

_LESSON_1 = {
    "contiguous floats": Answer(
        "32 lanes of 4 bytes are 128 bytes, 4 sectors of 32, and every byte is used. 8 bytes per "
        "lane take 8 sectors, 16 bytes take 16. Small elements waste nothing, and wide ones do not "
        '"coalesce better"; they move more with one request.',
        {
            32: "You counted a sector per lane. Eight neighbouring lanes share one.",
            1: "You counted lines. A line is 128 bytes, but it is filled in sectors of 32.",
            128: "You counted bytes. A sector has 32 of them.",
        },
    ),
    "wide elements": Answer(
        "No instruction of an H200 loads more than 16 bytes per lane, so 32 bytes take two "
        "requests. Each of them visits all 32 sectors for one half. The other half is used a "
        "moment later, if L1 still has it. Lanes of 4 and 8 bytes use all they touch.",
        {100: "True of both requests together. Each one visits every sector for half of it."},
    ),
    "reversed": Answer(
        "The cost is the number of distinct sectors; order means nothing.",
        {32: "Lanes need not be in order. The same bytes are in the same 4 sectors."},
    ),
    "far lane": Answer(
        "The 31 lanes touch 4 sectors, the far one touches a fifth: 32 bytes more.",
        {
            8: "You added a whole line of 128 bytes. Only the sector that is needed is moved.",
            32: "One lane astray does not separate the others.",
            2: "You counted lines: 2 of them, but 4 + 1 sectors.",
        },
    ),
    "offset 1": Answer(
        "128 bytes that begin in the middle of a sector touch 5 sectors. Only an offset of whole "
        "sectors, 8 floats, costs nothing. The fifth sector is the first one of the next warp.",
        {
            8: "You added a whole line. One more sector suffices.",
            4: "It would be 4 if sectors began where the warp begins. They begin at multiples "
            "of 32 bytes.",
            2: "You counted lines, not sectors.",
        },
    ),
    "offset behind L1": Answer(
        "The fifth sector of a warp is the first of the next one, and L1 usually has it. Both "
        "numbers are right; they count at different places: at the instruction, and behind L1.",
        {
            "by 25 %": "That would be so without an L1 cache.",
            "by about 10 %": "All but the last warp of a block find the fifth sector in L1.",
        },
    ),
    "stride 2": Answer(
        "The lanes span 256 bytes, 8 sectors, and use half of each.",
        {
            4: "You counted the bytes that are used. The bytes between them are moved, too.",
            32: "Four lanes still share a sector: they are 8 bytes apart.",
            16: "Four lanes share a sector, not two: 4 · 8 bytes are 32.",
        },
    ),
    "worst stride": Answer(
        "From a stride of 8 floats, 32 bytes, every lane has a sector of its own. There are 32 "
        "lanes, so 32 sectors are the most.",
        {
            32: "At 32 each lane has a line of its own. For a sector of its own 32 bytes suffice.",
            16: "16 floats are 64 bytes, two sectors. At 8 the lanes are already apart.",
            4: "4 floats are 16 bytes: two lanes still share a sector.",
        },
    ),
    "piece of memory": Answer(
        "In pieces of 64 bytes, strides 8 and 16 move 4.28 and 4.29 TB/s: the memory is as busy "
        "with both. The cache model reads DRAM in halves of a line, 64 bytes, and so finds the "
        "same traffic for both strides. At stride 32 half of the pieces are left out.",
        {
            "32 bytes": "Then stride 16 would move half of what stride 8 does, though the clock "
            "says that the memory is the limit in both.",
            "128 bytes": "Then stride 16 would move half of what stride 32 does for a request, and "
            "the bandwidth would still fall by half from 16 to 32. It falls by a seventh.",
        },
    ),
    "broadcast": Answer(
        "One sector, the cheapest load there is. That it uses 4 bytes of 32 is no waste: the warp "
        "got everything it asked for.",
        {
            32: "You counted lanes. They all want the same sector.",
            4: "4 sectors are 32 different floats. This is one float.",
            0: "One sector must be read.",
        },
    ),
    "gather": Answer(
        "Nearly a sector per lane; a little less than 32, since now and then two lanes meet in "
        "one of the 2,048 sectors.",
        {4: "Neighbouring lanes read neighbours of `index`, but what they load is scattered."},
    ),
}

ANSWERS: dict[str, Answer] = {**_LESSON_0, **_LESSON_1}
