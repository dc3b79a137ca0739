// Copies run ahead of the multiplications: four stages in shared memory, two in registers.
//
// In 14_warptiled a block loads a tile, waits, multiplies, waits. Here shared memory holds four
// stages of tiles. cp.async copies from global to shared memory without registers and without
// waiting, so the next three stages are loaded while one stage is multiplied. Registers use the
// same idea: the words of step k + 1 are read while those of step k are multiplied. One barrier per
// stage remains.
//
// cp.async copies 4 to 16 bytes to any aligned place. Therefore the copies themselves transpose the
// tile of A, one element each. With four extra columns, neither the copies nor the loads have bank
// conflicts. If rows of b are not aligned, its copies are one element each, too. cp.async needs
// compute capability 8.0 or newer; older GPUs use ordinary loads and stores.

#ifndef REAL
#define REAL float
#endif
#ifndef INDEX  // counts the elements of a matrix: size_t where there are 2^31 or more
#define INDEX int
#endif
#define BLOCK_ROWS 128
#define BLOCK_COLS 128
#define BLOCK_K 8
#define ROWS 8  // per thread
#define COLS 8
#define THREADS 256
#define WARP_ROWS 32  // the tile of a warp; its quarters are 16 x 32
#define WARP_COLS 64
#define STAGES (sizeof(REAL) == 4 ? 4 : 2)  // what 48 KB of shared memory hold
#define WIDTH (16 / int(sizeof(REAL)))      // elements in 16 bytes

struct alignas(16) Vector {
    REAL v[WIDTH];
};

// Starts copying BYTES bytes to shared memory. If `inside` is false, it reads nothing and writes 0.
template <int BYTES>
__device__ void copy(REAL* to, const REAL* from, bool inside) {
#if __CUDA_ARCH__ >= 800
    const unsigned target = unsigned(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target), "l"(from),
                 "n"(BYTES), "r"(inside ? BYTES : 0)
                 : "memory");
#else
    for (int i = 0; i < BYTES / int(sizeof(REAL)); ++i) to[i] = inside ? from[i] : REAL(0);
#endif
}

// Ends a group of copies. Copies are waited for by group.
__device__ void end_group() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all but the `PENDING` newest groups have arrived.
template <int PENDING>
__device__ void wait_for_groups() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

// Return the distance from a thread's first row (column) to its i-th row (j-th column).
// The second four rows (columns) lie half a tile of the warp further on.
__device__ int row_of(int i) { return i / 4 * (WARP_ROWS / 2) + i % 4; }
__device__ int col_of(int j) { return j / 4 * (WARP_COLS / 2) + j % 4; }

extern "C" __global__ void __launch_bounds__(THREADS, sizeof(REAL) == 4 ? 2 : 1) pipelined(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    __shared__ __align__(16) REAL a_tiles[STAGES][BLOCK_K][BLOCK_ROWS + 4];
    __shared__ __align__(16) REAL b_tiles[STAGES][BLOCK_K][BLOCK_COLS];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const int block_row = block_y * BLOCK_ROWS, block_col = blockIdx.x * BLOCK_COLS;
    const int row = warp / (BLOCK_COLS / WARP_COLS) * WARP_ROWS + lane / 8 * 4;
    const int col = warp % (BLOCK_COLS / WARP_COLS) * WARP_COLS + lane % 8 * 4;
    const bool b_aligned = N % WIDTH == 0 && size_t(b) % 16 == 0;

    const auto start_stage = [&](int k0, int stage) {
        for (int i = t; i < BLOCK_ROWS * BLOCK_K; i += THREADS) {
            const int r = i / BLOCK_K, k = i % BLOCK_K;
            const bool inside = block_row + r < M && k0 + k < K;
            const INDEX at = inside ? INDEX(block_row + r) * K + k0 + k : 0;
            copy<sizeof(REAL)>(&a_tiles[stage][k][r], a + at, inside);
        }
        if (b_aligned) {
            for (int i = WIDTH * t; i < BLOCK_K * BLOCK_COLS; i += WIDTH * THREADS) {
                const int k = i / BLOCK_COLS, s = i % BLOCK_COLS;
                const bool inside = k0 + k < K && block_col + s < N;
                const INDEX at = inside ? INDEX(k0 + k) * N + block_col + s : 0;
                copy<16>(&b_tiles[stage][k][s], b + at, inside);
            }
        } else {
            for (int i = t; i < BLOCK_K * BLOCK_COLS; i += THREADS) {
                const int k = i / BLOCK_COLS, s = i % BLOCK_COLS;
                const bool inside = k0 + k < K && block_col + s < N;
                const INDEX at = inside ? INDEX(k0 + k) * N + block_col + s : 0;
                copy<sizeof(REAL)>(&b_tiles[stage][k][s], b + at, inside);
            }
        }
    };

    // The operands of two steps: while one step is multiplied, those of the next are loaded.
    Vector a_values[2][ROWS / WIDTH], b_values[2][COLS / WIDTH];
    const auto read_step = [&](int stage, int k) {
        for (int i = 0; i < ROWS; i += WIDTH) {
            a_values[k % 2][i / WIDTH] =
                *reinterpret_cast<const Vector*>(&a_tiles[stage][k][row + row_of(i)]);
        }
        for (int j = 0; j < COLS; j += WIDTH) {
            b_values[k % 2][j / WIDTH] =
                *reinterpret_cast<const Vector*>(&b_tiles[stage][k][col + col_of(j)]);
        }
    };

    for (int s = 0; s < STAGES - 1; ++s) {
        start_stage(s * BLOCK_K, s);
        end_group();
    }
    REAL sum[ROWS][COLS] = {};
    int stage = 0;
    for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
        wait_for_groups<STAGES - 2>();
        __syncthreads();  // this stage is there for all threads; the one before it is free
        start_stage(k0 + (STAGES - 1) * BLOCK_K, (stage + STAGES - 1) % STAGES);
        end_group();
        read_step(stage, 0);
#pragma unroll
        for (int k = 0; k < BLOCK_K; ++k) {
            if (k + 1 < BLOCK_K) read_step(stage, k + 1);
            for (int i = 0; i < ROWS; ++i) {
                for (int j = 0; j < COLS; ++j) {
                    sum[i][j] += a_values[k % 2][i / WIDTH].v[i % WIDTH] *
                                 b_values[k % 2][j / WIDTH].v[j % WIDTH];
                }
            }
        }
        stage = (stage + 1) % STAGES;
    }
    wait_for_groups<0>();

    for (int i = 0; i < ROWS; ++i) {
        for (int j = 0; j < COLS; ++j) {
            const int r = block_row + row + row_of(i), s = block_col + col + col_of(j);
            if (r >= M || s >= N) continue;
            const INDEX at = INDEX(r) * N + s;
            out[at] = beta == 0 ? alpha * sum[i][j] : alpha * sum[i][j] + beta * c[at];
        }
    }
}
