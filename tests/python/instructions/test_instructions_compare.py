"""setp, set, selp, slct: every comparison of every type, combined with predicates."""

import itertools
import operator

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

ORDERED = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
           "gt": operator.gt, "ge": operator.ge}  # fmt: skip
UNSIGNED = {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
BOOLEAN = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
LETTER = {"16": "h", "32": "r", "64": "l"}


def operands(dtype: str, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if dtype.startswith("float"):
        bits = random.integers(0, 1 << 32, 400, np.uint32).view(np.float32).astype(dtype)
        pool = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40], dtype)
    else:
        limits = np.iinfo(dtype)
        bits = random.integers(limits.min, limits.max, 400, dtype, endpoint=True)
        pool = np.array([limits.min, limits.max, 0, 1, 2], dtype)
    return np.where(random.random(400) < 0.5, random.choice(pool, 400), bits)


def setp(text: str) -> str:
    return f"{{ .reg .pred p, q; {text} selp.s32 %0, 1, 0, p; }}"


@pytest.mark.parametrize("bits", ["16", "32", "64"])
def test_integers(evaluate, bits):
    results, want = {}, {}
    s, u = f"int{bits}", f"uint{bits}"
    a, b = operands(s, 1), operands(s, 2)
    for kind, x, y in (("s", a, b), ("u", a.view(u), b.view(u)), ("b", a, b)):
        comparisons = {"s": ORDERED, "u": ORDERED | UNSIGNED, "b": dict(list(ORDERED.items())[:2])}
        for name, f in comparisons[kind].items():
            text = setp(f"setp.{name}.{kind}{bits} p, %1, %2;")
            operands_of = [f"{LETTER[bits]}:a", f"{LETTER[bits]}:b"]
            results[f"{name}_{kind}"] = ("int32", evaluate.ptx("int32", text, *operands_of))
            want[f"{name}_{kind}"] = f(x, y)
    got = evaluate(results, a=a, b=b)
    for name, values in want.items():
        np.testing.assert_array_equal(got[name] != 0, values, name)


@pytest.mark.parametrize("bits", ["32", "64"])
def test_floats(evaluate, bits):
    dtype, letter = f"float{bits}", {"32": "f", "64": "d"}[bits]
    a, b = operands(dtype, 3), operands(dtype, 4)
    ab = (f"{letter}:a", f"{letter}:b")
    unordered = np.isnan(a) | np.isnan(b)
    results, want = {}, {}
    for name, f in ORDERED.items():
        for suffix in ("", "u"):
            text = setp(f"setp.{name}{suffix}.f{bits} p, %1, %2;")
            results[name + suffix] = ("int32", evaluate.ptx("int32", text, *ab))
            want[name + suffix] = (f(a, b) & ~unordered) | (unordered if suffix else False)
    for name, values in (("num", ~unordered), ("nan", unordered)):
        text = setp(f"setp.{name}.f{bits} p, %1, %2;")
        results[f"is_{name}"] = ("int32", evaluate.ptx("int32", text, *ab))
        want[f"is_{name}"] = values
    got = evaluate(results, a=a, b=b)
    for name, values in want.items():
        np.testing.assert_array_equal(got[name] != 0, values, name)


def test_boolean_combinations_and_pairs(evaluate):
    """setp p|q, a, b, {!}c gives (a cmp b) op c and not (a cmp b) op c."""
    a, b, c = operands("int32", 5), operands("int32", 6), operands("int32", 7) & 1
    f = operands("float32", 8)
    results, want = {}, {}
    start = "{ .reg .pred p, q, c; .reg .s32 x; setp.ne.s32 c, %3, 0;"
    end = "selp.s32 %0, 1, 0, p; selp.s32 x, 2, 0, q; or.b32 %0, %0, x; }"
    for (name, combine), negate in itertools.product(BOOLEAN.items(), ("", "!")):
        for cmp in ("lt", "eq"):
            text = f"{start} setp.{cmp}.{name}.s32 p|q, %1, %2, {negate}c; {end}"
            key = f"{cmp}_{name}_{'not' if negate else 'is'}"
            results[key] = ("int32", evaluate.ptx("int32", text, "r:a", "r:b", "r:c"))
            truth = ORDERED[cmp](a, b)
            other = (c != 0) ^ bool(negate)
            want[key] = combine(truth, other) + 2 * combine(~truth, other)
    text = f"{start} setp.lt.f32 p|q, %1, %2; {end}"
    results["pair_f32"] = ("int32", evaluate.ptx("int32", text, "f:f", "f:0.5f", "r:c"))
    want["pair_f32"] = (f < 0.5) + 2 * ~(f < 0.5)
    got = evaluate(results, a=a, b=b, c=c, f=f)
    for name, values in want.items():
        np.testing.assert_array_equal(got[name], values, name)


def test_set(evaluate):
    a, b, c = operands("int32", 9), operands("int32", 10), operands("int32", 11) & 1
    f, g = operands("float32", 12), operands("float32", 13)
    d, e = operands("float64", 14), operands("float64", 15)
    ptx = evaluate.ptx
    with_c = "{ .reg .pred c; setp.ne.s32 c, %3, 0; set.lt.or.u32.s32 %0, %1, %2, !c; }"
    got = evaluate(
        {
            "u32_s32": ("uint32", ptx("uint32", "set.lt.u32.s32 %0, %1, %2;", "r:a", "r:b")),
            "u32_u32": ("uint32", ptx("uint32", "set.lt.u32.u32 %0, %1, %2;", "r:a", "r:b")),
            "s32_f32": ("int32", ptx("int32", "set.leu.s32.f32 %0, %1, %2;", "f:f", "f:g")),
            "f32_f32": ("float32", ptx("float32", "set.gt.f32.f32 %0, %1, %2;", "f:f", "f:g")),
            "f32_gtu": ("float32", ptx("float32", "set.gtu.f32.f32 %0, %1, %2;", "f:f", "f:g")),
            "f32_f64": ("float32", ptx("float32", "set.ge.f32.f64 %0, %1, %2;", "d:d", "d:e")),
            "or_not": ("uint32", ptx("uint32", with_c, "r:a", "r:b", "r:c")),
        },
        a=a, b=b, c=c, f=f, g=g, d=d, e=e,
    )  # fmt: skip
    ones = 0xFFFFFFFF
    np.testing.assert_array_equal(got["u32_s32"], (a < b) * ones)
    np.testing.assert_array_equal(got["u32_u32"], (a.view("u4") < b.view("u4")) * ones)
    np.testing.assert_array_equal(got["s32_f32"], -(~(f > g)).astype(int))
    np.testing.assert_array_equal(got["f32_f32"], (f > g).astype(float))
    np.testing.assert_array_equal(got["f32_gtu"], (~(f <= g)).astype(float))
    np.testing.assert_array_equal(got["f32_f64"], (d >= e).astype(float))
    np.testing.assert_array_equal(got["or_not"], ((a < b) | (c == 0)) * ones)


def test_selections(evaluate):
    a, b, c = operands("int32", 16), operands("int32", 17), operands("int32", 18)
    w, v = operands("int64", 19), operands("int64", 20)
    h, g = operands("int16", 21), operands("int16", 22)
    f = operands("float32", 23)
    ptx = evaluate.ptx

    def selp(kind: str, letter: str, dtype: str, x: str, y: str, negate: str = "") -> tuple:
        text = f"{{ .reg .pred p; setp.gt.s32 p, %3, 0; selp.{kind} %0, %1, %2, {negate}p; }}"
        return dtype, ptx(dtype, text, f"{letter}:{x}", f"{letter}:{y}", "r:c")

    def slct(kind: str, letter: str, dtype: str, x: str, y: str, by: str) -> tuple:
        text = f"slct.{kind}.{'s32' if by == 'r:c' else 'f32'} %0, %1, %2, %3;"
        return dtype, ptx(dtype, text, f"{letter}:{x}", f"{letter}:{y}", by)

    got = evaluate(
        {
            "selp16": selp("b16", "h", "int16", "h", "g"),
            "selp32": selp("b32", "r", "int32", "a", "b"),
            "selp64": selp("b64", "l", "int64", "w", "v"),
            "selp_not": selp("b32", "r", "int32", "a", "b", "!"),
            "slct16": slct("b16", "h", "int16", "h", "g", "r:c"),
            "slct32": slct("u32", "r", "int32", "a", "b", "r:c"),
            "slct64": slct("s64", "l", "int64", "w", "v", "r:c"),
            "slct32f": slct("b32", "r", "int32", "a", "b", "f:f"),
            "slct64f": slct("b64", "l", "int64", "w", "v", "f:f"),
        },
        a=a, b=b, c=c, w=w, v=v, h=h, g=g, f=f,
    )  # fmt: skip
    for name, x, y in (("selp16", h, g), ("selp32", a, b), ("selp64", w, v)):
        np.testing.assert_array_equal(got[name], np.where(c > 0, x, y), name)
    np.testing.assert_array_equal(got["selp_not"], np.where(c > 0, b, a))
    for name, x, y in (("slct16", h, g), ("slct32", a, b), ("slct64", w, v)):
        np.testing.assert_array_equal(got[name], np.where(c >= 0, x, y), name)
    for name, x, y in (("slct32f", a, b), ("slct64f", w, v)):
        np.testing.assert_array_equal(got[name], np.where(f >= 0, x, y), name)


def test_predicate_logic(evaluate):
    a, b = operands("int32", 24) & 1, operands("int32", 25) & 1
    start = "{ .reg .pred p, q, r; setp.ne.s32 p, %1, 0; setp.ne.s32 q, %2, 0;"
    end = "selp.s32 %0, 1, 0, r; }"
    texts = {
        "and": ("and.pred r, p, q;", a & b),
        "or": ("or.pred r, p, q;", a | b),
        "xor": ("xor.pred r, p, q;", a ^ b),
        "not": ("not.pred r, p;", 1 - a),
        "and_not": ("and.pred r, p, !q;", a & (1 - b)),
        "not_or": ("or.pred r, !p, q;", (1 - a) | b),
        "mov": ("mov.pred r, p;", a),
        "mov_not": ("mov.pred r, !p;", 1 - a),
        "guarded": ("mov.pred r, p; @q not.pred r, r;", a ^ b),
        "guarded_not": ("mov.pred r, p; @!q not.pred r, r;", a ^ (1 - b)),
        "aliased": ("xor.pred p, p, q; and.pred p, p, q; mov.pred r, p;", (a ^ b) & b),
    }
    got = evaluate(
        {
            name: ("int32", evaluate.ptx("int32", f"{start} {text} {end}", "r:a", "r:b"))
            for name, (text, _) in texts.items()
        },
        a=a,
        b=b,
    )
    for name, (_, want) in texts.items():
        np.testing.assert_array_equal(got[name], want, name)
