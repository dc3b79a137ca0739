"""Instructions of tensor cores and of their operands, alone and in whole kernels.

The kernels are in tests/kernels/tensor_cores.cu and matrices.cu. tests/matrix_cases.py has the
forms of mma.
"""

import functools
import re
from collections.abc import Iterator
from typing import Any

import matrix_cases
import numpy as np

from counter_cases.case import LANE, Case, launch, matrix, whole_numbers
from counter_cases.patterns import BRIEF, IDLE, SHARED_BYTES, sharing, tables


def cases() -> Iterator[Case]:
    """Yield whole kernels on tensor cores; tests/kernels/tensor_cores.cu."""
    for entry, grid, block, arguments, shared in launches():
        yield launch(entry, "tensor_cores.cu", entry, grid, block, arguments, shared)


def launches() -> Iterator[tuple[str, Any, Any, tuple[Any, ...], int]]:
    """Yield entry, grid, block, arguments and dynamic shared bytes of each of these kernels."""

    def halves(*shape: int) -> np.ndarray:
        return matrix(sum(shape), *shape).astype("float16")

    def floats(*shape: int) -> np.ndarray:
        return matrix(sum(shape), *shape)

    def bfloats(*shape: int) -> np.ndarray:
        return (floats(*shape).view("u4") >> 16).astype("u2")

    def small(seed: int, *shape: int) -> np.ndarray:
        return whole_numbers(seed, int(np.prod(shape)), 256, "uint8").view("i1").reshape(shape)

    def out(shape: tuple[int, ...], dtype: str = "f4") -> np.ndarray:
        return np.zeros(shape, dtype)

    yield "wmma_from_global", 2, 128, (halves(32, 64), halves(64, 64), out((32, 64)), 32, 64, 64), 0
    tiled = (
        halves(128, 64),
        halves(64, 128),
        floats(128, 128),
        out((128, 128)),
        128,
        64,
        1.5,
        -0.5,
    )
    yield "wmma_tiled", (2, 2), 128, tiled, 0
    yield "wmma_tf32", (2, 3), 32, (floats(48, 40), floats(32, 40), out((48, 32)), 32, 40), 0
    yield (
        "wmma_bytes",
        (4, 2),
        32,
        (small(1, 64, 48), small(2, 32, 48), out((64, 32), "i4"), 32, 48),
        0,
    )
    wide = (bfloats(48, 32), bfloats(48, 64), out((64, 32)), 32, 64, 48)
    yield "wmma_wide", (2, 4), 32, wide, 0
    doubles = matrix(5, 16, 20, dtype="float64"), matrix(6, 20, 24, dtype="float64")
    yield "wmma_doubles", (3, 2), 32, (*doubles, out((16, 24), "f8"), 24, 20), 0
    turned = halves(128, 96)[::-1].copy()
    swizzled = (halves(128, 96), turned, out((128, 128), "f2"), 128, 96)
    yield "mma_swizzled", (2, 2), 128, swizzled, 0
    yield "mma_plain", (2, 2), 64, (halves(64, 96), halves(96, 128), out((64, 128)), 128, 96), 0
    words = np.arange(128, dtype="u4") * np.uint32(65537)
    yield "transpose_registers", 2, 64, (words, out((128,), "u4")), 0


def _rows_of_matrices() -> dict[str, np.ndarray]:
    """Return byte offsets of matrix rows for 32 lanes."""
    every = {**tables(16), **sharing(16)}
    rows_of = {name: row for name, row in every.items() if IDLE not in row}
    return rows_of | {
        name: row.astype(np.uint32)
        for name, row in {
            "matrices alike": LANE % 8 * 16,
            **{f"rows of {size}": LANE * size for size in (64, 128, 80, 144)},
            "x4 of rows of 64": LANE % 16 * 64 + LANE // 16 * 16,
            "swizzled": LANE % 16 * 64 + (LANE // 16 ^ LANE % 16 // 2 % 4) * 16,
            "swizzled 128": LANE % 16 * 128 + (LANE // 16 ^ LANE % 8) * 16,
        }.items()
    }


def accesses() -> Iterator[Case]:
    """Yield single ldmatrix and stmatrix instructions in many patterns (matrices.cu)."""
    rows = _rows_of_matrices()
    own = {name: rows[name] for name in list(rows)[-8:]}
    telling = {name: row for name, row in rows.items() if name in own or re.fullmatch(BRIEF, name)}
    few = {name: row for n, (name, row) in enumerate(telling.items()) if n % 3 == 0 or name in own}
    data, out = np.zeros(SHARED_BYTES, np.int8), np.zeros(32, np.uint32)
    for kind in ("load", "store"):
        for count in (1, 2, 4):
            for transposed in ("false", "true"):
                entry = f"{kind}_matrices<{count},{transposed}>"
                chosen = few if count < 4 else telling
                if entry == "load_matrices<4,false>":
                    chosen = rows
                elif entry == "store_matrices<4,false>":
                    chosen = dict(list(rows.items())[::3]) | own
                for name, row in chosen.items():
                    arguments = (np.stack([row, row]), data, out, 0)
                    yield launch(f"{entry} {name}", "matrices.cu", entry, 1, 32, arguments)


def products() -> Iterator[Case]:
    """Yield one mma of one warp in every form except the transposed ones; tests/matrix_cases.py."""
    for seed, form in enumerate(matrix_cases.forms()):
        if form.layouts != "row.col" or "u8" in (form.a, form.b):
            continue
        given = [np.ascontiguousarray(x[:1]) for x in matrix_cases.registers(form, seed)]
        kernel = functools.partial(matrix_cases.kernel_of, form)
        yield launch(form.opcode, "", "multiply", 1, 32, given, kernel=kernel)
