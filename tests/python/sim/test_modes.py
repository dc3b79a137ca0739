"""A kernel gives the same results in all modes: run, profile, check, trace and step.

Plain runs, checks, traces and steps execute the PTX; profiles execute the machine code. The wanted
results are those of an H200.
"""

import numpy as np
import pytest

import coalesce

pytestmark = pytest.mark.usefixtures("machine_code")

MODES = ("launch", "profile", "check", "trace", "step")


def run(kernel, mode, grid, block, *arguments, **how):
    """Run a kernel in a mode, and return the arrays after it. `how` are options of the stepper."""
    left = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    if mode == "step":
        stepper = kernel.step(grid, block, *left, **how)
        stepper.finish()
        return [*stepper.arrays.values()]
    options = {"progress": False} if mode in ("profile", "trace") else {}
    result = getattr(kernel, mode)(grid, block, *left, **options)
    if mode == "profile":
        assert not kernel_runs_ptx(result), result.inexact
    if mode == "check":
        assert not result.errors, str(result)
    return [a for a in left if isinstance(a, np.ndarray)]


def kernel_runs_ptx(profile):
    return any("PTX" in reason for reason in profile.inexact)


def mask_of(lanes):
    """Return the mask of the lanes (in the last axis) that are true."""
    return lanes @ (1 << np.arange(32, dtype=np.uint64))


# The instruction, and its results for the values v.
EXCHANGES = {
    "shfl.idx": ("m = __shfl_sync(~0u, v, t * 5 + 3);", lambda v: v[(np.arange(32) * 5 + 3) & 31]),
    "shfl.down": ("m = __shfl_down_sync(~0u, v, 3);", lambda v: np.append(v[3:], v[-3:])),
    "ballot": ("m = __ballot_sync(~0u, v & 1);", lambda v: np.full(32, mask_of(v & 1))),
    "all": ("m = __all_sync(~0u, v > 100);", lambda v: np.full(32, (v > 100).all())),
    "match.any": (
        "m = __match_any_sync(~0u, v & 3);",
        lambda v: mask_of((v[:, None] & 3) == (v & 3)),
    ),
    "match.any.b64": (
        "m = __match_any_sync(~0u, (unsigned long long)(v & 3) << 40 | t >> 31);",
        lambda v: mask_of((v[:, None] & 3) == (v & 3)),
    ),
    "match.all": ("int p; m = __match_all_sync(~0u, v | 31, &p) + p;", np.zeros_like),
    "redux.add": ("m = __reduce_add_sync(~0u, v);", lambda v: np.full(32, v.sum())),
    "redux.min": (
        "m = __reduce_min_sync(~0u, (int)v - 110);",
        lambda v: np.full(32, int(v.min()) - 110 + 2**32),
    ),
    "syncwarp": ("s[t] = v; __syncwarp(); m = s[31 - t];", lambda v: v[::-1]),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", EXCHANGES)
@pytest.mark.parametrize("others", [1, 7])
def test_one_exchange_at_two_places(name, mode, others):
    """PTX names the modifiers and the mask of an exchange, but not its place in the code."""
    exchange, wanted = EXCHANGES[name]
    source = f"""extern "C" __global__ void k(const unsigned *in, const unsigned *c, unsigned *out,
                                              unsigned *other) {{
        __shared__ volatile unsigned s[32];
        int t = threadIdx.x;
        unsigned v = in[t], m;
        if (c[t]) {{ {exchange} other[t] = m * 5; }}
        else {{ v += 0; other[t] = {others}; {exchange} other[t] += m * 11; }}
        out[t] = m;
    }}"""
    kernel = coalesce.Kernel(source, "k", device="sim", instruction_limit=10**5)
    v = np.arange(100, 132, dtype=np.uint32)
    c = (np.arange(32) % 3 == 0).astype(np.uint32)
    out, other = run(kernel, mode, 1, 32, v, c, np.zeros(32, np.uint32), np.zeros(32, np.uint32))[
        2:
    ]
    m = wanted(v).astype(np.uint32)
    np.testing.assert_array_equal(out, m)
    np.testing.assert_array_equal(other, np.where(c, m * np.uint32(5), others + m * np.uint32(11)))


@pytest.mark.parametrize("mode", MODES)
def test_different_exchanges_at_two_places(mode):
    """Two different instructions are not executed together, so both wait for ever."""
    source = """extern "C" __global__ void k(unsigned *x) {
        unsigned t = threadIdx.x, v = x[t];
        if (v & 1) x[t] = __shfl_sync(~0u, v, t ^ 1); else x[t] = __shfl_xor_sync(~0u, v, 1);
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    x = np.arange(32, dtype=np.uint32)
    if mode == "check":
        assert "never arrive" in str(kernel.check(1, 32, x))
        return
    with pytest.raises(coalesce.LaunchError, match="never arrive"):
        run(kernel, mode, 1, 32, x)


# The first n lanes execute an exchange that names all lanes, and the others end without it. What an
# H200 writes to o; Numba's cuda.reduce() has the first one.
MISSED = {
    "o[t] = 5; __syncwarp(); o[t] += o[1];": lambda t: np.full_like(t, 10),
    "s(o); o[t] = 5;": lambda t: np.full_like(t, 5),
    "o[t] = __shfl_sync(~0u, t * 3, 1);": lambda t: np.full_like(t, 3),
    "o[t] = __ballot_sync(~0u, t & 1);": lambda t: np.full_like(t, (1 << t[1::2]).sum()),
    "o[t] = __reduce_add_sync(~0u, t + 1);": lambda t: np.full_like(t, (t + 1).sum()),
    "o[t] = __match_any_sync(~0u, t & 1);": lambda t: np.array(
        [(1 << t[i & 1 :: 2]).sum() for i in t]
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [2, 7, 16])
@pytest.mark.parametrize("code", MISSED)
def test_lanes_that_end_without_an_exchange(code, n, mode):
    source = f"""
    __device__ __noinline__ void s(volatile int *o) {{ o[33] = 2; __syncwarp(); }}
    extern "C" __global__ void k(volatile int *o, int n) {{
        int t = threadIdx.x;
        if (t < n) {{ {code} }}
        if (t == 0) o[32] = 7;
    }}"""
    kernel = coalesce.Kernel(source, "k", device="sim", instruction_limit=10**5)
    o = np.zeros(40, np.int32)
    if mode == "check":
        o = o.copy()
        found = kernel.check(1, 32, o, n)
        assert "lanes end without a warp operation" in str(found)
    else:
        (o,) = run(kernel, mode, 1, 32, o, n)
    np.testing.assert_array_equal(o[:n], MISSED[code](np.arange(n)))
    np.testing.assert_array_equal(o[n:33], [*[0] * (32 - n), 7])


# Operations of a warp with the mask m. After lanes have diverged, an H200 ends with an illegal
# instruction if a lane that calls is not in its own mask. (For several shuffles in a row, it goes
# on if all lanes of the mask are there.)
CALLS = (
    "__syncwarp(m)",
    "v = __shfl_sync(m, t, 1)",
    "v = __shfl_up_sync(m, t, 1)",
    "v = __shfl_down_sync(m, t, 1)",
    "v = __shfl_xor_sync(m, t, 1)",
    "v = __shfl_sync(m, (long long)t, 3)",
    "for (int i = 16; i > 0; i /= 2) v += __shfl_xor_sync(m, t, i)",
    "v = __ballot_sync(m, t & 1)",
    "v = __any_sync(m, t & 1)",
    "v = __match_any_sync(m, t & 3)",
    "v = __match_all_sync(m, t & 3, &v)",
    "v = __reduce_add_sync(m, t)",
)
# The mask, and the number of lanes that call.
OUTSIDE = (
    ("0xffu", 16),
    ("0xff00u", 4),
    ("m", 16),
    ("m & 0x100u", 16),
    ("m << 8", 4),
    ("t < 8 ? m : 0xffu", 31),
    ("0x3fffffffu", 31),
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", CALLS)
def test_a_lane_outside_of_its_own_mask(call, mode):
    reason = "the member mask of a warp operation does not include the calling lane"
    for mask, callers in OUTSIDE:
        source = f"""extern "C" __global__ void k(int *o, unsigned m, int callers) {{
            int t = threadIdx.x, v = -1;
            if (t < callers) {{ m = {mask}; {call}; }}
            o[t] = v;
        }}"""
        kernel = coalesce.Kernel(source, "k", device="sim", instruction_limit=10**5)
        arguments = (1, 32, np.zeros(32, np.int32), np.uint32(255))
        if mode == "check":
            assert reason in str(kernel.check(*arguments, callers).errors)
        else:
            with pytest.raises(coalesce.LaunchError, match=reason):
                run(kernel, mode, *arguments, callers)
        if mask in ("0xffu", "m"):
            run(kernel, mode, *arguments, 8)


# Code that all lanes execute, or all that have not left the kernel. What an H200 writes to o.
OF_ALL_LANES = {
    "o[t] = __ballot_sync(m, t & 1);": np.full(32, 0xAAAAAAAA, np.uint32),
    "o[t] = __ballot_sync(0xff, t & 1);": np.full(32, 0xAAAAAAAA, np.uint32),
    "if (t < 16) o[t] = __ballot_sync(m, t & 1);": np.repeat(np.uint32([0xAAAA, 0]), 16),
    "if (t >= 16) return; o[t] = __ballot_sync(m, t & 1);": np.repeat(np.uint32([0xAAAA, 0]), 16),
    "o[t] = __match_any_sync(m, t & 1);": np.tile(np.uint32([0x55555555, 0xAAAAAAAA]), 16),
    "o[t] = __reduce_add_sync(m, t);": np.full(32, 496, np.uint32),
    "o[t] = __shfl_xor_sync(m, t, 17);": np.arange(32, dtype=np.uint32) ^ 17,
    "o[t] = __any_sync(0xff, t == 9);": np.ones(32, np.uint32),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("code", OF_ALL_LANES)
def test_a_lane_outside_of_its_own_mask_in_code_of_all_lanes(code, mode):
    """An H200 goes on: its machine code does not look at the mask."""
    source = f"""extern "C" __global__ void k(unsigned *o, unsigned m) {{
        unsigned t = threadIdx.x;
        {code}
    }}"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    o = np.zeros(32, np.uint32)
    if mode == "check":
        assert "does not include the calling lane" in str(kernel.check(1, 32, o, np.uint32(255)))
    else:
        (o,) = run(kernel, mode, 1, 32, o, np.uint32(255))
    np.testing.assert_array_equal(o, OF_ALL_LANES[code])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ends", ["{ store(out, a, b, c); return; }", "goto end;"])
def test_an_early_end_of_threads_that_skip_barriers(ends, mode):
    """The compiler may merge the code before a `return` with the end of the kernel."""
    source = """
    __device__ __forceinline__ void store(float *o, float a, float b, float c) {
        o[threadIdx.x * 3] = a; o[threadIdx.x * 3 + 1] = b; o[threadIdx.x * 3 + 2] = c;
    }
    extern "C" __global__ void k(const float *in, float *out) {
        __shared__ float s[64];
        int t = threadIdx.x;
        float a = in[t], b = in[t + 64], c = a * b;
        s[t] = a;
        __syncthreads();
        if (a > 62.5f) ENDS
        __syncthreads();
        s[t] = b;
        __syncthreads();
        c += s[(t * 3 + 1) % 32];
        end:
        store(out, a, b, c);
    }""".replace("ENDS", ends)
    x = np.arange(128, dtype=np.float32)
    x[5] = 100
    a, b = x[:64], x[64:]
    read = (np.arange(64) * 3 + 1) % 32
    c = a * b + np.where(a > 62.5, 0, np.where(read == 5, a[5], b[read]))
    kernel = coalesce.Kernel(source, "k", device="sim")
    out = run(kernel, mode, 1, 64, x, np.zeros(192, np.float32))[1]
    np.testing.assert_array_equal(out, np.stack([a, b, c], 1).ravel())


# Threads end early, or execute barriers at several places. `v` is different in each thread.
ENDS = {
    "a guarded barrier": """if (v & 1) goto end; s[t] = v; __syncthreads(); v += s[t ^ 2];
        end: out[t] = v;""",
    "a barrier after a call": """if (v & 1) { if (v & 2) { out[t] = v; return; } v = square(v); }
        s[t] = square(v); __syncthreads(); v += s[t ^ 1]; __syncthreads(); s[t] = v;
        if (v & 4) { out[t] = v + 1; return; } __syncthreads(); out[t] = square(s[t ^ 3]);""",
    "a loop": """for (int i = 0; i < 4; ++i) { if ((v >> i) % 5 == 4) goto end;
        s[t] = square(v); __syncthreads(); v += s[t ^ 2]; __syncthreads(); } end: out[t] = v;""",
    "a switch": """switch (v % 4) { case 0: out[t] = square(v); return; case 1: v = 3; break;
        case 2: goto end; default: v = square(v); }
        s[t] = v; __syncthreads(); v += s[t ^ 1]; end: out[t] = v;""",
    "a switch around barriers": """switch (n) { case 5: if (v & 1) { out[t] = 0; return; }
        s[t] = v; __syncthreads(); v += s[t ^ 1]; break; case 6: __syncthreads(); v = 2; break;
        default: __syncthreads(); v = square(v); } out[t] = v;""",
    "nested conditions": """if (n > 3) { if (v & 1) { out[t] = 1; return; } s[t] = square(v);
        if (n > 4) { __syncthreads(); v += s[t ^ 2]; } } else { __syncthreads(); } out[t] = v;""",
    "a function": "s[t] = v; v = early(v, s); out[t] = v;",
    "a count": """if (v % 7 == 3) { out[t] = v; return; }
        v += __syncthreads_count(v & 4); out[t] = square(v);""",
    "barrier.sync at two places": """if (v & 1) { s[t] = v; asm volatile("barrier.sync 0;"); }
        else { s[t] = -v; asm volatile("barrier.sync 0;"); v = 7; } out[t] = v + s[t ^ 1];""",
    "a condition": "if (t < 40) { s[t] = v; __syncthreads(); } out[t] = v;",
    "two branches": """switch (v % 3) { case 0: s[t] = v; __syncthreads(); v += 1; break;
        case 1: __syncthreads(); v = 2; break; default: __syncthreads(); v = square(v); }
        out[t] = v;""",
    "a condition before a barrier": """if (t < 40) { s[t] = v; __syncthreads(); }
        out[t] = v; __syncthreads(); out[t] += s[t ^ 1];""",
}
REFUSED = ("two branches", "a condition before a barrier")


@pytest.mark.parametrize("name", ENDS)
def test_barriers_that_threads_skip(name):
    source = f"""
    __device__ __noinline__ int square(int x) {{ return x * x + 1; }}
    __device__ __noinline__ int early(int x, int *s) {{
        if (x & 1) return 5;
        __syncthreads();
        return s[threadIdx.x ^ 2];
    }}
    extern "C" __global__ void k(const int *in, int *out, int n) {{
        __shared__ int s[64];
        int t = threadIdx.x, v = in[t];
        s[t] = 0;
        __syncthreads();
        {ENDS[name]}
    }}"""
    kernel = coalesce.Kernel(source, "k", device="sim", instruction_limit=10**5)
    given = np.random.PCG64(3).random_raw(64).astype(np.int32) % 1000
    arguments = (1, 64, given, np.zeros(64, np.int32), np.int32(5))
    if name in REFUSED:
        for mode in MODES:
            if mode == "check":
                assert kernel.check(*arguments).errors
                continue
            with pytest.raises(coalesce.LaunchError, match="reached by only some threads"):
                run(kernel, mode, *arguments)
        return
    if name == "a condition":  # the only one that is probably a mistake
        assert [f.kind for f in kernel.check(*arguments).errors] == ["barrier"]
    left = {
        m: run(kernel, m, *arguments)[1] for m in MODES if m != "check" or name != "a condition"
    }
    for mode, out in left.items():
        np.testing.assert_array_equal(out, left["launch"], mode)
    assert left["launch"].any()


@pytest.mark.parametrize("mode", MODES)
def test_subnormal_powers_of_two(mode):
    """ex2.approx computes a subnormal result as the square of a normal number."""
    source = """extern "C" __global__ void k(const float *x, float *out) {
        int i = threadIdx.x;
        asm("ex2.approx.f32 %0, %1;" : "=f"(out[i]) : "f"(x[i]));
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out[i + 256]) : "f"(x[i]));
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    x = np.linspace(-152, -125, 256, dtype=np.float32)
    x[:3] = -126.789566, -np.inf, np.nan
    out = run(kernel, mode, 1, 256, x, np.zeros(512, np.float32))[1]
    half = np.exp2(x.astype(np.float64) / 2).astype(np.float32)
    wanted = np.where(x < -126, half * half, np.exp2(x.astype(np.float64)).astype(np.float32))
    np.testing.assert_array_equal(out[:256].view(np.uint32)[3:], wanted.view(np.uint32)[3:])
    assert (out[256:][x < -126] == 0).all()
    assert out[0] == np.float32(6.800448e-39)  # exp2 rounds to 6.800447e-39


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["half", "half2"])
def test_products_and_sums_of_halves(name, mode):
    """CUDA writes a * b + c as mul.f16 and add.f16, from which the assembler makes one fma."""
    source = f"""#include <cuda_fp16.h>
    extern "C" __global__ void k(const {name} *a, const {name} *b, const {name} *c, {name} *out) {{
        int i = threadIdx.x;
        out[i] = a[i] * b[i] + c[i];
        out[i + 256] = c[i] - a[i] * b[i];
        out[i + 512] = a[i] * b[i] - b[i] * c[i];
    }}"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    lanes = 2 if name == "half2" else 1
    a, b, c = np.random.default_rng(5).normal(size=(3, 256 * lanes)).astype(np.float16)
    # A build for debuggers rounds products and sums separately.
    how = {"optimized": True} if mode == "step" else {}
    out = run(kernel, mode, 1, 256, a, b, c, np.zeros(768 * lanes, np.float16), **how)[3]
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    wanted = np.concatenate([x * y + z, z - x * y, x * y - (b * c).astype(np.float64)])
    np.testing.assert_array_equal(out, wanted.astype(np.float16))


@pytest.mark.parametrize("mode", MODES)
def test_printf_of_an_int_as_a_long(mode, capfd):
    """printf reads 8 bytes, of which the kernel has written 4. On an H200, the others are 0."""
    source = 'extern "C" __global__ void k() { printf("%ld\\n", 13); }'
    kernel = coalesce.Kernel(source, "k", device="sim")
    run(kernel, mode, 1, 1)
    assert capfd.readouterr().out == "13\n"


PARAMETERS = """.version 8.0
.target sm_90
.address_size 64
.const .align 16 .b8 c[16];
.visible .func (.param .b32 result) f(.param .b32 a) {
    .reg .b32 %r<9>; .reg .b64 %d<9>;
    IN_FUNCTION
    st.param.b32 [result], %r1;
    ret;
}
.visible .entry k(.param .u64 p, .param .align 16 .b8 q[16], .param .u32 z) {
    .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;
    .shared .align 16 .b8 s[16]; .local .align 16 .b8 l[16];
    ld.param.u64 %d1, [p];
    IN_KERNEL
    CALL
    st.global.u32 [%d1], %r1;
    ret;
}"""

CALL = """{ .param .b32 a; .param .b32 b;
    st.param.b32 [a], %r1; call (b), f, (a); ld.param.b32 %r1, [b]; }"""
OFFSETS = (
    *(-1, -4, -8, -16, -(2**31), -(2**63)),
    *(16, 20, 2**31, 2**32, 2**32 - 4, 2**63 - 16, 2**64 - 4, 2**64 - 16),
)
WIDTHS = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "v2.u32": 8, "v4.u32": 16}
INTO = {"u64": "%d2", "u16": "%h1", "v2.u32": "{%r1, %r2}", "v4.u32": "{%r1, %r2, %r3, %r4}"}


@pytest.mark.parametrize("how", ["name", "register"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("space", ["param q", "const c", "shared s", "local l"])
def test_loads_outside_a_space(space, width, how):
    """No load before or behind a space, or of another parameter, returns anything."""
    space, name = space.split()
    for offset in OFFSETS:
        if how == "name":
            text = f"ld.{space}.{width} {INTO.get(width, '%r1')}, [{name}+{offset}];"
        else:
            # The distance of an address in a register is from the start of all parameters.
            by = offset + 40 if 0 < offset < 2**63 and space == "param" else offset
            text = f"mov.u64 %d3, {'p' if space == 'param' else name}; add.s64 %d3, %d3, {by};"
            text += f"ld.{space}.{width} {INTO.get(width, '%r1')}, [%d3];"
        source = (
            PARAMETERS.replace("IN_KERNEL", text).replace("IN_FUNCTION", "").replace("CALL", "")
        )
        kernel = coalesce.Kernel(source, "k", device="sim")
        q = np.void(bytes(range(16)))
        for mode in ("launch", "profile", "check"):
            out = np.full(1, 7, np.uint32)
            arguments = (1, 32, out, q, np.uint32(3))
            if mode == "check":
                assert kernel.check(*arguments).errors, (offset, text)
            else:
                with pytest.raises(coalesce.MemoryFault):
                    getattr(kernel, mode)(*arguments)
                assert out[0] == 7


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("width", WIDTHS)
def test_loads_outside_a_parameter_of_a_function(width, offset):
    text = f"ld.param.{width} {INTO.get(width, '%r1')}, [a+{offset}];"
    source = PARAMETERS.replace("IN_FUNCTION", text.replace("%h1", "%r1")).replace("IN_KERNEL", "")
    source = source.replace("CALL", CALL)
    kernel = coalesce.Kernel(source, "k", device="sim")
    with pytest.raises(coalesce.PtxError, match="are not within `a`, which has 4 bytes"):
        kernel[1, 32](np.zeros(1, np.uint32), np.void(bytes(16)), np.uint32(3))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", [-1, -2, 13, 1000])
def test_a_constant_index_outside_the_parameters(index, mode):
    """The machine code reads c[0x0][0x20c], where a GPU keeps data of its own."""
    source = f"""struct S {{ int a[4]; }};
    extern "C" __global__ void k(const __grid_constant__ S s, int *out, int n) {{
        if (n) *out = s.a[{index}];
    }}"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    arguments = {"a": np.arange(4, dtype=np.int32)}, np.zeros(1, np.int32), np.int32(1)
    if mode == "check":
        assert kernel.check(1, 1, *arguments).errors
        return
    with pytest.raises(coalesce.MemoryFault, match="outside the"):
        run(kernel, mode, 1, 1, *arguments)
