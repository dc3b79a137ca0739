"""__half and __nv_bfloat16: conversions of every value, arithmetic, comparisons, packed forms.

The reference for half is numpy.float16. For bfloat16, float64 values or fractions are rounded.
"""

from fractions import Fraction

import numpy as np
import pytest

# These tests use NaNs and infinities on purpose, and NumPy would warn of them.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

# significant bits, least and largest exponent of normal numbers
FORMATS = {"half": (11, -14, 15), "bfloat": (8, -126, 127)}
EVERY = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)

PRELUDE = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define H(x) __ushort_as_half(x)
#define U(x) __half_as_ushort(x)
#define B(x) __ushort_as_bfloat16(x)
#define V(x) __bfloat16_as_ushort(x)
"""


def widen(bits: np.ndarray, kind: str) -> np.ndarray:
    """Return the values as float64."""
    if kind == "half":
        return bits.view(np.float16).astype(np.float64)
    with np.errstate(invalid="ignore"):  # signalling NaNs would warn
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def nan_of(bits: np.ndarray, kind: str) -> np.ndarray:
    return (bits & 0x7FFF) > (0x7C00 if kind == "half" else 0x7F80)


def fraction_bits(x: Fraction, kind: str, mode: str = "n", zero_sign: int = 0) -> int:
    """Return the bits of the rounded fraction.

    Modes are: to nearest even (n), to zero (z), down (d) and up (u).
    """
    precision, least, most = FORMATS[kind]
    if x == 0:
        return zero_sign << 15
    a = abs(x)
    e = a.numerator.bit_length() - a.denominator.bit_length()
    e = max(e if Fraction(2) ** e <= a else e - 1, least)
    unit = Fraction(2) ** (e - precision + 1)
    whole = int(a // unit)
    rest = a / unit - whole
    if mode == "n":
        outwards = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    else:
        outwards = rest != 0 and {"z": False, "d": x < 0, "u": x > 0}[mode]
    whole += outwards
    # A subnormal's exponent field is zero. A carry into the exponent field gives the right result.
    bits = whole + ((e - least) << (precision - 1))
    infinity = (most - least + 2) << (precision - 1)
    if bits >= infinity:
        away = mode == "n" or (mode != "z" and (mode == "d") == (x < 0))
        bits = infinity if away else infinity - 1
    return (x < 0) << 15 | bits


def equal(got: np.ndarray, want: np.ndarray, kind: str, what: str) -> None:
    """Check that the bits are equal; all NaNs are equal."""
    nan = nan_of(want, kind)
    np.testing.assert_array_equal(nan_of(got, kind), nan, f"{what}: NaN")
    np.testing.assert_array_equal(got[~nan], want[~nan], what)


def interesting(count: int, seed: int, kind: str) -> np.ndarray:
    """Return bits of all magnitudes.

    Half of the numbers are near 1, where sums and products round.
    """
    random = np.random.default_rng(seed)
    bits = random.integers(0, 1 << 16, count).astype(np.uint16)
    one = 0x3C00 if kind == "half" else 0x3F80
    near = random.integers(0, 1 << 11, count) + one - (1 << 10)
    bits[::2] = (near | random.integers(0, 2, count) << 15).astype(np.uint16)[::2]
    infinity = 0x7C00 if kind == "half" else 0x7F80
    edges = [0, 1, infinity - 1, infinity, infinity + 1, 1 << (10 if kind == "half" else 7), one]
    bits[: 2 * len(edges)] = [*edges, *(e | 0x8000 for e in edges)]
    return random.permutation(bits)


@pytest.mark.parametrize("kind", ["half", "bfloat"])
def test_every_value_widens(evaluate, kind):
    f = "__half2float(H(h))" if kind == "half" else "__bfloat162float(B(h))"
    d = "(double)__half2float(H(h))" if kind == "half" else "(double)(float)B(h)"
    got = evaluate({"f": ("float32", f), "d": ("float64", d)}, PRELUDE, h=EVERY)
    want = widen(EVERY, kind)
    np.testing.assert_array_equal(got["f"], want.astype(np.float32))
    np.testing.assert_array_equal(got["d"], want)
    number = ~nan_of(EVERY, kind)
    np.testing.assert_array_equal(np.signbit(got["f"])[number], np.signbit(want)[number])


def floats_around(kind: str) -> np.ndarray:
    """Return every finite value, the ties between neighbours, and the values next to both."""
    values = widen(EVERY, kind)
    values = values[np.isfinite(values)][:: 7 if kind == "bfloat" else 1]
    step = np.abs(widen(EVERY[1:2], kind))[0]
    with np.errstate(over="ignore"):
        ties = (values + np.nextafter(values.astype(np.float32), np.float32(np.inf))) / 2
        spacing = np.maximum(np.abs(values) * 2.0 ** -FORMATS[kind][0], step / 2)
        ties = (values + spacing).astype(np.float32)
        near = np.concatenate(
            [ties, np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(np.inf))]
        )
    random = np.random.default_rng(1)
    anything = random.integers(0, 1 << 32, 20000, np.uint32).view(np.float32)
    special = np.array([np.inf, -np.inf, np.nan, 65519.996, 65520, 3.4e38, 1e-46], np.float32)
    with np.errstate(over="ignore"):
        return np.concatenate([values.astype(np.float32), near, anything, special])


def test_float_narrows_to_half(evaluate):
    x = floats_around("half")
    ptx = evaluate.ptx
    cvt = {m: ptx("uint16", f"cvt.{m}.f16.f32 %0, %1;", "f:x") for m in ("rn", "rz")}
    got = evaluate(
        {
            "rn": ("uint16", "U(__float2half_rn(x))"),
            "rz": ("uint16", "U(__float2half_rz(x))"),
            "rd": ("uint16", "U(__float2half_rd(x))"),
            "ru": ("uint16", "U(__float2half_ru(x))"),
            "ptx": ("uint16", cvt["rn"]),
            "relu": ("uint16", ptx("uint16", "cvt.rn.relu.f16.f32 %0, %1;", "f:x")),
            "sat": ("uint16", ptx("uint16", "cvt.rn.sat.f16.f32 %0, %1;", "f:x")),
            "double_": ("uint16", "U(__double2half((double)x))"),
        },
        PRELUDE,
        x=x,
    )
    with np.errstate(over="ignore"):
        nearest = x.astype(np.float16)
    inf = np.float16(np.inf)
    with np.errstate(invalid="ignore"):
        wide = nearest.astype(np.float32)
        down = np.where(wide > x, np.nextafter(nearest, -inf), nearest)
        up = np.where(wide < x, np.nextafter(nearest, inf), nearest)
        cut = np.where(x > 0, down, np.where(x < 0, up, nearest))
        clipped = np.where(np.isnan(x), 0, np.clip(x, 0, 1)).astype(np.float16)
        relu = np.where(x <= 0, np.float16(0), nearest)
    u = np.uint16
    for name, want in {"rn": nearest, "ptx": nearest, "double_": nearest, "rz": cut}.items():
        equal(got[name], want.view(u), "half", name)
    # numpy's nextafter skips -0, but rounding up from a negative number gives -0.
    down, up = down.view(u), up.view(u)
    up = np.where((up == 0) & (x < 0), u(0x8000), up)
    equal(got["rd"], np.where((down == 0x8000) & (x > 0), u(0), down), "half", "rd")
    equal(got["ru"], up, "half", "ru")
    np.testing.assert_array_equal(got["sat"].view(np.float16), clipped)
    equal(np.where(x < 0, got["relu"] & 0x7FFF, got["relu"]), relu.view(u), "half", "relu")


def test_float_narrows_to_bfloat(evaluate):
    x = floats_around("bfloat")
    got = evaluate(
        {
            "rn": ("uint16", "V(__float2bfloat16_rn(x))"),
            "rz": ("uint16", "V(__float2bfloat16_rz(x))"),
            "rd": ("uint16", "V(__float2bfloat16_rd(x))"),
            "ru": ("uint16", "V(__float2bfloat16_ru(x))"),
        },
        PRELUDE,
        x=x,
    )
    bits = x.view(np.uint32).astype(np.uint64)
    cut, rest, negative = bits >> 16, bits & 0xFFFF, bits >> 31 == 1
    want = {
        "rn": (bits + 0x7FFF + (cut & 1)) >> 16,
        "rz": cut,
        "rd": cut + ((rest != 0) & negative),
        "ru": cut + ((rest != 0) & ~negative),
    }
    number = ~np.isnan(x)
    for name, values in want.items():
        np.testing.assert_array_equal(got[name][number], values[number].astype(np.uint16), name)
        assert nan_of(got[name][~number], "bfloat").all()


@pytest.mark.parametrize("kind", ["half", "bfloat"])
def test_doubles_round_once(evaluate, kind):
    """A double just above a tie would round twice if it were converted through float."""
    random = np.random.default_rng(2)
    value = widen(EVERY[random.integers(0, 1 << 15, 400)], kind)
    value = value[np.isfinite(value)]
    tie = value * (1 + 2.0 ** -FORMATS[kind][0])
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.concatenate([tie, tie * (1 + 2.0**-50), tie * (1 - 2.0**-50), -tie, value * 1.7])
    x = x[np.isfinite(x)]
    f = "U(__double2half(x))" if kind == "half" else "V(__double2bfloat16(x))"
    got = evaluate({"r": ("uint16", f)}, PRELUDE, x=x)["r"]
    want = [fraction_bits(Fraction(float(v)), kind, zero_sign=np.signbit(v)) for v in x]
    np.testing.assert_array_equal(got, np.array(want, np.uint16))


@pytest.mark.parametrize("kind", ["half", "bfloat"])
def test_integers_and_back(evaluate, kind):
    random = np.random.default_rng(3)
    widths = random.integers(0, 64, 900).astype(np.uint64)
    w = random.integers(0, 1 << 64, 900, np.uint64) >> widths
    precision = FORMATS[kind][0]
    for k in range(precision, 64):  # ties, and the value next to each
        tie = ((1 << precision) | 1) << (k - precision)
        w[3 * (k - precision) : 3 * (k - precision) + 3] = [
            v % (1 << 64) for v in (tie, tie + 1, tie - 1)
        ]
    name = {"half": "half", "bfloat": "bfloat16"}[kind]
    to, make = ("U", "H") if kind == "half" else ("V", "B")
    types = {"short": 16, "ushort": 16, "int": 32, "uint": 32, "ll": 64, "ull": 64}
    results = {}
    for t in types:
        for mode in ("rn", "rz", "rd", "ru"):
            results[f"{t}_{mode}"] = ("uint16", f"{to}(__{t}2{name}_{mode}(w))")
    h = interesting(900, 4, kind)
    dtype = {"short": "int16", "ushort": "uint16", "int": "int32", "uint": "uint32",
             "ll": "int64", "ull": "uint64"}  # fmt: skip
    for t in types:
        for mode in ("rn", "rz", "rd", "ru"):
            results[f"to_{t}_{mode}"] = (dtype[t], f"__{name}2{t}_{mode}({make}(h))")
    got = evaluate(results, PRELUDE, w=w, h=h)
    values = widen(h, kind)
    for t, bits in types.items():
        low = w.astype(f"uint{bits}").view(dtype[t])
        limits = np.iinfo(dtype[t])
        for mode, letter in (("rn", "n"), ("rz", "z"), ("rd", "d"), ("ru", "u")):
            want = [fraction_bits(Fraction(int(v)), kind, letter) for v in low]
            np.testing.assert_array_equal(
                got[f"{t}_{mode}"], np.array(want, np.uint16), f"{t} {mode}"
            )
            f = {"n": np.rint, "z": np.trunc, "d": np.floor, "u": np.ceil}[letter]
            back = got[f"to_{t}_{mode}"]
            for v, r in zip(values, back, strict=True):
                if np.isnan(v):
                    continue  # the result is 0 or the highest bit alone, depending on the width
                want_v = min(max(f(v), limits.min), limits.max) if np.isfinite(v) else v
                want_v = min(max(want_v, limits.min), limits.max)
                assert int(r) == int(want_v), (t, mode, v)


def rounded(values: np.ndarray, kind: str) -> np.ndarray:
    """Return exact float64 values rounded to the format."""
    if kind == "half":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).view(np.uint16)
    out = np.empty(values.shape, np.uint16)
    for i, v in enumerate(values):
        if np.isnan(v):
            out[i] = 0x7FFF
        elif np.isinf(v):
            out[i] = 0x7F80 | np.signbit(v) << 15
        else:
            out[i] = fraction_bits(Fraction(float(v)), kind, zero_sign=int(np.signbit(v)))
    return out


@pytest.mark.parametrize("kind", ["half", "bfloat"])
def test_arithmetic(evaluate, kind):
    a, b, c = (interesting(1200, s, kind) for s in (5, 6, 7))
    x, y, z = (widen(v, kind) for v in (a, b, c))
    u, make = ("U", "H") if kind == "half" else ("V", "B")
    A, B, C = (f"{make}({n})" for n in "abc")
    names = {
        "add": f"__hadd({A}, {B})", "sub": f"__hsub({A}, {B})", "mul": f"__hmul({A}, {B})",
        "fma": f"__hfma({A}, {B}, {C})", "neg": f"__hneg({A})", "abs_": f"__habs({A})",
        "min_": f"__hmin({A}, {B})", "max_": f"__hmax({A}, {B})",
        "min_nan": f"__hmin_nan({A}, {B})", "max_nan": f"__hmax_nan({A}, {B})",
        "add_sat": f"__hadd_sat({A}, {B})", "mul_sat": f"__hmul_sat({A}, {B})",
        "fma_relu": f"__hfma_relu({A}, {B}, {C})",
        "floor": f"hfloor({A})", "ceil": f"hceil({A})", "rint": f"hrint({A})",
        "trunc": f"htrunc({A})",
    }  # fmt: skip
    got = evaluate({n: ("uint16", f"{u}({e})") for n, e in names.items()}, PRELUDE, a=a, b=b, c=c)
    with np.errstate(all="ignore"):
        exact = {"add": x + y, "sub": x - y, "mul": x * y}
        if kind == "bfloat":
            # A float64 cannot hold every sum of two bfloat16 values exactly. So leave out pairs
            # with very different exponents.
            gap = np.abs(np.frexp(x)[1] - np.frexp(y)[1]) < 40
        else:
            gap = np.ones(x.shape, bool)
    for name, values in exact.items():
        equal(got[name][gap], rounded(values[gap], kind), kind, name)
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    for i in np.flatnonzero(finite)[:700]:
        value = Fraction(x[i]) * Fraction(y[i]) + Fraction(z[i])
        if value:
            want = fraction_bits(value, kind)
            assert got["fma"][i] == want, (x[i], y[i], z[i])
            assert got["fma_relu"][i] == (0 if value < 0 else want)
    number = ~nan_of(a, kind)
    np.testing.assert_array_equal(got["neg"][number], (a ^ 0x8000)[number])
    np.testing.assert_array_equal(got["abs_"][number], (a & 0x7FFF)[number])
    zeros = (x == 0) & (y == 0)
    both = number & ~nan_of(b, kind)
    negative_zero = np.signbit(x) | np.signbit(y)
    low = np.where(zeros, np.where(negative_zero, -0.0, 0.0), np.fmin(x, y))
    high = np.where(zeros, np.where(np.signbit(x) & np.signbit(y), -0.0, 0.0), np.fmax(x, y))
    equal(got["min_"], rounded(low, kind), kind, "min")
    equal(got["max_"], rounded(high, kind), kind, "max")
    equal(got["min_nan"], rounded(np.where(both, low, np.nan), kind), kind, "min_nan")
    equal(got["max_nan"], rounded(np.where(both, high, np.nan), kind), kind, "max_nan")
    for name, values in (("add_sat", x + y), ("mul_sat", x * y)):
        clipped = np.where(np.isnan(values), 0, np.clip(values, 0, 1))
        r = rounded(clipped[gap], kind)
        np.testing.assert_array_equal(widen(got[name][gap], kind), widen(r, kind), name)
    for name in ("floor", "ceil", "rint", "trunc"):
        equal(got[name][number], rounded(getattr(np, name)(x), kind)[number], kind, name)


def test_fma_beyond_double(evaluate):
    """The product is a tie and the addend is far below it. Only an exact fma rounds correctly."""
    random = np.random.default_rng(8)
    a = (random.integers(0x3F80, 0x4000, 2000)).astype(np.uint16)
    b = (random.integers(0x3F80, 0x4000, 2000)).astype(np.uint16)
    # The exponents of `a` grow by 50; the addend is tiny and has either sign.
    a += np.uint16(50 << 7)
    c = (random.integers(0x0080, 0x2000, 2000) | random.integers(0, 2, 2000) << 15).astype(
        np.uint16
    )
    got = evaluate(
        {"r": ("uint16", "V(__hfma(B(a), B(b), B(c)))")}, PRELUDE, a=a, b=b, c=c
    )["r"]  # fmt: skip
    x, y, z = (widen(v, "bfloat") for v in (a, b, c))
    want = [
        fraction_bits(Fraction(p) * Fraction(q) + Fraction(r), "bfloat")
        for p, q, r in zip(x, y, z, strict=True)
    ]
    np.testing.assert_array_equal(got, np.array(want, np.uint16))
    exact = x * y
    on_tie = rounded(exact * (1 + 2.0**-30), "bfloat") != rounded(exact * (1 - 2.0**-30), "bfloat")
    assert on_tie.sum() > 5  # the addend decided the rounding of these


@pytest.mark.parametrize("kind", ["half", "bfloat"])
def test_comparisons(evaluate, kind):
    a, b = interesting(800, 9, kind), interesting(800, 10, kind)
    b[:200] = a[:200]
    x, y = widen(a, kind), widen(b, kind)
    make = "H" if kind == "half" else "B"
    A, B = f"{make}(a)", f"{make}(b)"
    ops = ["eq", "ne", "lt", "le", "gt", "ge"]
    results = {o: ("int32", f"__h{o}({A}, {B})") for o in ops}
    results |= {f"{o}u": ("int32", f"__h{o}u({A}, {B})") for o in ops}
    results |= {"isnan": ("int32", f"__hisnan({A})"), "isinf": ("int32", f"__hisinf({A}) != 0")}
    # Packed forms: the mask of both comparisons, and the 1.0 that set writes into each half.
    two = "__halves2half2" if kind == "half" else "__halves2bfloat162"
    pair = f"{two}({A}, {B}), {two}({B}, {B})"
    results |= {f"{o}2": ("uint32", f"__h{o}2_mask({pair})") for o in ops}
    results |= {f"b{o}2": ("int32", f"__hb{o}2({pair})") for o in ops}
    for o in ops:
        call = f"auto r = __h{o}2({pair});"
        results[f"s{o}2"] = ("uint32", f"[&] {{ {call} return *(unsigned *)&r; }}()")
    got = evaluate(results, PRELUDE, a=a, b=b)
    unordered = np.isnan(x) | np.isnan(y)
    one = 0x3C00 if kind == "half" else 0x3F80
    for o in ops:
        f = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
             "gt": np.greater, "ge": np.greater_equal}[o]  # fmt: skip
        ordered = f(x, y) & ~unordered
        np.testing.assert_array_equal(got[o] != 0, ordered, o)
        np.testing.assert_array_equal(got[f"{o}u"] != 0, ordered | unordered, f"{o}u")
        upper = f(y, y) & ~np.isnan(y)
        np.testing.assert_array_equal(got[f"{o}2"], ordered * 0xFFFF + upper * 0xFFFF0000, f"{o}2")
        np.testing.assert_array_equal(got[f"b{o}2"] != 0, ordered & upper, f"b{o}2")
        np.testing.assert_array_equal(got[f"s{o}2"], ordered * one + upper * (one << 16), f"s{o}2")
    np.testing.assert_array_equal(got["isnan"] != 0, np.isnan(x))
    np.testing.assert_array_equal(got["isinf"] != 0, np.isinf(x))


def test_packed_arithmetic_equals_that_of_the_halves(evaluate):
    random = np.random.default_rng(11)
    a, b, c = (random.integers(0, 1 << 32, 900, np.uint32) for _ in range(3))
    for v, seed in ((a, 12), (b, 13), (c, 14)):
        low, high = (interesting(900, s, "half").astype(np.uint32) for s in (seed, seed + 50))
        v[:] = low | high << 16
    prelude = (
        PRELUDE
        + """
    #define P(x) (*(const __half2 *)&(x))
    #define Q(x) (*(const __nv_bfloat162 *)&(x))
    __device__ unsigned bits(__half2 x) { return *(unsigned *)&x; }
    __device__ unsigned bits(__nv_bfloat162 x) { return *(unsigned *)&x; }
    """
    )
    calls = {
        "add": ("__hadd2({a}, {b})", "__hadd({a}, {b})"),
        "sub": ("__hsub2({a}, {b})", "__hsub({a}, {b})"),
        "mul": ("__hmul2({a}, {b})", "__hmul({a}, {b})"),
        "fma": ("__hfma2({a}, {b}, {c})", "__hfma({a}, {b}, {c})"),
        "neg": ("__hneg2({a})", "__hneg({a})"),
        "min_": ("__hmin2({a}, {b})", "__hmin({a}, {b})"),
        "max_": ("__hmax2({a}, {b})", "__hmax({a}, {b})"),
    }
    results = {}
    for name, (pair, one) in calls.items():
        for kind, p, u, m in (("half", "P", "U", "H"), ("bfloat", "Q", "V", "B")):
            whole = pair.format(**{n: f"{p}({n})" for n in "abc"})
            results[f"{name}_{kind}"] = ("uint32", f"bits({whole})")
            low = one.format(**{n: f"{m}((unsigned short){n})" for n in "abc"})
            high = one.format(**{n: f"{m}((unsigned short)({n} >> 16))" for n in "abc"})
            results[f"{name}_{kind}_low"] = ("uint16", f"{u}({low})")
            results[f"{name}_{kind}_high"] = ("uint16", f"{u}({high})")
    got = evaluate(results, prelude, a=a, b=b, c=c)
    for name in calls:
        for kind in ("half", "bfloat"):
            whole = got[f"{name}_{kind}"]
            equal((whole & 0xFFFF).astype(np.uint16), got[f"{name}_{kind}_low"], kind, name)
            equal((whole >> 16).astype(np.uint16), got[f"{name}_{kind}_high"], kind, name)


def test_packing_and_rearranging(evaluate):
    x, y = (np.random.default_rng(s).standard_normal(300).astype(np.float32) for s in (15, 16))
    prelude = (
        PRELUDE
        + """
    __device__ unsigned bits(__half2 x) { return *(unsigned *)&x; }
    __device__ unsigned bits(__nv_bfloat162 x) { return *(unsigned *)&x; }
    """
    )
    h = "__floats2half2_rn(x, y)"
    got = evaluate(
        {
            "half2": ("uint32", f"bits({h})"),
            "bfloat2": ("uint32", "bits(__floats2bfloat162_rn(x, y))"),
            "low": ("float32", f"__low2float({h})"),
            "high": ("float32", f"__high2float({h})"),
            "swap": ("uint32", f"bits(__lowhigh2highlow({h}))"),
            "lows": ("uint32", f"bits(__lows2half2({h}, __float2half2_rn(y)))"),
            "pair": ("float32", f"[&] {{ float2 f = __half22float2({h}); return f.x + f.y; }}()"),
        },
        prelude,
        x=x,
        y=y,
    )
    a, b = x.astype(np.float16), y.astype(np.float16)
    low, high = a.view(np.uint16).astype(np.uint32), b.view(np.uint16).astype(np.uint32)
    np.testing.assert_array_equal(got["half2"], low | high << 16)
    np.testing.assert_array_equal(got["swap"], high | low << 16)
    np.testing.assert_array_equal(got["lows"], low | high << 16)
    np.testing.assert_array_equal(got["low"], a.astype(np.float32))
    np.testing.assert_array_equal(got["high"], b.astype(np.float32))
    np.testing.assert_array_equal(got["pair"], a.astype(np.float32) + b.astype(np.float32))
    bx, by = (rounded(v.astype(float), "bfloat").astype(np.uint32) for v in (x, y))
    np.testing.assert_array_equal(got["bfloat2"], bx | by << 16)


def test_flush_to_zero(evaluate):
    a, b = interesting(900, 17, "half"), interesting(900, 18, "half")
    a[:300] = np.random.default_rng(19).integers(0, 0x0800, 300)
    b[:150] = np.random.default_rng(20).integers(0x8000, 0x8800, 150)
    ptx = evaluate.ptx
    got = evaluate(
        {
            op: ("uint16", ptx("uint16", f"{op}.ftz.f16 %0, %1, %2;", "h:a", "h:b"))
            for op in ("add", "sub", "mul", "min", "max")
        },
        a=a,
        b=b,
    )

    def flushed(bits: np.ndarray) -> np.ndarray:
        return np.where((bits & 0x7C00) == 0, bits & 0x8000, bits).astype(np.uint16)

    x, y = (flushed(v).view(np.float16) for v in (a, b))
    with np.errstate(all="ignore"):
        for op, f in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
            equal(got[op], flushed(f(x, y).view(np.uint16)), "half", op)
        for op, f in (("min", np.fmin), ("max", np.fmax)):
            np.testing.assert_array_equal(got[op].view(np.float16), f(x, y), op)


def test_functions_of_half(evaluate):
    """hexp and similar functions compute in float and round; an error of one unit is allowed."""
    x = np.random.default_rng(21).uniform(0.1, 8, 400).astype(np.float16)
    functions = {"hexp": np.exp, "hexp2": np.exp2, "hlog": np.log, "hlog2": np.log2,
                 "hsqrt": np.sqrt, "hsin": np.sin, "hcos": np.cos, "hrsqrt": lambda v: v**-0.5,
                 "hrcp": lambda v: 1 / v, "h2div": lambda v: v / 3}  # fmt: skip
    expressions = {n: f"{n}(H(x))" for n in functions if n != "h2div"}
    expressions["h2div"] = "__hdiv(H(x), __float2half(3.f))"
    got = evaluate(
        {n: ("uint16", f"U({e})") for n, e in expressions.items()}, PRELUDE, x=x.view(np.uint16)
    )
    for name, f in functions.items():
        want = f(x.astype(np.float64)).astype(np.float16)
        value = got[name].view(np.float16)
        assert (np.abs(value - want) <= np.spacing(np.abs(want)) * 1.01).all(), name
