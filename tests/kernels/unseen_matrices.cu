// Products, layouts and small or sparse systems, like those of libraries and homework. These kernels were
// not used to find the counting rules or to fit the models; see unseen_learning.cu.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_fp16.h>

namespace cg = cooperative_groups;

#define FULL_MASK 0xffffffff

// ---- products ----

extern "C" __global__ void int8_matvec(const int4* w, const int4* x, const float* scales, float x_scale,
                                       float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    int acc = 0, per_row = cols / 16;
    for (int i = threadIdx.x; i < per_row; i += 32) {
        int4 a = w[row * per_row + i], b = __ldg(&x[i]);
        acc = __dp4a(a.x, b.x, acc);
        acc = __dp4a(a.y, b.y, acc);
        acc = __dp4a(a.z, b.z, acc);
        acc = __dp4a(a.w, b.w, acc);
    }
    for (int o = 16; o > 0; o /= 2) acc += __shfl_down_sync(FULL_MASK, acc, o);
    if (threadIdx.x == 0) y[row] = acc * scales[row] * x_scale;
}

extern "C" __global__ void half_matmul(const __half* A, const __half* B, __half* C, int M, int N, int K) {
    __shared__ __half As[16][16];
    __shared__ __half Bs[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < (K + 15) / 16; t++) {
        int ak = t * 16 + threadIdx.x, bk = t * 16 + threadIdx.y;
        As[threadIdx.y][threadIdx.x] = row < M && ak < K ? A[row * K + ak] : __float2half(0.0f);
        Bs[threadIdx.y][threadIdx.x] = bk < K && col < N ? B[bk * N + col] : __float2half(0.0f);
        __syncthreads();
        for (int k = 0; k < 16; k++)
            sum += __half2float(As[threadIdx.y][k]) * __half2float(Bs[k][threadIdx.x]);
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = __float2half(sum);
}

struct Complex {
    float re, im;
    __device__ Complex(float r = 0, float i = 0) : re(r), im(i) {}
    __device__ Complex operator*(const Complex& o) const {
        return Complex(re * o.re - im * o.im, re * o.im + im * o.re);
    }
    __device__ Complex& operator+=(const Complex& o) {
        re += o.re, im += o.im;
        return *this;
    }
};

extern "C" __global__ void complex_matmul(const Complex* a, const Complex* b, Complex* c, int m, int n,
                                          int k) {
    int j = threadIdx.x + blockIdx.x * blockDim.x;
    int i = threadIdx.y + blockIdx.y * blockDim.y;
    if (i < m && j < n) {
        Complex s;
        for (int p = 0; p < k; ++p) s += a[i * k + p] * b[p * n + j];
        c[i * n + j] = s;
    }
}

template <int TS>
__global__ void dgemm_tiled(int M, int N, int K, double alpha, const double* A, const double* B,
                            double beta, double* C) {
    __shared__ double a[TS][TS], b[TS][TS + 1];
    const int gr = blockIdx.x * TS + threadIdx.x, gc = blockIdx.y * TS + threadIdx.y;  // column-major
    double acc = 0;
    for (int k0 = 0; k0 < K; k0 += TS) {
        a[threadIdx.y][threadIdx.x] = gr < M && k0 + threadIdx.y < K ? A[(k0 + threadIdx.y) * M + gr] : 0;
        b[threadIdx.y][threadIdx.x] = gc < N && k0 + threadIdx.x < K ? B[gc * K + k0 + threadIdx.x] : 0;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TS; k++) acc += a[k][threadIdx.x] * b[threadIdx.y][k];
        __syncthreads();
    }
    if (gr < M && gc < N) C[gc * M + gr] = alpha * acc + beta * C[gc * M + gr];
}

// A block of 128 threads computes 64 x 64 results, 8 x 4 per thread. It loads the next tiles meanwhile.
extern "C" __global__ void __launch_bounds__(128) sgemm_double_buffered(const float* A, const float* B,
                                                                        float* C, int M, int N, int K) {
    __shared__ float As[2][8][64];
    __shared__ float Bs[2][8][64];
    const int tid = threadIdx.x;
    const int aRow = tid / 2, aCol = (tid % 2) * 4, bRow = tid / 16, bCol = (tid % 16) * 4;
    const int ty = tid / 16, tx = tid % 16;
    A += blockIdx.y * 64 * K;
    B += blockIdx.x * 64;
    C += blockIdx.y * 64 * N + blockIdx.x * 64;
    float acc[8][4] = {{0.f}};
    float4 va = *reinterpret_cast<const float4*>(&A[aRow * K + aCol]);
    float4 vb = *reinterpret_cast<const float4*>(&B[bRow * N + bCol]);
    int stage = 0;
    for (int k0 = 0; k0 < K; k0 += 8) {
        As[stage][aCol + 0][aRow] = va.x;
        As[stage][aCol + 1][aRow] = va.y;
        As[stage][aCol + 2][aRow] = va.z;
        As[stage][aCol + 3][aRow] = va.w;
        *reinterpret_cast<float4*>(&Bs[stage][bRow][bCol]) = vb;
        __syncthreads();
        if (k0 + 8 < K) {
            va = *reinterpret_cast<const float4*>(&A[aRow * K + k0 + 8 + aCol]);
            vb = *reinterpret_cast<const float4*>(&B[(k0 + 8 + bRow) * N + bCol]);
        }
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float4 a0 = *reinterpret_cast<float4*>(&As[stage][k][ty * 8]);
            float4 a1 = *reinterpret_cast<float4*>(&As[stage][k][ty * 8 + 4]);
            float4 b0 = *reinterpret_cast<float4*>(&Bs[stage][k][tx * 4]);
            float a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
            float b[4] = {b0.x, b0.y, b0.z, b0.w};
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
        }
        stage ^= 1;
    }
    for (int i = 0; i < 8; i++)
        *reinterpret_cast<float4*>(&C[(ty * 8 + i) * N + tx * 4]) =
            make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
}

// One block per row. Pieces of the row are copied to two stages of shared memory.
extern "C" __global__ void row_dot_async(const float* a, const float* x, float* y, int cols) {
    __shared__ float stage[2][256];
    auto block = cg::this_thread_block();
    const float* row = a + (size_t)blockIdx.x * cols;
    int pieces = cols / 256;
    float sum = 0;
    cg::memcpy_async(block, stage[0], row, sizeof(float) * 256);
    for (int p = 0; p < pieces; p++) {
        if (p + 1 < pieces) {
            cg::memcpy_async(block, stage[(p + 1) % 2], row + (p + 1) * 256, sizeof(float) * 256);
            cg::wait_prior<1>(block);
        } else {
            cg::wait(block);
        }
        for (int i = threadIdx.x; i < 256; i += blockDim.x) sum += stage[p % 2][i] * x[p * 256 + i];
        block.sync();
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(FULL_MASK, sum, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(&y[blockIdx.x], sum);
}

// ---- layouts ----

struct Layout {
    int rank, shape[5], stride[5];
};

extern "C" __global__ void permute(const float* in, float* out, Layout layout, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    size_t rest = i, from = 0;
    for (int d = layout.rank - 1; d >= 0; d--) {
        from += rest % layout.shape[d] * layout.stride[d];
        rest /= layout.shape[d];
    }
    out[i] = in[from];
}

extern "C" __global__ void transpose_xyz_zyx(const double* in, double* out, int nx, int ny, int nz) {
    __shared__ double tile[16][17];
    int y = blockIdx.z;
    int x = blockIdx.x * 16 + threadIdx.x, z = blockIdx.y * 16 + threadIdx.y;
    if (x < nx && z < nz) tile[threadIdx.y][threadIdx.x] = in[(z * ny + y) * nx + x];
    __syncthreads();
    x = blockIdx.x * 16 + threadIdx.y;
    z = blockIdx.y * 16 + threadIdx.x;
    if (x < nx && z < nz) out[(x * ny + y) * nz + z] = tile[threadIdx.x][threadIdx.y];
}

// ---- sparse and small systems ----

extern "C" __global__ void spmv_coo(int nnz, const int* __restrict__ row, const int* __restrict__ col,
                                    const double* __restrict__ val, const double* __restrict__ x,
                                    double* y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < nnz; i += gridDim.x * blockDim.x)
        atomicAdd(y + row[i], val[i] * __ldg(x + col[i]));
}

extern "C" __global__ void spmv_csr_scalar(int num_rows, const int* ptr, const int* indices,
                                           const float* data, const float* x, float* y) {
    int row = blockDim.x * blockIdx.x + threadIdx.x;
    if (row < num_rows) {
        float dot = 0;
        int row_start = ptr[row];
        int row_end = ptr[row + 1];
        for (int jj = row_start; jj < row_end; jj++) dot += data[jj] * x[indices[jj]];
        y[row] += dot;
    }
}

// Solves 4 x 4 systems with pivoting, one system per thread.
extern "C" __global__ void solve_4x4(const double* matrices, const double* rhs, double* x, int count) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= count) return;
    double a[4][5];
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) a[i][j] = matrices[s * 16 + i * 4 + j];
        a[i][4] = rhs[s * 4 + i];
    }
    for (int k = 0; k < 4; k++) {
        int pivot = k;
        for (int i = k + 1; i < 4; i++)
            if (fabs(a[i][k]) > fabs(a[pivot][k])) pivot = i;
        for (int j = k; j < 5; j++) {
            double t = a[k][j];
            a[k][j] = a[pivot][j];
            a[pivot][j] = t;
        }
        for (int i = k + 1; i < 4; i++) {
            double f = a[i][k] / a[k][k];
            for (int j = k; j < 5; j++) a[i][j] -= f * a[k][j];
        }
    }
    for (int i = 3; i >= 0; i--) {
        double v = a[i][4];
        for (int j = i + 1; j < 4; j++) v -= a[i][j] * a[j][4];
        x[s * 4 + i] = a[i][4] = v / a[i][i];
    }
}

// One block of one warp per n x n matrix; n is at most 32.
extern "C" __global__ void cholesky_batched(float* matrices, int n) {
    __shared__ float L[32][33];
    float* A = matrices + blockIdx.x * n * n;
    int t = threadIdx.x;
    for (int i = 0; i < n; i++)
        if (t < n) L[i][t] = A[i * n + t];
    __syncthreads();
    for (int k = 0; k < n; k++) {
        if (t == k) L[k][k] = sqrtf(L[k][k]);
        __syncthreads();
        if (t > k && t < n) L[t][k] /= L[k][k];
        __syncthreads();
        if (t > k && t < n)
            for (int j = k + 1; j <= t; j++) L[t][j] -= L[t][k] * L[j][k];
        __syncthreads();
    }
    for (int i = 0; i < n; i++)
        if (t <= i) A[i * n + t] = L[i][t];
}

// The systems are interleaved: element i of system s is at i * systems + s.
extern "C" __global__ void thomas(const float* a, const float* b, const float* c, const float* d,
                                  float* c_star, float* x, int n, int systems) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= systems) return;
    float cp = c[s] / b[s], dp = d[s] / b[s];
    c_star[s] = cp, x[s] = dp;
    for (int i = 1; i < n; i++) {
        int at = i * systems + s;
        float m = 1.0f / (b[at] - a[at] * cp);
        c_star[at] = cp = c[at] * m;
        x[at] = dp = (d[at] - a[at] * dp) * m;
    }
    for (int i = n - 2; i >= 0; i--) x[i * systems + s] = dp = x[i * systems + s] - c_star[i * systems + s] * dp;
}

// Parallel cyclic reduction, with one block per system of blockDim.x equations.
extern "C" __global__ void cyclic_reduction(const double* ga, const double* gb, const double* gc,
                                            const double* gd, double* gx) {
    extern __shared__ double s[];
    const int n = blockDim.x, i = threadIdx.x, at = blockIdx.x * n + i;
    double *a = s, *b = s + n, *c = s + 2 * n, *d = s + 3 * n;
    a[i] = i ? ga[at] : 0, b[i] = gb[at], c[i] = i < n - 1 ? gc[at] : 0, d[i] = gd[at];
    __syncthreads();
    for (int step = 1; step < n; step *= 2) {
        const int l = max(i - step, 0), r = min(i + step, n - 1);
        const double k1 = i >= step ? a[i] / b[l] : 0, k2 = i + step < n ? c[i] / b[r] : 0;
        const double na = -a[l] * k1, nc = -c[r] * k2;
        const double nb = b[i] - c[l] * k1 - a[r] * k2, nd = d[i] - d[l] * k1 - d[r] * k2;
        __syncthreads();
        a[i] = na, b[i] = nb, c[i] = nc, d[i] = nd;
        __syncthreads();
    }
    gx[at] = d[i] / b[i];
}
