"""Machine code and PTX leave the same arrays, for every kernel that counting executes."""

from __future__ import annotations

import itertools

import counter_cases
import numpy as np
import pytest

import coalesce
from coalesce.arrays import devices
from coalesce.catalogue.table import OPERATIONS
from coalesce.profiling import exactness
from coalesce.simulate.prepared import prepare

pytestmark = pytest.mark.usefixtures("machine_code")


def why_ptx(kernel):
    return kernel._program(devices.resolve("sim")).why_ptx(kernel.entry)


def call(operation, variant, dtype, shape, **options):
    m, k, n = shape
    a = counter_cases.case.matrix(1, m, k, dtype=dtype)
    b = counter_cases.case.matrix(2, k, n, dtype=dtype)
    arrays = (a, b) if operation == "matmul" else (a,)
    return OPERATIONS[operation].run(arrays, {"variant": variant}, device="sim", **options)


@pytest.mark.parametrize(
    ("operation", "variant", "dtype"),
    [
        (operation, variant.name, dtype)
        for operation in ("matmul", "transpose", "row_sums", "column_sums")
        for variant in coalesce.variants(operation)
        for dtype in ([variant.dtype] if variant.dtype else ["float32", "float64"])
    ],
)
def test_shipped_kernels(operation, variant, dtype):
    for shape in ((64, 32, 64), (50, 30, 77)):
        plain, _ = call(operation, variant, dtype, shape)
        counted, timing = call(operation, variant, dtype, shape, counts=True)
        assert all(record.counts.machine_code for _, record in timing.records)
        np.testing.assert_array_equal(plain, counted)


# The results of these launches depend on the order of threads or on earlier launches.
IN_ANY_ORDER = {"gather_scatter", "module_variables", "append", "shared_append"}


@pytest.mark.parametrize(
    "entry", sorted({launch[0] for launch in counter_cases.awkward.launches()} - IN_ANY_ORDER)
)
def test_awkward_kernels(entry):
    kernel = counter_cases.case.kernel_of("awkward.cu", entry, "sim")
    assert why_ptx(kernel) == ""
    for name, grid, block, arguments, shared in counter_cases.awkward.launches():
        if name != entry:
            continue
        results = []
        for counts in (False, True):
            given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
            # One host thread runs the blocks, because atomics and races depend on the order of
            # blocks.
            launch = prepare(kernel, grid, block, given, shared)
            launch.run(counts=counts, workers=1)
            results.append([a for a in given if isinstance(a, np.ndarray)])
        for plain, counted in zip(*results, strict=True):
            np.testing.assert_array_equal(plain, counted)


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
    assert why_ptx(kernel) == ""
    edges = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2**32, 2**64 - 1]
    triples = np.array(list(itertools.product(edges, repeat=3)), np.uint64).T
    a, b, c = np.hstack(
        [triples, np.random.default_rng(1).integers(2**64, size=(3, 333), dtype="u8")]
    )
    out = []
    for counts in (False, True):
        out.append(np.zeros((len(a), 20), np.uint64))
        launch = prepare(kernel, -(-len(a) // 96), 96, [len(a), a, b, c, out[-1]], 0)
        launch.run(counts=counts)
    np.testing.assert_array_equal(out[0], out[1])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out[1][:, 2], a + b + c)
        np.testing.assert_array_equal(out[1][:, 5], a * b + c)


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
    assert why_ptx(kernel) == ""
    edges = [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, -32769, 65536, 2**31 - 1, -(2**31)]
    x, y = np.array(list(itertools.product(edges, repeat=2)), np.int32).T.copy()
    z = np.random.default_rng(2).integers(-(2**31), 2**31, len(x), np.int32)
    out = []
    for counts in (False, True):
        out.append(np.zeros((len(x), 6), np.int32))
        launch = prepare(kernel, -(-len(x) // 96), 96, [len(x), x, y, z, out[-1]], 0)
        launch.run(counts=counts)
    np.testing.assert_array_equal(out[0], out[1])
    upper, lower = (v.clip(-(2**15), 2**15 - 1).astype(np.int16) for v in (x, y))
    np.testing.assert_array_equal(out[1][:, 2], np.stack([lower, upper], 1).view(np.int32)[:, 0])


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
    assert why_ptx(kernel) == ""
    x = np.arange(-16, 16, dtype=np.float32)
    for counts in (False, True):
        out = np.zeros((3, 32), np.int32)
        prepare(kernel, 1, 32, [x, out], 0).run(counts=counts)
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
    assert why_ptx(kernel) == ""
    halves = np.random.default_rng(3).standard_normal((2, 192)).astype(np.float16)
    halves[0, :4] = np.inf, -0.0, 65504, 2**-24
    x, y = halves.view(np.uint32)
    x[48:], y[48:] = np.random.default_rng(4).standard_normal((2, 48), np.float32).view(np.uint32)
    out = []
    for counts in (False, True):
        out.append(np.zeros((14, 96), np.uint32))
        prepare(kernel, 1, 96, [x, y, out[-1]], 0).run(counts=counts)
    np.testing.assert_array_equal(out[0], out[1])
    lower = x.astype(np.uint16).view(np.float16)
    np.testing.assert_array_equal(out[1][6].view(np.float32)[:48], abs(lower[:48]))
    byte = x >> 8 * (y >> np.arange(96) % 32 & 3) & 255
    np.testing.assert_array_equal(out[1][2], byte * 0x1010101)


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
    assert why_ptx(kernel) == ""
    edges = [0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFFFF, 0x7F80, 0x3C00, 0xBC00, 1, 0x8001, 0x7FFF]
    pairs = [low | high << 16 for low, high in itertools.product(edges[::2], edges[1::2])]
    words = np.random.default_rng(3).choice(np.array(pairs, np.uint32), (1000, 3))
    out = []
    for counts in (False, True):
        out.append(np.zeros((len(words), 9), np.uint32))
        launch = prepare(kernel, 10, 100, [len(words), words.ravel(), out[-1]], 0)
        launch.run(counts=counts)
    np.testing.assert_array_equal(out[0], out[1])
    x, y, z = words.view(np.int16).reshape(-1, 3, 2).transpose(1, 0, 2)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(
            out[1][:, 0].copy().view(np.int16).reshape(-1, 2), np.maximum(x + y, z)
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
    assert why_ptx(kernel) == ""
    for fraction in (1, 0.5, 1e-3, 0.0625, 0.0626, 0.50031, 0.50032, 0, -1, 1.5, 1e20, np.nan):
        out = []
        for counts in (False, True):
            out.append(np.zeros(3, np.uint64))
            prepare(kernel, 1, 1, [float(fraction), out[-1]], 0).run(counts=counts)
        np.testing.assert_array_equal(out[0], out[1], err_msg=str(fraction))
        if fraction == 1:
            assert list(out[0]) == [0x15F << 52, 0x12F << 52, 0x104 << 52]


def test_asynchronous_copies_of_zero_bytes_in_some_lanes():
    """A lane that copies nothing writes zeros, and its source address may be invalid."""
    source = """
    extern "C" __global__ void k(int n, const float* x, float* out) {
        __shared__ float tile[2][96];
        int t = threadIdx.x;
        unsigned to = __cvta_generic_to_shared(&tile[0][t]);
        tile[0][t] = tile[1][t] = -1;
        const float* from = t % 3 ? x + t : nullptr;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::
                     "r"(to), "l"(from), "r"(t % 3 ? 4 : 0) : "memory");
        asm volatile("{ .reg .pred p; setp.ge.s32 p, %2, %3;"
                     " cp.async.ca.shared.global [%0 + 384], [%1], 4, p; }" ::
                     "r"(to), "l"(x + t), "r"(t), "r"(n) : "memory");
        asm volatile("cp.async.wait_all;" ::: "memory");
        out[t] = tile[0][t];
        out[96 + t] = tile[1][t];
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    assert why_ptx(kernel) == ""
    x, t = np.arange(1, 97, dtype=np.float32), np.arange(96)
    for n in (0, 1, 40, 96):
        expected = np.r_[np.where(t % 3, x, 0), np.where(t < n, x, 0)]
        for counts in (False, True):
            out = np.zeros(192, np.float32)
            launch = prepare(kernel, 1, 96, [n, x, out], 0)
            launch.run(counts=counts)
            np.testing.assert_array_equal(out, expected)


def test_loads_of_neighbouring_words():
    """Each load sees the stores and atomics before it, also those through another pointer."""
    source = """
    template <class T> __device__ void f(T *from, float *to, int pitch, float *out) {
        const int row = threadIdx.x * pitch, t = threadIdx.x;
        T *p = from + row;
        float *q = to + row;
        float a = p[0], b = p[1];
        q[2] = a + b;                       // `to` may be `from`
        float c = p[2], d = p[3];
        atomicAdd(q + 4, c + 1);
        float e = p[4], g = p[9], h = p[8];
        to[(31 - t) * pitch + 5] = e + g;   // the row of another lane
        __syncwarp();
        float i = p[5], j = p[6], k = t < 20 ? p[7] : 0, l = p[10];
        out[t] = a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * g + 13 * h + 17 * i + 19 * j + 23 * k + l;
    }
    extern "C" __global__ void plain(float *from, float *to, int pitch, float *out) {
        f(from, to, pitch, out);
    }
    extern "C" __global__ void strong(float *from, float *to, int pitch, float *out) {
        f<volatile float>(from, to, pitch, out);
    }"""
    random = np.random.default_rng(1)
    for name in ("plain", "strong"):
        kernel = coalesce.Kernel(source, name, device="sim")
        assert why_ptx(kernel) == ""
        for pitch in (11, 12, 16, 64, 512):
            for is_same in (False, True):
                results = []
                x = random.integers(0, 9, 31 * pitch + 11).astype(np.float32)
                for counts in (False, True):
                    a, out = x.copy(), np.zeros(32, np.float32)
                    b = a if is_same else x.copy()
                    prepare(kernel, 1, 32, [a, b, pitch, out], 0).run(counts=counts)
                    results.append((a, b, out))
                for plain, counted in zip(*results, strict=True):
                    np.testing.assert_array_equal(plain, counted)


def test_arrays_that_are_not_aligned_on_the_host():
    source = """
    extern "C" __global__ void k(const float *x, float *y) {
        const float *row = x + threadIdx.x * 16;
        y[threadIdx.x] = row[0] + 2 * row[1] + 3 * row[7] + 5 * row[8];
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    assert why_ptx(kernel) == ""
    values = np.random.default_rng(1).integers(0, 99, (32, 16)).astype(np.float32)
    expected = values[:, [0, 1, 7, 8]] @ np.float32([1, 2, 3, 5])
    for offset in range(33):
        x = np.frombuffer(bytearray(offset + values.nbytes), np.float32, values.size, offset)
        x[:] = values.ravel()
        y = np.zeros(32, np.float32)
        prepare(kernel, 1, 32, [x, y], 0).run(counts=True)
        np.testing.assert_array_equal(y, expected)


def test_the_shipped_kernels_are_counted_on_machine_code():
    a = np.ones((32, 32), np.float32)
    for operation in ("matmul", "transpose", "row_sums", "column_sums"):
        for variant in coalesce.variants(operation):
            if not variant.hopper:
                arrays = (a, a) if operation == "matmul" else (a,)
                p = coalesce.profile(operation, *arrays, variant=variant.name, device="sim")
                assert p.exact, (operation, variant.name, p.inexact)


def test_another_architecture_is_counted_on_the_ptx():
    source = 'extern "C" __global__ void k(int* out) { out[threadIdx.x] = 1; }'
    kernel = coalesce.Kernel(source, "k", device="sim", arch="sm_80")
    kernel.profile(1, 32, np.zeros(32, np.int32))
    assert "sm_80" in why_ptx(kernel)


def test_merged_loads_are_counted_once():
    a = np.ones((64, 64), np.float32)
    p = coalesce.profile("matmul", a, a, variant="tiled", device="sim")
    loads = [i for i in p.instructions() if i.space == "shared" and i.kind == "load"]
    widths = {(i.array, i.width) for i in loads}
    assert widths == {("a_tile", 16), ("b_tile", 4)}
    assert "smsp__inst_executed_op_shared_ld.sum" in p.exact


def test_constants_by_different_addresses_are_seen():
    source = """
    __constant__ float weights[3] = {1, 2, 3};
    __constant__ unsigned char order[8] = {5, 4, 3, 2, 1};
    extern "C" __global__ void k(float* out) {
        out[threadIdx.x] = weights[threadIdx.x % 3] + order[threadIdx.x % 7] + weights[2];
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    out = np.zeros(32, np.float32)
    p = kernel.profile(1, 32, out)
    assert why_ptx(kernel) == ""
    i = np.arange(32)
    order = np.array([5, 4, 3, 2, 1, 0, 0, 0])
    np.testing.assert_array_equal(out, i % 3 + 1 + order[i % 7] + 3)
    loads = {load.array: load for load in p.instructions() if load.space == "constant"}
    assert {name: (load.requests, load.width) for name, load in loads.items()} == {
        "weights": (1, 4),
        "order": (1, 1),
    }
    (example,) = loads["order"].examples
    first = example.array.address
    assert [address - first for address in example.addresses] == (i % 7).tolist()


def test_many_addresses_of_constant_memory_bound_the_time():
    x = np.zeros(1 << 20, np.float32)
    pattern = coalesce.profile("access", x, pattern="permuted", device="sim")
    assert "constants" in pattern.modelled.bound


def test_reports_name_merged_accesses():
    a = np.ones((64, 64), np.float32)
    p = coalesce.profile("matmul", a, a, variant="tiled", device="sim")
    sentence = "The assembler merged every 4 loads of 4 bytes into one of 16."
    merged = {a.array: a.merge for a in p.accesses() if a.space == "shared" and a.kind == "load"}
    assert merged == {"a_tile": sentence, "b_tile": ""}
    (line,) = (line for line in p.lines() if any(a.merge for a in line.accesses))
    assert sentence in line.sentence
    assert sentence in " ".join(str(p).split())
    assert sentence in p._repr_html_()
    assert {i.merged for i in p.instructions() if i.array == "a_tile" and i.kind == "load"} == {4}


def test_wide_loads_that_the_source_spells_are_not_merged():
    source = """
    extern "C" __global__ void k(const float4* a, float4* out) {
        out[threadIdx.x] = a[threadIdx.x];
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    p = kernel.profile(1, 32, np.ones(128, np.float32), np.zeros(128, np.float32))
    assert {(a.width, a.merged, a.merge) for a in p.accesses()} == {(16, 1, "")}


def test_the_number_of_instructions_is_exact_if_lanes_do_not_diverge():
    source = """
    extern "C" __global__ void k(const int* a, int* out, int n) {
        int i = threadIdx.x, sum = 0;
        if (i >= n) return;
        for (int j = 0; j < BOUND; ++j) sum += a[(i + j * 32) & 255] * j;
        out[i] = sum;
    }"""
    for bound, exact in (("n", True), ("a[i]", False)):
        kernel = coalesce.Kernel(source.replace("BOUND", bound), "k", device="sim")
        a, out = np.arange(256, dtype=np.int32) % 7, np.zeros(64, np.int32)
        p = kernel.profile(1, 64, a, out, np.int32(50))
        assert ("smsp__inst_executed.sum" in p.exact) is exact
        if not exact:
            assert "diverged" in p.inexact["smsp__inst_executed.sum"]


def test_compare_and_swap_that_warps_contend_for_is_inexact():
    source = """
    extern "C" __global__ void k(double* out) {
        __shared__ double sum;
        if (threadIdx.x == 0) sum = 0;
        __syncthreads();
        atomicAdd(&sum, 1.0);
        __syncthreads();
        if (threadIdx.x == 0) out[0] = sum;
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    shared = "smsp__inst_executed_op_shared_atom.sum"
    for threads, exact in ((32, True), (64, False)):
        out = np.zeros(1)
        p = kernel.profile(1, threads, out)
        assert out[0] == threads
        assert (shared in p.exact) is exact
        if not exact:
            assert "compare-and-swap" in p.inexact[shared]


BARRIER = """
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cooperative_groups.h>
using Barrier = cuda::barrier<cuda::thread_scope_block>;
"""
WAITING = {
    "phases": """
    __shared__ Barrier b;
    __shared__ float s[64];
    if (threadIdx.x == 0) init(&b, blockDim.x);
    __syncthreads();
    for (int i = 0; i < 4; ++i) {
        s[threadIdx.x] = y[threadIdx.x + 64 * i];
        auto state = b.arrive();
        b.wait(std::move(state));
        y[threadIdx.x] += s[63 - threadIdx.x];
        b.arrive_and_wait();
    }""",
    "threads that leave": """
    __shared__ Barrier b;
    if (threadIdx.x == 0) init(&b, blockDim.x);
    __syncthreads();
    if (threadIdx.x >= 32) {
        y[threadIdx.x] *= 2;
        b.arrive_and_drop();
        return;
    }
    b.arrive_and_wait();
    auto state = b.arrive(1);
    b.wait(std::move(state));
    y[threadIdx.x] += y[threadIdx.x + 32];""",
    "copies": """
    __shared__ Barrier b;
    __shared__ float s[64];
    if (threadIdx.x == 0) init(&b, blockDim.x);
    __syncthreads();
    cuda::memcpy_async(s + threadIdx.x, y + threadIdx.x, 4, b);
    b.arrive_and_wait();
    y[threadIdx.x] = s[63 - threadIdx.x];""",
    "a pipeline": """
    auto block = cooperative_groups::this_thread_block();
    __shared__ float s[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(block, &state);
    float sum = 0;
    for (int i = 0; i < 5; ++i) {
        if (i < 4) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[i % 2], y + 64 * i, sizeof(float) * 64, pipe);
            pipe.producer_commit();
        }
        if (i == 0) continue;
        pipe.consumer_wait();
        sum += s[(i - 1) % 2][63 - threadIdx.x];
        pipe.consumer_release();
    }
    y[threadIdx.x] = sum;""",
    "bytes": """
    __shared__ unsigned long long b;
    const unsigned at = __cvta_generic_to_shared(&b);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" :: "r"(at) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    y[threadIdx.x] += 1;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 8;" :: "r"(at) : "memory");
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 8;" :: "r"(at) : "memory");
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;"
                 " @!p bra W; }" :: "r"(at) : "memory");
    y[threadIdx.x + 64] = y[63 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(at) : "memory");""",
}


@pytest.mark.parametrize("code", WAITING.values(), ids=list(WAITING))
def test_mbarriers(code):
    source = BARRIER + f'extern "C" __global__ void k(float *y) {{ {code} }}'
    kernel = coalesce.Kernel(source, "k", device="sim", arch="sm_90")
    assert why_ptx(kernel) == ""
    out = []
    for counts in (False, True):
        out.append(np.arange(256, dtype=np.float32))
        prepare(kernel, 1, 64, [out[-1]], 0).run(counts=counts)
    np.testing.assert_array_equal(*out)
    assert (out[0] != np.arange(256)).any()
    profile = kernel.profile(1, 64, out[0])
    # A warp that waits tests the mbarrier again and again. So the number of instructions varies.
    # Counters of ARRIVES, which the asynchronous copies of two kernels need, were not recorded.
    arrives = any(i.opcode.startswith("ARRIVES") for i in profile.instructions())
    why = exactness.UNRECORDED if arrives else exactness.MBARRIERS
    assert {profile.inexact[total] for total in exactness.TOTALS} == {why}


def test_the_pending_count_of_a_state_is_refused():
    source = """
    extern "C" __global__ void k(unsigned *y) {
        __shared__ unsigned long long b;
        const unsigned at = __cvta_generic_to_shared(&b);
        unsigned long long state;
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at) : "memory");
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(at));
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(*y) : "l"(state));
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim", arch="sm_90")
    with pytest.raises(coalesce.UnsupportedInstruction, match="pending_count"):
        kernel.profile(1, 1, np.zeros(1, np.uint32))


def test_dependent_launches():
    source = """
    extern "C" __global__ void k(float *y) {
        asm volatile("griddepcontrol.wait;" ::: "memory");
        y[threadIdx.x] += 1;
        asm volatile("griddepcontrol.launch_dependents;");
        y[threadIdx.x + 32] += 2;
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim", arch="sm_90")
    assert why_ptx(kernel) == ""
    y = np.zeros(64, np.float32)
    profile = kernel.profile(1, 32, y)
    assert y.tolist() == [1] * 32 + [2] * 32
    assert profile.metrics()["smsp__inst_executed_op_global_st.sum"] == 2
    assert "smsp__inst_executed_op_global_st.sum" in profile.exact


def test_elect():
    """Machine code and PTX elect the same lane, also of some lanes of a warp."""
    kernel = coalesce.Kernel(
        r"""extern "C" __global__ void k(unsigned *y, unsigned members, int first) {
            unsigned elected = 7, lane = 9;
            if ((int)threadIdx.x >= first)
                asm volatile("{ .reg .pred p; elect.sync %0|p, %2; selp.u32 %1, 1, 0, p; }"
                             : "=r"(lane), "=r"(elected) : "r"(members));
            y[threadIdx.x] = 100 * elected + lane;
        }""",
        "k",
        device="sim",
    )
    assert why_ptx(kernel) == ""
    lanes = np.arange(32, dtype=np.uint32)
    for first in (0, 1, 13, 31):
        members = np.uint32(0xFFFFFFFF << first & 0xFFFFFFFF)
        wanted = np.where(lanes < first, 709, first + 100 * (lanes == first))
        for counts in (False, True):
            y = np.zeros(32, np.uint32)
            kernel.launch(1, 32, y, members, first, counts=counts)
            np.testing.assert_array_equal(y, wanted)


def test_the_tensor_cycles_of_hfma2_mma_are_inexact():
    """The assembler zeroes registers with HFMA2.MMA, whose cycles differ from run to run."""
    kernel = coalesce.Kernel(
        """extern "C" __global__ void k(float *y, int n) {
            float a = 0, b = 0;
            for (int i = threadIdx.x; i < n; i += 32) { a += y[i]; b = fmaf(b, y[i], a); }
            y[threadIdx.x] = a; y[32 + threadIdx.x] = b;
        }""",
        "k",
        device="sim",
    )
    profile = kernel.profile(1, 32, np.ones(256, np.float32), 128)
    cycles = "sm__pipe_tensor_cycles_active.sum"
    assert "HFMA2.MMA" in {i.opcode for i in profile.instructions()}
    assert "HFMA2.MMA" in profile.inexact[cycles]
    assert "sm__inst_executed_pipe_tensor.sum" in profile.exact


_HALVES = r"""
extern "C" __global__ void halves(
    volatile long long* values, unsigned* different, unsigned* changes, int stride) {
    volatile long long* const own = &values[threadIdx.x * stride];
    unsigned torn = 0, changed = 0;
    long long last = 0;
    for (int n = 0; n < 100000; ++n) {
        if (blockIdx.x == 0) {
            *own = n * 0x100000001ll;
        } else {
            const long long value = *own;
            torn += unsigned(value) != unsigned(value >> 32);
            changed += n > 0 && value != last;
            last = value;
        }
    }
    different[blockIdx.x * blockDim.x + threadIdx.x] = torn;
    changes[blockIdx.x * blockDim.x + threadIdx.x] = changed;
}"""


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("lanes", [32, 31])
def test_a_block_never_sees_half_of_a_number_that_another_block_writes(stride, lanes):
    """In machine code, 64 bits are two registers. Two host threads execute the two blocks."""
    kernel = coalesce.Kernel(_HALVES, "halves", device="sim")
    assert why_ptx(kernel) == ""
    for _ in range(20):
        different, changes = np.zeros((2, 64), np.uint32)
        arguments = [np.zeros(64, np.int64), different, changes, np.int32(stride)]
        prepare(kernel, 2, lanes, arguments, 0).run(counts=True, workers=2)
        assert not different.any()
        if changes.any():
            return
    pytest.skip("the two blocks never ran at the same time")


_ALIGNED = r"""
struct alignas(64) Wide { double x[8]; };
extern "C" __global__ void aligned(double* out, Wide first, double factor, Wide second, int n) {
    out[threadIdx.x] = (first.x[threadIdx.x % 8] + second.x[threadIdx.x % 8]) * factor + n;
}"""


def test_a_parameter_is_aligned_in_the_constant_bank():
    """The parameters begin at 0x210, so `first` begins at 0x240 and not at 0x250."""
    wide = np.dtype([("x", np.float64, 8)])
    first, second = np.zeros((), wide), np.zeros((), wide)
    first["x"], second["x"] = np.arange(8), 10 * np.arange(8)
    kernel = coalesce.Kernel(_ALIGNED, "aligned", device="sim")
    assert why_ptx(kernel) == ""
    for launch in (kernel.launch, kernel.profile):
        out = np.zeros(32)
        launch(1, 32, out, first[()], 0.5, second[()], np.int32(7))
        np.testing.assert_array_equal(out, np.arange(32) % 8 * 5.5 + 7)


def test_parameters_with_large_alignments():
    """In the constant bank, parameters begin at byte 0x210, which is no multiple of 32."""
    source = """
    struct alignas(128) P { int w[40]; };
    struct alignas(32) Q { int w[8]; };
    extern "C" __global__ void k(int a, const __grid_constant__ P p, int b, Q q, int c, int* y) {
        const int* of_p = p.w + (a > 5 ? 1 : 0);  // a generic address
        y[threadIdx.x] = a + 10 * b + 100 * c + 1000 * of_p[threadIdx.x] + 100000 * q.w[1];
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    assert why_ptx(kernel) == ""
    p, q = np.zeros(64, np.int32), np.array([7, 6, 5, 4, 3, 2, 1, 0], np.int32)
    p[:40] = np.arange(40)
    out = []
    for counts in (False, True):
        out.append(np.zeros(32, np.int32))
        kernel.launch(1, 32, 1, p.tobytes(), 2, q.tobytes(), 3, out[-1], counts=counts)
    np.testing.assert_array_equal(*out)
    np.testing.assert_array_equal(out[1], 600321 + 1000 * np.arange(32))


@pytest.mark.parametrize("several", [False, True])
def test_generic_addresses_of_constant_memory(several):
    """The address of one constant variable is known; that of one of several is refused."""
    source = """
    __constant__ int c[64];
    __constant__ int d[64];
    extern "C" __global__ void k(int a, const int* g, int* y) {
        const int* p = a == 0 ? c : DE;
        y[threadIdx.x] = p[threadIdx.x + a];
    }"""
    source = source.replace("DE", "a == 1 ? d : g" if several else "g")
    if not several:
        source = source.replace("__constant__ int d[64];", "")
    kernel = coalesce.Kernel(source, "k", device="sim")
    assert ("constant variables" in why_ptx(kernel)) == several
    kernel.globals["c"] = np.arange(64, dtype=np.int32)
    g = np.arange(100, 164, dtype=np.int32)
    for a in (0, 2):
        out = []
        for counts in (False, True):
            out.append(np.zeros(32, np.int32))
            kernel.launch(1, 32, a, g, out[-1], counts=counts)
        np.testing.assert_array_equal(*out)
        np.testing.assert_array_equal(out[1], (np.arange(64) if a == 0 else g)[a : a + 32])
