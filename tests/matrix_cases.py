"""Matrix instructions: every shape of `mma.sync`, the positions of elements, and the operands.

The positions of elements are those of the PTX ISA, "Matrix Fragments for mma".
`tools/record_results.py` runs the cases on a GPU and stores the results. `test_mma.py` compares the
simulator with them. Seeds determine all operands.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import many_kernels
import numpy as np

import coalesce

LANE = np.arange(32)
GROUP, MEMBER = LANE // 4, LANE % 4  # groupID and threadID_in_group


@dataclass(frozen=True)
class Format:
    """How an element is stored; `exponent` is 0 for integers."""

    bits: int
    exponent: int = 0
    fraction: int = 0
    signed: bool = True
    has_infinity: bool = True

    @property
    def largest_exponent(self) -> int:
        """Return the largest biased exponent of a finite number."""
        return (1 << self.exponent) - (2 if self.has_infinity else 1)


FORMATS = {
    "f16": Format(16, 5, 10),
    "bf16": Format(16, 8, 7),
    "tf32": Format(32, 8, 10),  # stored in the upper 19 bits
    "f32": Format(32, 8, 23),
    "f64": Format(64, 11, 52),
    "e4m3": Format(8, 4, 3, has_infinity=False),
    "e5m2": Format(8, 5, 2),
    "s8": Format(8),
    "u8": Format(8, signed=False),
    "s4": Format(4),
    "u4": Format(4, signed=False),
    "b1": Format(1, signed=False),
    "s32": Format(32),
}


@dataclass(frozen=True)
class Mma:
    """One form of `mma.sync`."""

    m: int
    n: int
    k: int
    d: str
    a: str
    b: str
    c: str
    layouts: str = "row.col"
    options: str = ""  # such as ".satfinite"
    operation: str = ""  # such as ".xor.popc"

    @property
    def opcode(self) -> str:
        """Return the instruction as PTX spells it."""
        return (
            f"mma.sync.aligned.m{self.m}n{self.n}k{self.k}.{self.layouts}{self.options}"
            f".{self.d}.{self.a}.{self.b}.{self.c}{self.operation}"
        )

    @property
    def in_quads(self) -> bool:
        """Return whether each group of 8 lanes has its own product (m8n8k4 of halves)."""
        return self.k == 4 and self.a == "f16"

    @property
    def floating(self) -> bool:
        """Return whether elements are floating-point numbers."""
        return FORMATS[self.a].exponent > 0

    @property
    def register_bits(self) -> int:
        """Return the width of its registers."""
        return 64 if self.a == "f64" else 32


def forms() -> Iterator[Mma]:
    """Yield all forms of the PTX ISA except those with sparsity or scales."""
    for a in ("row", "col"):
        for b in ("row", "col"):
            for d, c in (("f16", "f16"), ("f32", "f16"), ("f32", "f32")):
                yield Mma(8, 8, 4, d, "f16", "f16", c, f"{a}.{b}")
    for k in (8, 16):
        for d in ("f16", "f32"):
            yield Mma(16, 8, k, d, "f16", "f16", d)
        yield Mma(16, 8, k, "f32", "bf16", "bf16", "f32")
    for k in (4, 8):
        yield Mma(16, 8, k, "f32", "tf32", "tf32", "f32")
    for k in (16, 32):
        for a in ("e4m3", "e5m2"):
            for b in ("e4m3", "e5m2"):
                for d in ("f16", "f32"):
                    yield Mma(16, 8, k, d, a, b, d)
    for m, k in ((8, 4), (16, 4), (16, 8), (16, 16)):
        yield Mma(m, 8, k, "f64", "f64", "f64", "f64")
    for wide, narrow, factor in (("s8", "u8", 1), ("s4", "u4", 2)):
        for m, k in ((8, 16), (16, 16), (16, 32)):
            for a in (wide, narrow):
                for b in (wide, narrow):
                    for options in ("", ".satfinite"):
                        yield Mma(m, 8, k * factor, "s32", a, b, "s32", options=options)
    for m, k in ((8, 128), (16, 128), (16, 256)):
        for operation in (".xor.popc", ".and.popc"):
            yield Mma(m, 8, k, "s32", "b1", "b1", "s32", operation=operation)


def a_positions(form: Mma) -> tuple[np.ndarray, np.ndarray]:
    """Return row and column of each element of a: arrays of lanes, registers and elements."""
    if form.in_quads:
        i = np.arange(4).reshape(1, 2, 2)
        by_row = form.layouts.startswith("row")
        upper = np.where(LANE < 16, 0, 4)[:, None, None]
        member = MEMBER[:, None, None]
        return _both(member + upper, i) if by_row else _both(i + upper, member)
    each = form.register_bits // FORMATS[form.a].bits
    registers = form.m * form.k // 32 // each
    r, e = np.arange(registers)[None, :, None], np.arange(each)[None, None, :]
    half, step = (r % 2, r // 2) if form.m == 16 else (0 * r, r)
    row = GROUP[:, None, None] + 8 * half
    return _both(row, 4 * each * step + each * MEMBER[:, None, None] + e)


def b_positions(form: Mma) -> tuple[np.ndarray, np.ndarray]:
    """Return row and column of each element of b."""
    if form.in_quads:
        i = np.arange(4).reshape(1, 2, 2)
        by_row = form.layouts.endswith("row")
        upper = np.where(LANE < 16, 0, 4)[:, None, None]
        member = MEMBER[:, None, None]
        return _both(member, i + upper) if by_row else _both(i, member + upper)
    each = form.register_bits // FORMATS[form.b].bits
    registers = form.n * form.k // 32 // each
    r, e = np.arange(registers)[None, :, None], np.arange(each)[None, None, :]
    return _both(4 * each * r + each * MEMBER[:, None, None] + e, GROUP[:, None, None])


def c_positions(form: Mma, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return row and column of each element of c or d."""
    each = 2 if kind == "f16" else 1
    registers = (8 if form.in_quads else form.m * form.n // 32) // each
    i = np.arange(registers * each).reshape(1, registers, each)
    if form.in_quads:
        upper = np.where(LANE < 16, 0, 4)[:, None, None]
        lane = LANE[:, None, None]
        if kind == "f16":
            return _both(lane % 4 + upper, i)
        return _both((lane & 1) + (i & 2) + upper, (i & 4) + (lane & 2) + (i & 1))
    return _both(GROUP[:, None, None] + 8 * (i // 2), 2 * MEMBER[:, None, None] + i % 2)


def _both(row: np.ndarray, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shape = np.broadcast_shapes(row.shape, column.shape)
    return np.broadcast_to(row, shape), np.broadcast_to(column, shape)


def _quad() -> np.ndarray:
    return (LANE // 4 % 4)[:, None, None]


def packed(form: Mma, matrices: np.ndarray, kind: str, at: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return the registers [case, lane, register] that hold the elements at these positions."""
    bits, width = FORMATS[kind].bits, form.register_bits
    elements = matrices[(slice(None), _quad(), *at) if form.in_quads else (slice(None), *at)]
    shifts = (bits * np.arange(at[0].shape[2])).astype("u8")
    words = np.bitwise_or.reduce(elements.astype("u8") << shifts, axis=-1)
    return words.astype(f"u{width // 8}")


def unpacked(form: Mma, registers: np.ndarray, kind: str, at: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return the matrices [case, (quad,) row, column] of bits that the registers hold."""
    bits = FORMATS[kind].bits
    rows, columns = (8, 8) if form.in_quads else (form.m, form.n)
    shifts = (bits * np.arange(at[0].shape[2])).astype("u8")
    mask = np.uint64((1 << bits) - 1)
    elements = (registers.astype("u8")[..., None] >> shifts) & mask
    quads = (4,) if form.in_quads else ()
    matrices = np.zeros((len(registers), *quads, rows, columns), "u8")
    matrices[(slice(None), _quad(), *at) if form.in_quads else (slice(None), *at)] = elements
    return matrices


# EACH is the number of cases that are made for each kind of operands. CHOSEN lists the numbers of
# the cases whose results are stored. In both, the key True is for floating-point forms, and False
# is for integer forms, which have only one kind of operands.
EACH = {True: 40, False: 30}
CHOSEN = {True: (1, 25, 39), False: (0, 1, 29)}

# The ways to choose the operands of floating-point forms.
KINDS = ("near", "wide", "cancel", "sparse", "tiny", "large", "special")


class Source:
    """Random bits that depend only on the seed."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.PCG64(seed)

    def below(self, limit: int, *shape: int) -> np.ndarray:
        """Return whole numbers from 0 to `limit` - 1."""
        raw = self._generator.random_raw(int(np.prod(shape)))
        return ((raw >> np.uint64(11)) % np.uint64(limit)).reshape(shape)

    def bits(self, count: int, *shape: int) -> np.ndarray:
        """Return so many random bits (at most 64)."""
        return (self._generator.random_raw(int(np.prod(shape))) >> np.uint64(64 - count)).reshape(
            shape
        )


def numbers(source: Source, kind: str, kept: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Return random floating-point numbers as bits."""
    bias = (1 << (kept.exponent - 1)) - 1
    top = kept.largest_exponent
    low, high = {
        "near": (bias - 2, bias + 2),
        "cancel": (bias - 3, bias + 3),
        "wide": (0, top),
        "sparse": (0, top),
        "tiny": (0, 2),
        "large": (top - 2, top),
        "special": (0, (1 << kept.exponent) - 1),
    }[kind]
    low, high = max(low, 0), min(high, (1 << kept.exponent) - 1)
    exponent = source.below(high - low + 1, *shape) + np.uint64(low)
    if kind == "wide":  # limit the exponents, so that sums do not lose all small terms
        spread = min(top, 40)
        exponent = source.below(spread, *shape) + np.uint64(max(0, bias - spread // 2))
    fraction = source.bits(kept.fraction, *shape)
    sign = source.bits(1, *shape)
    word = fraction | exponent << np.uint64(kept.fraction)
    if kind in ("sparse", "tiny", "special"):
        zero = source.below(4, *shape) == 0
        word = np.where(zero, np.uint64(0), word)
    if not kept.has_infinity and kind != "special":  # e4m3 has a NaN but no infinity
        word = np.where(word == 0x7F, np.uint64(0x7E), word)
    word |= sign << np.uint64(kept.exponent + kept.fraction)
    stored = 1 + kept.exponent + kept.fraction
    if stored < kept.bits:  # the low bits of a tf32 value have no meaning
        rest = kept.bits - stored
        word = word << np.uint64(rest) | source.bits(rest, *shape)
    return word


def operands(form: Mma, seed: int, each: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return matrices a, b and c as bits.

    There are `each` cases of every kind for floats, and `each` cases in all for integers.
    """
    source = Source(seed)
    quads = (4,) if form.in_quads else ()
    shapes = [(form.m, form.k), (form.k, form.n), (form.m, form.n)]
    if not form.floating:
        made = []
        for kind, shape in zip((form.a, form.b, form.c), shapes, strict=True):
            made.append(source.bits(FORMATS[kind].bits, each, *quads, *shape))
        made[2][0] = 0x7FFFFFF0  # so that the sum saturates
        made[2][-1] = 0x80000010
        if each > 2:
            made[2][1] = 3
        return made[0], made[1], made[2]
    parts = []
    for kind in KINDS:
        a, b, c = (
            numbers(source, kind, FORMATS[name], (each, *quads, *shape))
            for name, shape in zip((form.a, form.b, form.c), shapes, strict=True)
        )
        if kind == "cancel":  # pairs of products whose sum is zero or almost zero
            sign = np.uint64(1 << (FORMATS[form.a].bits - 1))
            a[..., 1::2] = a[..., 0::2] ^ sign
            b[..., 1::2, :] = b[..., 0::2, :]
            a[: each // 2, ..., 1::2] ^= source.bits(1, *a[: each // 2, ..., 1::2].shape)
            c = numbers(source, "wide", FORMATS[form.c], c.shape)
        if kind == "sparse":
            a[..., 0] = 0
            b[: each // 2] = np.where(
                source.below(2, *b[: each // 2].shape) == 0, 0, b[: each // 2]
            )
        if kind == "tiny":  # includes sums that equal c, and zeros with signs
            a[: each // 3] &= np.uint64(1 << (FORMATS[form.a].bits - 1))
            b[: each // 3] = numbers(source, "large", FORMATS[form.b], b[: each // 3].shape)
            c[1 : each // 3 : 2] &= np.uint64(1 << (FORMATS[form.c].bits - 1))
        parts.append((a, b, c))
    return tuple(np.concatenate(p) for p in zip(*parts, strict=True))  # type: ignore[return-value]


def chosen(form: Mma, rows: np.ndarray) -> np.ndarray:
    """Return the cases that are recorded."""
    each, kept = EACH[form.floating], CHOSEN[form.floating]
    return rows.reshape(-1, each, *rows.shape[1:])[:, kept].reshape(-1, *rows.shape[1:])


@cache
def source_of(form: Mma) -> str:
    """Return CUDA C++ of a kernel `multiply(d, a, b, c)` with a warp for each case."""
    at = (
        c_positions(form, form.d), a_positions(form), b_positions(form), c_positions(form, form.c)
    )  # fmt: skip
    counts = [p[0].shape[1] for p in at]
    double = form.a == "f64"
    word, letter = ("double", "d") if double else ("unsigned", "r")
    names = iter(range(sum(counts)))
    lists = ["{" + ", ".join(f"%{next(names)}" for _ in range(n)) + "}" for n in counts]
    d = ", ".join(f'"={letter}"(d[i + {n}])' for n in range(counts[0]))
    given = ", ".join(
        f'"{letter}"({name}[{size} * t + {n}])'
        for name, size in zip("abc", counts[1:], strict=True)
        for n in range(size)
    )
    return f"""
    extern "C" __global__ void multiply({word}* d, const {word}* a, const {word}* b,
                                        const {word}* c) {{
        const int t = blockIdx.x * blockDim.x + threadIdx.x, i = {counts[0]} * t;
        asm volatile("{form.opcode} {lists[0]}, {lists[1]}, {lists[2]}, {lists[3]};"
                     : {d} : {given});
    }}"""


@cache
def _sources() -> dict[str, tuple[str, str]]:
    return many_kernels.together((source_of(form) for form in forms()), "multiply")


@cache
def kernel_of(form: Mma, device: str) -> coalesce.Kernel:
    """Return the kernel of one of `forms()`."""
    source, name = _sources()[source_of(form)]
    return coalesce.Kernel(source, name, device=device)


def registers(form: Mma, seed: int) -> list[np.ndarray]:
    """Return the registers of d (zeros), a, b and c: arrays [case, lane, register]."""
    a, b, c = operands(form, seed, EACH[form.floating])
    given = [
        packed(form, a, form.a, a_positions(form)),
        packed(form, b, form.b, b_positions(form)),
        packed(form, c, form.c, c_positions(form, form.c)),
    ]
    d_registers = c_positions(form, form.d)[0].shape[1]
    d = np.zeros((len(a), 32, d_registers), given[0].dtype)
    kind = "f8" if form.a == "f64" else "u4"
    return [np.ascontiguousarray(x).view(kind) for x in (d, *given)]


def parts(bits: np.ndarray, kept: Format) -> tuple[np.ndarray, np.ndarray]:
    """Return signed significands and exponents, of finite numbers only."""
    word = (bits >> np.uint64(kept.bits - 1 - kept.exponent - kept.fraction)).astype("i8")
    exponent = word >> kept.fraction & ((1 << kept.exponent) - 1)
    significand = word & ((1 << kept.fraction) - 1) | (exponent > 0) << kept.fraction
    negative = word >> (kept.exponent + kept.fraction) & 1
    bias = (1 << (kept.exponent - 1)) - 1
    return np.where(negative, -significand, significand), np.maximum(exponent, 1) - bias


def fused(form: Mma, a: np.ndarray, b: np.ndarray, c: np.ndarray, bits: int, kept: int = 23):
    """Return c plus the products of a and b, aligned and truncated, as 32-bit floats."""
    fa, fb = FORMATS[form.a], FORMATS[form.b]
    (sa, ea), (sb, eb), (sc, ec) = parts(a, fa), parts(b, fb), parts(c, FORMATS["f32"])
    products = sa[:, :, :, None] * sb[:, None]
    exponents = np.where(products == 0, -9999, ea[:, :, :, None] + eb[:, None])
    ec = np.where(sc == 0, -9999, ec)
    top = np.maximum(exponents.max(2), ec)

    def aligned(value: np.ndarray, exponent: np.ndarray, fraction: int, to: np.ndarray):
        shift = bits - fraction + exponent - to
        size = np.abs(value)
        return np.sign(value) * np.where(
            shift >= 0, size << np.clip(shift, 0, 40), size >> np.clip(-shift, 0, 62)
        )

    sums = aligned(products, exponents, fa.fraction + fb.fraction, top[:, :, None]).sum(2)
    sums += aligned(sc, ec, 23, top)
    exact = sums * np.exp2(np.maximum(top, -900) - float(bits))
    rounded = exact.astype("f4")
    words = rounded.view("u4") - (np.abs(rounded.astype("f8")) > np.abs(exact)).astype("u4")
    return np.where(exact == 0, 0, words & np.uint32((~0 << (23 - kept)) & 0xFFFFFFFF))
