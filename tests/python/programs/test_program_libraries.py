"""Programs that use cuBLAS or cuRAND's host library, of which a part is replaced."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from whole_programs import NEEDS_COMPILERS, Program, coalesce

from coalesce.compile import nvcc
from coalesce.compile.binaries import executables

pytestmark = NEEDS_COMPILERS

HEAD = """
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define OK(call) do { int r_ = int(call); if (r_) { printf("%s: %d\\n", #call, r_); exit(9); } } \\
    while (0)
template <class T> T *on_device(const std::vector<T> &v) {
    T *p;
    OK(cudaMalloc(&p, v.size() * sizeof(T)));
    OK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}
template <class T> std::vector<T> on_host(const T *p, size_t n) {
    std::vector<T> v(n);
    OK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}
template <class T> void show(const std::vector<T> &v) {
    for (T x : v) printf("%.9g ", double(x));
    printf("\\n");
}
"""
# Declarations and file of the programs that use cuBLAS.
CUBLAS = ("#include <cublas_v2.h>", "cublas.cu")


@pytest.mark.program(
    """
    cublasHandle_t h;
    OK(cublasCreate(&h));
    double *x = on_device(std::vector<double>{3, -4, 1, 2}), *y = on_device<double>({1, 1, 2, 5});
    double dot, norm, sum, two = 2;
    int largest, smallest;
    OK(cublasDdot(h, 4, x, 1, y, 1, &dot));
    OK(cublasDnrm2(h, 2, x, 1, &norm));
    OK(cublasDasum(h, 4, x, 1, &sum));
    OK(cublasIdamax(h, 4, x, 1, &largest));
    OK(cublasIdamin(h, 4, x, 1, &smallest));
    printf("%g %g %g %d %d\\n", dot, norm, sum, largest, smallest);  // 11 5 10 2 3
    OK(cublasDaxpy(h, 4, &two, x, 1, y, -1));
    show(on_host(y, 4));                                             // 5 3 -6 11
    OK(cublasDscal(h, 2, &two, y, 2));
    show(on_host(y, 4));                                             // 10 3 -12 11
    OK(cublasDswap(h, 2, x, 1, y, 2));
    OK(cublasDcopy(h, 2, x, 1, y + 1, 2));
    show(on_host(x, 4)), show(on_host(y, 4));                        // 10 -12 1 2, 3 10 -4 -12
    float *large = on_device<float>({3e30f, 4e30f}), single;
    OK(cublasSnrm2(h, 2, large, 1, &single));
    printf("%g\\n", single);                                          // 5e+30
    double *on_gpu = on_device<double>({0});
    OK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE));
    OK(cublasDasum(h, 4, x, 1, on_gpu));
    OK(cublasDscal(h, 1, on_gpu, x, 1));
    show(on_host(x, 1));                                             // 250
    OK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST));
    printf("%d %d\\n", cublasDdot(nullptr, 1, x, 1, x, 1, &dot),
           cublasDgemv(h, CUBLAS_OP_N, 4, 1, &two, x, 2, x, 1, &two, y, 1));  // 1 7
    cudaFree(x), cudaFree(y), cudaFree(on_gpu), cudaFree(large);
    OK(cublasDestroy(h));
    """,
    *CUBLAS,
)
def test_cublas_vectors(program: Program, tmp_path: Path) -> None:
    done = program.run("--json", tmp_path / "r.json", "--option=-lcublas")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "11 5 10 2 3", "5 3 -6 11 ", "10 3 -12 11 ", "10 -12 1 2 ", "3 10 -4 -12 ",
        "5e+30", "250 ", "1 7",
    ]  # fmt: skip
    assert "their costs are not those of cuBLAS" in done.stderr
    names = [k["name"] for k in json.loads((tmp_path / "r.json").read_text())["kernels"]]
    assert "cublas_axpy<double>" in names


@pytest.mark.program(
    """
    cublasHandle_t h;
    OK(cublasCreate(&h));
    const int m = 35, n = 21, k = 18, lda = 40, ldb = 37, ldc = 36;
    std::vector<float> a(2 * 1600), b(2 * 1480), c(2 * ldc * n), v(64);
    for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 13) - 6;
    for (size_t i = 0; i < b.size(); ++i) b[i] = float(i % 7) - 3;
    for (size_t i = 0; i < c.size(); ++i) c[i] = float(i % 5);
    for (size_t i = 0; i < v.size(); ++i) v[i] = float(i % 11) - 5;
    float *da = on_device(a), *db = on_device(b), alpha = 2, beta = 3, zero = 0, one = 1;
    for (int t = 0; t < 4; ++t) {
        const auto ta = cublasOperation_t(t & 1), tb = cublasOperation_t(t >> 1);
        float *dc = on_device(c);
        OK(cublasSgemm(h, ta, tb, m, n, k, &alpha, da, lda, db, ldb, &beta, dc, ldc));
        show(on_host(dc, ldc * n));
        OK(cublasSgemmStridedBatched(h, ta, tb, m, n, k, &alpha, da, lda, 1600, db, ldb, 1480,
                                     &beta, dc, ldc, ldc * n, 2));
        show(on_host(dc + ldc * n, ldc * n));
        cudaFree(dc);
    }
    float *dn = on_device(std::vector<float>(64, NAN)), *dv = on_device(v);
    OK(cublasSgemv(h, CUBLAS_OP_N, m, n, &alpha, da, lda, dv, 2, &zero, dn, 1));
    show(on_host(dn, m));
    OK(cublasSgemv(h, CUBLAS_OP_T, m, n, &alpha, da, lda, dv, 1, &zero, dn, 1));
    show(on_host(dn, n));
    OK(cublasSger(h, m, n, &alpha, dv, 1, dv, 2, da, lda));
    show(on_host(da, lda * n));
    float *dt = on_device(std::vector<float>(lda * 35));
    OK(cublasSgeam(h, CUBLAS_OP_T, CUBLAS_OP_N, n, m, &one, da, lda, &zero, nullptr, lda, dt, lda));
    show(on_host(dt, lda * 35));
    OK(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &zero, dn + 40, 2, dn + 40, 2, &one,
                   dv, 2));
    OK(cublasSgemv(h, CUBLAS_OP_N, 2, 2, &zero, dn + 40, 2, dn + 40, 1, &one, dv, 1));
    OK(cublasSaxpy(h, 4, &zero, dn + 40, 1, dv, 1));
    OK(cublasSger(h, 2, 2, &zero, dn + 40, 1, dn + 40, 1, dv, 2));
    show(on_host(dv, 4));  // nothing was added
    """,
    *CUBLAS,
)
def test_cublas_matrices(program: Program) -> None:
    done = program.run()
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [np.array(line.split(), float) for line in done.stdout.splitlines()]
    m, n, k = 35, 21, 18
    a, b = np.arange(3200) % 13 - 6.0, np.arange(2960) % 7 - 3.0
    c, v = np.arange(2 * 36 * n) % 5 + 0.0, np.arange(64) % 11 - 5.0

    def matrix(data: np.ndarray, rows: int, columns: int, stride: int) -> np.ndarray:
        padded = np.append(data, np.zeros(stride * columns))[: stride * columns]
        return padded.reshape(columns, stride).T[:rows]

    for t in range(4):
        for which in range(2):
            left, right = a[1600 * which :], b[1480 * which :]
            left = matrix(left, k, m, 40).T if t & 1 else matrix(left, m, k, 40)
            right = matrix(right, n, k, 37).T if t >> 1 else matrix(right, k, n, 37)
            before = matrix(c[36 * n * which :], m, n, 36)
            got = matrix(shown[2 * t + which], m, n, 36)
            np.testing.assert_array_equal(got, 2 * left @ right + 3 * before)
    whole = matrix(a, m, n, 40)
    np.testing.assert_array_equal(shown[8], 2 * whole @ v[: 2 * n : 2])
    np.testing.assert_array_equal(shown[9], 2 * whole.T @ v[:m])
    whole = whole + 2 * np.outer(v[:m], v[: 2 * n : 2])
    np.testing.assert_array_equal(matrix(shown[10], m, n, 40), whole)
    np.testing.assert_array_equal(matrix(shown[11], n, m, 40), whole.T)
    np.testing.assert_array_equal(shown[12], v[:4])


@pytest.mark.program(
    """
    cublasHandle_t h;
    OK(cublasCreate(&h));
    const int m = 20, n = 17, k = 18, each = 20 * 20;
    std::vector<__half> a(2 * each), b(2 * each), c(2 * each);
    std::vector<__nv_bfloat16> v(2 * each);
    std::vector<signed char> bytes(each);
    for (int i = 0; i < 2 * each; ++i) {
        a[i] = float(i % 13 - 6), b[i] = float(i % 7 - 3), c[i] = float(i % 5);
        v[i] = float(i % 11 - 5);
    }
    for (int i = 0; i < each; ++i) bytes[i] = i % 255 - 127;
    __half *da = on_device(a), *db = on_device(b), two = 2, three = 3;
    float alpha = 2, beta = 3;
    const auto N = CUBLAS_OP_N, T = CUBLAS_OP_T;
    __half *dc = on_device(c);
    OK(cublasHgemm(h, T, N, m, n, k, &two, da, 20, db, 20, &three, dc, 20));
    show(on_host(dc, 2 * each));
    dc = on_device(c);
    OK(cublasHgemmStridedBatched(h, N, N, m, n, k, &two, da, 20, each, db, 20, each, &three, dc,
                                 20, each, 2));
    show(on_host(dc, 2 * each));
    dc = on_device(c);
    OK(cublasGemmStridedBatchedEx(h, N, N, m, n, k, &alpha, da, CUDA_R_16F, 20, each, db,
                                  CUDA_R_16F, 20, each, &beta, dc, CUDA_R_16F, 20, each, 2,
                                  CUBLAS_COMPUTE_32F_FAST_16F, CUBLAS_GEMM_DEFAULT));
    show(on_host(dc, 2 * each));
    dc = on_device(c);
    __half **as = on_device<__half *>({da, da + each}), **bs = on_device<__half *>({db, db + each}),
           **cs = on_device<__half *>({dc, dc + each});
    OK(cublasHgemmBatched(h, N, N, m, n, k, &two, as, 20, bs, 20, &three, cs, 20, 2));
    show(on_host(dc, 2 * each));
    OK(cudaMemcpy(dc, c.data(), 4 * each, cudaMemcpyHostToDevice));
    OK(cublasGemmBatchedEx(h, N, N, m, n, k, &two, (void **)as, CUDA_R_16F, 20, (void **)bs,
                           CUDA_R_16F, 20, &three, (void **)cs, CUDA_R_16F, 20, 2,
                           CUBLAS_COMPUTE_16F, CUBLAS_GEMM_DEFAULT));
    show(on_host(dc, 2 * each));
    signed char *d8 = on_device(bytes);
    int *d32 = on_device(std::vector<int>(each, 1)), one = 1, minus = -1;
    OK(cublasGemmEx(h, N, T, m, n, k, &one, d8, CUDA_R_8I, 20, d8, CUDA_R_8I, 20, &minus, d32,
                    CUDA_R_32I, 20, CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT));
    show(on_host(d32, each));
    __nv_bfloat16 *dv = on_device(v), dot;
    float *df = on_device(std::vector<float>(each, 1));
    OK(cublasSgemmEx(h, N, N, m, n, k, &alpha, dv, CUDA_R_16BF, 20, dv, CUDA_R_16BF, 20, &beta,
                     df, CUDA_R_32F, 20));
    show(on_host(df, each));
    __half half_dot;
    OK(cublasDotEx(h, 50, da, CUDA_R_16F, 2, db, CUDA_R_16F, -1, &half_dot, CUDA_R_16F,
                   CUDA_R_32F));
    OK(cublasDotcEx(h, 12, dv, CUDA_R_16BF, 1, dv, CUDA_R_16BF, 1, &dot, CUDA_R_16BF, CUDA_R_32F));
    printf("%g %g %d\\n", float(half_dot), float(dot),
           cublasDotEx(h, 1, da, CUDA_R_16F, 1, dv, CUDA_R_16BF, 1, &dot, CUDA_R_16F, CUDA_R_32F));
    """,
    *CUBLAS,
)
def test_cublas_products_of_other_types(program: Program) -> None:
    """Halves, bfloat16 and bytes: single, strided and separate matrices, and dot products."""
    done = program.run()
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [np.array(line.split(), float) for line in done.stdout.splitlines()]
    m, n, k, i = 20, 17, 18, np.arange(800)

    def matrices(data: np.ndarray) -> np.ndarray:
        return data.reshape(-1, 20, 20).transpose(0, 2, 1)

    a, b, c, v = (matrices(i % r - r // 2 + 0.0) for r in (13, 7, 5, 11))
    c = matrices(i % 5 + 0.0)
    first = 2 * a[0, :k, :m].T @ b[0, :k, :n] + 3 * c[0, :m, :n]
    np.testing.assert_array_equal(matrices(shown[0])[0, :m, :n], first)
    both = 2 * a[:, :m, :k] @ b[:, :k, :n] + 3 * c[:, :m, :n]
    for got in shown[1:5]:
        np.testing.assert_array_equal(matrices(got)[:, :m, :n], both)
    x = matrices(i[:400] % 255 - 127)[0]
    np.testing.assert_array_equal(matrices(shown[5])[0, :m, :n], x[:m, :k] @ x[:n, :k].T - 1)
    expected = 2 * v[0, :m, :k] @ v[0, :k, :n] + 3
    np.testing.assert_array_equal(matrices(shown[6])[0, :m, :n], expected)
    j = np.arange(50)
    dot = np.float16((2 * j % 13 - 6) @ (j % 7 - 3)[::-1])
    np.testing.assert_array_equal(shown[7], [dot, 110 + 25, 15])
    assert "cublasDotEx() is not simulated for these types" in done.stderr


def test_functions_that_are_not_replaced_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "program.cu"
    path.write_text('extern "C" int cublasCsyrk_v2(); int main() { return cublasCsyrk_v2(); }')
    refused = coalesce("run", path)
    assert refused.returncode == 1
    assert "cublasCsyrk() of cuBLAS, which coalesce's replacement" in refused.stderr


def test_closed_libraries_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "program.cpp"
    path.write_text('extern "C" int cufftPlan1d(); int main() { return cufftPlan1d(); }')
    with pytest.raises(LookupError, match=r"program\.cpp uses cuFFT\. The source of this library"):
        nvcc.build([path], ["-lcufft"], arch=90)


RANDOM = """
curandGenerator_t g;
float *x;
double *d;
OK(cudaMalloc(&x, 20000 * 4));
OK(cudaMalloc(&d, 2048 * 8));
for (auto type : {CURAND_RNG_PSEUDO_DEFAULT, CURAND_RNG_PSEUDO_PHILOX4_32_10}) {
    OK(curandCreateGenerator(&g, type));
    OK(curandSetPseudoRandomGeneratorSeed(g, 7));
    OK(curandGenerateUniform(g, x, 10000));
    OK(curandGenerateUniform(g, x + 10000, 10000));
    const auto whole = on_host(x, 20000);
    show(whole);
    OK(curandSetGeneratorOffset(g, 5000));
    OK(curandGenerateUniform(g, x, 10000));
    const auto later = on_host(x, 10000);
    bool same = true;
    for (int i = 0; i < 10000; ++i) same = same && later[i] == whole[i + 5000];
    printf("%d\\n", same);
    OK(curandGenerateNormal(g, x, 20000, 3, 2));
    show(on_host(x, 20000));
    OK(curandDestroyGenerator(g));
}
OK(curandCreateGenerator(&g, CURAND_RNG_QUASI_SOBOL32));
OK(curandSetQuasiRandomGeneratorDimensions(g, 25));
OK(curandGenerateUniform(g, x, 25 * 256));
show(on_host(x, 25 * 256));
OK(curandDestroyGenerator(g));
OK(curandCreateGeneratorHost(&g, CURAND_RNG_QUASI_SOBOL64));
std::vector<double> h(64);
OK(curandGenerateUniformDouble(g, h.data(), 64));
show(h);
printf("%d\\n", curandGenerate(g, nullptr, 1));
curandDirectionVectors32_t *vectors;
OK(curandGetDirectionVectors32(&vectors, CURAND_DIRECTION_VECTORS_32_JOEKUO6));
printf("%u %u %u\\n", vectors[0][0], vectors[1][1], vectors[19999][31]);
cudaFree(x), cudaFree(d);
OK(curandDestroyGenerator(g));
"""


@pytest.mark.program(RANDOM, "#include <curand.h>", "curand.cu")
def test_curand(program: Program) -> None:
    done = program.run()
    if "pip install nvidia-curand" in done.stderr:
        pytest.skip("needs the headers of nvidia-curand")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
    shown = [np.array(line.split(), float) for line in done.stdout.splitlines()]
    for uniform, same, normal in (shown[:3], shown[3:6]):
        assert uniform.size == 20000
        assert 0 < uniform.min() < uniform.max() <= 1
        assert abs(uniform.mean() - 0.5) < 0.01
        assert np.unique(uniform).size > 19900
        assert same.tolist() == [1]
        assert abs(normal.mean() - 3) < 0.06
        assert abs(normal.std() - 2) < 0.05
    # 256 points of a Sobol' sequence. Cut the interval of a dimension into 256 equal parts: each
    # part has one point. Cut the square of the first two dimensions into 16 by 16 cells: each cell
    # has one point.
    points = shown[6].reshape(25, 256)
    for dimension in points:
        assert sorted((dimension * 256).astype(int)) == list(range(256))
    cells = (points[:2] * 16).astype(int)
    assert len({*zip(*cells.tolist(), strict=True)}) == 256
    np.testing.assert_allclose(np.sort(shown[7]), np.arange(64) / 64, atol=1e-15)
    assert shown[8].tolist() == [103]
    first, second, last = shown[9]
    assert (first, second) == (2**31, 3 * 2**30)
    assert last > 0


def test_executables_that_load_closed_libraries_are_refused(tmp_path: Path) -> None:
    (tmp_path / "library.cpp").write_text('extern "C" int cublasCreate_v2(void *) { return 0; }')
    (tmp_path / "main.cpp").write_text(
        'extern "C" int cublasCreate_v2(void *); int main() { return cublasCreate_v2(nullptr); }'
    )
    for words in (
        ["-shared", "-fPIC", "-o", "libcublas.so.13", "library.cpp"],
        ["-o", "main", "main.cpp", "./libcublas.so.13"],
    ):
        subprocess.run(["g++", *words], cwd=tmp_path, check=True)
    with pytest.raises(ValueError, match=r"main loads cuBLAS\. .* needs a GPU.* its source"):
        executables.check_executable(tmp_path / "main")
