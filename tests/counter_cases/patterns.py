"""One access of one warp, in every pattern; tests/kernels/patterns.cu."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from counter_cases.case import LANE, Case, launch, whole_numbers

IDLE = 0xFFFFFFFF  # marks an inactive lane in a table of patterns.cu


SHARED_BYTES = 16384


def _orders() -> dict[str, np.ndarray]:
    """Return the element that each lane accesses, by the name of the pattern."""
    reverse_bits = np.array([int(f"{lane:05b}"[::-1], 2) for lane in LANE])
    orders = {f"stride {s}": LANE * s for s in (0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 32, 33, 64)}
    orders |= {
        "reversed": LANE[::-1],
        "neighbours swapped": LANE ^ 1,
        "bits reversed": reverse_bits,
        "halves swapped": LANE ^ 16,
        "quarters swapped": LANE ^ 8,
        "times 5": LANE * 5 % 32,
        "one moved": np.where(LANE == 9, 40, LANE),
        "last far": np.where(LANE == 31, 500, LANE),
        "shifted": LANE + 1,
        "shifted 3": LANE + 3,
    }
    for shared in (2, 4, 8, 16):
        orders[f"{shared} neighbours share"] = LANE // shared
        orders[f"every {shared} repeat"] = LANE % shared
        orders[f"{shared} neighbours share, stride 32"] = LANE // shared * 32
        orders[f"every {shared} repeat, stride 32"] = LANE % shared * 32
        orders[f"{shared} neighbours share, stride 9"] = LANE // shared * 9
        orders[f"every {shared} repeat, stride 17"] = LANE % shared * 17
    orders["two halves, same banks"] = LANE % 16 + LANE // 16 * 32
    orders["four quarters, same banks"] = LANE % 8 + LANE // 8 * 32
    orders["pairs, same banks"] = LANE // 2 + LANE % 2 * 32
    orders["fours, same banks"] = LANE // 4 + LANE % 4 * 32
    orders["even lanes alike"] = np.where(LANE % 2 == 0, 0, LANE)
    orders["low half alike"] = np.where(LANE < 16, 3, LANE)
    return orders


def _masks() -> dict[str, np.ndarray]:
    masks = {
        "even lanes": LANE % 2 == 0,
        "odd lanes": LANE % 2 == 1,
        "low half": LANE < 16,
        "high half": LANE >= 16,
        "first 7": LANE < 7,
        "lanes 5 to 20": (LANE >= 5) & (LANE <= 20),
        "lane 0": LANE == 0,
        "lane 17": LANE == 17,
        "every fourth": LANE % 4 == 0,
        "all but lane 13": LANE != 13,
    }
    return masks | {f"quarter {q}": q == LANE // 8 for q in range(4)}


def tables(width: int, memory: int = SHARED_BYTES, rounds: int = 4) -> dict[str, np.ndarray]:
    """Return byte offsets of 32 lanes by name; IDLE marks an inactive lane.

    Offsets are multiples of `width` and below `memory`. Structured patterns come first. Then, for
    each of several ranges, come `rounds` random patterns with all lanes and `rounds` with some.
    """
    offsets_of: dict[str, np.ndarray] = {}
    for name, order in _orders().items():
        offsets_of[name] = order * width % memory
    for name, mask in _masks().items():
        for stride in (1, 2, 32):
            offsets_of[f"stride {stride}, {name}"] = np.where(
                mask, LANE * stride * width % memory, IDLE
            )
    raw = iter(np.random.PCG64(width).random_raw(20000).tolist())
    for spread in (4 * width, 16 * width, 64 * width, 2048, memory):
        for trial in range(rounds):
            offsets = np.array([next(raw) % (spread // width) * width for _ in LANE])
            some = np.array([next(raw) % 3 > 0 for _ in LANE])
            offsets_of[f"random in {spread} #{trial}"] = offsets
            offsets_of[f"random in {spread}, some lanes #{trial}"] = np.where(some, offsets, IDLE)
    return {name: offsets.astype(np.uint32) for name, offsets in offsets_of.items()}


def sharing(width: int) -> dict[str, np.ndarray]:
    """Patterns whose lanes 1 or 2 apart share addresses, which a wide shared load may merge."""
    offsets_of: dict[str, np.ndarray] = {}
    raw = iter(np.random.PCG64(100 + width).random_raw(20000).tolist())
    partners = {"pairs": LANE & ~1, "alternate pairs": LANE & ~2, "fours": LANE & ~3}
    for spread in (16 * width, 2048):
        for name, leader in partners.items():
            for trial in range(3):
                each = np.array([next(raw) % (spread // width) * width for _ in LANE])
                other = np.array([next(raw) % (spread // width) * width for _ in LANE])
                some = np.array([next(raw) % 4 > 0 for _ in LANE])
                shared = each[leader]
                title = f"{name} in {spread}"
                offsets_of[f"{title} #{trial}"] = shared
                offsets_of[f"{title}, some lanes #{trial}"] = np.where(some, shared, IDLE)
                offsets_of[f"{title}, even lanes #{trial}"] = np.where(LANE % 2 == 0, shared, IDLE)
                offsets_of[f"{title}, one alone #{trial}"] = np.where(LANE == 21, other, shared)
                offsets_of[f"{title}, low half #{trial}"] = np.where(LANE < 16, shared, other)
                offsets_of[f"{title}, two quarters #{trial}"] = np.where(
                    LANE % 16 < 8, shared, other
                )
    return {name: offsets.astype(np.uint32) for name, offsets in offsets_of.items()}


def close(width: int, rounds: int = 6) -> dict[str, np.ndarray]:
    """Return random patterns with many lanes in one sector."""
    raw = iter(np.random.PCG64(200 + width).random_raw(20000).tolist())
    offsets_of = {}
    for spread in (64, 128, 256, 512, 1024, 2048):
        for trial in range(rounds):
            offsets = np.array([next(raw) % (spread // width) * width for _ in LANE])
            some = np.array([next(raw) % 2 > 0 for _ in LANE])
            offsets_of[f"close in {spread} #{trial}"] = offsets
            offsets_of[f"close in {spread}, some lanes #{trial}"] = np.where(some, offsets, IDLE)
    return {name: offsets.astype(np.uint32) for name, offsets in offsets_of.items()}


WIDTHS = (1, 2, 4, 8, 16)


# The atomic operation, its bytes, and whether its result is used ("atom") or not ("red").
ATOMICS = [
    ("AddU32", 4, "false"), ("AddU32", 4, "true"), ("AddOne", 4, "false"), ("AddOne", 4, "true"),
    ("MaxU32", 4, "false"), ("ExchU32", 4, "true"), ("CasU32", 4, "true"),
    ("AddF32", 4, "false"), ("AddF32", 4, "true"),
    ("AddU64", 8, "false"), ("CasU64", 8, "true"), ("AddF64", 8, "false"),
]  # fmt: skip


# Atomics on several numbers at once, only on global memory.
VECTOR_ATOMICS = [
    ("AddF32x2", 8, "false"), ("AddF32x2", 8, "true"),
    ("AddF32x4", 16, "false"), ("AddF32x4", 16, "true"),
    ("AddF16x2", 4, "false"), ("AddF16x4", 8, "false"), ("AddF16x8", 16, "false"),
    ("AddBF16x2", 4, "false"), ("AddBF16x4", 8, "false"), ("AddBF16x8", 16, "false"),
]  # fmt: skip


# The bytes per lane of asynchronous copies, and whether they bypass L1.
COPIES = ((4, "false"), (8, "false"), (16, "false"), (16, "true"))

BRIEF = (
    "stride 0|stride 1|stride 2|stride 3|stride 8|stride 32|reversed|last far|shifted|one moved"
    "|[24] neighbours share|every [48] repeat|8 neighbours share, stride 32|fours, same banks"
    "|every 8 repeat, stride 32|even lanes alike|stride 1, (even lanes|high half|lane 17)"
    "|stride 32, (first 7|quarter 2)|random in .*#0"
)


def cases() -> Iterator[Case]:
    """Yield the cases of this set."""
    for space in ("shared", "global"):
        for kind in ("load", "store"):
            for width in WIDTHS:
                all_of_them = space == "shared" and width >= 8
                rows = tables(width) if all_of_them else brief(tables(width))
                yield from _patterns(f"{space}_{kind}<{width}>", rows)
        for name, width, returning in ATOMICS:
            yield from _patterns(f"{space}_atomic<{name},{returning}>", brief(tables(width)))
        for name in ("AddU64,false", "CasU64,true") if space == "global" else ("CasU64,true",):
            yield from _patterns(f"{space}_atomic<{name}>", close(8))
        yield from _patterns(f"{space}_atomic<AddU32,true>", close(4, rounds=2))
    for name, width, returning in VECTOR_ATOMICS:
        rows = brief(tables(width)) | (close(width, rounds=1) if "F32" in name else {})
        entry = f"global_atomic<{name},{returning}>"
        yield from _patterns(entry, rows, source="vector_atomics.cu")
    for width in (8, 16):
        yield from _patterns(f"shared_load<{width}>", sharing(width))
    for width, past_l1 in COPIES:
        rows = brief(tables(width))
        aligned = rows["stride 1"]
        entry = f"async_copy<{width},{past_l1}>"
        yield from _patterns(entry, rows, target=aligned)
        for name, target in rows.items():
            if IDLE not in target and "random" not in name:
                yield from _patterns(entry, {f"to {name}": aligned}, target=target)
        both = list(close(width, rounds=1).items())
        for (name, source), (other, target) in zip(both[::2], both[-2::-2], strict=True):
            yield from _patterns(entry, {f"{name} to {other}": source}, target=target)
        for name, source, target in scattered_copies(width):
            yield from _patterns(entry, {name: source}, target=target)
        for name, source, target, read in part_copies(width):
            for kind in ("part", "filled") if "part" not in name else ("part",):
                entry = f"{kind}_copy<{width},{past_l1}>"
                yield from _patterns(entry, {name: source}, target=target, read=read)
        for name, source, target in scattered_copies(width):
            for lanes in (1, 11, 28) if name.endswith("#0") and IDLE not in source else ():
                entry = f"guarded_copy<{width},{past_l1}>"
                title = f"{name}, {lanes} lanes"
                yield from _patterns(entry, {title: source}, target=target, number=lanes)
    for name, source, target in copied_rows():
        for past_l1 in ("false", "true"):
            yield from _patterns(f"async_copy<16,{past_l1}>", {name: source}, target=target)


def scattered_copies(width: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield random patterns in which source and destination have bank conflicts."""
    draw = _draws(300 + width)
    for among in (8, 16, 48):
        for trial in range(3):
            source, target = draw(among), np.argsort(draw(1 << 20))
            some = np.where(draw(3) > 0, source * width, IDLE)
            far = (draw(16) * 32 + target) * width
            yield f"among {among} #{trial}", source * width, target * width
            yield (
                f"among {among}, some lanes #{trial}",
                some,
                far,
            )
            yield f"among {among}, same target #{trial}", source * width, draw(2 * among) * width


def part_copies(width: int) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield copies in which lanes read only some bytes, and fill the rest with zeros."""
    draw = _draws(400 + width)
    sizes = {
        "whole": np.full(32, width),
        "half a warp empty": np.where(LANE < 16, width, 0),
        "some empty": np.where(draw(3) > 0, width, 0),
        "all empty": np.zeros(32, np.int64),
        "parts": draw(width + 1),
        "one part": np.where(LANE == 9, width // 2, width),
    }
    masks = {
        "": LANE >= 0,
        ", even lanes": LANE % 2 == 0,
        ", some lanes": draw(3) > 0,
        ", lane 17": LANE == 17,
    }
    for size, read in sizes.items():
        for name, mask in masks.items():
            yield f"{size}{name}", np.where(mask, LANE * width, IDLE), LANE * width, read
        source, target = draw(16) * width, np.argsort(draw(1 << 20)) * width
        yield f"{size}, random", source, target, read
        source = np.where(masks[", some lanes"], source, IDLE)
        yield f"{size}, random, some lanes", source, target, read


def copied_rows() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield copies of a tile's rows, as matrix products make them: dense, padded or swizzled."""
    for chunks in (2, 4, 8):
        row, column = LANE // chunks, LANE % chunks
        targets = {
            "dense": LANE,
            "padded": row * (chunks + 1) + column,
            "swizzled": row * chunks + (column ^ row % chunks),
            "swizzled by pairs": row * chunks + (column ^ row // 2 % chunks),
        }
        for apart in (chunks + 1, 16, 33):
            for name, target in targets.items():
                source = row * apart + column
                yield f"rows of {chunks}, {apart} apart, {name}", source * 16, target * 16


def _draws(seed: int) -> Callable[[int], np.ndarray]:
    """Return a function that returns 32 random integers below a number."""
    raw = iter(np.random.PCG64(seed).random_raw(20000).tolist())
    return lambda below: np.array([next(raw) % below for _ in LANE])


def launches() -> Iterator[tuple[str, Any, Any, tuple[Any, ...], int]]:
    """Yield entry, grid, block, arguments and dynamic shared bytes, a random pattern for each."""
    entries = {
        f"{space}_{kind}<{width}>": width
        for space in ("shared", "global")
        for kind in ("load", "store")
        for width in WIDTHS
    }
    for name, width, returning in ATOMICS:
        entries |= {f"{s}_atomic<{name},{returning}>": width for s in ("shared", "global")}
    for width, past_l1 in COPIES:
        entries[f"async_copy<{width},{past_l1}>"] = width
    for entry, width in entries.items():
        rows = tables(width)
        spread = f"random in {16 * width}"
        table = np.stack([rows[f"{spread}, some lanes #0"], rows["stride 1"]])
        data = whole_numbers(3, SHARED_BYTES, 200, "int8")
        yield entry, 1, 32, (table, data, np.zeros(32, np.uint32), 0), 0


def brief(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the patterns whose names `BRIEF` lists."""
    return {name: row for name, row in rows.items() if re.fullmatch(BRIEF, name)}


def _patterns(
    entry: str,
    rows: dict[str, np.ndarray],
    target: np.ndarray | None = None,
    read: np.ndarray | None = None,
    number: int = 0,
    source: str = "patterns.cu",
) -> Iterator[Case]:
    data, out = np.zeros(SHARED_BYTES, np.int8), np.zeros(32, np.uint32)
    for name, row in rows.items():
        table = np.stack([row, row if target is None else target, row if read is None else read])
        table = table.astype(np.uint32)
        yield launch(f"{entry} {name}", source, entry, 1, 32, (table, data, out, number))
