"""Atomics and reductions in every state space and type, also from many blocks at once."""

import both_ways
import numpy as np
import pytest

import coalesce

PRELUDE = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
"""


def run(device, source, *arguments, **how):
    both_ways.run(device, PRELUDE + source, *arguments, **how)


# operation -> CUDA call, the reference's operation, initial value
OPERATIONS = {
    "Add": (lambda m, v: m + v, 7),
    "Sub": (lambda m, v: m - v, 7),
    "Min": (min, 50),
    "Max": (max, 50),
    "And": (lambda m, v: m & v, -1),
    "Or": (lambda m, v: m | v, 0),
    "Xor": (lambda m, v: m ^ v, 0),
}
TYPES = {
    "int32": "int",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
    "int64": "long long",
}


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize("dtype", TYPES)
def test_integers(device, random, space, dtype):
    names = [n for n in OPERATIONS if not (dtype == "int64" and n in ("Add", "Sub", "Xor"))]
    if dtype == "uint64":
        names.remove("Sub")
    n, threads = 6, 600
    limits = np.iinfo(dtype)
    values = random.integers(limits.min, limits.max, threads, dtype)
    start = np.array([[OPERATIONS[o][1] & int(limits.max)] * n for o in names], dtype)
    out, t = start.copy(), TYPES[dtype]
    begin = f"__shared__ {t} cell[{len(names) * n}];" if space != "global" else f"{t} *cell = out;"
    # one instruction, where some lanes update shared memory and others global memory
    if space == "generic":
        pick = f"(v & 1 ? cell : out) + {{}} * {n} + i % {n}"
    else:
        pick = f"cell + {{}} * {n} + i % {n}"
    calls = "".join(f"atomic{o}({pick.format(k)}, v);" for k, o in enumerate(names))
    copy = f"for (int j = i; j < {len(names) * n}; j += blockDim.x)"
    after = {
        "global": "",
        "shared": f"{copy} out[j] = cell[j];",
        "generic": f"{copy} out[{len(names) * n} + j] = cell[j];",
    }
    if space == "generic":
        out = np.concatenate([out, out])
    before = "" if space == "global" else f"{copy} cell[j] = out[j];"
    run(
        device,
        f"""extern "C" __global__ void k({t} *out, const {t} *values) {{
            {begin}
            int i = threadIdx.x;
            {t} v = values[i];
            {before}
            __syncthreads();
            {calls}
            __syncthreads();
            {after[space]}
        }}""",
        out,
        values,
        block=threads,
    )

    def expected(kept: np.ndarray) -> list[list[int]]:
        rows = []
        for o in names:
            step, cells = OPERATIONS[o][0], [OPERATIONS[o][1] & int(limits.max)] * n
            for i in np.flatnonzero(kept):
                cells[i % n] = step(cells[i % n], int(values[i]))
            rows.append([c & ((1 << limits.bits) - 1) for c in cells])
        return rows

    unsigned = f"uint{limits.bits}"
    if space == "generic":
        got_global, got_shared = out.reshape(2, len(names), n).view(unsigned)
        odd = values & np.asarray(1, dtype) == 1
        np.testing.assert_array_equal(got_global, np.array(expected(~odd), unsigned))
        np.testing.assert_array_equal(got_shared, np.array(expected(odd), unsigned))
    else:
        want = np.array(expected(np.ones(threads, bool)), unsigned)
        np.testing.assert_array_equal(out.view(unsigned), want)


def test_atomics_return_the_old_values(device):
    """Each of 2560 increments returns a different number; the others return old values."""
    n = 2560
    ticket = np.zeros(n, np.int32)
    cells = np.zeros(8, np.uint32)
    wide = np.zeros(4, np.uint64)
    old = np.zeros((5, n), np.uint64)
    source = """
        extern "C" __global__ void k(int *ticket, unsigned *c, unsigned long long *w,
                                     unsigned long long *old) {
            int i = blockIdx.x * blockDim.x + threadIdx.x, n = 2560;
            ticket[i] = atomicAdd(&c[0], 1u);
            old[i] = atomicInc(&c[1], 9u);
            old[n + i] = atomicDec(&c[2], 6u);
            old[2 * n + i] = atomicExch(&c[3], i + 1);
            old[3 * n + i] = atomicExch(&w[0], (1ull << 40) + i);
            old[4 * n + i] = atomicCAS(&w[1], 0ull, i + 1ull);
        }"""
    # The blocks run in any order, so that two launches return different old values.
    coalesce.Kernel(source, "k", device=device)[20, 128](ticket, cells, wide, old)
    assert sorted(ticket) == list(range(n))
    assert cells[0] == n
    assert cells[1] == n % 10
    counts = np.bincount(old[0].astype(int))
    np.testing.assert_array_equal(counts, np.full(10, n // 10))
    down = np.bincount(old[1].astype(int))
    assert len(down) == 7
    assert down.max() - down.min() <= 1
    exchanged = sorted([*old[2].tolist(), int(cells[3])])
    assert exchanged == list(range(n + 1))
    assert sorted([*old[3].tolist(), int(wide[0])]) == [0, *range(1 << 40, (1 << 40) + n)]
    winners = np.flatnonzero(old[4] == 0)
    assert len(winners) == 1
    assert wide[1] == winners[0] + 1
    assert (old[4][old[4] != 0] == wide[1]).all()


def test_floating_sums(device, random):
    """The sums of these numbers are exact, so the order does not matter."""
    n = 1024
    x = random.integers(-8, 8, n).astype(np.float32)
    f, d = np.zeros(3, np.float32), np.zeros(3)
    h, b = np.zeros(4, np.float16), np.zeros(4, np.uint16)
    vector = np.zeros(8, np.float32)
    run(
        device,
        """
        extern "C" __global__ void k(const float *x, float *f, double *d, unsigned short *h,
                                     unsigned short *b, float *v) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            __shared__ float tile;
            __shared__ double wide;
            __shared__ __half2 pair;
            if (threadIdx.x == 0) tile = 0, wide = 0, pair = __float2half2_rn(0);
            __syncthreads();
            atomicAdd(f, x[i]);
            atomicAdd(&tile, x[i]);
            atomicAdd(d, x[i] * 0.5);
            atomicAdd(&wide, x[i] * 0.25);
            atomicAdd(&pair, __floats2half2_rn(x[i], -x[i]));
            atomicAdd((__half *)h, __float2half(x[i]));
            atomicAdd((__half2 *)h + 1, __floats2half2_rn(1 / 16.f, x[i]));
            if (i < 64) atomicAdd((__nv_bfloat16 *)b, __float2bfloat16(x[i]));
            if (i < 64) atomicAdd((__nv_bfloat162 *)b + 1, __floats2bfloat162_rn(1, x[i]));
            __syncthreads();
            if (threadIdx.x == 0) {
                atomicAdd(f + 1, tile);
                atomicAdd(d + 1, wide);
                atomicAdd(f + 2, __low2float(pair) - __high2float(pair));
            }
            atomicAdd((float2 *)v, make_float2(x[i], 1));
            atomicAdd((float4 *)(v + 4), make_float4(x[i], -x[i], 1, 2));
        }""",
        x,
        f,
        d,
        h.view(np.uint16),
        b,
        vector,
        grid=8,
        block=128,
    )
    total = float(x.sum())
    np.testing.assert_array_equal(f, [total, total, 2 * total])
    np.testing.assert_array_equal(d, [total / 2, total / 4, 0])
    np.testing.assert_array_equal(h[:1], np.float16(total))
    np.testing.assert_array_equal(h[2:], np.array([n / 16, total], np.float16))
    first = float(x[:64].sum())
    wide = (b.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(wide[[0, 2, 3]], [first, 64, first])
    np.testing.assert_array_equal(vector, [total, n, 0, 0, total, -total, n, 2 * n])


@pytest.mark.usefixtures("machine_code")
def test_sums_of_tiny_numbers(device):
    """In global memory, subnormals become zeros; in shared memory, they do not."""
    source = """
    extern "C" __global__ void k(const float* x, float* y, float* out) {
        __shared__ float s[32];
        const int t = threadIdx.x;
        s[t] = y[t];
        __syncthreads();
        atomicAdd(s + t, x[t]);
        out[t] = atomicAdd(y + t, x[t]);
        __syncthreads();
        out[32 + t] = s[t];
    }"""
    tiny, normal = np.float32(1e-40), np.finfo(np.float32).tiny
    x = np.resize(np.array([tiny, -tiny, normal, -normal, np.inf, 1], np.float32), 32)
    y = np.resize(np.array([tiny, 2 * tiny, -tiny, 1.5 * normal, -np.inf, 2], np.float32), 32)
    of_global = np.resize(np.array([0, 0, normal, 0, np.nan, 3], np.float32), 32)
    kernel = coalesce.Kernel(source, "k", device=device)
    for counted in (False, True) if device == "sim" else (False,):
        sums, out = y.copy(), np.zeros(64, np.float32)
        kernel.launch(1, 32, x, sums, out, counts=counted)
        np.testing.assert_array_equal(sums, of_global)
        np.testing.assert_array_equal(out[:32], y)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(out[32:], x + y)
        nan = sums.view(np.uint32)[4::6]
        assert (nan == 0x7FFFFFFF).all()


def test_scopes_and_reductions(device):
    out = np.zeros(8, np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(int *out) {
            atomicAdd_block(out, 1);
            atomicAdd_system(out + 1, 2);
            asm volatile("red.relaxed.gpu.global.add.s32 [%0], 3;" ::"l"(out + 2) : "memory");
            asm volatile("red.global.or.b32 [%0], %1;" ::"l"(out + 3), "r"(1 << threadIdx.x % 31));
            asm volatile("{ .reg .b32 t; atom.acq_rel.sys.max.s32 t, [%0], %1; }"
                         ::"l"(out + 4), "r"(threadIdx.x));
        }""",
        out,
        block=64,
    )
    np.testing.assert_array_equal(out[:5], [64, 128, 192, 0x7FFFFFFF, 63])


def test_results_that_nobody_reads(device):
    """The compiler has other instructions for such atomics."""
    a, out = np.arange(-9, 55, dtype=np.int32), np.zeros(80, np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(const int *a, int *out) {
            int i = threadIdx.x;
            __shared__ int s[2];
            __shared__ unsigned u[3];
            __shared__ unsigned long long l[2];
            if (i < 2) s[i] = u[i] = u[2] = l[i] = 0;
            __syncthreads();
            atomicAdd(s, 1), atomicMin(s + 1, a[i]);
            atomicOr(u, i), atomicInc(u + 1, 5), atomicXor(u + 2, i + 1);
            atomicAdd(l, 1ull), atomicMax(l + 1, (unsigned long long)i);
            __syncthreads();
            out[i] = s[0] + s[1] + u[0] + u[1] + u[2] + (int)l[0] + (int)l[1];
            atomicAdd(out + 64, a[i]), atomicMax(out + 65, a[i]);
            atomicAnd((unsigned *)out + 66, i), atomicXor((unsigned *)out + 67, i + 1);
            atomicInc((unsigned *)out + 68, 5), atomicAdd_block(out + 69, 2);
            atomicAdd((unsigned long long *)(out + 70), 3ull);
            atomicMax((unsigned long long *)(out + 72), (unsigned long long)i);
            atomicAdd((float *)out + 74, 1.0f), atomicAdd((double *)(out + 76), 1.0);
            __threadfence_system();
        }""",
        a,
        out,
        block=64,
    )
    assert set(out[:64]) == {64 - 9 + 63 + 64 % 6 + 64 + 64 + 63}
    assert out[64:70].tolist() == [a.sum(), 54, 0, 64, 64 % 6, 128]
    assert out[70:74].view(np.uint64).tolist() == [192, 63]
    assert (out[74:75].view(np.float32), out[76:78].view(np.float64)) == (64, 64)
