"""The answers that the lessons show after a prediction.

An answer gives the reason for what was measured, and says what is wrong with common guesses.

The cells of the lessons contain the questions, and most cells measure something. The answers are in
this file, so that a reader does not see them together with the question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """The answer to a question.

    `why` explains it, and `mistakes` has a sentence about each common wrong guess. `choose` returns
    the choice that follows from what the cell measured. `measure` returns the answer if the cell
    measures nothing.
    """

    why: str = ""
    mistakes: Mapping[float | str, str] = field(default_factory=dict)
    choose: Callable[[Any], float | str] | None = None
    measure: Callable[[], float | str] | None = None


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
        "x changes fastest. After (3, 0) the row is full, so the line of threads continues with "
        "(0, 1). This thread has the number t = 0 + 1 · 4 = 4. The 16 threads fill half a warp. "
        "The other 16 lanes of the warp are idle.",
        {
            "(4, 0)": "A row of this block ends at x = 3; there is no thread (4, 0).",
            "(3, 1)": "You let y change fastest. In CUDA, x does: (3, 1) has the number t = 3 + "
            "1 · 4 = 7.",
        },
        measure=lambda: f"({4 % 4}, {4 // 4})",
    ),
    "rows of a warp": Answer(
        "A warp has 32 consecutive threads of the line. A row of this block has 16 threads, so a "
        "warp has the threads of two rows.",
        {
            1: "You took a row for a warp. A warp has 32 threads whatever the block's shape is.",
            16: "You took the block for a warp. It has 256 threads, which are 8 warps.",
            8: "That is the number of warps in the block: 256 / 32.",
        },
        measure=lambda: len({t // 16 for t in range(32)}),
    ),
    "idle lanes": Answer(
        "120 threads need 4 warps, which have 128 lanes. Rows of 24 do not get warps of their own: "
        "warps span rows, and only the last warp has empty lanes.",
        {
            40: "You gave each row a warp of its own: 5 · (32 - 24). Warps are cut from the line.",
            0: "120 is no multiple of 32: three warps hold 96 threads, the fourth the other 24.",
            24: "That is how many lanes of the last warp are used.",
        },
        measure=lambda: -(24 * 5) % 32,
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
        "of a sector, and another warp touches that sector again. A partly empty warp costs "
        "requests, not sectors: 24 x 5 has one.",
        {
            "all whose rows are not 32 threads": "16 x 8 and 24 x 5 touch no sector twice: "
            "two rows in one warp are two pieces of whole sectors.",
            "those whose last warp is partly empty": "24 x 5 has a partly empty warp in each "
            "block and touches no sector too many. Lanes without a thread touch no memory.",
        },
        choose=lambda more: (
            "those whose rows are no multiple of 8 threads"
            if {block for block in more if more[block]} == {(20, 6), (12, 10)}
            else "another rule"
        ),
    ),
    "flattening": Answer(
        "Thread t of the flat block and thread (t % 32, t / 32) of the square block have the "
        "same place in the line. So they are in the same warp and in the same lane.",
        {
            1024: "The shape gives the threads other names. Their order in the line is the same.",
            992: "You expected a warp of the square block to be a column. But x changes fastest, "
            "so a warp is a row, as in the flat block.",
        },
    ),
}

_LESSON_1 = {
    "contiguous floats": Answer(
        "32 lanes that load 4 bytes each load 128 bytes. These are 4 sectors of 32 bytes, and "
        "every byte is used. Loads of 8 bytes per lane take 8 sectors, and loads of 16 bytes "
        "take 16. So small elements waste nothing. Wide elements do not coalesce better; they "
        "want more bytes per request.",
        {
            32: "You counted a sector per lane. Eight neighbouring lanes share one sector.",
            1: "You counted lines. A line has 128 bytes, but it is filled in sectors of 32 bytes.",
            128: "You counted bytes. A sector has 32 of them.",
        },
    ),
    "wide elements": Answer(
        "On an H200, an instruction loads at most 16 bytes per lane, so 32 bytes take "
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
        "The 31 neighbouring lanes touch 4 sectors. The far lane touches a fifth sector, so it "
        "adds 32 bytes.",
        {
            8: "You added a whole line of 128 bytes. Only the sector that is needed is moved.",
            32: "One lane that is far away does not separate the others.",
            2: "You counted lines: 2 of them, but 4 + 1 sectors.",
        },
    ),
    "offset 1": Answer(
        "128 bytes that begin in the middle of a sector touch 5 sectors. The fifth sector is "
        "also the first sector of the next warp. An offset costs nothing only if it is a whole "
        "number of sectors, such as 8 or 16 floats.",
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
        "most 63 additional sectors: 3 %. Both numbers are right, but they are counted at "
        "different places: at the instruction, and behind L1.",
        {
            "by 25 %": "That would be so without an L1 cache.",
            "by about 10 %": "All but the last warp of a block find the fifth sector in L1, and a "
            "block has 8 warps.",
        },
        choose=lambda growth: "by less than 4 %" if 1 < growth < 1.04 else "by more",
    ),
    "stride 2": Answer(
        "The lanes span 256 bytes, which are 8 sectors. They use half of each sector.",
        {
            4: "You counted the bytes that are used. The bytes between them are moved, too.",
            32: "Neighbouring lanes are only 8 bytes apart, so four lanes share a sector.",
            16: "Four lanes share a sector, not two: 4 · 8 bytes are 32 bytes.",
        },
    ),
    "worst stride": Answer(
        "A sector holds 8 floats. With a stride of 8 floats or more, every lane touches a sector "
        "of its own. A warp has 32 lanes, so it cannot touch more than 32 sectors.",
        {
            32: "With a stride of 32 floats, each lane has a line (128 bytes) of its own. To "
            "have a sector of its own, a distance of 32 bytes is enough.",
            16: "16 floats are 64 bytes, which are two sectors. The lanes have sectors of their "
            "own already at stride 8.",
            4: "4 floats are 16 bytes, so two lanes still share a sector.",
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
        choose=lambda read: "64 bytes" if set(read) == {1 << 24} else "another",
    ),
    "broadcast": Answer(
        "One sector: no load is cheaper. The request uses 4 of 32 bytes, but this is no waste, "
        "because every lane got what it asked for.",
        {
            32: "You counted lanes. They all want the same sector.",
            4: "4 sectors are 32 different floats. This is one float.",
            0: "One sector must be read.",
        },
    ),
    "gather": Answer(
        "Nearly one sector per lane. The average is a little less than 32: `x` has only 2,048 "
        "sectors, so sometimes two lanes want the same one.",
        {
            4: "The loads of `index` are contiguous and take 4 sectors. But the elements of `x` "
            "that they choose are scattered.",
        },
    ),
}

_LESSON_2 = {
    "threads without work": Answer(
        "4 x 3 blocks of 32 x 32 threads cover 128 x 96 elements. These are 12,288 threads for "
        "7,000 elements. The `if` on `row` and `col` leaves the other threads without work.",
        {
            0: "100 and 70 are not multiples of 32, so the last blocks reach beyond the matrix.",
            12288: "That is the number of all threads.",
        },
    ),
    "stray writes": Answer(
        "If `col` is 70 or more, `out[row * N + col]` is an element of the **next row**, which "
        "another thread writes, too. The result depends on which write comes last. Only in the "
        "last row do the 26 stray threads write past the end of `out`. The check below finds both "
        "mistakes: 2,574 races and 26 writes past the end. It also finds a third one: in the last "
        "row of `b`, each of the 2,600 stray threads reads past the end.",
        {
            0: "Only the stray writes of the last row leave the array. The others land in the "
            "next row.",
            26: "That is the number of writes that leave the array.",
        },
    ),
    "naive sectors": Answer(
        "The load of `a` touches 32 sectors, because each lane reads another row. It uses only 4 "
        "of the 32 bytes of each sector. The load of `b` touches 1 sector, because all lanes "
        "read the same element.",
        {
            64: "All lanes have the same column of `b`: one element, one sector.",
            2: "That is the number of requests. Each request has as many sectors as its lanes "
            "touch.",
            5: "You gave the lanes neighbouring columns. Here `threadIdx.x` counts rows.",
            36: "The lanes read one element of `b`, not 32 neighbours.",
            32: "You left out the load of `b`: one sector.",
        },
    ),
    "coalesced sectors": Answer(
        "The load of `a` is now a **broadcast**, which takes 1 sector. The load of `b` is "
        "**contiguous**: 32 floats in 4 sectors, and every byte is used. The store, too, takes 4 "
        "sectors instead of 32.",
        {
            8: "The lanes read one element of `a`: one sector, not four.",
            33: "That is `naive`. Now the lanes have one row of `a` and 32 neighbouring columns "
            "of `b`.",
            2: "That is the number of lines. 32 floats are 4 sectors.",
        },
    ),
    "the other bytes": Answer(
        "L1 holds 99 % of the requested sectors. The sectors of 32 rows stay in L1 until all of "
        "their 8 floats have been used. So only every eighth iteration reads from L2. Many texts "
        "say that `naive` moves its sectors from DRAM in every iteration. This is wrong: the "
        "requests find them in L1.",
        {
            "in DRAM: the sector is moved again": "At this size, DRAM reads each operand only "
            "once.",
            "in L2": "L2 serves only the 1 % that L1 does not hold.",
        },
        choose=lambda profile: (
            "in L1" if profile.metrics()["l1tex__t_sector_hit_rate.pct"] > 95 else "elsewhere"
        ),
    ),
    "what binds naive": Answer(
        "A row of 512 floats has a multiple of 32 words. So all words of a column are in the same "
        "bank of L1, which delivers one of them per pass. A load of `a` takes 32 passes. Per "
        "iteration, the data stage makes 33 passes for `naive`, and 2 for `coalesced`: 16.5 times "
        "fewer. The time falls less, because the limit of `coalesced` is another resource: the "
        "load-store unit, which takes each request. The sectors limit neither kernel.",
        {
            "DRAM": "At 512, DRAM is busy for about a thousandth of the time.",
            "the load-store unit": "The load-store unit limits `coalesced`. Both kernels have "
            "the same number of requests.",
            "the multipliers": "Both kernels have the same arithmetic, which is far from the "
            "limit.",
        },
        choose=lambda bound: {"data": "the data stage of L1"}.get(bound, "another"),
    ),
    "one column more": Answer(
        "With 513 words in a row, the words of a column are in different banks. The data stage "
        "serves up to four lines in a pass, so a load of `a` takes about 9 passes instead of "
        "32. The number of sectors per request is the same. So the 32 passes were a bank "
        "conflict, and not the price of 32 sectors.",
        {
            "it grows a little": "The arithmetic and the requests grow by less than 1 %. But look "
            "at the banks: where are the words of a column if a row has 513 words?",
            "it stays the same": "The number of sectors per request stays the same. But the "
            "sectors do not limit `naive`.",
        },
        choose=lambda ratio: "it falls to less than half" if ratio < 0.5 else "it grows a little",
    ),
    "swapped": Answer(
        "`/` and `%` have changed places, so neighbouring lanes have neighbouring rows again, as "
        "in `naive`. The result is right, so only a count (or a clock) shows the mistake. (In the "
        "table, `naive_2d` is `naive` with `threadIdx.x` and `threadIdx.y` exchanged. Its loads "
        "are coalesced, although tutorials call it naive, too.)",
        {
            5: "Look at the lanes: the row is `threadIdx.x % 32`, so neighbouring lanes have "
            "neighbouring rows.",
            8: "Look at the lanes: the row is `threadIdx.x % 32`, so neighbouring lanes have "
            "neighbouring rows.",
        },
    ),
    "beta": Answer(
        "Each of the 512 warps makes one more request. This is little: in the loop, each warp "
        "makes 2 x 128 requests.",
        {
            16384: "You counted one request per thread. A request belongs to a whole warp.",
            2048: "That is the number of sectors. A warp reads its 32 elements of `c` with one "
            "request.",
        },
    ),
}

_LESSON_3 = {
    "phase 1": Answer(
        "There are 8 / 4 = 2 phases, 0 and 1. In phase 1, the tile of `a` is 4 columns further "
        "to the right than in phase 0, and the tile of `b` is 4 rows further down. So the thread "
        "(x = 2, y = 1) loads `a[1][4 + 2]` and `b[4 + 1][2]`.",
        {
            "a[1][2] and b[1][2]": "That is phase 0. In phase 1 both tiles have moved.",
            "a[5][2] and b[1][6]": "The tile of `a` moves along a row, and the tile of `b` moves "
            "down a column.",
        },
        measure=lambda: f"a[1][{4 + 2}] and b[{4 + 1}][2]",
    ),
    "barriers": Answer(
        "Without the first barrier, threads multiply elements that other threads have not stored "
        "yet. Without the second barrier, a warp stores the next tile while another warp still "
        "reads this one. The check reports both as data races, even if the result of this run is "
        "right. The picture shows a block of two warps without the first barrier: warp 0 reads "
        "rows of `b_tile` that warp 1 has not stored yet.",
        {
            "only the first": "The loop continues: the next tile is stored into the same memory.",
            "only the second": "A thread uses elements that other threads load.",
        },
        choose=lambda found: {
            (True, True): "both",
            (True, False): "only the first",
            (False, True): "only the second",
        }.get(found, "another"),
    ),
    "fewer requests": Answer(
        "Each element that a block loads is used by 32 threads: those of one row or one column "
        "of the block. So there are 32 times fewer load requests. The sectors fall only 20 "
        "times, from 1.25 N³ floats to 0.0625 N³ floats. The reason is that the untiled kernel's "
        "load of `a` is a broadcast, which takes only one sector for 32 lanes.",
        {
            16: "That is the ratio for tiles of 16.",
            1024: "A tile has 1,024 elements, but each element serves only the 32 threads of a "
            "row or column.",
            20: "That is the ratio of the sectors.",
        },
    ),
    "gain of the tile": Answer(
        "Much less than 32 or 20 times. `coalesced` did not wait for the memory, because the "
        "caches held the data. The load-store unit limits both kernels. For each multiply-add, "
        "`coalesced` gives it 2 requests, and `tiled` gives it 1.4. Most of these 1.4 requests "
        "are loads from shared memory. (They are less than 2 because the assembler merges four "
        "loads of `a_tile` into one.) So the kernel gains about 2 / 1.4.",
        {
            32: "The global loads were replaced by loads from shared memory. The load-store unit "
            "takes both.",
            20: "The sectors did not limit the untiled kernel: L1 had 95 % of them.",
        },
    ),
    "who repeats a": Answer(
        "Block (bx, by) needs the 32 rows of `a` that begin at row 32 · by, and the 32 columns "
        "of `b` that begin at column 32 · bx. So blocks with the same by load the same elements "
        "of `a`, and blocks with the same bx load the same elements of `b`. The tutorial's note "
        "exchanges the two.",
        {
            "those with the same bx": "These blocks are above each other, so they need different "
            "rows of `a`.",
        },
        choose=lambda blocks: (
            "those with the same by" if len({by for _, by in blocks}) == 1 else "another"
        ),
    ),
    "bytes of the tile": Answer(
        "As much as the kernel without tiles. A tile saves loads that L1 served before: without "
        "tiles, 95 % of the sectors are found in L1, with tiles nearly none. Behind L1, "
        "nothing changes: in both kernels, each block needs the same rows of `a` and the same "
        "columns of `b`. So the tile makes the kernel faster, but not by saving reads of DRAM.",
        {
            0.13: "This would be so if L2 could keep both operands. They have 134 MB, and L2 has "
            "50 MB.",
            0.25: "The tile serves 32 threads, but before, L1 served them.",
            0.4: "The sectors that the loads touch fall 20 times. But L1 had most of them.",
        },
    ),
    "69 GB": Answer(
        "The 69 GB are what the threads read, not what the loads ask L1 for. The load of `a` is "
        "a broadcast: the threads read 32 x 4 = 128 bytes, and the load asks for one sector of "
        "32 bytes, a quarter. In the load of `b`, the lanes are a row apart: each lane reads 4 "
        "bytes, and the load asks for a sector of 32 bytes, eight times as much. If the caches "
        "keep the sectors, the memory delivers each byte only once: 0.03 GB.",
        {
            69: "That is what the threads read. Loads ask for sectors.",
            68.7: "That is what the threads read. Loads ask for sectors.",
            43: "That is `coalesced`. In `transposed_b`, the lanes are a row of `b` apart.",
        },
    ),
    "a column of words": Answer(
        "A row of the tile has 32 words, and there are 32 banks. So all words of a column are in "
        "the same bank. This bank serves one word at a time, and the load takes 32 wavefronts: a "
        "32-way bank conflict.",
        {
            1: "The words are 32 apart, so w mod 32 is the same for all of them.",
            4: "That is the number of sectors. Sectors exist in global memory, not in shared "
            "memory.",
            16: "All 32 lanes access the same bank, not 16 of them.",
        },
    ),
    "padded rows": Answer(
        "Lane l reads word 33 · l. This word is in bank (33 · l) mod 32 = l, so each lane reads "
        "from a bank of its own.",
        {
            32: "(33 · l) mod 32 is l: every lane has a bank of its own.",
            2: "(33 · l) mod 32 is l: no two lanes share a bank.",
            33: "No lane reads the unused word.",
        },
    ),
    "transposed b": Answer(
        "The load of `b` touches 32 sectors, because neighbouring lanes are a row apart. The "
        "load of `a` is a broadcast and touches 1 sector.",
        {
            5: "Each *thread* walks along a row. But at one moment the lanes are a row apart.",
            8: "Each *thread* walks along a row. But at one moment the lanes are a row apart.",
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
        choose=lambda profile: (
            "no: its reads of the tile have bank conflicts" if profile.bank_conflicts else "yes"
        ),
    ),
}

_LESSON_4 = {
    "store of naive_read": Answer(
        "The lanes write down a column of the result. So they write 4 bytes in each of 32 rows, "
        "and touch 32 sectors. `naive_write` is the opposite: its loads touch 32 sectors, and "
        "its stores touch 4.",
        {
            4: "That is its load. A warp that reads along a row writes down a column.",
            8: "Neighbouring lanes write a whole row apart, so each lane touches a sector of its "
            "own.",
        },
    ),
    "reads or writes": Answer(
        "The uncoalesced accesses of `naive_write` are **reads**. L1 keeps the rest of each "
        "sector until the next warp of the block wants it, so L2 delivers each sector once. The "
        "uncoalesced accesses of `naive_read` are **writes**. Each store sends 4 bytes of a "
        "sector to L2 immediately, and the other parts of the sector follow one by one. So L2 "
        "gets eight times as many writes, and becomes the limit.",
        {
            "naive_read: its stores are uncoalesced": "A thread does not wait for its stores. "
            "But each part of a sector goes to L2 by itself.",
            "neither": "They touch equally many sectors at L1. But behind L1 the numbers differ "
            "eightfold.",
        },
        choose=lambda ratio: "naive_write: its loads are uncoalesced" if ratio < 0.8 else "another",
    ),
    "conflicts of the tile": Answer(
        "All words of a column of a 32 x 32 tile are in one bank, so the load takes 32 "
        "wavefronts (lesson 3). The cost has moved from global memory to shared memory, where "
        "the profile finds it.",
        {
            1: "That would be so for a row. Word 32 r + c is in bank c, for all r.",
            4: "That is the number of sectors. Sectors exist in global memory, not in shared "
            "memory.",
        },
    ),
    "swizzled banks": Answer(
        "5 ^ r is different for each r. So the 32 elements of the column are in 32 different "
        "banks, as in the padded tile.",
        {
            1: "That is the plain tile: tile[r][5] is in bank 5 for every r.",
        },
    ),
    "near the copy": Answer(
        "Padding and the swizzle reach more than 90 % of the copy's bandwidth. The tile alone does "
        "not come near: it is bound by the data stage of L1, which serves both the "
        "lines of global memory and the wavefronts of shared memory. `naive_write` is bound by it, "
        "too.",
        {
            "tiled, padded and swizzled": "In the tile alone, the lanes read a column, which is "
            "in one bank.",
            "naive_write, padded and swizzled": "`naive_write` reaches half of the copy's "
            "bandwidth: each load reads a column, which is in one bank of L1.",
        },
        choose=lambda shares: (
            "padded and swizzled"
            if {name for name in shares if shares[name] > 0.9} == {"padded", "swizzled"}
            else "another set"
        ),
    ),
    "transposing b first": Answer(
        "It helps a CPU if each thread walks along a row. On a GPU it does harm, because each "
        "lane then reads from a row of its own. At 4096, the product takes 12 times as long, not a "
        "third of the time. (Its columns are in one bank of L1. At 4097, it would take four times "
        "as long, like `naive` in lesson 2.) The transposition itself is cheap; its effect on the "
        "product is not. To know in advance whether a transposition is worthwhile, count the "
        "sectors of the loads before and after, and add the sectors of the transposition.",
        {
            8: "That would need the *lanes* side by side. Each thread walks along a row, but the "
            "lanes are a row apart.",
            5: "That is the product without the transposition. Now each lane reads another row "
            "of the transposed matrix.",
        },
    ),
}

_LESSON_5 = {
    "walk along the row": Answer(
        "In each iteration the 32 lanes are in 32 rows, so they touch 32 sectors. A single "
        "thread that walks along a row is good on a CPU. But a warp has 32 threads, and what "
        "counts is where they are at the same moment. In `thread_per_column` they are side by "
        "side, and touch 4 sectors.",
        {
            4: "That is `thread_per_column`. Here each lane is in a row of its own.",
            1: "One *thread* walks along a row. The lanes of the warp are in 32 rows.",
        },
    ),
    "conflicts of a tree": Answer(
        "With `i = 2 * s * t`, neighbouring lanes access words that are 2 s apart. So several "
        "lanes want different words of one bank: 97 bank conflicts. (The compiler merges loads of "
        "the first steps, so you cannot get this number by hand.) The tree with `t % (2 * s) == 0` "
        "has none, because the few active lanes of a warp access different banks. But it keeps a "
        "few lanes of *every* warp busy, so it needs 95 load requests instead of 25. `halves` has "
        "neither fault.",
        {
            "t % (2 * s) == 0": "Many texts say so. But the active lanes of a warp are t, t + 2 "
            "s, ..., and these are in different banks. This tree wastes lanes.",
            "halves": "The threads that add are side by side: 32 words in 32 banks.",
            "none": "Two words that are 32 apart share a bank. In which tree do lanes access "
            "such words?",
        },
        choose=lambda conflicts: "".join(name for name in conflicts if conflicts[name]),
    ),
    "warps of a thread per row": Answer(
        "One thread per row is 256 threads, which are 8 warps in one block. The matrix has "
        "65,536 floats, or 8,192 sectors. Every kernel of the table except `thread_per_row` "
        "touches each sector once.",
        {
            256: "That is the number of threads. 32 of them are a warp.",
            2048: "That would be the number of warps with a thread for each element.",
        },
    ),
    "not eight times": Answer(
        "`thread_per_row` touches eight times as many sectors, but 88 % of them are in L1, because "
        "the next 7 iterations use the other floats of each sector. So both kernels fetch the same "
        "number of sectors from L2. Both have 128 warps. `thread_per_row` is bound by L1's data "
        "stage: each load reads a column, which is in one bank of L1 (lesson 2). With rows of 4097 "
        "elements, the factor is only 1.2. `thread_per_column` is bound by latency. The kernels "
        "have different limits, so the ratio of their times is not the ratio of their sectors.",
        {
            8: "That is the ratio of the sectors at L1. L2 and DRAM do not see it.",
            1: "The traffic behind L1 is the same, but L1 itself must work harder.",
        },
    ),
    "share of the GPU": Answer(
        "4,096 threads are 4,096 / 32 = 128 warps, and an H200 can hold 8,448.",
        {
            100: "4,096 threads seem many. But they are 128 warps: fewer than one per "
            "multiprocessor.",
            48: "You divided the number of threads by the number of warps that the GPU can hold.",
        },
        measure=lambda: 100 * 4096 / 32 / (132 * 64),
    ),
    "dynamic shared memory": Answer(
        "None. Only the place where the size is written differs.",
        {1: "The arrays have the same size and the same addresses."},
    ),
    "wavefront of 64": Answer(
        "64 floats are 256 bytes, which are 2 lines. Two warps of 32 lanes touch the same 2 "
        "lines. A wavefront of 64 lanes needs half as many instructions as two warps, but each "
        "instruction waits for twice as many lines.",
        {
            1: "64 floats are 256 bytes.",
            64: "The lanes are side by side, so 32 of them share a line.",
        },
    ),
}

_LESSON_6 = {
    "both sides": Answer(
        "With `i & 1`, each warp has lanes of both kinds. It executes both loops, each for half of "
        "its lanes, so it needs nearly twice as many instructions. With `(i >> 5) & 1`, all lanes "
        "of a warp take the same side: half of the warps execute one loop, and half the other.",
        {
            1: "Each *thread* executes one loop. But the warp executes a loop if any of its lanes "
            "wants it.",
            2: "The loops are executed twice as often, but the instructions around them are not.",
            32: "There are only two sides. Lanes of the same side execute it together.",
        },
    ),
    "blocks of 40": Answer(
        "40 threads are two warps: one with 32 lanes, and one with 8. Both execute the same "
        "instructions, so the average is (32 + 8) / 2 = 20. Choose multiples of 32.",
        {
            40: "An instruction is executed for one warp, which has 32 lanes.",
            32: "The second warp of each block has only 8 threads.",
            8: "That is the second warp. The first one has 32.",
        },
    ),
    "a loop for each lane": Answer(
        "In the first iteration, 32 lanes are active, and in the last one, only lane 31. The "
        "average is (32 + 1) / 2 = 16.5. So about half of the lanes are idle. Give neighbouring "
        "lanes equally long loops, or share a long loop among the lanes of a warp (lesson 5).",
        {
            32: "Lane 0 leaves the loop after the first iteration.",
            1: "All lanes whose loop has not ended execute an iteration together.",
        },
    ),
    "one warp, no barrier": Answer(
        "The check warns that the result depends on lockstep, which CUDA does not promise. A later "
        "compiler may move the loads, and a later GPU may run the lanes apart. With `__syncwarp()` "
        "at the start of each iteration, the kernel is correct.",
        {
            "yes: a warp runs in lockstep": "This was true on old GPUs. Since compute capability "
            "7.0, nothing orders the lanes of a warp without a barrier.",
        },
        choose=lambda findings: "no" if findings else "yes: a warp runs in lockstep",
    ),
}

_LESSON_7 = {
    "two loads": Answer(
        "Each multiply-add needs two requests, and the load-store unit takes at most 0.8 "
        "requests per cycle. So the kernel completes at most 0.4 multiply-adds per cycle. A "
        "multiprocessor could execute 4, so the ceiling is a tenth of the peak. The kernel "
        "reaches 93 % of this ceiling. `naive` has the same number of requests, but each of its "
        "loads of `a` makes 32 passes.",
        {
            12.5: "That is one request per cycle. Recorded kernels stay below 0.8.",
            50: "A multiprocessor could execute four multiply-adds per cycle, not one.",
            33: "You counted three instructions. The schedulers issue four instructions per "
            "cycle, but the load-store unit takes less than one request.",
        },
    ),
    "roofline": Answer(
        "It is to the right of the ridge. Its requests touch 33 sectors per iteration, but L1 "
        "and L2 hold nearly all of them. DRAM moves only 8.5 GB, which is 16 operations for each "
        "byte. According to the roofline, the kernel is bound by arithmetic, but it reaches only "
        "1 % of the arithmetic peak. The roofline of DRAM shows one of many limits. The bound of "
        "this kernel is inside the multiprocessor, where the roofline does not look.",
        {
            "left: bound by memory": "Its accesses are bad, but the caches hide that from DRAM.",
        },
        choose=lambda over: "right: bound by arithmetic" if over > 1 else "left: bound by memory",
    ),
    "words of 8 x 1": Answer(
        "For 8 multiply-adds, a thread loads 8 words of `a` and 1 word of `b`: 9 / 8 words for "
        "each multiply-add. So only `b` is read less often. Each multiply-add still needs a word "
        "of `a` of its own. (The assembler merges four of these loads into one, for neighbours "
        "along `k`.)",
        {
            2: "A word of `b` now serves 8 multiply-adds of the thread.",
            0.125: "That counts only the words of `b`. There are 8 words of `a`, too.",
            0.25: "That would be a tile of 8 x 8.",
        },
    ),
    "gain of 8 x 1": Answer(
        "The ceiling rises 2.3 times, but the speed rises less. The data stage is still the "
        "busiest unit, but not all the time. The sums take registers, so a multiprocessor holds "
        "only 32 warps instead of 64. And the warps have more to wait for: a block loads new "
        "tiles every 8 steps of `k`, and `tiled` only every 32.",
        {
            8: "The number of multiplications is the same. Only the words of `b` are 8 times "
            "fewer.",
            1: "Shared memory was the bound, and this halves its work.",
        },
    ),
    "warps of 8 x 8": Answer(
        "A block takes 256 x 100 = 25,600 registers, so two blocks fit into 65,536. These are 16 "
        "warps: an occupancy of 25 %. The other resources would allow more. With 64 registers per "
        "thread, `blocktiled_1d` has 32 warps, and `tiled` has all 64.\n\n"
        "(With 228 KiB of shared memory, 25 blocks would fit, not 7. But L1 and shared memory "
        "share 256 KiB, and the driver divides them before a launch. In the recorded launches, it "
        "gave shared memory only a part, 32 or 64 KiB: enough for the blocks that fit.)",
        {
            64: "The warps would fit, but their registers do not.",
            20: "Blocks start as a whole: 2.56 blocks are 2.",
            8: "That is one block. A second one fits.",
        },
    ),
    "gain of 8 x 8": Answer(
        "The kernel is hardly faster at all. The words fall 4.5 times, but the passes fall only "
        "by a quarter. A load of `a` reads two rows that are 64 words apart. These words are in "
        "the same bank, so the load takes 2 wavefronts. A load of `b` takes 8 wavefronts, where "
        "4 would be enough.\n\nAnd the warps wait for the results of loads. With 64 sums in "
        "registers, a multiprocessor holds only 16 warps, and a warp must read its 16 words "
        "before it can multiply. The data stage is busy for half of the time, and the schedulers "
        "for less. So no unit is busy all the time: the kernel is bound by **latency**.",
        {
            4.5: "That is the ratio of the words. But the data stage serves wavefronts.",
            2: "This would be a good guess if wavefronts were the only bound.",
        },
    ),
    "gain of vectors": Answer(
        "Before, a warp waited for shared memory for 41 % of its time. Now it waits for 24 %, "
        "because it waits once for four words. The ceiling rises 1.5 times, and the kernel comes "
        "a little nearer to it.",
        {
            1: "The number of words is the same. But there are fewer loads, and the warps wait "
            "less.",
            4: "Only the loads of `a` became fewer, and multiply-adds take time, too.",
        },
    ),
    "wavefronts of a warp tile": Answer(
        "32 lanes want 16 bytes each, and a wavefront has 128 bytes. So 4 wavefronts are the "
        "least possible. The 8 lanes of each quarter-warp now read 8 neighbouring groups of 16 "
        "bytes, which are in all 32 banks. (Lanes 8 to 15 read the same bytes as lanes 0 to 7. "
        "That does not help, because the quarters are served one after the other.)",
        {
            1: "A wavefront has one word of each bank: 128 bytes. 32 lanes want 512 bytes.",
            2: "That is what a load of `a` takes, where half a warp wants the same words.",
            8: "That is the number in `vectorized`.",
        },
    ),
    "gain of a pipeline": Answer(
        "The kernel is faster, although it executes **more** instructions and its ceiling is "
        "**lower**. Before, a warp waited for L1, L2 and DRAM for 24 % of its time; now it "
        "hardly waits for them. The schedulers, which were idle in four of ten cycles, are now "
        "busy in eight of ten.",
        {
            0.9: "This would be so if the schedulers had been busy all the time before.",
            1: "Look at what the warps waited for.",
            4: "Four stages do not mean four times the speed. They hide one of several waits.",
        },
    ),
    "small product": Answer(
        "`blocktiled_2d` takes nearly seven times as long as `tiled`. A block of `blocktiled_2d` "
        "computes 128 x 128 elements, so this product has only 16 blocks for 132 "
        "multiprocessors. `tiled` has 256 blocks. The counts per multiply-add are the same as "
        "for large products; here it matters how many multiprocessors have work.",
        {
            1.8: "That needs enough blocks for all multiprocessors. How many are there?",
            1: "16 blocks and 256 blocks cannot be equally fast on 132 multiprocessors.",
        },
    ),
}

_LESSON_8 = {
    "three colours": Answer(
        "Neighbouring lanes are 12 bytes apart, so 32 lanes span 12 sectors. Each of the three "
        "loads touches all 12 sectors and uses a third of their bytes. The second and the third "
        "load usually find these sectors in L1, so the *traffic* may be fine. But each *request* "
        "touches three times the sectors that it needs. With three separate arrays, for red, "
        "green and blue, the loads would be contiguous.",
        {
            4: "That needs 32 neighbouring floats. The red values are three floats apart.",
            32: "The lanes are 12 bytes apart, so two or three lanes share a sector.",
            3: "That is the number of loads.",
        },
    ),
    "right and correct": Answer(
        "A warp reads what *another* warp wrote, and nothing makes it wait. The result was right "
        "because the warps happened to run in order. On a GPU, too, it may be right a million "
        "times. The check does not judge what happened in this run. It judges whether the two "
        "accesses are ordered in every run. It names the lines of both accesses.",
        {
            "yes: the result is right": "It is right in this run. What makes warp 1 wait for "
            "warp 0?",
        },
        choose=lambda findings: "no" if findings else "yes: the result is right",
    ),
}

_LESSON_9 = {
    "myth 1": Answer(
        "**Verdict: wrong.** A warp loads as a whole: 32 lanes of 4 bytes use every byte of 4 "
        "sectors. Wider loads help for another reason: they need fewer requests for the same "
        "bytes.",
        {"right": "Does a thread load alone? 8 lanes share each sector."},
        choose=lambda sectors: "wrong" if sectors == 4 else "right",
    ),
    "myth 2": Answer(
        "**Verdict: half right.** The far lane does cost more, but only one *sector* of 32 bytes. "
        "A line has 128 bytes, but it is filled sector by sector.",
        {"right": "That is a line. Only the sector that is needed is added."},
        choose=lambda extra: {0: "wrong", 4: "right"}.get(extra, "half right"),
    ),
    "myth 3": Answer(
        "**Verdict: wrong.** Any order of the same addresses touches the same sectors.",
        {"right": "Only the set of addresses counts."},
        choose=lambda sectors: "wrong" if len(set(sectors)) == 1 else "right",
    ),
    "myth 4": Answer(
        "**Verdict: half right.** The loads of global memory coalesce. But in shared memory, 32 "
        "lanes that read down a column of a 32 x 32 tile all access one bank. One word of "
        "padding per row removes the conflicts.",
        {
            "right": "Look at the bank conflicts.",
            "wrong": "The loads of global memory do coalesce.",
        },
        choose=lambda count: "half right" if count[0] == 4 and count[1] else "right",
    ),
    "myth 5": Answer(
        "**Verdict: half right.** The column sums touch an eighth of the sectors. But when the "
        "row sums touch a sector again, L1 usually holds it, so both kernels fetch the same "
        "number of sectors from L2. The column sums are 3.4 times as fast at n = 4096, and 1.2 "
        "times at 4097. "
        "Both kernels are far from what the GPU can do, because with one thread per row or "
        "column there are few warps (lesson 5).",
        {
            "right": "They coalesce and are faster, but by less than half of what the sectors "
            "suggest.",
            "wrong": "They do touch an eighth of the sectors, and they are faster.",
        },
        choose=lambda sectors: "half right" if sectors[0] == 8 * sectors[1] else "right",
    ),
    "myth 6": Answer(
        "**Verdict: half right.** Kernels whose lanes read a column are fastest at other sizes, "
        "because the columns of a power of two are in one bank of L1: 1.4 to 3.3 times as fast at "
        "4097. But rows of 4097 floats do not begin at whole sectors. Kernels whose lanes read "
        "along rows may lose by this, as `padded` does.",
        {
            "right": "Compare the kernels whose lanes read a column: `naive` and `thread_per_row`.",
            "wrong": "Compare `padded`, whose lanes read and write along rows.",
        },
        choose=lambda ratios: "half right" if min(ratios) < 0.9 and max(ratios) > 2 else "wrong",
    ),
    "myth 7": Answer(
        "**Verdict: wrong.** There was nothing to fix: both loads go along rows and take 4 "
        "sectors each. The change affects neither the number of loads nor their cost. But now "
        "the tile is written by columns, and all words of a column are in one bank. The kernel "
        "does not become six times faster, but five times slower.",
        {
            2048: "The load of `b` is executed as often as before.",
            4096: "Both matrices are still loaded.",
        },
    ),
    "stored twice": Answer(
        "**Verdict: a race.** Two threads write different values to one element of the tile, and "
        "there is no barrier between the two writes. The order of two lines orders only the "
        "stores of the same thread.",
        {
            "right: the second store wins": "This would be true if one thread executed both "
            "stores. But two different threads store the element, and nothing orders them.",
        },
        choose=lambda found: "unknown: it is a race" if found else "right: the second store wins",
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
        "**Verdict: a wrong result.** The kernel is fast and coalesced, but it does not compute "
        "the matrix product: each element gets one product per tile instead of 16. Compare with "
        "NumPy *before* you compare times.",
        {
            16384: "Count the multiplications of one thread: n / 16, not n.",
        },
    ),
    "myth 10": Answer(
        "**Verdict: wrong.** Every request is perfectly coalesced. But each block does the work "
        "of all blocks, so there are far too many requests. The sectors *per request* say how "
        "good each load is, and the number of requests says how many loads there are. Look at "
        "both.",
        {
            32: "Neighbouring lanes load neighbouring elements. They only do it too often.",
            64: "A request belongs to one warp. A repeated request is not more expensive than a "
            "single one.",
        },
    ),
}

_LESSON_10 = {
    "warps of tma": Answer(
        "There is room for one block, so there are 8 warps of 64. Other warps are not needed to "
        "hide the latency. Each warp has much independent work: 128 multiply-adds for six loads. "
        "And the loads of the next step start early.",
        {
            64: "The ring of one block leaves no room for a second block.",
            16: "Two rings would take 384 KiB of shared memory.",
            1: "That is the number of blocks. Each block has 8 warps.",
        },
        choose=lambda block: block[0] // 32 * (228 * 1024 // block[1]),
    ),
    "gain of tma": Answer(
        "The loop has 1.06 instructions for each multiply-add, and `pipelined` executes 1.44. In "
        "the loop of `tma`, the instructions that are not multiply-adds are 48 loads and a few "
        "tests. The conflicts between the banks of registers cost more: 88 cycles of 1170 (NVRTC "
        "13.5).",
        {
            1.05: "Addresses and copies took a third of the instructions, not a twentieth.",
            2: "The kernel would then be faster than the peak.",
        },
    ),
    "behind cuBLAS": Answer(
        "In none of them. The fastest rung is 1.03 to 1.54 times as fast as cuBLAS.",
        {
            1: "An earlier version of `split_k` was slower than cuBLAS for one shape. The present "
            "version is faster.",
            15: "Look at the ladder: at 4096 it ends above cuBLAS.",
        },
    ),
    "one HMMA": Answer(
        "One HMMA multiplies 16 x 16 by 16 x 8 values. These are 2,048 multiply-adds, 64 for "
        "each lane. One `wgmma` of a warpgroup executes 262,144.",
        {
            1: "It is one instruction for a product of matrices, not of numbers.",
            2048: "That is the number of single multiply-adds. A multiply-add of a warp is 32 of "
            "them.",
            128: "Each 16 x 16 x 16 product takes two HMMA instructions.",
        },
    ),
    "three products": Answer(
        "The tensor cores multiply TF32 values more than seven times as fast as cuBLAS multiplies "
        "float32. But `tf32x3` computes three products, and it must split the operands. This "
        "leaves a factor of about 3, which includes the time to prepare `a`. The error of `tf32x3` "
        "is even smaller than that of float32: it adds up sums of 32 steps each, so fewer "
        "roundings follow each other.",
        {
            0.33: "It does three times the work, but on a unit that is about seven times as fast.",
            7: "That is `tf32`, with one product and fewer correct digits.",
        },
    ),
}

_LESSON_11 = {
    "local memory": Answer(
        "For each ballot, a warp loads the counts, adds 1 and stores them: 16 loads. The last "
        "line loads one more. In registers, all this would cost no request.",
        {
            0: "The compiler cannot keep the array in registers, because it does not know the "
            "indices.",
            4: "That is the number of elements of the array. Each of the 16 ballots accesses one.",
            16: "These are the loads of the counts that grow. The last line loads one, too.",
        },
    ),
    "constant words": Answer(
        "Four neighbouring lanes read the same word, so a warp reads 32 / 4 = 8 different words. "
        "The cache delivers one after the other; all lanes that want a word get it together.",
        {
            1: "That holds if all lanes read the same word.",
            4: "Four lanes share a word. How many such groups has a warp?",
            32: "Lanes that want the same word get it together.",
        },
    ),
    "blocks of 48 KiB": Answer(
        "Each block takes 49 KiB, and 228 / 49 is 4.65. A block is on a multiprocessor as a whole "
        "or not at all, so 4 blocks fit: 32 of 64 warps. An occupancy of 50 % is often enough.",
        {
            8: "The warps would allow 8 blocks: 64 / 8. The shared memory allows fewer.",
            5: "A block cannot be there in part: round down.",
            32: "This is the limit for small blocks.",
        },
    ),
    "waves": Answer(
        "4 blocks on each of 132 multiprocessors are 528 blocks at a time. Two waves have 1,056 "
        "blocks. The other 44 blocks are a third wave.",
        {
            2: "Two waves have 1,056 blocks. Who computes the other 44?",
            275: "You divided by the 4 blocks of one multiprocessor. There are 132.",
            9: "You divided by 132, one block for each multiprocessor.",
        },
    ),
    "coarse loads": Answer(
        "A thread loads `own` once, and `x[row]` for each of its 4 elements: 5 loads for 4 stores. "
        "With more elements per thread, the number approaches 1.",
        {
            2: "`own` is loaded once, before the loop.",
            0.25: "`x[row]` is another element in each iteration.",
            1: "The load of `own` is the fifth one.",
        },
    ),
    "too coarse": Answer(
        "A block of `blocktiled_1d` computes 64 x 64 elements. At 512, there are only 64 such "
        "blocks for 132 multiprocessors, so half of the GPU does nothing. `blocktiled_2d` has 16 "
        "blocks, and takes still longer. At 4096, both have more than enough.",
        {
            0.56: "At 4096 there are enough blocks. How many are there at 512?",
            1: "Count the blocks of both kernels.",
        },
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
    **_LESSON_9,
    **_LESSON_10,
    **_LESSON_11,
}
