"""Conversions between every two types, with every rounding, saturation, NaN and infinities."""

import itertools
import math

import numpy as np
import pytest

# These tests use NaNs and infinities on purpose, and NumPy would warn of them.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
C = {
    "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short",
    "int32": "int", "uint32": "unsigned", "int64": "long long", "uint64": "unsigned long long",
    "float32": "float", "float64": "double",
}  # fmt: skip


def ptx_name(dtype: str) -> str:
    letter = {"i": "s", "u": "u", "f": "f"}[dtype[0]]
    return f"{letter}{8 * np.dtype(dtype).itemsize}"


def integers(dtype: str, count: int = 300, seed: int = 0) -> np.ndarray:
    limits, random = np.iinfo(dtype), np.random.default_rng(seed)
    values = random.integers(limits.min, limits.max, count, dtype, endpoint=True)
    values >>= random.integers(0, limits.bits, count).astype(dtype)
    edges = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, limits.max // 2 + 1]
    values[: len(edges)] = np.array(edges, dtype)
    return values


def floats(dtype: str, seed: int = 0) -> np.ndarray:
    """Return halves, quarters, powers of two, their neighbours, and values out of every range."""
    random = np.random.default_rng(seed)
    powers = 2.0 ** np.arange(-3, 66)
    near = np.concatenate([powers, powers - 0.5, powers + 0.5, powers - 1, powers * 1.25])
    near = near.astype(dtype)
    near = np.concatenate([near, np.nextafter(near, np.asarray(0, dtype))])
    small = (random.integers(-600, 600, 400) / 4).astype(dtype)
    edges = [math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1e-45, 3e38]
    return np.concatenate([near, -near, small, np.array(edges * 4, dtype)])


def holds(outer: str, inner: str) -> bool:
    a, b = np.iinfo(outer), np.iinfo(inner)
    return int(a.min) <= int(b.min) and int(a.max) >= int(b.max)


@pytest.mark.parametrize("source", INTEGERS)
def test_integers_to_integers(evaluate, source):
    a = integers(source)
    # Inline PTX has no 8-bit operands; cvt reads the low byte of a wider register.
    register = {1: ("h", "(short)a"), 2: ("h", "a"), 4: ("r", "a"), 8: ("l", "a")}
    letter, operand = register[a.dtype.itemsize]
    results = {}
    for d in INTEGERS:
        results[f"cast_{d}"] = (d, f"({C[d]})a")
        if holds(d, source):
            continue  # .sat is not allowed here, because no value can be out of range
        wide = d if np.dtype(d).itemsize > 1 else d.replace("8", "32")
        text = f"cvt.sat.{ptx_name(d)}.{ptx_name(source)} %0, %1;"
        results[f"sat_{d}"] = (wide, evaluate.ptx(wide, text, f"{letter}:{operand}"))
    got = evaluate(results, a=a)
    for d in INTEGERS:
        np.testing.assert_array_equal(got[f"cast_{d}"], a.astype(d), d)
        if holds(d, source):
            continue
        limits = np.iinfo(d)
        want = [min(max(int(v), int(limits.min)), int(limits.max)) for v in a]
        assert [int(v) for v in got[f"sat_{d}"]] == want, d


ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@pytest.mark.parametrize("source", ["float32", "float64"])
def test_floats_to_integers(evaluate, source):
    x = floats(source)
    letter = {"float32": "f", "float64": "d"}[source]
    results = {}
    for mode, d in itertools.product(ROUND, INTEGERS):
        wide = d if np.dtype(d).itemsize > 1 else d.replace("8", "32")
        text = f"cvt.{mode}.{ptx_name(d)}.{ptx_name(source)} %0, %1;"
        results[f"{mode}_{d}"] = (wide, evaluate.ptx(wide, text, f"{letter}:x"))
    for d in ("int32", "uint32", "int64", "uint64"):
        results[f"cast_{d}"] = (d, f"({C[d]})x")
    got = evaluate(results, x=x)
    for d in INTEGERS:
        limits = np.iinfo(d)
        names = {mode: f"{mode}_{d}" for mode in ROUND}
        if f"cast_{d}" in got:
            names["cast"] = f"cast_{d}"
        for mode, name in names.items():
            whole = ROUND.get(mode, np.trunc)(x.astype(np.float64))
            for value, result in zip(whole, got[name], strict=True):
                if np.isnan(value):
                    # PTX ISA, "cvt": NaN gives 0, or the highest bit alone if one side has 64 bits.
                    if limits.bits >= 32:
                        wide = limits.bits == 64 or source == "float64"
                        assert int(result) & ((1 << limits.bits) - 1) == (
                            1 << (limits.bits - 1) if wide else 0
                        ), name
                    continue
                assert int(result) == int(min(max(value, limits.min), limits.max)) or (
                    limits.bits == 64 and abs(value) >= 2.0**63 and int(result) in
                    (int(limits.min), int(limits.max), int(value))
                ), (name, value)  # fmt: skip


def test_64_bit_limits(evaluate):
    """The cases that test_floats_to_integers omits: float64 does not hold the 64-bit limits."""
    x = np.array([2.0**63, -(2.0**63), 2.0**64, -1.0, 2.0**63 - 1024, 1e300, -np.inf, np.inf] * 5)
    got = evaluate({"s": ("int64", "(long long)x"), "u": ("uint64", "(unsigned long long)x")}, x=x)
    top, bottom, most = 2**63 - 1, -(2**63), 2**64 - 1
    signed = [top, bottom, top, -1, 2**63 - 1024, top, bottom, top]
    unsigned = [2**63, 0, most, 0, 2**63 - 1024, most, 0, most]
    assert [int(v) for v in got["s"]] == signed * 5
    assert [int(v) for v in got["u"]] == unsigned * 5


@pytest.mark.parametrize("target", ["float32", "float64"])
def test_integers_to_floats(evaluate, target):
    inputs = {d: integers(d, 400, seed=3) for d in INTEGERS}
    for d in ("int64", "uint64", "int32", "uint32"):
        precision = 24 if target == "float32" else 53
        for k in range(1, np.iinfo(d).bits - precision - 1):
            tie = ((1 << precision) + 1) << (k - 1)
            inputs[d][20 + 3 * k : 23 + 3 * k] = np.array([tie, tie + 1, tie - 1], d)
    results = {}
    for d, mode in itertools.product(INTEGERS, ["rn", "rz", "rm", "rp"]):
        letter = {1: "h", 2: "h", 4: "r", 8: "l"}[np.dtype(d).itemsize]
        operand = f"(short)in_{d}" if letter == "h" else f"in_{d}"
        text = f"cvt.{mode}.{ptx_name(target)}.{ptx_name(d)} %0, %1;"
        results[f"{mode}_{d}"] = (target, evaluate.ptx(target, text, f"{letter}:{operand}"))
    got = evaluate(results, **{f"in_{d}": v for d, v in inputs.items()})
    for d, values in inputs.items():
        exact = [int(v) for v in values]
        near = np.array([float_of(v, target) for v in exact], target)
        np.testing.assert_array_equal(got[f"rn_{d}"], near, d)
        inf, zero = np.asarray(np.inf, target), np.asarray(0, target)
        below = np.array([int(n) > v for n, v in zip(near, exact, strict=True)])
        above = np.array([int(n) < v for n, v in zip(near, exact, strict=True)])
        down = np.where(below, np.nextafter(near, -inf), near)
        up = np.where(above, np.nextafter(near, inf), near)
        np.testing.assert_array_equal(got[f"rm_{d}"], down, d)
        np.testing.assert_array_equal(got[f"rp_{d}"], up, d)
        np.testing.assert_array_equal(got[f"rz_{d}"], np.where(near > zero, down, up), d)


def float_of(value: int, target: str) -> np.floating:
    """Return the integer rounded to nearest even, without a detour through float64."""
    precision = 24 if target == "float32" else 53
    drop = max(abs(value).bit_length() - precision, 0)
    whole, rest = divmod(abs(value), 1 << drop)
    half = 1 << drop >> 1
    whole += drop > 0 and (rest > half or (rest == half and whole % 2 == 1))
    result = math.ldexp(whole, drop)
    return np.dtype(target).type(-result if value < 0 else result)


def test_between_floats(evaluate):
    random = np.random.default_rng(5)
    d = floats("float64")
    single = random.integers(0, 1 << 32, 800, np.uint32).view(np.float32).astype(np.float64)
    ties = single * (1 + 2.0**-24)
    d = np.concatenate([d, single, ties, ties * (1 + 2.0**-52), -ties, single * 2.0**-20])
    d = np.concatenate([d, [3.5e38, -3.5e38, 1e300, -1e300, 1e-50, -1e-50]])
    f = d.astype(np.float32)
    ptx, t = evaluate.ptx, "float32"
    results = {
        mode: (t, ptx(t, f"cvt.{mode}.f32.f64 %0, %1;", "d:d")) for mode in ("rn", "rz", "rm", "rp")
    }
    results |= {m: (t, ptx(t, f"cvt.{m}.f32.f32 %0, %1;", "f:f")) for m in ROUND}
    results |= {
        f"{m}d": ("float64", ptx("float64", f"cvt.{m}.f64.f64 %0, %1;", "d:d")) for m in ROUND
    }
    results |= {
        "wide": ("float64", "(double)f"),
        "sat": (t, ptx(t, "cvt.rn.sat.f32.f64 %0, %1;", "d:d")),
        "sat_f": (t, ptx(t, "cvt.sat.f32.f32 %0, %1;", "f:f")),
        "ftz": (t, ptx(t, "cvt.rn.ftz.f32.f64 %0, %1;", "d:d")),
        "wide_ftz": ("float64", ptx("float64", "cvt.ftz.f64.f32 %0, %1;", "f:f")),
    }
    got = evaluate(results, d=d, f=f)
    number = ~np.isnan(d)
    inf = np.float32(np.inf)
    near = d.astype(np.float32)
    down = np.where(near > d, np.nextafter(near, -inf), near)
    up = np.where(near < d, np.nextafter(near, inf), near)
    want = {"rn": near, "rm": down, "rp": up, "rz": np.where(d > 0, down, up)}
    for mode, values in want.items():
        np.testing.assert_array_equal(got[mode], values, mode)
    for mode, function in ROUND.items():
        np.testing.assert_array_equal(got[mode], function(f), mode)
        np.testing.assert_array_equal(np.signbit(got[mode])[number], np.signbit(f)[number], mode)
        np.testing.assert_array_equal(got[f"{mode}d"], function(d), mode)
    np.testing.assert_array_equal(got["wide"], f.astype(np.float64))
    for name, x in (("sat", d), ("sat_f", f)):
        clipped = np.where(number, np.clip(x, 0, 1), 0).astype(np.float32)
        np.testing.assert_array_equal(got[name], clipped, name)
    tiny = np.float32(np.finfo(np.float32).tiny)
    np.testing.assert_array_equal(got["ftz"], np.where(np.abs(near) < tiny, 0, near))
    flushed = np.where(np.abs(f) < tiny, 0, f).astype(np.float64)
    np.testing.assert_array_equal(got["wide_ftz"], flushed)


def test_cast_intrinsics_and_bits(evaluate):
    random = np.random.default_rng(6)
    x = random.uniform(-1e9, 1e9, 500).astype(np.float32)
    d = random.uniform(-1e15, 1e15, 500)
    i = random.integers(-(2**62), 2**62, 500)
    got = evaluate(
        {
            "rn": ("int32", "__float2int_rn(x)"), "rd": ("int32", "__float2int_rd(x)"),
            "ll": ("int64", "__double2ll_ru(d)"), "f_rz": ("float32", "__ll2float_rz(i)"),
            "d_ru": ("float64", "__ll2double_ru(i)"), "lround": ("int64", "llround(d)"),
            "as_int": ("int32", "__float_as_int(x)"), "as_ll": ("int64", "__double_as_longlong(d)"),
            "hi": ("int32", "__double2hiint(d)"), "lo": ("int32", "__double2loint(d)"),
            "join": ("float64", "__hiloint2double(__double2hiint(d), __double2loint(d))"),
        },
        x=x, d=d, i=i,
    )  # fmt: skip
    np.testing.assert_array_equal(got["rn"], np.rint(x).astype(np.int32))
    np.testing.assert_array_equal(got["rd"], np.floor(x).astype(np.int32))
    np.testing.assert_array_equal(got["ll"], np.ceil(d).astype(np.int64))
    np.testing.assert_array_equal(got["lround"], np.trunc(d + np.copysign(0.5, d)).astype(np.int64))
    assert all(abs(int(f)) <= abs(int(v)) for f, v in zip(got["f_rz"], i, strict=True))
    assert all(int(f) >= int(v) for f, v in zip(got["d_ru"], i, strict=True))
    np.testing.assert_array_equal(got["as_int"], x.view(np.int32))
    np.testing.assert_array_equal(got["as_ll"], d.view(np.int64))
    np.testing.assert_array_equal(got["hi"], (d.view(np.int64) >> 32).astype(np.int32))
    np.testing.assert_array_equal(got["lo"].view(np.uint32), d.view(np.uint64) & 0xFFFFFFFF)
    np.testing.assert_array_equal(got["join"], d)


def test_packs_and_tf32(evaluate):
    a, b = integers("int32", 400, 7), integers("int32", 400, 8)[::-1].copy()
    c = integers("uint32", 400, 9)
    x = np.random.default_rng(10).integers(0, 1 << 32, 400, np.uint32).view(np.float32)
    ptx, u = evaluate.ptx, "uint32"
    got = evaluate(
        {
            "s16": (u, ptx(u, "cvt.pack.sat.s16.s32 %0, %1, %2;", "r:a", "r:b")),
            "u16": (u, ptx(u, "cvt.pack.sat.u16.s32 %0, %1, %2;", "r:a", "r:b")),
            "s8": (u, ptx(u, "cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;", "r:a", "r:b", "r:c")),
            "u8": (u, ptx(u, "cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;", "r:a", "r:b", "r:c")),
            "tf32": (u, ptx(u, "cvt.rna.tf32.f32 %0, %1;", "f:x")),
        },
        a=a, b=b, c=c, x=x,
    )  # fmt: skip
    for i, (p, q, r) in enumerate(zip(a, b, c, strict=True)):
        for name, low, high in (("s16", -(2**15), 2**15 - 1), ("u16", 0, 2**16 - 1),
                                ("s8", -128, 127), ("u8", 0, 255)):  # fmt: skip
            bits = int(name[1:])
            mask = (1 << bits) - 1
            first, second = (min(max(int(v), low), high) & mask for v in (p, q))
            want = first << bits | second
            if bits == 8:
                want |= (int(r) << 16) & 0xFFFFFFFF
            assert int(got[name][i]) == want, name
    finite = np.isfinite(x)
    bits = x.view(np.uint32)[finite].astype(np.uint64)
    # tf32 keeps 10 fraction bits and rounds ties away from zero. The bits below are unspecified.
    np.testing.assert_array_equal(got["tf32"][finite] >> 13, (bits + 0x1000) >> 13)
