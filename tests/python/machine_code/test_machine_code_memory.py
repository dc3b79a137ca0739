"""Machine code accesses global, shared and constant memory, and parameters, as PTX does."""

import many_kernels
import numpy as np
import pytest
from both_ways import both_ways, bound, same_as_gpu, why_ptx

import coalesce
from coalesce.launch.simulated import simulate

pytestmark = pytest.mark.usefixtures("machine_code")


@pytest.mark.parametrize(("form", "width"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
def test_asynchronous_copies_of_a_part(form, width):
    """A lane reads only the first bytes; the others become zeros and may be outside the array."""
    source = f"""
    extern "C" __global__ void k(const char* x, const int* bytes, char* out) {{
        __shared__ __align__(16) char tile[32 * {width}];
        const int t = threadIdx.x;
        unsigned to = __cvta_generic_to_shared(tile + t * {width});
        asm volatile("cp.async.{form}.shared.global [%0], [%1], {width}, %2;" ::
                     "r"(to), "l"(x + t * {width}), "r"(bytes[t]) : "memory");
        asm volatile("cp.async.wait_all;" ::: "memory");
        for (int i = 0; i < {width}; ++i) out[t * {width} + i] = tile[t * {width} + i];
    }}"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    whole = np.arange(1, 32 * width + 1).astype(np.int8)
    for seed in range(3):
        read = np.random.default_rng(seed).integers(0, width + 1, 32).astype(np.int32)
        read[31] = seed
        x = whole[: 31 * width + seed].copy()
        expected = whole.reshape(32, width) * (np.arange(width) < read[:, None])
        *_, out = both_ways(kernel, 1, 32, x, read, np.zeros(32 * width, np.int8))
        np.testing.assert_array_equal(out, expected.ravel())


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
        for pitch in (11, 12, 16, 64, 512):
            for is_same in (False, True):
                a = random.integers(0, 9, 31 * pitch + 11).astype(np.float32)
                b = a if is_same else a.copy()
                both_ways(kernel, 1, 32, a, b, pitch, np.zeros(32, np.float32))


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
        simulate(bound(kernel, 1, 32, [x, y], 0), counts=True)
        np.testing.assert_array_equal(y, expected)


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
        simulate(bound(kernel, 2, lanes, arguments, 0), counts=True, workers=2)
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
    p, q = np.zeros(64, np.int32), np.array([7, 6, 5, 4, 3, 2, 1, 0], np.int32)
    p[:40] = np.arange(40)
    zeros = np.zeros(32, np.int32)
    (out,) = both_ways(kernel, 1, 32, 1, p.tobytes(), 2, q.tobytes(), 3, zeros)
    np.testing.assert_array_equal(out, 600321 + 1000 * np.arange(32))


SUM = """
#include <cuda/atomic>
extern "C" __global__ void k(float *y, int in_shared) {
    __shared__ float s;
    if (threadIdx.x == 0) s = 0.5f;
    __syncthreads();
    cuda::atomic_ref<float, cuda::thread_scope_device> sum(in_shared ? s : y[0]);
    sum.fetch_add(float(threadIdx.x));
    __syncthreads();
    if (threadIdx.x == 0) y[1] = s;
}
"""
ATOMICS = """
#include <cuda/atomic>
extern "C" __global__ void k(TYPE *y, const TYPE *x, int in_shared) {
    __shared__ TYPE s[32];
    s[threadIdx.x % 32] = y[threadIdx.x % 32];
    __syncthreads();
    cuda::atomic_ref<TYPE, cuda::thread_scope_device> sum(in_shared ? s[threadIdx.x]
                                                                   : y[threadIdx.x]);
    y[32 + threadIdx.x] = sum.fetch_add(x[threadIdx.x]);
    y[64 + threadIdx.x] = sum.fetch_sub(x[32 + threadIdx.x]);
    __syncthreads();
    y[96 + threadIdx.x] = s[threadIdx.x];
}
"""
BY_TYPE = {name: ATOMICS.replace("TYPE", name) for name in ("float", "double")}
WITH_ATOMICS = many_kernels.together([SUM, *BY_TYPE.values()], "k")


@pytest.mark.parametrize("place", ["global", "shared"])
def test_atomics_on_floats_by_generic_addresses(place):
    """The machine code asks where the address is (QSPC), also if it is in a cluster's memory."""
    kernel = coalesce.Kernel(*WITH_ATOMICS[SUM], device="sim")
    in_shared = place == "shared"
    (y,) = both_ways(kernel, 1, 32, np.array([0.25, 0], np.float32), int(in_shared))
    assert list(y) == ([0.25, 496.5] if in_shared else [496.25, 0.5])


@pytest.mark.parametrize("place", ["global", "shared"])
@pytest.mark.parametrize("name", ["float", "double"])
def test_rounding_of_atomics_by_generic_addresses(
    name: str, place: str, device: str, random: np.random.Generator
) -> None:
    """Each lane adds to an element of its own, also tiny numbers, infinities and NaN."""
    dtype = {"float": np.float32, "double": np.float64}[name]
    tiny = float(np.finfo(dtype).smallest_subnormal)
    x, y = random.normal(size=64).astype(dtype), np.zeros(128, dtype)
    y[:32] = random.normal(size=32)
    x[:6] = [np.inf, -np.inf, tiny, -tiny, 3 * tiny, -0.0]
    y[:6] = [-np.inf, 1, tiny, tiny, 5 * tiny, -0.0]
    source, entry = WITH_ATOMICS[BY_TYPE[name]]
    same_as_gpu(source, device, 1, 32, y, x, int(place == "shared"), entry=entry)
