// Whole kernels that use tensor cores, some through mma.h and some by mma.sync. mma_swizzled also
// uses ldmatrix, and swizzles its tiles.
//
// The matrices are row-major unless a comment says otherwise. Their sizes are multiples of the
// tiles.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

typedef unsigned int u32;

__device__ u32 window(const void* p) { return u32(__cvta_generic_to_shared(p)); }

// c = a b. Each warp computes one tile of 16 x 16 and loads the operands from global memory.
extern "C" __global__ void wmma_from_global(const half* a, const half* b, float* c, int m, int n,
                                            int k) {
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int row = warp / (n / 16) * 16, column = warp % (n / 16) * 16;
    if (row >= m) return;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(x, a + row * k + i, k);
        wmma::load_matrix_sync(y, b + i * n + column, n);
        wmma::mma_sync(sum, x, y, sum);
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

// d = alpha * a b + beta * c. Blocks have 4 warps. Tiles of 64 x 64 lie in padded shared memory.
extern "C" __global__ void wmma_tiled(const half* a, const half* b, const float* c, float* d, int n,
                                      int k, float alpha, float beta) {
    __shared__ __align__(32) half as[64][32 + 8], bs[32][64 + 8];
    const int warp = threadIdx.x / 32;
    const int row = blockIdx.y * 64, column = blockIdx.x * 64;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4], old;
    for (auto& s : sum) wmma::fill_fragment(s, 0.0f);
    for (int step = 0; step < k; step += 32) {
        for (int i = threadIdx.x; i < 64 * 32; i += blockDim.x) {
            as[i / 32][i % 32] = a[(row + i / 32) * k + step + i % 32];
            bs[i / 64][i % 64] = b[(step + i / 64) * n + column + i % 64];
        }
        __syncthreads();
        for (int part = 0; part < 32; part += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
            wmma::load_matrix_sync(x, &as[warp * 16][part], 32 + 8);
            for (int j = 0; j < 4; ++j) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
                wmma::load_matrix_sync(y, &bs[part][j * 16], 64 + 8);
                wmma::mma_sync(sum[j], x, y, sum[j]);
            }
        }
        __syncthreads();
    }
    for (int j = 0; j < 4; ++j) {
        const int at = (row + warp * 16) * n + column + j * 16;
        wmma::load_matrix_sync(old, c + at, n, wmma::mem_row_major);
        for (int e = 0; e < old.num_elements; ++e)
            sum[j].x[e] = alpha * sum[j].x[e] + beta * old.x[e];
        wmma::store_matrix_sync(d + at, sum[j], n, wmma::mem_row_major);
    }
}

// c = a b in tf32. b is column-major (n x k in memory).
extern "C" __global__ void wmma_tf32(const float* a, const float* b, float* c, int n, int k) {
    const int row = blockIdx.y * 16, column = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int i = 0; i < k; i += 8) {
        wmma::load_matrix_sync(x, a + row * k + i, k);
        wmma::load_matrix_sync(y, b + column * k + i, k);
        for (auto& e : x.x) e = wmma::__float_to_tf32(e);
        for (auto& e : y.x) e = wmma::__float_to_tf32(e);
        wmma::mma_sync(sum, x, y, sum);
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

// c = a b of bytes. Each warp computes tiles of 32 x 8.
extern "C" __global__ void wmma_bytes(const signed char* a, const signed char* b, int* c, int n,
                                      int k) {
    const int row = blockIdx.y * 32, column = blockIdx.x * 8;
    wmma::fragment<wmma::matrix_a, 32, 8, 16, signed char, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, signed char, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 32, 8, 16, int> sum;
    wmma::fill_fragment(sum, 0);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(x, a + row * k + i, k);
        wmma::load_matrix_sync(y, b + column * k + i, k);
        wmma::mma_sync(sum, x, y, sum);
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

// c = a b of bfloat16, with tiles of 8 x 32. a and c are column-major.
extern "C" __global__ void wmma_wide(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c,
                                     int m, int n, int k) {
    const int row = blockIdx.y * 8, column = blockIdx.x * 32;
    wmma::fragment<wmma::matrix_a, 8, 32, 16, __nv_bfloat16, wmma::col_major> x;
    wmma::fragment<wmma::matrix_b, 8, 32, 16, __nv_bfloat16, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 8, 32, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(x, a + i * m + row, m);
        wmma::load_matrix_sync(y, b + i * n + column, n);
        wmma::mma_sync(sum, x, y, sum);
    }
    wmma::store_matrix_sync(c + column * m + row, sum, m, wmma::mem_col_major);
}

// c = a b of doubles.
extern "C" __global__ void wmma_doubles(const double* a, const double* b, double* c, int n, int k) {
    const int row = blockIdx.y * 8, column = blockIdx.x * 8;
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> sum;
    wmma::fill_fragment(sum, 0.0);
    for (int i = 0; i < k; i += 4) {
        wmma::load_matrix_sync(x, a + row * k + i, k);
        wmma::load_matrix_sync(y, b + i * n + column, n);
        wmma::mma_sync(sum, x, y, sum);
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

// Returns the byte offset of a 16-byte chunk in a tile with rows of 64 bytes (4 chunks). The chunks
// are swizzled. ldmatrix reads the same column of chunks in 8 rows at a time. These 8 chunks are in
// different banks, and so are the 8 chunks that 8 neighbouring threads copy.
__device__ int swizzled(int row, int chunk) { return row * 64 + (chunk ^ (row / 2 % 4)) * 16; }

// Computes c = a b. b is column-major (n x k in memory). cp.async copies tiles to shared memory in
// two stages, ldmatrix loads fragments, and mma.sync multiplies them. stmatrix writes the result to
// shared memory, and from there it goes to c. A block has 4 warps and computes 64 x 64 elements of
// c, in steps of 32 values of k.
extern "C" __global__ void mma_swizzled(const half* a, const half* b, half* c, int n, int k) {
    __shared__ __align__(128) char tiles[2][2][64 * 64];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = blockIdx.y * 64, column = blockIdx.x * 64;
    const auto bring = [&](int stage, int step) {
        for (int i = threadIdx.x; i < 256; i += blockDim.x) {
            const int r = i / 4, chunk = i % 4;
            const half* const from[2] = {a + (row + r) * k + step + chunk * 8,
                                         b + (column + r) * k + step + chunk * 8};
            for (int operand = 0; operand < 2; ++operand)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                                 window(tiles[stage][operand]) + swizzled(r, chunk)),
                             "l"(from[operand])
                             : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float sum[8][4] = {};
    bring(0, 0);
    for (int step = 0; step < k; step += 32) {
        const int stage = step / 32 % 2;
        if (step + 32 < k) {
            bring(stage ^ 1, step + 32);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
        for (int part = 0; part < 2; ++part) {
            u32 x[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                         : "r"(window(tiles[stage][0]) +
                               swizzled(warp * 16 + lane % 16, part * 2 + lane / 16))
                         : "memory");
            for (int j = 0; j < 8; ++j) {
                u32 y[2];
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                             : "=r"(y[0]), "=r"(y[1])
                             : "r"(window(tiles[stage][1]) +
                                   swizzled(j * 8 + lane % 8, part * 2 + lane / 8 % 2))
                             : "memory");
                asm volatile(
                    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                    "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                    : "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]), "+f"(sum[j][3])
                    : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
            }
        }
        __syncthreads();
    }
    char* const out = tiles[0][0];  // 64 rows of 128 bytes
    for (int j = 0; j < 8; j += 2) {
        u32 r[4];
        for (int i = 0; i < 4; ++i) {
            const half2 two =
                __floats2half2_rn(sum[j + i / 2][2 * (i % 2)], sum[j + i / 2][2 * (i % 2) + 1]);
            r[i] = *(const u32*)&two;
        }
        const int at = warp * 16 + lane % 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         window(out) + at * 128 + ((j + lane / 16) ^ (at % 8)) * 16),
                     "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                     : "memory");
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * 8; i += blockDim.x) {
        const int r = i / 8, chunk = i % 8;
        *(int4*)(c + (row + r) * n + column + chunk * 8) =
            *(const int4*)(out + r * 128 + (chunk ^ (r % 8)) * 16);
    }
}

// The same product with row-major b, loaded by ldmatrix.trans. The tiles have no swizzle, so the
// accesses to shared memory have bank conflicts.
extern "C" __global__ void mma_plain(const half* a, const half* b, float* c, int n, int k) {
    __shared__ __align__(128) half as[32][32], bs[32][64];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = blockIdx.y * 32, column = blockIdx.x * 64;
    float sum[8][4] = {};
    for (int step = 0; step < k; step += 32) {
        for (int i = threadIdx.x; i < 32 * 32; i += blockDim.x)
            as[i / 32][i % 32] = a[(row + i / 32) * k + step + i % 32];
        for (int i = threadIdx.x; i < 32 * 64; i += blockDim.x)
            bs[i / 64][i % 64] = b[(step + i / 64) * n + column + i % 64];
        __syncthreads();
        for (int part = 0; part < 32; part += 16) {
            u32 x[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                         : "r"(window(&as[warp * 16 + lane % 16][part + lane / 16 * 8]))
                         : "memory");
            for (int j = 0; j < 8; ++j) {
                u32 y[2];
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                             : "=r"(y[0]), "=r"(y[1])
                             : "r"(window(&bs[part + lane % 16][j * 8]))
                             : "memory");
                asm volatile(
                    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                    "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                    : "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]), "+f"(sum[j][3])
                    : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
            }
        }
        __syncthreads();
    }
    for (int j = 0; j < 8; ++j)
        for (int i = 0; i < 4; ++i)
            c[(row + warp * 16 + lane / 4 + i / 2 * 8) * n + column + j * 8 + lane % 4 * 2 +
              i % 2] = sum[j][i];
}

// Each warp transposes an 8 x 8 matrix of halves in registers.
extern "C" __global__ void transpose_registers(const u32* x, u32* out) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    u32 r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(x[t]));
    out[t] = r;
}
