"""Draws how one warp accesses shared memory. The picture has a column for each of the 32 banks."""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from typing import Any, Literal

from coalesce._core import model
from coalesce.common import require
from coalesce.common.words import plural
from coalesce.draw._canvas import INNER, MARGIN, Canvas, Data, Picture, Swatch, number, text_width
from coalesce.draw._gaps import Gap, inside, shorten
from coalesce.draw._lanes import Kind, Lanes, lanes_of
from coalesce.draw._palette import ALERT, BLUE, FAINT, INK, SOFT, WASH, Paint, group, on
from coalesce.draw._words import ARROW, DONE, TIMES, lane_list, plain, short_list

BANKS, WORD_BYTES = model.BANKS, model.WORD_BYTES
_LEFT = 84.0  # space for the names of the rows
_ROW, _LOW_ROW = 19.0, 15.0
_MANY_ROWS = 16  # pictures with more rows draw lower rows
_GAP = 15.0
_X = MARGIN + _LEFT
_BANK = (INNER - _LEFT) / BANKS
_MOST_ROWS = {"wavefronts": 12, "words": 36}
_DIGITS = string.digits + string.ascii_lowercase[:22]  # one character per lane, in the text form

Rows = Literal["wavefronts", "words"]


@dataclass
class Word:
    """A 4-byte word of shared memory, and the lanes that get this word together."""

    number: int  # the position of the word in shared memory, counted in words
    turn: int  # how many other words the bank must serve to the group before this word
    lanes: list[int] = field(default_factory=list)

    @property
    def bank(self) -> int:
        return self.number % BANKS


@dataclass
class Board:
    """The words that the lanes of a warp access, and the order in which the banks serve them.

    The hardware serves the lanes in groups, one group after another. In one turn, a bank
    serves one word. If a group needs three words of one bank, the group takes three turns. The
    model in csrc/model/banks.hpp determines the groups and the number of turns. NVIDIA does not
    publish in which order a bank serves its words. Here, the word of the lowest lane comes first.

    Attributes
    ----------
    group_kind : str
        What each group of lanes is: ``"half-warps"``, ``"quarter-warps"`` or ``"matrices"``. Empty
        if there is only one group.
    wavefronts_per_turn : int
        The number of wavefronts (cycles of shared memory) that a turn needs. It is 2 for a
        compare-and-swap, and 1 for all other accesses.
    words_shared : bool
        True if lanes that access the same word are served together. False for most atomics and for
        asynchronous copies. Then each lane has its own `Word`.
    groups : list of (list of int)
        The active lanes of each group. Groups without active lanes are left out.
    words : list of (list of Word)
        For each group, the words that its lanes access.
    """

    group_kind: str
    wavefronts_per_turn: int
    words_shared: bool
    groups: list[list[int]]
    words: list[list[Word]]

    @property
    def wavefronts(self) -> int:
        """The number of wavefronts of the whole access."""
        return self.wavefronts_per_turn * sum(self.depths)

    @property
    def depths(self) -> list[int]:
        """The number of turns that each group takes. In one turn, a bank serves one word."""
        return [max(word.turn for word in words) + 1 for words in self.words]

    @property
    def same_word_updates(self) -> bool:
        """Whether several lanes access the same word one after the other, as in most atomics."""
        if self.words_shared:
            return False
        return any(len({w.number for w in words}) < len(words) for words in self.words)

    @property
    def conflicts(self) -> set[int]:
        """The banks that need more than one turn for a group of lanes."""
        return {word.bank for words in self.words for word in words if word.turn}


def board_of(lanes: Lanes, kind: Kind = "load", opcode: str = "") -> Board:
    """Determine in which order the banks serve the words of an access.

    In each turn, a bank serves one word (see `Board`). Each word gets the first turn in which its
    bank is free. `kind` is the kind of the access, and `opcode` is the opcode of an atomic.
    """
    words_per_lane = max(1, lanes.itemsize // WORD_BYTES)
    mask = sum(1 << lane for lane in lanes.numbers)
    addresses = lanes.addresses.tolist()
    groups, wavefronts_per_turn, words_shared, group_kind = model.shared_groups(
        addresses, lanes.itemsize, mask, kind, opcode
    )
    board = Board(group_kind, wavefronts_per_turn, words_shared, [], [])
    for together_mask, turns in groups:
        together = [lane for lane in lanes.numbers if together_mask >> lane & 1]
        words: dict[tuple[int, int], Word] = {}
        depth = [0] * BANKS
        for lane in together:
            start = lanes.address(lane) // WORD_BYTES
            for wanted in range(start, start + words_per_lane):
                key = (wanted, 0 if words_shared else lane)
                if key not in words:
                    words[key] = Word(wanted, depth[wanted % BANKS])
                    depth[wanted % BANKS] += 1
                words[key].lanes.append(lane)
        if together:
            board.groups.append(together)
            # In a loop around a compare-and-swap, each bank serves only one lane. The other lanes
            # repeat the instruction, which is another access.
            board.words.append([word for word in words.values() if word.turn < turns])
    return board


def bank_board(
    addresses: Any,
    itemsize: int,
    mask: Any = None,
    *,
    kind: Kind = "load",
    base: int = 0,
    rows: Rows = "wavefronts",
    opcode: str = "",
    title: str | None = None,
) -> Picture:
    """Draw how one warp accesses the 32 banks of shared memory.

    Consecutive 4-byte words of shared memory are in consecutive banks. The hardware executes an
    access in one or more passes, called wavefronts. In one wavefront, a bank serves one word to all
    lanes that access this word. If lanes access different words of the same bank, the access needs
    several wavefronts: a bank conflict. For an atomic, a bank usually serves one lane per
    wavefront. So lanes that update the same word need several wavefronts, too.

    The columns of the picture are the banks. A cell shows the lanes that get a word. If a bank must
    serve several words or lanes, their cells have another colour.

    Parameters
    ----------
    addresses : sequence of int, shape (lanes,)
        For each lane, the address of the first byte that it accesses. There are up to 32 lanes.
        Each address must be a multiple of `itemsize`.
    itemsize : int
        How many bytes each lane accesses: 1, 2, 4, 8 or 16.
    mask : int or sequence of bool, optional
        The active lanes: an int whose bit i stands for lane i, or a bool for each lane. By default,
        all lanes are active.
    kind : {"load", "store", "atomic", "copy"}
        The kind of access. A load of 8 or 16 bytes per lane may need fewer wavefronts than a store
        to the same addresses. ``"copy"`` is an asynchronous copy from global memory to these
        addresses of shared memory. For a copy, a bank serves one lane per wavefront. The reads
        from global memory may cost more wavefronts. The picture does not show these wavefronts.
    base : int
        The address at which shared memory starts. It must be a multiple of 128.
    rows : {"wavefronts", "words"}
        What a row of the picture shows. ``"wavefronts"``: the words of one wavefront, in the order
        of time. ``"words"``: 32 consecutive words, in the order of memory. These rows show why a
        padded tile has no conflicts.
    opcode : str
        The opcode of an atomic, such as ``"ATOMS.CAS"``. By default, the atomic is an addition. A
        compare-and-swap needs twice as many wavefronts. ``ATOMS.POPC.INC`` adds 1 for each lane.
        With this opcode, lanes that update the same word are served together. You can also pass
        ``"ldmatrix"`` or ``"stmatrix"``. Then the matrices are served one after the other, even if
        they share rows.
    title : str, optional
        A line above the headline, such as the source line.

    Returns
    -------
    Picture

    Raises
    ------
    TypeError, ValueError
        An argument has the wrong type or is out of range, or no lane is active.

    Examples
    --------
    >>> column = [lane * 32 * 4 for lane in range(32)]  # tile[lane][0] of tile[32][32]
    >>> print(coalesce.draw.bank_board(column, 4).headline)
    32 lanes, 4-byte loads → 32 wavefronts, a 32-way bank conflict

    References
    ----------
    NVIDIA, CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.0 and later.
    """
    lanes = lanes_of(addresses, itemsize, mask, 32)
    require.choice("kind", kind, DONE)
    require.choice("rows", rows, _MOST_ROWS)
    if lanes.itemsize not in (1, 2, 4, 8, 16):
        raise ValueError(f"`itemsize` must be 1, 2, 4, 8 or 16; got {lanes.itemsize}")
    for lane in lanes.numbers:
        if lanes.address(lane) % lanes.itemsize:
            raise ValueError(
                f"`addresses` must be multiples of `itemsize`, which is {lanes.itemsize}; lane "
                f"{lane} has {lanes.address(lane)}"
            )
    start = require.whole("base", base, 0)
    if start % (BANKS * WORD_BYTES):
        raise ValueError(f"`base` must be a multiple of {BANKS * WORD_BYTES}; got {start}")
    board = board_of(lanes, kind, require.text("opcode", opcode))

    canvas = Canvas()
    headline, note = _headline(lanes, board, kind), _note(lanes, board, kind)
    y = canvas.headline(16, title, headline, note)
    y = _header(canvas, board, y + 10)
    if rows == "wavefronts":
        y = _draw_wavefronts(canvas, board, y)
    else:
        y = _draw_words(canvas, board, start, y)
    y = _totals(canvas, board, y + 6)
    y = _legend(canvas, board, y + 16)
    return canvas.picture(
        y + 16,
        headline=headline,
        description=f"{headline}. {note}",
        text=_text(board, title, headline, note),
    )


def _headline(lanes: Lanes, board: Board, kind: Kind) -> str:
    ways = max(board.depths)
    article = "an" if str(ways).startswith(("8", "11", "18")) else "a"
    conflict = "no bank conflict" if ways == 1 else f"{article} {ways}-way bank conflict"
    if board.same_word_updates and ways > 1:
        verb = "update" if kind == "atomic" else "write"
        conflict = f"up to {ways} lanes {verb} words of one bank"
    count = plural(board.wavefronts, "wavefront")
    return f"{lanes.words()}, {lanes.itemsize}-byte {DONE[kind]} {ARROW} {count}, {conflict}"


def _note(lanes: Lanes, board: Board, kind: Kind) -> str:
    ways = max(board.depths)
    share = {"": "", "matrices": "One matrix after the other: "}
    in_turns = share.get(board.group_kind, f"By {board.group_kind}: ")
    words = [word for part in board.words for word in part]
    if ways > 1:
        busy = len({word.bank for word in words if word.turn == ways - 1})
        banks = f"{busy} banks must each serve"
        if busy == 1:
            banks = f"bank {next(w.bank for w in words if w.turn == ways - 1)} must serve"
        what = "lanes" if board.same_word_updates else "different words"
        each = (
            "one per wavefront"
            if board.wavefronts_per_turn == 1
            else f"each in {board.wavefronts_per_turn} wavefronts"
        )
        note = f"{banks} {ways} {what}, {each}."
    elif len({lane for word in words for lane in word.lanes}) < len(lanes.numbers):
        note = "each bank serves only one lane; the other lanes repeat the instruction."
    elif len(words) == 1 and len(lanes.numbers) > 1:
        served = "they are served together" if kind == "atomic" else "it is broadcast"
        note = f"all lanes access the same word: {served}."
    elif any(len(word.lanes) > 1 for word in words):
        note = "lanes that access the same word are served together."
    else:
        note = "no two lanes access different words of one bank."
    note = in_turns + note
    return note[0].upper() + note[1:]


def _header(canvas: Canvas, board: Board, y: float) -> float:
    """Write the number of each bank. The numbers of banks with conflicts are bold."""
    canvas.text(MARGIN, y + 8, "bank", paint=SOFT)
    for busy in (False, True):
        entries = [
            (_X + (bank + 0.5) * _BANK, str(bank))
            for bank in range(BANKS)
            if (bank in board.conflicts) == busy
        ]
        canvas.row(y + 8, entries, size=10, paint=INK if busy else SOFT, bold=busy)
    return y + 13


def _draw_wavefronts(canvas: Canvas, board: Board, y: float) -> float:
    """Draw one row per wavefront, group after group."""
    number_of_row = 0
    most = max(4, _MOST_ROWS["wavefronts"] // len(board.groups))
    for part, (together, words) in enumerate(zip(board.groups, board.words, strict=True)):
        depth = board.depths[part]
        if len(board.groups) > 1:
            y += 13
            canvas.text(_X, y - 3, f"{lane_list(together)} together", paint=SOFT)
        for item in shorten(range(depth), depth, most):
            if isinstance(item, Gap):
                text = f"{plural(board.wavefronts_per_turn * item.count, 'wavefront')} more"
                y = _gap(canvas, y, text)
                continue
            label = _wavefronts(board, number_of_row + item)
            canvas.text(MARGIN, y + 13.5, label, paint=SOFT, most=_LEFT - 4)
            _row(canvas, board, y, [(part, w) for w in words if w.turn == item])
            y += _ROW
        number_of_row += depth
    return y


def _wavefronts(board: Board, turn: int) -> str:
    """Return the label of a row: the wavefronts of a turn."""
    first = board.wavefronts_per_turn * turn
    return (
        f"wavefront {first}"
        if board.wavefronts_per_turn == 1
        else f"wavefronts {first}, {first + 1}"
    )


def _draw_words(canvas: Canvas, board: Board, base: int, y: float) -> float:
    """Draw 32 words per row, in the order of memory."""
    places: dict[int, list[tuple[int, Word]]] = {}
    for part, words in enumerate(board.words):
        merged: dict[int, Word] = {}  # a cell for each word, with all of its lanes
        for word in words:
            merged.setdefault(word.number, Word(word.number, word.turn)).lanes.extend(word.lanes)
        for word in merged.values():
            places.setdefault(word.number // BANKS, []).append((part, word))
    shown = shorten(places, max(places) + 1, _MOST_ROWS["words"])
    if len(shown) > _MOST_ROWS["words"] + 2:  # gaps need space, too
        shown = shorten(places, max(places) + 1, _MOST_ROWS["words"] // 2)
    row = _ROW if len(shown) <= _MANY_ROWS else _LOW_ROW
    for item in inside(shown):
        if isinstance(item, Gap):
            y = _gap(canvas, y, f"{item.count * BANKS * WORD_BYTES:,} bytes further")
            continue
        label = f"{item * BANKS * WORD_BYTES - base:,} B"
        canvas.text(MARGIN, y + row / 2 + 4, label, paint=SOFT)
        _row(canvas, board, y, places.get(item, []), row)
        y += row
    return y


def _row(
    canvas: Canvas, board: Board, y: float, words: list[tuple[int, Word]], height: float = _ROW
) -> None:
    """Draw a row of 32 cells, and fill the cells of `words`.

    If the same lanes access neighbouring words, these words are drawn as one wide cell.
    """
    canvas.rect(_X, y, INNER - _LEFT, height, fill=WASH)
    grid = "".join(
        f"M{number(_X + i * _BANK)} {number(y)}v{number(height)}" for i in range(BANKS + 1)
    )
    canvas.path(f"{grid}M{number(_X)} {number(y + height)}h{number(INNER - _LEFT)}", stroke=FAINT)
    # The first and last bank, the group and the word of each cell.
    cells: list[tuple[int, int, int, Word]] = []
    for part, word in sorted(words, key=lambda entry: entry[1].bank):
        last = cells[-1] if cells else None
        if last and last[1] == word.bank - 1 and last[2:] == (part, last[3]):
            same = last[3].lanes == word.lanes
            if same:
                cells[-1] = (last[0], word.bank, part, last[3])
                continue
        cells.append((word.bank, word.bank, part, word))
    for first, last_bank, part, word in cells:
        paint = _paint(board, part, word)
        x, width = _X + first * _BANK, (last_bank - first + 1) * _BANK
        banks = f"bank {first}" if first == last_bank else f"banks {first}-{last_bank}"
        tip = f"{lane_list(word.lanes)}: word {word.number}, {banks}"
        marks: Data = {"bank": first, "lanes": " ".join(map(str, word.lanes))}
        canvas.rect(
            x + 0.5, y + 0.5, width - 1, height - 1, fill=paint, radius=2, tip=tip, data=marks
        )
        label, size = short_list(word.lanes), min(10.5, height - 5)
        if text_width(label, 9) > width:
            label = f"{TIMES}{len(word.lanes)}"
        middle, baseline = x + width / 2, y + height / 2 + 0.36 * size
        canvas.text(
            middle, baseline, label, size=size, paint=on(paint), anchor="middle", most=width - 2
        )


def _paint(board: Board, part: int, word: Word) -> Paint:
    rivals = sum(other.bank == word.bank for other in board.words[part])
    return ALERT if rivals > 1 else group(part)


def _gap(canvas: Canvas, y: float, text: str) -> float:
    middle = _X + (INNER - _LEFT) / 2
    canvas.text(middle, y + 11.5, f"... {text} ...", paint=SOFT, anchor="middle")
    return y + _GAP


def _totals(canvas: Canvas, board: Board, y: float) -> float:
    """Write for each bank the largest number of words (or lanes) that it must serve to a group."""
    canvas.text(
        MARGIN, y + 11, f"{'words' if board.words_shared else 'lanes'} per bank", paint=SOFT
    )
    counts = [
        max(sum(word.bank == bank for word in words) for words in board.words)
        for bank in range(BANKS)
    ]
    for busy in (False, True):
        entries = [
            (_X + (bank + 0.5) * _BANK, str(most) if most else "-")
            for bank, most in enumerate(counts)
            if (most > 1) == busy
        ]
        canvas.row(y + 11, entries, size=10.5, paint=INK if busy else SOFT, bold=busy)
    return y + 12


def _legend(canvas: Canvas, board: Board, y: float) -> float:
    entries = []
    paints = {_paint(board, p, w) for p, words in enumerate(board.words) for w in words}
    if paints - {ALERT}:
        entries.append(Swatch("a word and the lanes that access it", BLUE))
    if ALERT in paints:
        what = "lanes that access" if board.same_word_updates else "words of"
        entries.append(Swatch(f"one of several {what} its bank; these wait for each other", ALERT))
    if any(len(word.lanes) > 1 for words in board.words for word in words):
        entries.append(Swatch("served to two lanes at once", letter=f"{TIMES}2"))
    return canvas.legend(y, entries)


def _text(board: Board, title: str | None, headline: str, note: str) -> str:
    """Draw one line per wavefront with one character per bank: the lane that is served."""
    result = [title] if title else []
    ruler = "".join(f"{bank:<8}" for bank in range(0, BANKS, 8)).rstrip()
    result += [*plain(headline), *plain(note), f"bank           {ruler}"]
    lines = []
    for part, words in enumerate(board.words):
        for turn in range(board.depths[part]):
            row = ["."] * BANKS
            for word in words:
                if word.turn == turn:
                    row[word.bank] = _DIGITS[word.lanes[0]] if len(word.lanes) == 1 else "*"
            lines.append("".join(row))
    for item in shorten(range(len(lines)), len(lines), 8):
        if isinstance(item, Gap):
            count = board.wavefronts_per_turn * item.count
            result.append(f"...            {plural(count, 'wavefront')} more")
        else:
            label = _wavefronts(board, item).replace("wavefronts", "wavefr.")
            result.append(f"{label:<14} {lines[item]}")
    result.append(" " * 15 + "0-9, a-v: lanes 0 to 31; '*': one word for several lanes")
    return "\n".join(result)
