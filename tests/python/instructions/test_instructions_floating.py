"""Single and double precision: rounded operations compared with NumPy and exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest

# These tests use NaNs and infinities on purpose, and NumPy would warn of them.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

CANONICAL_NAN = 0x7FFFFFFF  # the result of every invalid single-precision operation
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 3.0, math.inf, -math.inf, math.nan]


def operands(dtype: str, count: int = 1500, seed: int = 0, spread: int | None = None) -> np.ndarray:
    """Return numbers of all magnitudes, subnormals, extremes, infinities and NaNs."""
    random = np.random.default_rng(seed)
    info = np.finfo(dtype)
    if spread is None:
        bits = random.integers(0, 2 ** (8 * info.bits // 8), count, f"uint{info.bits}")
        values = bits.view(dtype)
    else:
        values = random.standard_normal(count) * 2.0 ** random.integers(-spread, spread, count)
        values = values.astype(dtype)
    edges = [*SPECIAL, info.max, -info.max, info.tiny, -info.tiny, info.smallest_subnormal]
    edges += [info.tiny - info.smallest_subnormal, 1 + info.eps, 1 - info.epsneg, 2 - info.eps]
    place = random.integers(0, count, 6 * len(edges))
    values[place] = np.tile(np.array(edges, dtype), 6)
    return values


def assert_same_bits(got: np.ndarray, want: np.ndarray, what: str) -> None:
    """Check that the bits are equal. In double precision all NaNs are equal."""
    assert got.dtype == want.dtype, what
    nan = np.isnan(want)
    bits = f"uint{8 * got.dtype.itemsize}"
    np.testing.assert_array_equal(np.isnan(got), nan, what)
    np.testing.assert_array_equal(got[~nan].view(bits), want[~nan].view(bits), what)
    if got.dtype == np.float32:
        np.testing.assert_array_equal(got[nan].view(bits), CANONICAL_NAN, f"{what}: the NaN")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_operators_are_rounded_like_numpys(evaluate, dtype):
    a, b = operands(dtype, seed=1), operands(dtype, seed=2)
    with np.errstate(all="ignore"):
        b[500:900] = -a[500:900] * np.asarray(1 + 2e-7, dtype)  # cancellation
    got = evaluate(
        {
            "add": (dtype, "a + b"),
            "sub": (dtype, "a - b"),
            "mul": (dtype, "a * b"),
            "div": (dtype, "a / b"),
            "sqrt": (dtype, "sqrt(a)"),
            "rcp": (dtype, "1 / b"),
        },
        options=["-fmad=false"],
        a=a,
        b=b,
    )
    with np.errstate(all="ignore"):
        want = {
            "add": a + b,
            "sub": a - b,
            "mul": a * b,
            "div": a / b,
            "sqrt": np.sqrt(a),
            "rcp": np.asarray(1, dtype) / b,
        }
    for name, values in want.items():
        assert_same_bits(got[name], values, name)


FORMATS = {"float32": (24, -126, 127), "float64": (53, -1022, 1023)}


def rounded(x: Fraction, mode: str, dtype: str) -> float:
    """Return the fraction rounded to nearest even (n), to zero (z), down (d) or up (u)."""
    precision, least, most = FORMATS[dtype]
    if x == 0:
        return 0.0
    a = abs(x)
    e = a.numerator.bit_length() - a.denominator.bit_length()
    e = max(e if Fraction(2) ** e <= a else e - 1, least)
    unit = Fraction(2) ** (e - precision + 1)
    whole = a // unit
    rest = a / unit - whole
    outwards = {"z": False, "d": x < 0, "u": x > 0}.get(mode, rest > Fraction(1, 2))
    if mode == "n" and rest == Fraction(1, 2):
        outwards = whole % 2 == 1
    a = (whole + (rest != 0 and outwards)) * unit
    if a >= Fraction(2) ** (most + 1):
        if mode == "n" or outwards or (mode != "z" and (mode == "d") == (x < 0)):
            return math.inf if x > 0 else -math.inf
        a = Fraction(2) ** most * (2 - Fraction(2) ** (1 - precision))
    return float(a) if x > 0 else -float(a)


def root(x: Fraction) -> Fraction:
    """Return the square root, or a number that rounds in the same way."""
    scale = 1 << 300
    n = math.isqrt(x.numerator * x.denominator * scale * scale)
    value = Fraction(n, x.denominator * scale)
    return value if value * value == x else value + Fraction(1, x.denominator * scale * 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_rounding_mode(evaluate, dtype):
    a, b, c = (operands(dtype, 260, s, spread=30) for s in (3, 4, 5))
    for v, seed in ((a, 6), (b, 7), (c, 8)):  # some operands of all magnitudes
        v[:80] = operands(dtype, 80, seed)
        v[~np.isfinite(v)] = 1.25
    b[b == 0] = 3
    with np.errstate(all="ignore"):
        c[100:140] = -(a * b)[100:140]
    c[~np.isfinite(c)] = 1.25
    p = "f" if dtype == "float32" else "d"
    results = {}
    for mode in "nzdu":
        results[f"add_{mode}"] = f"__{p}add_r{mode}(a, b)"
        results[f"sub_{mode}"] = f"__{p}sub_r{mode}(a, b)"
        results[f"mul_{mode}"] = f"__{p}mul_r{mode}(a, b)"
        results[f"div_{mode}"] = f"__{p}div_r{mode}(a, b)"
        results[f"rcp_{mode}"] = f"__{p}rcp_r{mode}(b)"
        results[f"sqrt_{mode}"] = f"__{p}sqrt_r{mode}(fabs(a))"
        fma = "__fmaf" if dtype == "float32" else "__fma"
        results[f"fma_{mode}"] = f"{fma}_r{mode}(a, b, c)"
    got = evaluate({n: (dtype, e) for n, e in results.items()}, a=a, b=b, c=c)
    for i, row in enumerate(zip(a, b, c, strict=True)):
        x, y, z = (Fraction(float(v)) for v in row)
        exact = {
            "add": x + y, "sub": x - y, "mul": x * y, "div": x / y, "rcp": 1 / y,
            "sqrt": root(abs(x)), "fma": x * y + z,
        }  # fmt: skip
        for name, value in exact.items():
            for mode in "nzdu":
                want = rounded(value, mode, dtype)
                assert float(got[f"{name}_{mode}"][i]) == want, (name, mode, row)


def test_contraction_is_one_rounding(evaluate):
    """By default a * b + c becomes one fma. With -fmad=false, product and sum round separately."""
    a = operands("float32", 600, 9, spread=12)
    b = operands("float32", 600, 10, spread=12)
    a, b = (np.where(np.isfinite(v), v, np.float32(0.1)) for v in (a, b))
    with np.errstate(all="ignore"):
        c = -(a * b)
        c[::3] *= np.float32(1.5)
    c[~np.isfinite(c)] = 1
    fused = evaluate({"r": ("float32", "a * b + c")}, a=a, b=b, c=c)["r"]
    apart = evaluate(
        {"r": ("float32", "a * b + c")}, options=["-fmad=false"], a=a, b=b, c=c
    )["r"]  # fmt: skip
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(apart, a * b + c)
    want = [
        rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), "n", "float32")
        for x, y, z in zip(a, b, c, strict=True)
    ]
    np.testing.assert_array_equal(fused, np.array(want, np.float32))
    assert (fused != apart).sum() > 100


def flush(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(np.zeros(1, x.dtype), x), x)


def test_flush_to_zero_and_saturation(evaluate):
    a, b = operands("float32", seed=11), operands("float32", seed=12)
    # Many operands are subnormal, and so are many products.
    with np.errstate(all="ignore"):
        a[:400] = operands("float32", 400, 13) * np.float32(1e-38)
    b[:200] = operands("float32", 200, 14, spread=2)
    ptx, t = evaluate.ptx, "float32"
    ab = ("f:a", "f:b")
    results = {}
    for rnd in ("rn", "rz"):
        for op in ("add", "sub", "mul"):
            results[f"{op}_{rnd}_ftz"] = (t, ptx(t, f"{op}.{rnd}.ftz.f32 %0, %1, %2;", *ab))
            results[f"{op}_{rnd}_sat"] = (t, ptx(t, f"{op}.{rnd}.sat.f32 %0, %1, %2;", *ab))
            results[f"{op}_{rnd}_ftz_sat"] = (t, ptx(t, f"{op}.{rnd}.ftz.sat.f32 %0, %1, %2;", *ab))
    results |= {
        "abs_ftz": (t, ptx(t, "abs.ftz.f32 %0, %1;", "f:a")),
        "neg_ftz": (t, ptx(t, "neg.ftz.f32 %0, %1;", "f:a")),
        "min_ftz": (t, ptx(t, "min.ftz.f32 %0, %1, %2;", *ab)),
        "div_ftz": (t, ptx(t, "div.rn.ftz.f32 %0, %1, %2;", *ab)),
        "sqrt_ftz": (t, ptx(t, "sqrt.rn.ftz.f32 %0, %1;", "f:a")),
        "less_ftz": (
            "int32",
            ptx("int32", "{ .reg .pred p; setp.lt.ftz.f32 p, %1, %2; selp.s32 %0, 1, 0, p; }", *ab),
        ),
        "slct_ftz": ("int32", ptx("int32", "slct.ftz.s32.f32 %0, 1, 2, %1;", "f:a")),
        "saturate": (t, "__saturatef(a)"),
    }
    got = evaluate(results, a=a, b=b)
    fa, fb = flush(a), flush(b)

    def clip(x: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(x), 0, np.clip(x, 0, 1)).astype(np.float32)

    with np.errstate(all="ignore"):
        for op, f in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
            assert_same_bits(got[f"{op}_rn_ftz"], flush(f(fa, fb)), f"{op} ftz")
            np.testing.assert_array_equal(got[f"{op}_rn_sat"], clip(f(a, b)), op)
            np.testing.assert_array_equal(got[f"{op}_rn_ftz_sat"], flush(clip(f(fa, fb))), op)
            # Rounded to zero, the result is nearer to zero by at most one unit.
            near, cut = clip(f(a, b)), got[f"{op}_rz_sat"]
            assert ((cut <= near) & (cut >= np.nextafter(near, np.float32(-1)))).all()
        assert_same_bits(got["div_ftz"], flush(fa / fb), "div")
        assert_same_bits(got["sqrt_ftz"], np.sqrt(fa), "sqrt")
    number = ~np.isnan(a)
    np.testing.assert_array_equal(got["abs_ftz"][number], np.abs(fa)[number])
    np.testing.assert_array_equal(got["neg_ftz"][number], -fa[number])
    np.testing.assert_array_equal(got["min_ftz"], np.fmin(fa, fb))
    np.testing.assert_array_equal(got["less_ftz"], fa < fb)
    np.testing.assert_array_equal(got["slct_ftz"], np.where(fa >= 0, 1, 2))
    np.testing.assert_array_equal(got["saturate"], clip(a))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_minimum_and_maximum(evaluate, dtype):
    a, b = operands(dtype, seed=15), operands(dtype, seed=16)
    zeros = np.array([0.0, 0.0, -0.0, -0.0] * 10, dtype)
    a[:40], b[:40] = zeros, np.tile(np.array([0.0, -0.0], dtype), 20)
    a[40:60] = math.nan
    got = evaluate({"lo": (dtype, "fmin(a, b)"), "hi": (dtype, "fmax(a, b)")}, a=a, b=b)
    low = np.where((a == 0) & (b == 0), np.where(np.signbit(a), a, b), np.fmin(a, b))
    high = np.where((a == 0) & (b == 0), np.where(np.signbit(a), b, a), np.fmax(a, b))
    assert_same_bits(got["lo"], low, "min")
    assert_same_bits(got["hi"], high, "max")
    if dtype == "float64":
        return
    ptx, t, ab = evaluate.ptx, dtype, ("f:a", "f:b")
    got = evaluate(
        {
            "lo_nan": (t, ptx(t, "min.NaN.f32 %0, %1, %2;", *ab)),
            "hi_nan": (t, ptx(t, "max.NaN.f32 %0, %1, %2;", *ab)),
            "lo_xor": (t, ptx(t, "min.xorsign.abs.f32 %0, %1, %2;", *ab)),
            "hi_xor": (t, ptx(t, "max.xorsign.abs.f32 %0, %1, %2;", *ab)),
        },
        a=a,
        b=b,
    )
    number = ~np.isnan(a) & ~np.isnan(b)
    assert_same_bits(got["lo_nan"], np.where(number, low, np.float32(math.nan)), "min.NaN")
    assert_same_bits(got["hi_nan"], np.where(number, high, np.float32(math.nan)), "max.NaN")
    sign = np.where(np.signbit(a) != np.signbit(b), np.float32(-1), np.float32(1))
    for name, f in (("lo_xor", np.fmin), ("hi_xor", np.fmax)):
        want = np.copysign(f(np.abs(a), np.abs(b)), sign)
        assert_same_bits(got[name][number], want[number], name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_classification_and_parts(evaluate, dtype):
    a, b = operands(dtype, seed=17), operands(dtype, seed=18)
    x, bits = ("f", 32) if dtype == "float32" else ("d", 64)
    pred = f"{{ .reg .pred p; testp.%s.f{bits} p, %%1; selp.s32 %%0, 1, 0, p; }}"
    tests = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"]
    results = {t: ("int32", evaluate.ptx("int32", pred % t, f"{x}:a")) for t in tests}
    results |= {
        "isnan": ("int32", "isnan(a)"),
        "isinf": ("int32", "isinf(a)"),
        "isfinite": ("int32", "isfinite(a)"),
        "signbit": ("int32", "signbit(a) != 0"),
        "copysign": (dtype, "copysign(a, b)"),
        "copysign_ptx": (
            dtype,
            evaluate.ptx(dtype, f"copysign.f{bits} %0, %1, %2;", f"{x}:a", f"{x}:b"),
        ),
        "fabs": (dtype, "fabs(a)"),
        "floor": (dtype, "floor(a)"),
        "ceil": (dtype, "ceil(a)"),
        "trunc": (dtype, "trunc(a)"),
        "rint": (dtype, "rint(a)"),
        "nextafter": (dtype, "nextafter(a, b)"),
        "ldexp": (dtype, "ldexp(b, 3)"),
        "fdim": (dtype, "fdim(a, b)"),
        "fraction": (dtype, "[&] { int e; return frexp(a, &e); }()"),
        "exponent": ("int32", "[&] { int e = 0; frexp(a, &e); return e; }()"),
        "fmod": (dtype, "fmod(a, b)"),
        "remainder": (dtype, "remainder(a, b)"),
    }
    got = evaluate(results, a=a, b=b)
    tiny = np.finfo(dtype).tiny
    finite = np.isfinite(a)
    want = {
        "finite": finite,
        "infinite": np.isinf(a),
        "number": ~np.isnan(a),
        "notanumber": np.isnan(a),
        "normal": finite & ((np.abs(a) >= tiny) | (a == 0)),  # PTX counts zeros as normal
        "subnormal": (a != 0) & (np.abs(a) < tiny),
        "isnan": np.isnan(a),
        "isinf": np.isinf(a),
        "isfinite": finite,
        "signbit": np.signbit(a),
    }
    for name, values in want.items():
        np.testing.assert_array_equal(got[name] != 0, values, name)
    integer = f"uint{bits}"
    sign = np.array(1 << (bits - 1), integer)
    signs, magnitudes = a.view(integer) & sign, b.view(integer) & ~sign
    np.testing.assert_array_equal(got["copysign_ptx"].view(integer), signs | magnitudes)
    with np.errstate(all="ignore"):
        number = ~np.isnan(a)
        assert_same_bits(got["copysign"][number], np.copysign(a, b)[number], "copysign")
        assert_same_bits(got["fabs"][number], np.abs(a)[number], "fabs")
        for name in ("floor", "ceil", "trunc", "rint"):
            assert_same_bits(got[name][number], getattr(np, name)(a)[number], name)
        both = number & ~np.isnan(b)
        np.testing.assert_array_equal(got["nextafter"][both], np.nextafter(a, b)[both])
        np.testing.assert_array_equal(got["ldexp"], np.ldexp(b, 3))
        apart = both & ~(np.isinf(a) & np.isinf(b))
        np.testing.assert_array_equal(got["fdim"][apart], np.fmax(a - b, 0).astype(dtype)[apart])
        fraction, exponent = np.frexp(a)
        np.testing.assert_array_equal(got["fraction"][finite], fraction[finite])
        np.testing.assert_array_equal(got["exponent"][finite], exponent[finite])
        np.testing.assert_array_equal(got["fmod"], np.fmod(a, b))
        want_remainder = [
            math.remainder(p, q) if math.isfinite(p) and q != 0 and q == q else math.nan
            for p, q in zip(a.astype(float), b.astype(float), strict=True)
        ]
        np.testing.assert_array_equal(got["remainder"], np.array(want_remainder, dtype))
