"""Machine code of integers, halves and packed numbers leaves the same arrays as PTX."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from both_ways import both_ways

import coalesce

pytestmark = pytest.mark.usefixtures("machine_code")


def test_wide_integers():
    """A 64-bit value is a pair of registers. A sum carries from the low to the high register."""
    source = """
    typedef unsigned long long wide;
    extern "C" __global__ void k(int n, const wide* a, const wide* b, const wide* c, wide* out) {
        int t = blockIdx.x * blockDim.x + threadIdx.x;
        if (t >= n) return;
        wide x = a[t], y = b[t], z = c[t];
        int i = x, j = y;
        wide* d = out + 20ll * t;
        d[0] = x + y;
        d[1] = x - y;
        d[2] = x + y + z;
        d[3] = x - y - z;
        d[4] = x + y + (x + y < x);
        d[5] = x * y + z;
        d[6] = __umul64hi(x, y);
        d[7] = __mul64hi(x, y);
        d[8] = (long long)i * 4 + x;
        d[9] = (long long)i * j + x;
        d[10] = (wide)(unsigned)i * (unsigned)j + x;
        d[11] = (wide)(unsigned)i * 16 + x;
        d[12] = (x << 5) + y;
        d[13] = (x >> 7) ^ ((long long)y >> 9);
        d[14] = (x << 40) + ((long long)y >> 35);
        d[15] = (x << (z & 63)) ^ (y >> (z & 63));
        d[16] = (long long)i * -8 + x;
        d[17] = -x;
        d[18] = (long long)x < (long long)y ? x - 1 : y + 0x123456789abcdefull;
        d[19] = x > y ? max(x, z) : min(y, z);
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    edges = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2**32, 2**64 - 1]
    triples = np.array(list(itertools.product(edges, repeat=3)), np.uint64).T
    a, b, c = np.hstack(
        [triples, np.random.default_rng(1).integers(2**64, size=(3, 333), dtype="u8")]
    )
    zeros = np.zeros((len(a), 20), np.uint64)
    *_, out = both_ways(kernel, -(-len(a) // 96), 96, len(a), a, b, c, zeros)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out[:, 2], a + b + c)
        np.testing.assert_array_equal(out[:, 5], a * b + c)


def test_wide_differences_of_shifted_values():
    """LEA subtracts the lower words. If the lower word of y is zero, it borrows nothing."""
    source = """
    extern "C" __global__ void k(int n, const long long* x, const long long* y, long long* out) {
        int t = threadIdx.x;
        out[t] = ((long long)(int)x[t] >> 11) - y[t];
        out[n + t] = (x[t] << 3) - y[t];
        out[2 * n + t] = y[t] - (x[t] << 3);
        out[3 * n + t] = ((unsigned long long)(unsigned)x[t] << 2) - y[t];
        out[4 * n + t] = (__mul64hi(x[t], x[t]) >> 43) - y[t];
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    edges = [0, 1, -1, 2**31, 2**32, -(2**32), 2**40 + 5, 3 << 33, -(2**63), 2**63 - 1]
    x, y = np.array(list(itertools.product(edges, repeat=2))).T.copy()
    *_, out = both_ways(kernel, 1, len(x), len(x), x, y, np.zeros((5, len(x)), np.int64))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out[0], (x.astype(np.int32).astype(np.int64) >> 11) - y)
        np.testing.assert_array_equal(out[1], (x << 3) - y)


def test_a_divisor_of_zero():
    """CUDA does not define x / 0 and x % 0. Machine code returns all bits set for both.

    The upper words of x are not zero. If they were, the compiler would divide only the lower words.
    """
    types = ("short", "unsigned short", "int", "unsigned", "long long", "unsigned long long")
    lines = "\n".join(
        f"out[{2 * n}] = ({t})((({t})x[t]) / (({t})y[t])) == ({t})-1;"
        f"out[{2 * n + 1}] = ({t})((({t})x[t]) % (({t})y[t])) == ({t})-1;"
        for n, t in enumerate(types)
    )
    source = f"""
    extern "C" __global__ void k(const long long* x, const long long* y, bool* all_set) {{
        int t = threadIdx.x;
        bool* out = all_set + {2 * len(types)} * t;
        {lines}
    }}"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    x = np.array([-1, -300, -(2**31), 2**40 + 3, 2**62, -(2**63)])
    zeros = np.zeros((len(x), 2 * len(types)), np.bool_)
    *_, out = both_ways(kernel, 1, len(x), x, np.zeros_like(x), zeros)
    assert out.all()


def test_integers_packed_into_bytes_and_halves():
    """The assembler makes I2IP from cvt.pack, and several instructions from vset4."""
    source = """
    extern "C" __global__ void k(int n, const int* a, const int* b, const int* c, int* out) {
        int t = blockIdx.x * blockDim.x + threadIdx.x;
        if (t >= n) return;
        int x = a[t], y = b[t], z = c[t];
        int* d = out + 6 * t;
        asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(d[0]) : "r"(x), "r"(y), "r"(z));
        asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(d[1]) : "r"(x), "r"(y));
        asm("cvt.pack.sat.s16.s32 %0, %1, %2;" : "=r"(d[2]) : "r"(x), "r"(y));
        asm("cvt.pack.sat.u16.s32 %0, %1, %2;" : "=r"(d[3]) : "r"(x), "r"(y));
        asm("vset4.s32.s32.lt %0, %1, %2, %3;" : "=r"(d[4]) : "r"(x), "r"(y), "r"(0));
        asm("vset2.u32.u32.ge.add %0, %1, %2, %3;" : "=r"(d[5]) : "r"(x), "r"(y), "r"(z));
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    edges = [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, -32769, 65536, 2**31 - 1, -(2**31)]
    x, y = np.array(list(itertools.product(edges, repeat=2)), np.int32).T.copy()
    z = np.random.default_rng(2).integers(-(2**31), 2**31, len(x), np.int32)
    zeros = np.zeros((len(x), 6), np.int32)
    *_, out = both_ways(kernel, -(-len(x) // 96), 96, len(x), x, y, z, zeros)
    upper, lower = (v.clip(-(2**15), 2**15 - 1).astype(np.int16) for v in (x, y))
    np.testing.assert_array_equal(out[:, 2], np.stack([lower, upper], 1).view(np.int32)[:, 0])


def test_narrow_signed_results_fill_the_register():
    """The compiler stores the result of F2I.S16 or F2I.S8 as an int, without extending its sign."""
    source = """
    #include <cuda_fp16.h>
    extern "C" __global__ void k(const float* x, int* out) {
        const int t = threadIdx.x;
        short s;
        out[t] = __half2short_rz(__float2half(x[t]));
        asm("cvt.rni.s16.f32 %0, %1;" : "=h"(s) : "f"(x[t]));
        out[32 + t] = s;
        asm("{.reg .s8 q; cvt.rni.s8.f32 q, %1; cvt.s32.s8 %0, q;}"
            : "=r"(out[64 + t]) : "f"(x[t]));
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    x = np.arange(-16, 16, dtype=np.float32)
    _, out = both_ways(kernel, 1, 32, x, np.zeros((3, 32), np.int32))
    np.testing.assert_array_equal(out, [x] * 3)


def test_less_common_bytes_and_halves():
    """Modes of PRMT; halves that an instruction negates, swaps or makes positive; PACK_AB.RZ."""
    source = """
    #include <cuda_fp16.h>
    extern "C" __global__ void k(const unsigned* x, const unsigned* y, unsigned* out) {
        const int t = threadIdx.x;
        unsigned a = x[t], b = y[t], c = b >> t % 32, n = 0;
    #define NEXT "=r"(out[t + 96 * n++])
    #define PERMUTE(mode) asm("prmt.b32." mode " %0, %1, %2, %3;" : NEXT : "r"(a), "r"(b), "r"(c));
        PERMUTE("f4e") PERMUTE("b4e") PERMUTE("rc8") PERMUTE("ecl") PERMUTE("ecr") PERMUTE("rc16")
        const half2 p = *(const half2*)&a, q = *(const half2*)&b;
        out[t + 96 * n++] = __float_as_uint(__half2float(__habs(p.x)));
        out[t + 96 * n++] = __float_as_uint(-__half2float(__habs(p.y)));
        *(half2*)&out[t + 96 * n++] = __hcmadd(p, q, q);
        const float v = __uint_as_float(a), w = __uint_as_float(b);
        out[t + 96 * n++] = __half_as_ushort(__float2half_rz(v));
    #define PACK(mode) asm("cvt." mode ".f32 %0, %1, %2;" : NEXT : "f"(v), "f"(w));
        PACK("rz.f16x2") PACK("rn.relu.f16x2") PACK("rz.relu.bf16x2") PACK("rn.bf16x2")
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    halves = np.random.default_rng(3).standard_normal((2, 192)).astype(np.float16)
    halves[0, :4] = np.inf, -0.0, 65504, 2**-24
    x, y = halves.view(np.uint32)
    x[48:], y[48:] = np.random.default_rng(4).standard_normal((2, 48), np.float32).view(np.uint32)
    *_, out = both_ways(kernel, 1, 96, x, y, np.zeros((14, 96), np.uint32))
    lower = x.astype(np.uint16).view(np.float16)
    np.testing.assert_array_equal(out[6].view(np.float32)[:48], abs(lower[:48]))
    byte = x >> 8 * (y >> np.arange(96) % 32 & 3) & 255
    np.testing.assert_array_equal(out[2], byte * 0x1010101)


def test_sums_and_extremes_of_halves():
    """VIADDMNMX.S16x2 and VHMNMX combine two instructions of PTX."""
    source = """
    #include <cuda_bf16.h>
    #include <cuda_fp16.h>
    extern "C" __global__ void k(int n, const unsigned* a, unsigned* out) {
        int t = blockIdx.x * blockDim.x + threadIdx.x;
        if (t >= n) return;
        unsigned x = a[3 * t], y = a[3 * t + 1], z = a[3 * t + 2];
        unsigned* d = out + 9 * t;
        d[0] = __viaddmax_s16x2(x, y, z);
        d[1] = __viaddmin_s16x2_relu(x, y, z);
        d[2] = __viaddmax_u16x2(x, y, z);
        __half2 f = *(__half2*)&x, g = *(__half2*)&y, h = *(__half2*)&z;
        *(__half2*)&d[3] = __hmax2(__hmax2(f, g), h);
        *(__half2*)&d[4] = __hmin2_nan(__hmin2_nan(f, g), h);
        *(__half*)&d[5] = __hmin(__hmin(f.x, g.y), h.x);
        __nv_bfloat162 p = *(__nv_bfloat162*)&x, q = *(__nv_bfloat162*)&y,
                       r = *(__nv_bfloat162*)&z;
        *(__nv_bfloat162*)&d[6] = __hmax2(__hmax2(p, q), r);
        *(__nv_bfloat162*)&d[7] = __hmin2_nan(__hmin2_nan(p, q), r);
        *(__nv_bfloat16*)&d[8] = __hmax(__hmax(p.x, q.y), r.x);
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    edges = [0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFFFF, 0x7F80, 0x3C00, 0xBC00, 1, 0x8001, 0x7FFF]
    pairs = [low | high << 16 for low, high in itertools.product(edges[::2], edges[1::2])]
    words = np.random.default_rng(3).choice(np.array(pairs, np.uint32), (1000, 3))
    zeros = np.zeros((len(words), 9), np.uint32)
    _, out = both_ways(kernel, 10, 100, len(words), words.ravel(), zeros)
    x, y, z = words.view(np.int16).reshape(-1, 3, 2).transpose(1, 0, 2)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(
            out[:, 0].copy().view(np.int16).reshape(-1, 2), np.maximum(x + y, z)
        )


def test_cache_policies():
    """The assembler computes the policy with ordinary instructions, as the simulator does."""
    source = """
    extern "C" __global__ void k(float fraction, unsigned long long* out) {
        asm("createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %0, %1;"
            : "=l"(out[0]) : "f"(fraction));
        asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(out[1]));
        asm("createpolicy.fractional.L2::evict_unchanged.b64 %0, 0.3;" : "=l"(out[2]));
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    for fraction in (1, 0.5, 1e-3, 0.0625, 0.0626, 0.50031, 0.50032, 0, -1, 1.5, 1e20, np.nan):
        (out,) = both_ways(kernel, 1, 1, float(fraction), np.zeros(3, np.uint64))
        if fraction == 1:
            assert list(out) == [0x15F << 52, 0x12F << 52, 0x104 << 52]


def asm_kernel(lines: list[tuple[str, str]], inputs: str = "abc") -> str:
    """Return a kernel that executes one line of PTX after another on words of its arguments.

    In a line, %0 is the result, and {x} is the word x as the type that follows: {a:f} is a float.
    The letter beside the line is the type of the result.
    """
    types = {"r": ("unsigned", 4), "f": ("float", 4), "l": ("unsigned long long", 8),
             "d": ("double", 8), "h": ("unsigned short", 2)}  # fmt: skip
    body = []
    for n, (line, result) in enumerate(lines):
        operands: list[str] = []

        def operand(match: re.Match[str], operands: list[str] = operands) -> str:
            name, letter = match.groups()
            operands.append(f'"{letter}"(*({types[letter][0]}*)&{name})')
            return f"%{len(operands)}"

        text = re.sub(r"{(\w):(\w)}", operand, line)
        body.append(
            f'{{ {types[result][0]} d; asm("{text}" : "={result}"(d) : {", ".join(operands)});'
            f" d_of({n}, d); }}"
        )
    parameters = ", ".join(f"const unsigned long long* {x}_" for x in inputs)
    values = " ".join(f"unsigned long long {x} = {x}_[t];" for x in inputs)
    return f"""
    extern "C" __global__ void k(int n, {parameters}, unsigned long long* out) {{
        int t = blockIdx.x * blockDim.x + threadIdx.x;
        if (t >= n) return;
        auto d_of = [&](int at, auto d) {{ memcpy(out + {len(lines)}ll * t + at, &d, sizeof d); }};
        {values}
        {" ".join(body)}
    }}"""


def special_words(count: int = 3) -> list[np.ndarray]:
    """Return words whose lower 16, lower 32 and all 64 bits are often special numbers."""
    random = np.random.default_rng(2)
    words = random.integers(2**64, size=(count, 400), dtype=np.uint64)
    halves = [0, 1, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0x8000, 0x3C00, 0x7F80, 0xFFC1, 0x3F80]
    singles = [0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x80000000, 0x3F800000,
               0x00000001, 0x807FFFFF, 0x00800000, 0x7F000000, 0x7E800001, 0xFEFFFFFF, 0x3F801FFF,
               0x43000000, 0xC3000000, 0x47800000, 0x437F8000]  # fmt: skip
    doubles = [0x7FF0 << 48, 0xFFF8 << 48, (0x7FF0 << 48) + 1, (0xFFF8 << 48) + 5, 0x3FE0 << 48,
               0x40F0 << 48, 0xC010 << 48, 0, 1 << 63, 2**64 - 1]  # fmt: skip
    every = np.array(halves + singles + doubles, np.uint64)
    chosen = random.random(words.shape) < 0.6
    words[chosen] = random.choice(every, chosen.sum())
    near = random.random(words.shape) < 0.1  # floats near 1
    words[near] = (random.standard_normal(near.sum()) * 100).astype(np.float32).view(np.uint32)
    return list(words)


def both_ways_of_lines(lines: list[tuple[str, str]]) -> tuple[list[np.ndarray], np.ndarray]:
    a, b, c = special_words()
    # If both doubles are NaNs, it is not known whose bits a sum has.
    doubles = c.view(np.float64)
    doubles[np.isnan(doubles) & np.isnan(b.view(np.float64))] = 1
    kernel = coalesce.Kernel(asm_kernel(lines), "k", device="sim")
    zeros = np.zeros((len(a), len(lines)), np.uint64)
    *_, out = both_ways(kernel, -(-len(a) // 96), 96, len(a), a, b, c, zeros)
    return [a, b, c], out


def test_approximations_take_the_steps_of_machine_code():
    names = ["rcp.approx", "rsqrt.approx", "sqrt.approx", "lg2.approx", "ex2.approx"]
    lines = [(f"{name}{ftz}.f32 %0, {{a:f}};", "f") for name in names for ftz in ("", ".ftz")]
    lines += [(f"div.{how}{ftz}.f32 %0, {{a:f}}, {{b:f}};", "f")
              for how in ("full", "approx") for ftz in ("", ".ftz")]  # fmt: skip
    (a, b, _), out = both_ways_of_lines(lines)
    with np.errstate(all="ignore"):
        x, y = (v.astype(np.uint32).view(np.float32).astype(np.float64) for v in (a, b))
    quotients = out[:, lines.index(("div.full.f32 %0, {a:f}, {b:f};", "f"))]
    with np.errstate(all="ignore"):
        exact = x / y
        near = (abs(exact) > 1e-30) & (abs(exact) < 1e30) & (abs(y) > 1e-37) & (abs(x) > 1e-30)
    results = quotients.astype(np.uint32).view(np.float32)[near]
    np.testing.assert_allclose(results, exact[near], rtol=2**-22)


def test_signs_and_conversions_of_nans():
    """The assembler translates these into FADD, DADD and HADD2, which change NaNs."""
    lines = [(f"{op}{ftz}.f32 %0, {{a:f}};", "f") for op in ("abs", "neg") for ftz in ("", ".ftz")]
    lines += [(f"{op}.f64 %0, {{a:d}};", "d") for op in ("abs", "neg")]
    lines += [(f"sub{how}.f64 %0, {{c:d}}, {{b:d}};", "d") for how in ("", ".rz", ".rp")]
    for kind in ("f16", "bf16"):
        lines += [(f"{op}.{kind} %0, {{a:h}};", "h") for op in ("abs", "neg")]
        lines += [(f"{op}.{kind}x2 %0, {{a:r}};", "r") for op in ("abs", "neg")]
    lines += [
        ("cvt.ftz.f32.f32 %0, {a:f};", "f"), ("cvt.ftz.f64.f32 %0, {a:f};", "d"),
        ("cvt.f16.f16 %0, {a:h};", "h"), ("cvt.rna.tf32.f32 %0, {a:f};", "r"),
        ("cvt.rn.f32.f64 %0, {a:d};", "f"), ("cvt.rn.tf32.f32 %0, {a:f};", "r"),
    ]  # fmt: skip
    (a, _, _), out = both_ways_of_lines(lines)
    halves = a.astype(np.uint16)
    nan = (halves & 0x7FFF) > 0x7C00
    negated = out[:, lines.index(("neg.f16 %0, {a:h};", "h"))]
    np.testing.assert_array_equal(negated, np.where(nan, 0x7FFF, halves ^ 0x8000))
    # An H200 keeps the sign of a NaN in these cases, and makes it quiet.
    doubles = a.view(np.float64)
    kept = a | np.uint64(1 << 51)
    for op, want in (("abs", abs(doubles)), ("neg", -doubles)):
        column = lines.index((f"{op}.f64 %0, {{a:d}};", "d"))
        np.testing.assert_array_equal(
            out[:, column], np.where(np.isnan(doubles), kept, want.view(np.uint64))
        )
    singles = out[:, lines.index(("cvt.rn.f32.f64 %0, {a:d};", "f"))][np.isnan(doubles)]
    upper = (a >> np.uint64(32)).astype(np.uint32)
    fraction = (a >> np.uint64(29)).astype(np.uint32) & 0x7FFFFF
    want = upper & 0x80000000 | 0x7FC00000 | fraction
    np.testing.assert_array_equal(singles, want[np.isnan(doubles)])
    tf32 = out[:, lines.index(("cvt.rn.tf32.f32 %0, {a:f};", "r"))]
    np.testing.assert_array_equal(
        tf32[np.isnan(a.astype(np.uint32).view(np.float32))], 0x7FFFE000, strict=False
    )


def test_sines_of_angles_without_a_fraction():
    """Such an angle is a whole number of turns for the hardware (recorded on an H200)."""
    lines = [
        (f"{f}.approx{ftz}.f32 %0, {{a:f}};", "f") for f in ("sin", "cos") for ftz in ("", ".ftz")
    ]
    (a, _, _), out = both_ways_of_lines(lines)
    angles = a.astype(np.uint32).view(np.float32)
    whole = np.isfinite(angles) & (abs(angles) > 2.0**27)
    assert whole.sum() > 10
    sign = a.astype(np.uint32)[whole] & 0x80000000
    np.testing.assert_array_equal(
        out[whole], np.stack([sign, sign, *2 * [sign * 0 + 0x3F800000]], 1)
    )


def test_extremes_with_the_sign_of_a_product():
    lines = [
        (f"{op}{ftz}{nan}.xorsign.abs.{kind} %0, {{a:{letter}}}, {{b:{letter}}};", letter)
        for op in ("min", "max")
        for nan in ("", ".NaN")
        for ftz, kind, letter in (("", "f32", "f"), (".ftz", "f32", "f"), ("", "f16", "h"),
                                  ("", "f16x2", "r"), ("", "bf16", "h"), ("", "bf16x2", "r"))
    ]  # fmt: skip
    (a, b, _), out = both_ways_of_lines(lines)
    x, y = (v.astype(np.uint32).view(np.float32) for v in (a, b))
    want = np.copysign(np.fmin(abs(x), abs(y)), np.where(np.signbit(x) ^ np.signbit(y), -1, 1))
    numbers = ~(np.isnan(x) & np.isnan(y))
    column = lines.index(("min.xorsign.abs.f32 %0, {a:f}, {b:f};", "f"))
    got = out[:, column].astype(np.uint32)
    np.testing.assert_array_equal(
        got[numbers], want.astype(np.float32).view(np.uint32)[numbers], strict=True
    )


def test_functions_and_conversions_of_halves():
    lines = [(f"ex2.approx.{kind} %0, {{a:{letter}}};", letter)
             for kind, letter in (("f16", "h"), ("f16x2", "r"), ("ftz.bf16", "h"),
                                  ("ftz.bf16x2", "r"))]  # fmt: skip
    lines += [
        (f"tanh.approx.{kind} %0, {{a:{letter}}};", letter)
        for kind, letter in (("f16", "h"), ("f16x2", "r"), ("bf16", "h"), ("bf16x2", "r"))
    ]
    lines += [(f"cvt.{how}.relu.{kind}.f32 %0, {{a:f}};", "h")
              for how in ("rn", "rz") for kind in ("f16", "bf16")]  # fmt: skip
    lines += [(f"cvt.{how}{relu}.tf32.f32 %0, {{a:f}};", "r")
              for how in ("rn", "rz") for relu in ("", ".relu")]  # fmt: skip
    lines += [("cvt.rn.sat.f16.f64 %0, {a:d};", "h"), ("cvt.rz.sat.f16.f64 %0, {a:d};", "h")]
    (a, _, _), out = both_ways_of_lines(lines)
    x = a.astype(np.uint32).view(np.float32)
    positive = (x > 0) & (x < 65000)
    got = out[:, lines.index(("cvt.rn.relu.f16.f32 %0, {a:f};", "h"))].astype(np.uint16)
    want = x[positive].astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(got[positive], want, strict=True)
    assert not got[x < 0].any()


def test_conversions_to_bytes_and_immediate_numbers():
    lines = [(f"cvt.sat.{to}.s32 %0, {{a:r}};", "r") for to in ("s8", "u8")]
    lines += [(f"cvt.sat.{to}.s32 %0, {{a:r}};", "h") for to in ("s16", "u16")]
    lines += [(f"cvt.{how}.{to}.f32 %0, {{a:f}};", "r")
              for how in ("rni", "rzi", "rmi", "rpi") for to in ("u8", "s8")]  # fmt: skip
    # The assembler writes the upper word of these numbers into I2F if the lower one is zero.
    lines += [(f"cvt.rn.f32.{t} %0, {n};", "f")
              for t, n in (("u64", 1 << 32), ("s64", -(5 << 32)), ("u64", 3))]  # fmt: skip
    lines += [("cvt.pack.sat.s8.s32.b32 %0, {a:r}, {b:r}, {c:r};", "r")]
    (a, _, _), out = both_ways_of_lines(lines)
    signed = a.astype(np.uint32).view(np.int32)
    np.testing.assert_array_equal(out[:, 0].astype(np.uint8).view(np.int8), signed.clip(-128, 127))
    np.testing.assert_array_equal(out[:, 1].astype(np.uint8), signed.clip(0, 255))
    numbers = out[:, len(lines) - 4 : len(lines) - 1].astype(np.uint32).view(np.float32)
    assert (numbers == np.array([2.0**32, -5 * 2.0**32, 3], np.float32)).all()


def test_video_instructions():
    names = ("vadd", "vsub", "vabsdiff", "vmin", "vmax")
    signs = tuple(itertools.product("us", repeat=3))
    lines = [
        (f"{name}{n}.{d}32.{p}32.{q}32{then} %0, {{a:r}}, {{b:r}}, {{c:r}};", "r")
        for name in (*names, "vavrg") for n in (2, 4) for d, p, q in signs
        for then in ("", ".sat", ".add")
    ]  # fmt: skip
    clamped = {"vadd": ["ss"], "vsub": ["uu", "su", "ss"], "vabsdiff": ["uu", "ss"]}
    lines += [
        (f"{name}.{d}32.{p}32.{q}32{sat}{add} %0, {{a:r}}, {{b:r}}{c};", "r")
        for name in names for d, p, q in signs for sat in ("", ".sat")
        for add, c in (("", ""), (".add", ", {c:r}"))
        if not sat or d == "s" or p + q in clamped.get(name, [p + q])
    ]  # fmt: skip
    for part in range(0, len(lines), 120):
        both_ways_of_lines(lines[part : part + 120])


def test_signs_as_predicates():
    """The assembler finds the overflow of add.sat with PLOP3, whose sources are signs."""
    lines = [(f"{op}.sat.s32 %0, {{a:r}}, {{b:r}};", "r") for op in ("add", "sub")]
    (a, b, _), out = both_ways_of_lines(lines)
    x, y = (v.astype(np.uint32).view(np.int32).astype(np.int64) for v in (a, b))
    for column, exact in enumerate((x + y, x - y)):
        got = out[:, column].astype(np.uint32).view(np.int32)
        np.testing.assert_array_equal(got, exact.clip(-(2**31), 2**31 - 1))


def test_divisions_that_flush_subnormals():
    """The slow path of a division with -ftz=true has BREAK with a guard and a condition."""
    source = """
    extern "C" __global__ void k(int n, const float* a, const float* b, float* out) {
        int t = blockIdx.x * blockDim.x + threadIdx.x;
        if (t < n) out[t] = a[t] / b[t];
    }"""
    kernel = coalesce.Kernel(source, "k", ["-ftz=true"], device="sim")
    a, b = (w.astype(np.uint32).view(np.float32) for w in special_words(2))
    x, y = (np.where(abs(v) < 2**-126, np.copysign(np.float32(0), v), v) for v in (a, b))
    with np.errstate(all="ignore"):
        exact = x.astype(np.float64) / y
        want = np.where(abs(exact) < 2**-126, np.copysign(0, exact), x / y)
    *_, out = both_ways(kernel, -(-len(a) // 96), 96, len(a), a, b, np.zeros_like(a))
    np.testing.assert_array_equal(out, want)
    assert (np.signbit(out) == np.signbit(want))[~np.isnan(want)].all()
