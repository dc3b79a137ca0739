"""Explanations that the lessons show after a prediction: the reason, and causes of wrong guesses.

The cells of the lessons hold the questions and compute the answers. The explanations are kept
here, so that the reader of a cell does not see the answer together with the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Answer:
    """The explanation of the right answer, and a sentence for each common wrong guess."""

    why: str = ""
    mistakes: Mapping[float | str, str] = field(default_factory=dict)


_LESSON_0 = {
    "blocks of 256": Answer(
        "19 blocks have 4,864 threads, which is too few. 20 blocks have 5,120. The `if` keeps the "
        "last 120 threads from doing anything. A division that rounds up is a **ceil division**.",
        {
            19: "The last elements would have no thread: 19 · 256 is 4,864.",
            5000: "That is the number of elements. Each block has 256 threads.",
            1: "A block has 256 threads here, and each thread changes one element.",
        },
    ),
    "next thread": Answer(
        "x runs fastest: after (3, 0) the row is full, and the line continues at (0, 1), "
        "which has t = 0 + 1 · 4 = 4. The 16 threads fill half a warp. Its other 16 lanes "
        "are idle.",
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
        "120 threads take four warps, as 128 would. So each block issues 4 load requests, "
        "and there are 20 x 96 blocks.",
        {
            7200: "You divided all threads by 32. Each block is cut into warps by itself, "
            "and the rest of its last warp is not filled by the next block.",
            9600: "You gave each row of a block its own warp. A warp continues in the next row.",
        },
    ),
    "extra sectors": Answer(
        "A sector holds 8 floats. Rows of 32, 16 and 24 floats are whole sectors, so the end of a "
        "row cuts no sector. Some warps of 24 x 5 end inside a row, at x = 8 or x = 16. This cuts "
        "no sector, because 8 and 16 are multiples of 8, too. Rows of 20 and 12 end in the middle "
        "of a sector, and another warp moves that sector again. A partly empty warp costs "
        "requests, not sectors: 24 x 5 has one.",
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
        "32 lanes of 4 bytes are 128 bytes, 4 sectors of 32, and every byte is used. 8 "
        "bytes per lane take 8 sectors, 16 bytes take 16. Small elements waste nothing. "
        "Wide elements do not coalesce better; they move more bytes per request.",
        {
            32: "You counted a sector per lane. Eight neighbouring lanes share one.",
            1: "You counted lines. A line is 128 bytes, but it is filled in sectors of 32.",
            128: "You counted bytes. A sector has 32 of them.",
        },
    ),
    "wide elements": Answer(
        "An instruction loads at most 16 bytes per lane, so 32 bytes take "
        "two requests. Each request touches all 32 sectors and uses one half of each. The "
        "second request uses the other half, if L1 still holds it. With 4 or 8 bytes per "
        "lane, a request uses all bytes of its sectors.",
        {
            100: "This is the share of both requests together. Each request alone uses half of "
            "every sector."
        },
    ),
    "reversed": Answer(
        "The cost is the number of distinct sectors. The order of the lanes does not matter.",
        {32: "Lanes need not be in order. The same bytes are in the same 4 sectors."},
    ),
    "far lane": Answer(
        "The 31 lanes touch 4 sectors, the far one touches a fifth: 32 bytes more.",
        {
            8: "You added a whole line of 128 bytes. Only the sector that is needed is moved.",
            32: "One lane that is far away does not separate the others.",
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
        "The fifth sector of a warp is the first sector of the next warp. If both warps are in one "
        "block, L1 loads this sector once: 448 of the 511 additional sectors are found in L1. Only "
        "the last warp of a block needs a sector that another block loads. So L2 must deliver at "
        "most 63 additional sectors: 3 %.\n\n"
        "The model finds even fewer, because it merges 60 of these reads: on the way to L2, reads "
        "of the same sector by neighbouring multiprocessors may be merged (see *LRC* in the "
        "glossary). A real H200 does not merge the reads of this kernel. This is a known error of "
        'the model (docs/models.md, "Too many merged reads"). The answer is the same with and '
        "without merging. Both counts of sectors are right, but they count at different places: "
        "at the instruction, and behind L1.",
        {
            "by 25 %": "That would be so without an L1 cache.",
            "by about 10 %": "All but the last warp of a block find the fifth sector in L1, and a "
            "block has 8 warps.",
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
        "In pieces of 64 bytes, strides 8 and 16 move the same number of bytes per second, so "
        "the memory is equally busy. Our cache model reads DRAM in halves of a line, 64 bytes. "
        "So it finds that both strides read the same number of bytes. At stride 32, only every "
        "other piece is needed, so fewer bytes move. On the recorded GPU the bytes per second "
        "fall, too. The size of the pieces does not explain this, and we do not know the reason.",
        {
            "32 bytes": "Then stride 16 would move half as many bytes per second as stride 8. The "
            "table above shows this.",
            "128 bytes": "Then stride 32 would move more bytes per second than the memory can "
            "deliver: see the table of 128 bytes.",
        },
    ),
    "broadcast": Answer(
        "One sector: no load is cheaper. It uses 4 of 32 bytes, but this is no waste: "
        "every lane got what it asked for.",
        {
            32: "You counted lanes. They all want the same sector.",
            4: "4 sectors are 32 different floats. This is one float.",
            0: "One sector must be read.",
        },
    ),
    "gather": Answer(
        "Nearly one sector per lane. It is a little less than 32, because sometimes two "
        "lanes want the same one of the 2,048 sectors.",
        {4: "Neighbouring lanes read neighbours of `index`, but what they load is scattered."},
    ),
}

_LESSON_2 = {
    "threads without work": Answer(
        "4 x 3 blocks of 32 x 32 cover 128 x 96: 12,288 threads for 7,000 elements. The `if` on "
        "`row` and `col` leaves the others without work.",
        {
            0: "100 and 70 are no multiples of 32, so the last blocks stick out.",
            12288: "That is how many threads there are.",
        },
    ),
    "stray writes": Answer(
        "`out[row * N + col]` with `col` from 70 on is in the **next row**, where another "
        "thread writes, too. The result depends on which write comes last. Only in the "
        "last row do the 26 stray threads read and write past the end of the array. The "
        "check below finds both: 26 writes past the end, and 2,574 races.",
        {
            0: "Only those of the last row leave the array. The others land in the next row.",
            26: "That is how many leave the array.",
        },
    ),
    "naive sectors": Answer(
        "32 sectors of `a`, because each lane reads another row, and 1 sector of `b`, "
        "because all lanes read the same element. Of each sector of `a`, 4 bytes are "
        "used.",
        {
            64: "All lanes have the same column of `b`: one element, one sector.",
            2: "That is the number of requests. Each has as many sectors as its lanes touch.",
            5: "You gave the lanes neighbouring columns. Here `threadIdx.x` counts rows.",
            36: "`b` is one element for all lanes, not 32 neighbours.",
            32: "You left out the load of `b`: one sector.",
        },
    ),
    "coalesced sectors": Answer(
        "`a` is now a **broadcast**, 1 sector, and `b` is **contiguous**: 32 floats in 4 sectors, "
        "every byte used. The store falls from 32 sectors to 4, too.",
        {
            8: "`a` is one element for all lanes: one sector, not four.",
            33: "The lanes have changed places: 32 neighbouring columns of `b`, one row of `a`.",
            2: "That would be 2 lines. 32 floats are 4 sectors.",
        },
    ),
    "the other bytes": Answer(
        "L1 holds 99 % of the requested sectors, and DRAM reads the operands just once, "
        "for both kernels. The sectors of 32 rows stay in L1 until all their 8 floats "
        "were used. Many texts say that they are moved again and again from the memory. "
        "They are not.",
        {
            "in DRAM: the sector is moved again": "DRAM reads 2.1 MB in both kernels, the size of "
            "the operands.",
            "in L2": "L2 serves only the 1 % that L1 does not hold.",
        },
    ),
    "what binds naive": Answer(
        "L1's data stage serves one line of a request after the other. `naive` has 33 "
        "lines per iteration and `coalesced` has 2, so `coalesced` needs 16.5 times fewer "
        "passes. The time falls less, because the limit of `coalesced` is another "
        "resource: the load-store unit, which takes each request. Sectors fall 6.6 times, "
        "but they limit neither kernel: four sectors of one line are one pass.\n\n"
        "The cycles of the busiest resource fall 13.2 times, and the time 12.6 times. The time of "
        "both kernels also contains about 2 microseconds in which this resource does not work: "
        "the launch, and the wait for the first data.",
        {
            "DRAM": "DRAM needs 940 of more than a million cycles.",
            "the load-store unit": "It limits `coalesced`. Both kernels have as many requests.",
            "the multipliers": "Both kernels have the same arithmetic, far from the limit.",
        },
    ),
    "swapped": Answer(
        "`/` and `%` have changed places, so neighbouring lanes have neighbouring rows "
        "again. This is the naive kernel. The result is right. Only a count (or a clock) "
        "shows it. The same tutorials call `naive_2d` naive. But there `col` follows "
        "`threadIdx.x`, so its loads are coalesced.",
        {
            5: "Look at the lanes: the row is `threadIdx.x % 32`, so neighbouring lanes have "
            "neighbouring rows.",
            8: "Look at the lanes: the row is `threadIdx.x % 32`, so neighbouring lanes have "
            "neighbouring rows.",
        },
    ),
    "beta": Answer(
        "One request for each of the 512 warps. This is little: each warp makes 2 x 128 "
        "requests in the loop.",
        {
            16384: "That is one per thread. A request is one per warp.",
            2048: "That is sectors. A warp reads its 32 elements of `c` with one request.",
        },
    ),
}

_LESSON_3 = {
    "phase 1": Answer(
        "There are 8 / 4 = 2 phases. In phase 1 the tile of `a` has moved 4 columns to the right, "
        "that of `b` 4 rows down. Thread t = x + 4 y = 6 loads `a[1][6]` and `b[5][2]`.",
        {
            "a[1][2] and b[1][2]": "That is phase 0. In phase 1 both tiles have moved.",
            "a[5][2] and b[1][6]": "The tile of `a` moves along a row, that of `b` down a column.",
        },
    ),
    "barriers": Answer(
        "Without the first, threads multiply what others have not stored yet. Without the "
        "second, a warp stores the next tile while another still reads this one. The "
        "check reports both as data races. It would do so even if the result of this run "
        "were right.",
        {
            "only the first": "The loop continues: the next tile is stored into the same memory.",
            "only the second": "A thread uses elements that other threads load.",
        },
    ),
    "fewer requests": Answer(
        "Each element that a block loads serves 32 threads in a row or column of it: 32 "
        "times fewer requests. The sectors fall only 20 times, from 1.25 N³ floats moved "
        "to 0.0625 N³, because the untiled kernel's load of `a` is a broadcast: one "
        "sector for 32 lanes.",
        {
            16: "That is for tiles of 16.",
            1024: "A tile has 1,024 elements, but each serves the 32 threads of a row or column.",
            20: "That is the ratio of the sectors.",
        },
    ),
    "gain of the tile": Answer(
        "Much less than 32 or 20 times. `coalesced` did not wait for the memory: the "
        "caches held the data. The load-store unit limits both kernels. `coalesced` gives "
        "it two requests per multiply-add, `tiled` 1.4 (most of them of shared memory; "
        "the assembler merges four loads of `a_tile` into one). The gain is about 2 / 1.4.",
        {
            32: "Global loads became shared loads. The load-store unit takes both.",
            20: "The sectors did not limit the untiled kernel: L1 had 95 % of them.",
        },
    ),
    "who repeats a": Answer(
        "Block (bx, by) needs rows by · 32 ... of `a` and columns bx · 32 ... of `b`. So "
        "blocks with the same by load the same elements of `a`, and blocks with the same "
        "bx load the same elements of `b`. The tutorial's note has the two swapped.",
        {"those with the same bx": "These are above each other: they have other rows of `a`."},
    ),
    "bytes from memory": Answer(
        "Each byte once: 128 KiB. A tiled block loads each sector once, so it finds nothing in L1. "
        "Four blocks load each sector, at about the same time. In the model, their multiprocessors "
        "are neighbours, so three of the four reads are merged with the first one on the way to "
        "L2: 384 of the 512 KiB. The fourth part, 128 KiB, comes from L2, which reads it from "
        "memory. The untiled kernel loads the same data again and again, and finds it in L1.",
        {
            512: "Four blocks load each sector. The memory delivers it once: three of the four "
            "reads are merged on the way to L2.",
            64: "That is one operand.",
        },
    ),
    "69 GB": Answer(
        "The loads request eight times what the threads want of `b`, and a quarter of what they "
        "want of `a`. Nothing moves the 69 GB: in a broadcast the threads want 128 bytes, and the "
        "load requests one sector. Lanes that are a row of `b` apart want 4 bytes each, and each "
        "requests a sector. If the caches keep them, the memory delivers each byte only once: "
        "0.03 GB.",
        {
            69: "That is what the threads want. Loads ask for sectors.",
            68.7: "That is what the threads want. Loads ask for sectors.",
            43: "That is `coalesced`. Here the lanes are a row of `b` apart.",
        },
    ),
    "a column of words": Answer(
        "A row is 32 words, so a column is all in one bank, and the bank serves one word at a "
        "time: a 32-way conflict.",
        {
            1: "The words are 32 apart, and w mod 32 is the same for all.",
            4: "That is the number of sectors. Sectors exist in global memory, not in shared "
            "memory.",
            16: "All 32 lanes are in one bank, not 16.",
        },
    ),
    "padded rows": Answer(
        "Lane l reads word 33 l, in bank 33 l mod 32 = l: each bank once.",
        {
            32: "33 l mod 32 is l: every lane has a bank of its own.",
            2: "33 l mod 32 is l: no two lanes share a bank.",
            33: "The unused word is read by nobody.",
        },
    ),
    "transposed b": Answer(
        "32 for `b`, where the lanes are a row apart, and 1 for `a`.",
        {
            5: "Each *thread* walks along a row. At one moment the lanes are a row apart.",
            8: "Each *thread* walks along a row. At one moment the lanes are a row apart.",
            64: "The load of `a` is a broadcast.",
        },
    ),
    "corner turned": Answer(
        "The loads of global memory are as good as those of `tiled`. The cost is now in shared "
        "memory, where lane `tx` reads `b_tile[tx][k]`, a column. One word of padding per row "
        "removes the conflicts.",
        {
            "yes": "In shared memory the order of the lanes costs nothing, but bank conflicts do.",
            "no: it executes more loads": "It executes fewer: the assembler merges more of them.",
        },
    ),
}

_LESSON_4 = {
    "store of naive_read": Answer(
        "The lanes write down a column: 32 rows, 32 sectors, 4 bytes of each. In `naive_write` "
        "it is the other way round: 32 sectors for the load, 4 for the store.",
        {
            4: "That is its load. A warp that reads along a row writes down a column.",
            8: "Neighbouring lanes write a whole row apart, so each has a sector of its own.",
        },
    ),
    "reads or writes": Answer(
        "**Reads:** L1 keeps the rest of a sector until the next warp of the block wants it, so "
        "L2 delivers each sector once. **Writes:** 4 bytes of a sector go to L2 at once, and the "
        "other parts follow one by one. That is eight times the writes, and L2 is the limit.",
        {
            "naive_read: its stores are uncoalesced": "A thread does not wait for its stores. But "
            "each part of a sector goes to L2 by itself.",
            "neither": "They touch as many sectors at L1. Behind L1 they differ eightfold.",
        },
    ),
    "conflicts of the tile": Answer(
        "A column of a tile of 32 x 32 words is in one bank: 32 wavefronts (lesson 3). "
        "The cost has moved from global into shared memory, and the profile finds it "
        "there.",
        {
            1: "That would be a row. Word 32 r + c is in bank c, for all r.",
            4: "That is the number of sectors. Sectors exist in global memory, not in shared "
            "memory.",
        },
    ),
    "swizzled banks": Answer(
        "5 ^ r is different for each r, so the column meets each bank once, as does the padded "
        "one.",
        {1: "That is the plain tile: tile[r][5] is always in bank 5."},
    ),
    "near the copy": Answer(
        "Padding reaches 94 % of the copy's bandwidth, and the swizzle 92 %. The tile "
        "alone does not come near: its bank conflicts cost about what it saves. Like "
        "`naive_write`, it is bound by L1's data stage, which serves both the lines of "
        "global memory and the wavefronts of shared memory.",
        {
            "tiled, padded and swizzled": "The tile alone reads columns of one bank.",
            "naive_write, padded and swizzled": "`naive_write` reaches half of the copy: L1 has to "
            "look up 32 lines for each load.",
        },
    ),
    "transposing b first": Answer(
        "If each thread walks along a row, this helps a CPU and hurts a GPU: each lane "
        "then has a row of its own. The product takes 12 times as long, not a third of "
        "the time. The transposition itself is cheap; its effect on the product is not. "
        "To know in advance whether a transposition pays, count the sectors of the loads "
        "before and after, and add the sectors of the transposition.",
        {
            8: "That needs the *lanes* side by side. Each thread walks along a row; the lanes are "
            "a row apart.",
            5: "Each lane has changed from a column of `b` to a row of its transpose.",
        },
    ),
}

_LESSON_5 = {
    "walk along the row": Answer(
        "In each iteration the 32 lanes are in 32 rows: 32 sectors. A single thread that "
        "walks along a row is good for a CPU. But a warp is 32 threads, and what counts "
        "is where they are at the same moment. In `thread_per_column` they are side by "
        "side: 4 sectors.",
        {
            4: "That is `thread_per_column`. Here each lane is in a row of its own.",
            1: "One *thread* walks along a row. The lanes of the warp are in 32 rows.",
        },
    ),
    "conflicts of a tree": Answer(
        "`i = 2 * s * t` lets the lanes step over 2 s words, so several of them meet in "
        "one bank: 97 conflicts. `t % (2 * s) == 0` has none, because the few active "
        "lanes of a warp access different banks. It is slow for another reason: it keeps "
        "a few lanes of *every* warp busy, 95 shared load requests instead of 25. "
        "`halves` has neither fault.",
        {
            "t % (2 * s) == 0": "Many texts say so. Its active lanes are t and t + 2 s, ... of one "
            "warp, all in different banks. It wastes lanes.",
            "halves": "The threads that add stand side by side: 32 words in 32 banks.",
            "none": "Two words that are 32 apart share a bank. Which tree has such steps?",
        },
    ),
    "warps of a thread per row": Answer(
        "256 threads are 8 warps, in one block. The matrix has 65,536 floats, or 8,192 "
        "sectors. Every kernel except `thread_per_row` touches each of them once.",
        {
            256: "That is the threads. 32 of them are a warp.",
            2048: "That would be a thread for each element.",
        },
    ),
    "not eight times": Answer(
        "Both kernels have the same number of warps, so the number of warps cannot be the "
        "reason. `thread_per_row` touches eight times the sectors, but 87 % of them are "
        "in L1: the next 7 iterations use the other floats of each sector. Both fetch the "
        "same 8,192 sectors from L2. `thread_per_row` is bound by L1's data stage, which "
        "looks up 32 lines for each load; `thread_per_column` by latency. So each kernel "
        "has another limit, and the ratio of the sectors is not the ratio of the times.",
        {
            8: "That is the ratio of the sectors at L1. Neither L2 nor DRAM sees it.",
            1: "Their traffic behind L1 is the same, but L1 itself works 8 times as hard.",
        },
    ),
    "share of the GPU": Answer(
        "4,096 / 32 = 128 warps of 8,448.",
        {
            100: "4,096 threads seem many. But they are 128 warps: fewer than one per "
            "multiprocessor.",
            48: "You divided the threads by the capacity in warps.",
        },
    ),
    "dynamic shared memory": Answer(
        "None. Only the place where the size is written differs.",
        {1: "The arrays have the same size and the same addresses."},
    ),
    "wavefront of 64": Answer(
        "256 bytes are 2 lines. Two warps of 32 lanes touch the same lines. A wavefront "
        "of 64 lanes needs half as many instructions, and each of them waits for twice as "
        "many lines.",
        {1: "64 floats are 256 bytes.", 64: "The lanes stand side by side."},
    ),
}

_LESSON_6 = {
    "myth 1": Answer(
        "**Verdict: wrong.** The unit is the warp: 32 lanes of 4 bytes fill 4 sectors to the last "
        "byte. Wider loads help for another reason: fewer requests for the same bytes.",
        {12.5: "That is a lane alone. The sector is shared by 8 lanes."},
    ),
    "myth 2": Answer(
        "**Verdict: nearly right.** One more *sector*, 32 bytes. A line has 128 bytes, but it is "
        "filled sector by sector.",
        {
            128: "That is a line. Only the sector that is needed is moved.",
            4: "Less than a sector is never moved.",
        },
    ),
    "myth 3": Answer(
        "**Verdict: wrong.** Any order of the same addresses touches the same sectors.",
        {
            "right": "Only the set of addresses counts.",
            "half right": "There is no exception: the distinct sectors are the same.",
        },
    ),
    "myth 4": Answer(
        "**Verdict: wrong as printed.** Division and remainder are exchanged, so this is "
        "the naive kernel again. The result is right, so no test of the *values* can "
        "notice.",
        {
            5: "Look at the lanes: the row is `threadIdx.x % 32`, so neighbouring lanes have "
            "neighbouring rows.",
            2.5: "That is per load, in the kernel without the exchange.",
        },
    ),
    "myth 5": Answer(
        "**Verdict: wrong.** `col` follows `threadIdx.x`, so lanes step along a row of "
        "`b`, and `a` is a broadcast. It was coalesced from the start; the change of "
        "claim 4 made it worse.",
        {33: "Here `threadIdx.x` counts columns: neighbouring lanes are neighbours in `b`."},
    ),
    "myth 6": Answer(
        "**Verdict: wrong.** There was nothing to fix: both loads go along rows, 4 "
        "sectors each. The change leaves their number and their cost as they were. But it "
        "writes the tile by columns, into one bank. The kernel does not become six times "
        "faster, but five times slower.",
        {
            2048: "The load of `b` is executed as often as before.",
            4096: "Both matrices are still loaded.",
        },
    ),
    "stored twice": Answer(
        "**Verdict: a race.** Two threads write different values to one element of the "
        "tile, and no barrier is between them. The order of the lines orders only the "
        "stores of one thread.",
        {
            "right: the second store wins": "For one thread it does. But the element is stored "
            "by two different threads, and nothing orders them.",
        },
    ),
    "myth 7": Answer(
        "**Verdict: half right.** The loads coalesce. But 32 lanes that read down a "
        "column of 32 words all access one bank. One word of padding per row removes the "
        "conflicts.",
        {
            "right": "Look at the bank conflicts.",
            "wrong": "The loads of global memory do coalesce.",
        },
    ),
    "myth 8": Answer(
        "**Verdict: wrong.** All lanes of a warp read the same word of `a_tile`. This is "
        "a broadcast, so there was no conflict to remove. But rows of 33 words do not "
        "start at multiples of 16 bytes, and one load of four words becomes four loads of "
        "one. Pad what conflicts, and count again.",
        {
            1: "The unpadded kernel loads 16 bytes at once. Can the padded one?",
            4: "True of the tile of `a`. Both kernels load `b_tile` as often.",
        },
    ),
    "myth 9": Answer(
        "**Verdict: wrong.** Each *thread* walks along a row. At one moment the *lanes* are a row "
        "apart.",
        {
            5: "Each *thread* walks along a row. Where are the lanes at one moment?",
            8: "Each *thread* walks along a row. Where are the lanes at one moment?",
        },
    ),
    "myth 10": Answer(
        "**Verdict: a wrong result.** Fast, coalesced, and no matrix product: each element gets "
        "one product per tile instead of 16. Compare with NumPy *before* comparing times.",
        {16384: "Count the multiplications of one thread: n / 16, not n."},
    ),
    "myth 11": Answer(
        "**Verdict: wrong.** Every request is perfectly coalesced. But each block does "
        "all the work, so there are too many requests: those of one block, times the "
        "blocks. Sectors *per request* say how good each load is, and requests say how "
        "many loads there are. Look at both.",
        {
            32: "Neighbouring lanes load neighbours. They only do it too often.",
            64: "A request is one warp. Repeating it does not make it heavier.",
        },
    ),
    "myth 12": Answer(
        "**Verdict: half right.** The column sums touch an eighth of the sectors. But L1 "
        "holds most of the sectors that the row sums touch again, so both fetch the same "
        "from L2. The column sums are about 3.5 times as fast at n = 4096. Both are far "
        "from what the GPU can do, because with one thread per row or column there are "
        "few warps (lesson 5).",
        {
            "right": "They coalesce and are faster, but by less than half of what the sectors say.",
            "wrong": "They do touch an eighth of the sectors, and are faster.",
        },
    ),
}

_LESSON_7 = {
    "two loads": Answer(
        "Two requests for each multiply-add, and at most 0.8 requests per cycle: 0.4 multiply-adds "
        "per cycle of 4 possible ones, a tenth of the peak. The kernel reaches 93 % of this "
        "ceiling. `naive` has as many requests, but each of its loads of `a` makes 32 passes.",
        {
            12.5: "That is one request per cycle. Recorded kernels stay below 0.8.",
            50: "A multiprocessor could execute four multiply-adds per cycle, not one.",
            33: "You counted three instructions. The schedulers issue four per cycle; the "
            "load-store unit takes less than one.",
        },
    ),
    "roofline": Answer(
        "Right of it. Its requests touch 33 sectors, but L1 and L2 hold nearly all of "
        "them: DRAM moves 8.5 GB, which is 16 operations for each byte. By the roofline "
        "it is bound by arithmetic, but it reaches 1 % of the arithmetic peak. The "
        "roofline of DRAM shows one limit of many. The bound of this kernel is inside the "
        "multiprocessor, which the roofline does not show.",
        {
            "left: bound by memory": "Its accesses are bad, but the caches hide that from DRAM.",
        },
    ),
    "words of 8 x 1": Answer(
        "8 words of `a` and 1 of `b` for 8 multiply-adds: 9 / 8. Only `b` is read less often. A "
        "multiply-add needs a word of `a` of its own, as before; the assembler loads four of them "
        "at once, neighbours along `k`.",
        {
            2: "A word of `b` now serves 8 multiply-adds of the thread.",
            0.125: "That is the words of `b`. There are 8 words of `a`, too.",
            0.25: "That would be a tile of 8 x 8.",
        },
    ),
    "gain of 8 x 1": Answer(
        "Less than the ceiling, which rises 2.3 times. The data stage is still the "
        "busiest unit, but not all the time. The sums take registers, so 32 warps are "
        "left of 64, and there is more to wait for: a block loads new tiles every 8 steps "
        "of `k`, `tiled` every 32.",
        {
            8: "The number of multiplications is the same. Only words of `b` are 8 times fewer.",
            1: "Shared memory was the bound, and this halves its work.",
        },
    ),
    "gain of 8 x 8": Answer(
        "Hardly faster at all. The words fall 4.5 times, but the passes only by a "
        "quarter. A load of `a` reads two rows that are 64 words apart, in one bank: 2 "
        "wavefronts. A load of `b` takes 8, where 4 would be enough.\n\nAnd the warps wait "
        "for the results of loads. With 64 sums in registers only 16 warps fit, and a "
        "warp must read its 16 words before it can multiply. The data stage is busy for "
        "half of the time, the schedulers for less. No unit is used to the full: the "
        "kernel is bound by **latency**.",
        {
            4.5: "That is the ratio of the words. Wavefronts are what the data stage serves.",
            2: "This would be a good guess if wavefronts were the only bound.",
        },
    ),
    "gain of vectors": Answer(
        "Before, a warp waited for shared memory for 41 % of its time; now for 24 %, as "
        "it waits once for four words. The ceiling rises 1.5 times, and the kernel comes "
        "a little nearer to it.",
        {
            1: "The words are as many. The loads, and what the warps wait for, are not.",
            4: "Only the loads of `a` became fewer, and multiply-adds take time, too.",
        },
    ),
    "wavefronts of a warp tile": Answer(
        "4 is the least possible: 32 lanes want 16 bytes each, and a wavefront has 128 "
        "bytes. The 8 lanes of each quarter-warp have 8 neighbouring groups of 16 bytes, "
        "which are all 32 banks. (Lanes 8 to 15 read the same bytes as lanes 0 to 7. That "
        "does not help: quarters are served one after the other.)",
        {
            1: "A wavefront has one word of each bank: 128 bytes. 32 lanes get 512.",
            2: "That is what a load of `a` takes, where half a warp wants the same words.",
            8: "That is what it was in `vectorized`.",
        },
    ),
    "gain of a pipeline": Answer(
        "Faster, with **more** instructions and a **lower** ceiling. A warp waited for "
        "L1, L2 and DRAM for 24 % of its time; now it hardly does. The schedulers, which "
        "were idle for four of ten cycles, are busy for eight of ten.",
        {
            0.9: "It would be so if the schedulers had been busy all the time before.",
            1: "Look at what the warps waited for.",
            4: "Four stages do not mean four times the speed. They hide one of several waits.",
        },
    ),
    "warps of tma": Answer(
        "8 of 64: one block. Each warp has so much independent work, 128 multiply-adds for six "
        "loads, and the loads of the next step start so early, that other warps are not needed "
        "to hide the latency.",
        {
            64: "The ring of one block leaves no room for a second one.",
            16: "Two rings would take 384 KiB of shared memory.",
            1: "That is the blocks. Each has 8 warps.",
        },
    ),
    "gain of tma": Answer(
        "The loop has 1.06 instructions for each multiply-add, where `pipelined` executes "
        "1.44. The rest are 48 loads and a few tests. The conflicts between the banks of "
        "registers cost more: 88 cycles of 1170 (NVRTC 13.5).",
        {
            1.05: "Addresses and copies took a third of the instructions, not a twentieth.",
            2: "More than the peak is not possible.",
        },
    ),
    "small product": Answer(
        "It takes nearly seven times as long. A block computes 128 x 128 elements, so the "
        "product has 16 of them, for 132 multiprocessors. `tiled` has 256. The counts per "
        "multiply-add are the same as before; here it matters how many multiprocessors "
        "have work.",
        {
            1.8: "That needs enough blocks for all multiprocessors. How many are there?",
            1: "16 blocks and 256 blocks cannot be as fast on 132 multiprocessors.",
        },
    ),
    "behind cuBLAS": Answer(
        "In one shape our kernel is slower, by 3 %. In fourteen it is faster, by up to 1.5 times.",
        {
            0: "A library that thousands of people tuned is not beaten everywhere.",
            15: "Look at the ladder: at 4096 it ends above cuBLAS.",
        },
    ),
    "one HMMA": Answer(
        "One HMMA multiplies 16 x 16 by 16 x 8 values: 2,048 multiply-adds, 64 for each "
        "lane. One `wgmma` of a warpgroup is 262,144.",
        {
            1: "It is one instruction for a product of matrices, not of numbers.",
            2048: "That is what it computes. A multiply-add of a warp is 32 of them.",
            128: "Each 16 x 16 x 16 product takes two of them.",
        },
    ),
    "three products": Answer(
        "The tensor cores multiply TF32 values about seven times as fast as cuBLAS "
        "multiplies float32. Three products, and the work to split the operands, leave a "
        "factor of 2.8. This includes the time to prepare `a`. Its error is even smaller: "
        "it adds up sums of 32 steps each, so fewer roundings follow each other.",
        {
            0.33: "Three times the work, on a unit that is about seven times as fast.",
            7: "That is `tf32`, with one product and fewer correct digits.",
        },
    ),
}

_LESSON_8 = {
    "three colours": Answer(
        "The lanes are 12 bytes apart, so 32 of them span 12 sectors, and each of the "
        "three loads visits all 12 for a third of their bytes. The second and the third "
        "load usually find these sectors in L1, so the *traffic* may be fine. But each "
        "*request* touches three times the sectors that it needs. With three separate "
        "arrays, for red, green and blue, the loads would be contiguous.",
        {
            4: "That needs 32 neighbouring floats. The red values are three floats apart.",
            32: "The lanes are 12 bytes apart: two or three share a sector.",
            3: "That is the number of loads.",
        },
    ),
    "right and correct": Answer(
        "A warp reads what *another* warp wrote, and nothing makes it wait. The result "
        "was right because the warps happened to run in order. On a GPU, too, it may be "
        "right a million times. The check does not look at what happened in this run, but "
        "at what is ordered in every run. It names both lines.",
        {"yes: the result is right": "It is right in this run. What makes warp 1 wait for warp 0?"},
    ),
}

ANSWERS: dict[str, Answer] = {
    **_LESSON_0,
    **_LESSON_1,
    **_LESSON_2,
    **_LESSON_3,
    **_LESSON_4,
    **_LESSON_5,
    **_LESSON_6,
    **_LESSON_7,
    **_LESSON_8,
}
