"""ldmatrix, stmatrix, movmatrix and the fragments of mma.h: data, errors and checks."""

import itertools
from pathlib import Path

import many_kernels
import numpy as np
import pytest

import coalesce

KERNELS = Path(__file__).parents[2] / "kernels"
LANE = np.arange(32)


def kernel(source: str, entry: str | None = None, **options: object) -> coalesce.Kernel:
    return coalesce.Kernel(source, entry, device="sim", **options)


# Each lane passes the address of a row of 16 bytes of x, which lies in shared memory.
MOVE = """
__device__ unsigned at(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
extern "C" __global__ void load(const unsigned* x, const unsigned* rows, unsigned* out) {
    __shared__ __align__(16) unsigned s[512];
    const int t = threadIdx.x;
    for (int i = t; i < 512; i += 32) s[i] = x[i];
    __syncthreads();
    unsigned r[4] = {};
    asm volatile("ldmatrix.sync.aligned.m8n8.xCOUNTTRANS.shared.b16 {REGISTERS}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at(s) + rows[t]));
    for (int i = 0; i < 4; ++i) out[4 * t + i] = i < COUNT ? r[i] : 0;
}
extern "C" __global__ void store(const unsigned* x, const unsigned* rows, unsigned* out) {
    __shared__ __align__(16) unsigned s[512];
    const int t = threadIdx.x;
    for (int i = t; i < 512; i += 32) s[i] = 0;
    __syncthreads();
    unsigned r[4];
    for (int i = 0; i < 4; ++i) r[i] = x[4 * t + i];
    asm volatile("stmatrix.sync.aligned.m8n8.xCOUNTTRANS.shared.b16 [%4], {REGISTERS};"
                 :: "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(at(s) + rows[t]) : "memory");
    __syncthreads();
    for (int i = t; i < 512; i += 32) out[i] = s[i];
}
"""


def moving(entry: str, count: int, transposed: bool) -> coalesce.Kernel:
    registers = ", ".join(f"%{n}" for n in range(count))
    text = MOVE.replace("COUNT", str(count)).replace("TRANS", ".trans" if transposed else "")
    return kernel(text.replace("REGISTERS", registers), entry)


def elements(rows: np.ndarray, count: int, transposed: bool) -> np.ndarray:
    """Return the index (in 16-bit elements) of each lane's two elements of each matrix."""
    row, column = (LANE // 4)[:, None], (LANE % 4 * 2)[:, None] + [0, 1]
    if transposed:
        row, column = column, row
    matrices = [rows[8 * n + row] // 2 + column for n in range(count)]
    return np.stack(np.broadcast_arrays(*matrices), axis=1)


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_rows_become_fragments_and_back(count: int, transposed: bool) -> None:
    rng = np.random.default_rng(count)
    rows = (rng.permutation(128)[:32] * 16).astype(np.uint32)
    places = elements(rows, count, transposed)
    x = rng.integers(1, 1 << 16, 1024).astype(np.uint16)
    wanted = np.zeros((32, 4, 2), np.uint16)
    wanted[:, :count] = x[places]
    y = rng.integers(1, 1 << 16, (32, 4, 2)).astype(np.uint16)
    stored = np.zeros(1024, np.uint16)
    stored[places] = y[:, :count]
    for run in ("plain", "profile", "check"):
        for entry, given, result in (("load", x, wanted), ("store", y, stored)):
            out = np.zeros(result.size // 2, np.uint32)
            k, arguments = moving(entry, count, transposed), (given.view("u4").ravel(), rows, out)
            if run == "plain":
                k[1, 32](*arguments)
            elif run == "profile":
                k.profile(1, 32, *arguments)
            else:
                assert list(k.check(1, 32, *arguments)) == []
            np.testing.assert_array_equal(out.view("u2"), result.ravel(), f"{entry}, {run}")


@pytest.mark.parametrize("entry", ["load", "store"])
def test_rows_are_aligned_and_in_shared_memory(entry: str) -> None:
    k = moving(entry, 4, False)
    x, out = np.ones(512, np.uint32), np.zeros(512, np.uint32)
    rows = (LANE * 16).astype(np.uint32)
    with pytest.raises(coalesce.MemoryFault, match=r"(?s)16 bytes.*aligned"):
        k[1, 32](x, rows + np.uint32(8), out)
    with pytest.raises(coalesce.MemoryFault, match="outside shared memory"):
        k[1, 32](x, rows * np.uint32(5), out)
    beyond = rows.copy()
    beyond[31] = 4096
    findings = list(k.check(1, 32, x, beyond, out))
    assert len(findings) == 1
    assert "tile" in str(findings[0]) or "shared memory" in str(findings[0])


def test_unused_row_addresses_may_be_invalid() -> None:
    rows = np.where(LANE < 8, LANE * 16, 3).astype(np.uint32)
    out = np.zeros(128, np.uint32)
    moving("load", 1, False)[1, 32](np.arange(512, dtype=np.uint32), rows, out)
    assert out[:4].tolist() == [0, 0, 0, 0]
    assert out[4] == 1


# Each warp writes rows, and the lanes of another warp read them as a matrix.
SHARING = """
__device__ unsigned at(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
extern "C" __global__ void k(const unsigned* x, unsigned* out) {
    __shared__ __align__(16) unsigned tile[16][4];
    const int t = threadIdx.x;
    if (t < WRITTEN * 4) tile[t / 4][t % 4] = x[t];
    WAIT
    unsigned a, b;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(a), "=r"(b) : "r"(at(tile[(t % 16 + 1) % 16])));
    out[t] = a + b;
}
"""


@pytest.mark.parametrize(
    ("written", "wait", "words"),
    [
        (16, "__syncthreads();", ""),
        (16, "", "race|unordered|without"),
        (15, "__syncthreads();", "nobody has written|uninitialised|never written"),
    ],
)
def test_checks_of_rows(written: int, wait: str, words: str) -> None:
    source = SHARING.replace("WRITTEN", str(written)).replace("WAIT", wait)
    findings = list(kernel(source).check(1, 64, np.ones(64, np.uint32), np.zeros(64, np.uint32)))
    assert (len(findings) > 0) == bool(words)
    for finding in findings:
        assert "tile" in str(finding)
        assert "ldmatrix" in str(finding)


def test_a_read_before_the_wait_for_a_copy_is_found() -> None:
    source = """
    __device__ unsigned at(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
    extern "C" __global__ void k(const unsigned* x, unsigned* out) {
        __shared__ __align__(16) unsigned tile[32][4];
        const int t = threadIdx.x;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.commit_group;"
                     :: "r"(at(tile[t])), "l"(x + 4 * t) : "memory");
        WAIT
        __syncwarp();
        unsigned r[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at(tile[t])));
        out[t] = r[0] + r[1] + r[2] + r[3];
    }"""
    wait = 'asm volatile("cp.async.wait_group 0;" ::: "memory");'
    x, out = np.arange(128, dtype=np.uint32), np.zeros(32, np.uint32)
    assert list(kernel(source.replace("WAIT", wait)).check(1, 32, x, out)) == []
    assert len(list(kernel(source.replace("WAIT", "")).check(1, 32, x, out))) > 0


# --- mma.h ---

WMMA = """
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const A* a, const A* b, const C* c, C* d) {
    wmma::fragment<wmma::matrix_a, M, N, K, P, wmma::A_LAYOUT> x;
    wmma::fragment<wmma::matrix_b, M, N, K, P, wmma::B_LAYOUT> y;
    wmma::fragment<wmma::accumulator, M, N, K, C> sum;
    wmma::load_matrix_sync(x, a, A_STRIDE);
    wmma::load_matrix_sync(y, b, B_STRIDE);
    wmma::load_matrix_sync(sum, c, C_STRIDE, wmma::C_LAYOUT);
    wmma::mma_sync(sum, x, y, sum);
    wmma::store_matrix_sync(d, sum, C_STRIDE, wmma::C_LAYOUT);
}
"""
SHAPES = [(16, 16, 16), (32, 8, 16), (8, 32, 16)]
TYPES = [
    *((s, "half", "half", "f2", "half", "f2") for s in SHAPES),
    *((s, "half", "half", "f2", "float", "f4") for s in SHAPES),
    *((s, "__nv_bfloat16", "__nv_bfloat16", "u2", "float", "f4") for s in SHAPES),
    *((s, "signed char", "signed char", "i1", "int", "i4") for s in SHAPES),
    *((s, "unsigned char", "unsigned char", "u1", "int", "i4") for s in SHAPES),
    ((16, 16, 8), "float", "wmma::precision::tf32", "f4", "float", "f4"),
    ((8, 8, 4), "double", "double", "f8", "double", "f8"),
]
LAYOUTS = [("row", "col", "row"), ("col", "row", "col")]


def padded_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """Return the shape of an array with padded rows, to test strides."""
    return (shape[0] // 16 * 16 + 32, shape[1] // 16 * 16 + 32)


def source_of_product(
    shape: tuple[int, int, int],
    cuda: str,
    precision: str,
    sum_type: str,
    layouts: tuple[str, str, str],
) -> str:
    m, n, k = shape
    a, b, c = (
        padded_shape(s)[0 if layout == "col" else 1]
        for s, layout in zip(((m, k), (k, n), (m, n)), layouts, strict=True)
    )
    text = WMMA
    for name, value in {
        "A_LAYOUT": f"{layouts[0]}_major", "B_LAYOUT": f"{layouts[1]}_major",
        "C_LAYOUT": f"mem_{layouts[2]}_major", "A_STRIDE": a, "B_STRIDE": b, "C_STRIDE": c,
        "M, N, K, P": f"{m}, {n}, {k}, {precision}", "M, N, K, C": f"{m}, {n}, {k}, {sum_type}",
        "const A*": f"const {cuda}*", "const C*": f"const {sum_type}*", "C* d": f"{sum_type}* d",
    }.items():  # fmt: skip
        text = text.replace(name, str(value))
    return text


PRODUCTS = many_kernels.together(
    (
        source_of_product(shape, cuda, precision, sum_type, layouts)
        for shape, cuda, precision, _, sum_type, _ in TYPES
        for layouts in LAYOUTS
    ),
    "k",
)


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize(("shape", "cuda", "precision", "kind", "sum_type", "sum_kind"), TYPES)
def test_fragments_of_mma_h(
    shape: tuple[int, int, int],
    cuda: str,
    precision: str,
    kind: str,
    sum_type: str,
    sum_kind: str,
    layouts: tuple[str, str, str],
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m * n * k)
    low = 0 if kind == "u1" else -4
    a, b, c = (rng.integers(low, 5, s) for s in ((m, k), (k, n), (m, n)))
    wanted = (a @ b + c).astype(sum_kind)  # small integers are exact in all types

    def stored(x: np.ndarray, layout: str, dtype: str) -> np.ndarray:
        padded = np.zeros(padded_shape(x.shape), np.float64)
        padded[: x.shape[0], : x.shape[1]] = x
        padded = padded.T if layout == "col" else padded
        if dtype == "u2":  # bfloat16
            padded = padded.astype("f4").view("u4") >> 16
        return np.ascontiguousarray(padded.astype(dtype))

    pa, pb, pc = (
        stored(x, layout, t)
        for x, layout, t in zip((a, b, c), layouts, (kind, kind, sum_kind), strict=True)
    )
    program = kernel(*PRODUCTS[source_of_product(shape, cuda, precision, sum_type, layouts)])
    for run in ("plain", "profile", "check"):
        d = np.zeros_like(pc)
        if run == "plain":
            program[1, 32](pa, pb, pc, d)
        elif run == "profile":
            program.profile(1, 32, pa, pb, pc, d)
        else:
            assert list(program.check(1, 32, pa, pb, pc, d)) == []
        result = d.T if layouts[2] == "col" else d
        np.testing.assert_array_equal(result[:m, :n], wanted, run)


def test_matrices_of_bits() -> None:
    source = """
    #include <mma.h>
    using namespace nvcuda;
    using wmma::experimental::precision::b1;
    extern "C" __global__ void k(const unsigned* a, const unsigned* b, int* d) {
        wmma::fragment<wmma::matrix_a, 8, 8, 128, b1, wmma::row_major> x;
        wmma::fragment<wmma::matrix_b, 8, 8, 128, b1, wmma::col_major> y;
        wmma::fragment<wmma::accumulator, 8, 8, 128, int> sum;
        wmma::fill_fragment(sum, 5);
        wmma::load_matrix_sync(x, a, 128);
        wmma::load_matrix_sync(y, b, 128);
        wmma::bmma_sync(sum, x, y, sum);
        wmma::store_matrix_sync(d, sum, 8, wmma::mem_row_major);
    }"""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 1 << 32, (8, 4)).astype(np.uint32) for _ in range(2))
    d = np.zeros((8, 8), np.int32)
    kernel(source)[1, 32](a, b, d)
    wanted = np.bitwise_count(a[:, None] ^ b[None]).sum(2, dtype=np.int32) + 5
    np.testing.assert_array_equal(d, wanted)


STRIDES = {
    "matrix_a, 16, 16, 16, half, wmma::row_major": 2,
    "matrix_b, 8, 32, 16, half, wmma::row_major": 2,
    "matrix_a, 16, 16, 16, signed char, wmma::row_major": 4,
    "matrix_b, 16, 16, 16, signed char, wmma::row_major": 1,
    "accumulator, 16, 16, 16, half": 2,
    "accumulator, 16, 16, 16, float": 2,
    "accumulator, 8, 32, 16, float": 1,
    "accumulator, 8, 8, 4, double": 2,
}


@pytest.mark.parametrize("form", STRIDES)
def test_rows_that_are_any_distance_apart(form: str) -> None:
    """Run and machine code agree, as on an H200, or the run refuses the distance or the address."""
    kind, element = form.split(",")[0], form.split(",")[4].strip()
    source = """
    #include <mma.h>
    using namespace nvcuda;
    extern "C" __global__ void k(const T* a, T* out, int stride, int offset) {
        wmma::fragment<wmma::FORM> x;
        wmma::load_matrix_sync(x, a + offset, stride ROWS);
        for (int i = 0; i < x.num_elements; ++i) out[threadIdx.x * x.num_elements + i] = x.x[i];
    }""".replace("FORM", form).replace("T*", f"{element}*")
    rows = ", wmma::mem_row_major" if kind == "accumulator" else ""
    k = kernel(source.replace("ROWS", rows))
    dtype = {"half": "f2", "float": "f4", "double": "f8", "signed char": "i1"}[element]
    a = (np.arange(2048) % 101).astype(dtype)
    ran, counted = (np.zeros(1024, dtype) for _ in range(2))
    for stride, offset in itertools.product((16, 17, 18, 20, 24, 33, 36), (0, 1, 2, 4)):
        if stride % STRIDES[form]:
            with pytest.raises(coalesce.LaunchError, match="bytes apart, not"):
                k[1, 32](a, ran, stride, offset)
        elif offset % STRIDES[form]:
            with pytest.raises(coalesce.LaunchError, match="address of a matrix must be"):
                k[1, 32](a, ran, stride, offset)
        else:
            k[1, 32](a, ran, stride, offset)
            k.profile(1, 32, a, counted, stride, offset)
            np.testing.assert_array_equal(ran, counted)


def test_a_matrix_outside_of_its_array() -> None:
    source = """
    #include <mma.h>
    using namespace nvcuda;
    extern "C" __global__ void k(const half* a, half* out, int stride, int offset) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, half> x;
        wmma::load_matrix_sync(x, a + offset, stride, wmma::mem_row_major);
        wmma::store_matrix_sync(out, x, 16, wmma::mem_row_major);
    }"""
    a = np.arange(1024).astype(np.float16)
    out = np.zeros((16, 16), np.float16)
    k = kernel(source)
    k[1, 32](a, out, 24, 8)
    np.testing.assert_array_equal(out, (np.arange(16)[:, None] * 24 + np.arange(16) + 8))
    with pytest.raises(coalesce.MemoryFault, match="past the end of `a`"):
        k[1, 32](a, out, 64, 512)
