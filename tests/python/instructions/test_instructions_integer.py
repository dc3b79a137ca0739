"""Integer arithmetic of 8 to 64 bits, compared with Python's integers."""

import numpy as np
import pytest

import coalesce


def wrap(value: int, dtype: str) -> int:
    """Return the value reduced to two's complement of the type."""
    bits = 8 * np.dtype(dtype).itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.startswith("int") and value >> (bits - 1) else value


def clamp(value: int, dtype: str) -> int:
    limits = np.iinfo(dtype)
    return min(max(value, int(limits.min)), int(limits.max))


def operands(dtype: str, count: int = 700, seed: int = 0) -> np.ndarray:
    """Return limits of the type, small numbers, powers of two, their neighbours, random numbers."""
    limits, random = np.iinfo(dtype), np.random.default_rng(seed)
    bits = limits.bits
    edges = [limits.min, limits.min + 1, -2, -1, 0, 1, 2, 3, 7, limits.max - 1, limits.max]
    edges += [s * (1 << k) + d for k in range(bits) for d in (-1, 0, 1) for s in (1, -1)]
    pool = np.array([wrap(int(e), dtype) for e in edges], dtype)
    uniform = random.integers(limits.min, limits.max, count, dtype, endpoint=True)
    small = random.integers(max(-50, limits.min), 50, count).astype(dtype)
    return random.choice(np.concatenate([np.repeat(pool, 4), uniform, small]), count)


def quotient(a: int, b: int) -> int:
    """Return the quotient rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def check(got: dict[str, np.ndarray], expected: dict[str, list[int]]) -> None:
    for name, values in expected.items():
        want = np.array(values, got[name].dtype)
        np.testing.assert_array_equal(got[name], want, name)


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("sign", ["s", "u"])
def test_ptx_arithmetic(evaluate, bits, sign):
    """Every integer instruction of PTX that has the type."""
    dtype = f"{'' if sign == 's' else 'u'}int{bits}"
    a, b, c = (operands(dtype, seed=s) for s in (3, 4, 5))
    b[b == 0] = 1
    t, x = f"{sign}{bits}", {16: "h", 32: "r", 64: "l"}[bits]
    A, B, C = (f"{x}:{name}" for name in "abc")
    ptx = evaluate.ptx
    results = {
        "add": (dtype, ptx(dtype, f"add.{t} %0, %1, %2;", A, B)),
        "sub": (dtype, ptx(dtype, f"sub.{t} %0, %1, %2;", A, B)),
        "mul_lo": (dtype, ptx(dtype, f"mul.lo.{t} %0, %1, %2;", A, B)),
        "mul_hi": (dtype, ptx(dtype, f"mul.hi.{t} %0, %1, %2;", A, B)),
        "mad_lo": (dtype, ptx(dtype, f"mad.lo.{t} %0, %1, %2, %3;", A, B, C)),
        "mad_hi": (dtype, ptx(dtype, f"mad.hi.{t} %0, %1, %2, %3;", A, B, C)),
        "sad": (dtype, ptx(dtype, f"sad.{t} %0, %1, %2, %3;", A, B, C)),
        "div": (dtype, ptx(dtype, f"div.{t} %0, %1, %2;", A, B)),
        "rem": (dtype, ptx(dtype, f"rem.{t} %0, %1, %2;", A, B)),
        "min_": (dtype, ptx(dtype, f"min.{t} %0, %1, %2;", A, B)),
        "max_": (dtype, ptx(dtype, f"max.{t} %0, %1, %2;", A, B)),
    }
    triples = [tuple(map(int, v)) for v in zip(a, b, c, strict=True)]
    expected = {
        "add": [p + q for p, q, _ in triples],
        "sub": [p - q for p, q, _ in triples],
        "mul_lo": [p * q for p, q, _ in triples],
        "mul_hi": [p * q >> bits for p, q, _ in triples],
        "mad_lo": [p * q + r for p, q, r in triples],
        "mad_hi": [(p * q >> bits) + r for p, q, r in triples],
        "sad": [abs(p - q) + r for p, q, r in triples],
        "div": [quotient(p, q) for p, q, _ in triples],
        "rem": [p - quotient(p, q) * q for p, q, _ in triples],
        "min_": [min(p, q) for p, q, _ in triples],
        "max_": [max(p, q) for p, q, _ in triples],
    }
    if sign == "s":
        results["abs_"] = (dtype, ptx(dtype, f"abs.{t} %0, %1;", A))
        results["neg"] = (dtype, ptx(dtype, f"neg.{t} %0, %1;", A))
        expected["abs_"] = [abs(p) for p, _, _ in triples]
        expected["neg"] = [-p for p, _, _ in triples]
    if bits < 64:
        wide = f"{'' if sign == 's' else 'u'}int{2 * bits}"
        W = {16: "r", 32: "l"}[bits] + ":w"
        results["mul_wide"] = (wide, ptx(wide, f"mul.wide.{t} %0, %1, %2;", A, B))
        results["mad_wide"] = (wide, ptx(wide, f"mad.wide.{t} %0, %1, %2, %3;", A, B, W))
        w = operands(wide, seed=6)
        expected["mul_wide"] = [p * q for p, q, _ in triples]
        expected["mad_wide"] = [p * q + int(r) for (p, q, _), r in zip(triples, w, strict=True)]
        got = evaluate(results, a=a, b=b, c=c, w=w)
    else:
        got = evaluate(results, a=a, b=b, c=c)
    check(got, {n: [wrap(v, results[n][0]) for v in values] for n, values in expected.items()})


def test_saturating_and_24_bit_instructions(evaluate):
    a, b, c = (operands("int32", seed=s) for s in (7, 8, 9))
    ptx, s, u = evaluate.ptx, "int32", "uint32"
    abc = ("r:a", "r:b", "r:c")
    got = evaluate(
        {
            "add_sat": (s, ptx(s, "add.sat.s32 %0, %1, %2;", *abc[:2])),
            "sub_sat": (s, ptx(s, "sub.sat.s32 %0, %1, %2;", *abc[:2])),
            "mad_hi_sat": (s, ptx(s, "mad.hi.sat.s32 %0, %1, %2, %3;", *abc)),
            "mul24_lo": (s, ptx(s, "mul24.lo.s32 %0, %1, %2;", *abc[:2])),
            "mul24_hi": (s, ptx(s, "mul24.hi.s32 %0, %1, %2;", *abc[:2])),
            "umul24_lo": (u, ptx(u, "mul24.lo.u32 %0, %1, %2;", *abc[:2])),
            "umul24_hi": (u, ptx(u, "mul24.hi.u32 %0, %1, %2;", *abc[:2])),
            "mad24_lo": (s, ptx(s, "mad24.lo.s32 %0, %1, %2, %3;", *abc)),
            "mad24_hi": (s, ptx(s, "mad24.hi.s32 %0, %1, %2, %3;", *abc)),
            "mad24_hi_sat": (s, ptx(s, "mad24.hi.sat.s32 %0, %1, %2, %3;", *abc)),
            "umad24_hi": (u, ptx(u, "mad24.hi.u32 %0, %1, %2, %3;", *abc)),
            "relu_min": (s, ptx(s, "min.relu.s32 %0, %1, %2;", *abc[:2])),
            "relu_max": (s, ptx(s, "max.relu.s32 %0, %1, %2;", *abc[:2])),
            "mul24": (s, "__mul24(a, b)"),
            "hadd": (s, "__hadd(a, b)"),
            "rhadd": (s, "__rhadd(a, b)"),
            "uhadd": (u, "__uhadd(a, b)"),
            "mulhi": (s, "__mulhi(a, b)"),
            "umulhi": (u, "__umulhi(a, b)"),
            "mul64hi": ("int64", "__mul64hi(a * 0x100000001ll, b * 0x123456789ll)"),
        },
        a=a,
        b=b,
        c=c,
    )

    def s24(x: int) -> int:
        return (x & 0xFFFFFF) - (x << 1 & 0x1000000)

    def u24(x: int) -> int:
        return x & 0xFFFFFF

    def unsigned(x: int) -> int:
        return x & 0xFFFFFFFF

    triples = [tuple(map(int, v)) for v in zip(a, b, c, strict=True)]
    expected = {
        "add_sat": [clamp(p + q, s) for p, q, _ in triples],
        "sub_sat": [clamp(p - q, s) for p, q, _ in triples],
        "mad_hi_sat": [clamp((p * q >> 32) + r, s) for p, q, r in triples],
        "mul24_lo": [s24(p) * s24(q) for p, q, _ in triples],
        "mul24_hi": [s24(p) * s24(q) >> 16 for p, q, _ in triples],
        "umul24_lo": [u24(p) * u24(q) for p, q, _ in triples],
        "umul24_hi": [u24(p) * u24(q) >> 16 for p, q, _ in triples],
        "mad24_lo": [s24(p) * s24(q) + r for p, q, r in triples],
        "mad24_hi": [(s24(p) * s24(q) >> 16) + r for p, q, r in triples],
        "mad24_hi_sat": [clamp((s24(p) * s24(q) >> 16) + r, s) for p, q, r in triples],
        "umad24_hi": [(u24(p) * u24(q) >> 16) + r for p, q, r in triples],
        "relu_min": [max(min(p, q), 0) for p, q, _ in triples],
        "relu_max": [max(p, q, 0) for p, q, _ in triples],
        "mul24": [s24(p) * s24(q) for p, q, _ in triples],
        "hadd": [(p + q) >> 1 for p, q, _ in triples],
        "rhadd": [(p + q + 1) >> 1 for p, q, _ in triples],
        "uhadd": [(unsigned(p) + unsigned(q)) >> 1 for p, q, _ in triples],
        "mulhi": [p * q >> 32 for p, q, _ in triples],
        "umulhi": [unsigned(p) * unsigned(q) >> 32 for p, q, _ in triples],
        "mul64hi": [
            wrap(p * 0x100000001, "int64") * wrap(q * 0x123456789, "int64") >> 64
            for p, q, _ in triples
        ],
    }
    check(got, {n: [wrap(v, got[n].dtype.name) for v in e] for n, e in expected.items()})


@pytest.mark.parametrize(("bits", "sign"), [(32, "s"), (32, "u"), (64, "u")])
def test_carries(evaluate, bits, sign):
    """The carry flag passes through add, sub and both halves of mad, separately in each lane."""
    dtype = f"{'' if sign == 's' else 'u'}int{bits}"
    t, x = f"{sign}{bits}", {32: "r", 64: "l"}[bits]
    a, b, c, d = (operands(dtype, seed=s) for s in (14, 15, 16, 17))
    A, B, C, D = (f"{x}:{n}" for n in "abcd")
    ptx = evaluate.ptx

    def after(first: str, then: str, *more: str) -> tuple[str, str]:
        text = f"{{ .reg .b{bits} low; {first} {then} }}"
        return dtype, ptx(dtype, text, *more)

    got = evaluate(
        {
            "addc": after(f"add.cc.{t} low, %1, %2;", f"addc.{t} %0, %3, %4;", A, B, C, D),
            "subc": after(f"sub.cc.{t} low, %1, %2;", f"subc.{t} %0, %3, %4;", A, B, C, D),
            "addc_cc": after(
                f"add.cc.{t} low, %1, %2;",
                f"addc.cc.{t} low, %3, %4; addc.{t} %0, 0, 0;",
                A, B, C, D,
            ),
            "subc_cc": after(
                f"sub.cc.{t} low, %1, %2;",
                f"subc.cc.{t} low, %3, %4; subc.{t} %0, 0, 0;",
                A, B, C, D,
            ),
            "madc_lo": after(
                f"mad.lo.cc.{t} low, %1, %2, %3;", f"madc.lo.{t} %0, %1, %3, %4;", A, B, C, D
            ),
            "madc_hi": after(
                f"mad.lo.cc.{t} low, %1, %2, %3;", f"madc.hi.{t} %0, %1, %2, %4;", A, B, C, D
            ),
            "madc_hi_cc": after(
                f"mad.hi.cc.{t} low, %1, %2, %3;",
                f"madc.lo.cc.{t} low, %1, %3, %4; addc.{t} %0, 0, 0;",
                A, B, C, D,
            ),
        },
        a=a, b=b, c=c, d=d,
    )  # fmt: skip
    mask = (1 << bits) - 1
    expected: dict[str, list[int]] = {name: [] for name in got}
    for p, q, r, s in (tuple(map(int, v)) for v in zip(a, b, c, d, strict=True)):
        up, uq, ur, us = (v & mask for v in (p, q, r, s))
        carry = up + uq >> bits
        borrow = int(up < uq)
        expected["addc"].append(r + s + carry)
        expected["subc"].append(r - s - borrow)
        expected["addc_cc"].append(ur + us + carry >> bits)
        expected["subc_cc"].append(-int(ur < us + borrow))
        low_carry = (p * q & mask) + ur >> bits
        expected["madc_lo"].append(p * r + s + low_carry)
        expected["madc_hi"].append((p * q >> bits) + s + low_carry)
        high_carry = ((p * q >> bits) & mask) + ur >> bits
        expected["madc_hi_cc"].append((p * r & mask) + us + high_carry >> bits)
    check(got, {n: [wrap(v, dtype) for v in values] for n, values in expected.items()})


def test_128_bit_division(device):
    """The compiler's code adds after sub.cc. There a set carry means that nothing was borrowed."""
    source = """typedef unsigned long long u64;
    __global__ void divide(const u64 *x, u64 *out, int n) {
        int i = threadIdx.x;
        if (i >= n) return;
        unsigned __int128 m = (unsigned __int128)x[3 * i] * x[3 * i + 1];
        unsigned __int128 q = m / x[3 * i + 2], r = m % x[3 * i + 2];
        out[3 * i] = q;
        out[3 * i + 1] = q >> 64;
        out[3 * i + 2] = r;
    }"""
    random = np.random.default_rng(5)
    x = random.integers(1, 2**63, (60, 3), np.uint64)
    x[::3, 2] >>= np.uint64(33)
    x[1::3, 2] = 1_000_000_007
    out = np.zeros_like(x)
    coalesce.Kernel(source, device=device)[1, 64](x, out, 60)
    for (a, b, c), got in zip(x.tolist(), out.tolist(), strict=True):
        q, r = divmod(a * b, c)
        assert got == [q % 2**64, q >> 64, r]
