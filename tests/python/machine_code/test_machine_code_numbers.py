"""Machine code of integers, halves and packed numbers leaves the same arrays as PTX."""

import itertools
import re

import numpy as np
import pytest
from both_ways import both_ways

import coalesce

pytestmark = pytest.mark.usefixtures("machine_code")


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
