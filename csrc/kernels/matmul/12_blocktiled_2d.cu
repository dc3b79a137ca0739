// Each thread computes 8 x 8 elements: 16 words of shared memory for 64 multiplications.
//
// A block computes 128 x 128 elements with 256 threads. For each k, a thread reads 8 words of A and
// 8 words of B into registers and multiplies each with each. 11_blocktiled_1d reads 9 words for 8
// multiplications; this kernel reads 16 words for 64, so shared memory no longer limits it. The
// price is registers: 64 sums in each thread.
//
// One problem remains: neighbouring threads have neighbouring groups of 8 columns, so lanes read
// words of B that are 8 apart. This is a bank conflict, which 14_warptiled removes.

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

extern "C" __global__ void __launch_bounds__(THREADS) blocktiled_2d(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    __shared__ __align__(16) REAL a_tile[BLOCK_ROWS][BLOCK_K];
    __shared__ __align__(16) REAL b_tile[BLOCK_K][BLOCK_COLS];
    const int t = threadIdx.x;
    const int block_row = block_y * BLOCK_ROWS, block_col = blockIdx.x * BLOCK_COLS;
    const int row = t / (BLOCK_COLS / COLS) * ROWS, col = t % (BLOCK_COLS / COLS) * COLS;

    REAL sum[ROWS][COLS] = {};
    for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
        // Past the edge of a matrix the tile holds zeros, which add nothing.
        for (int i = t; i < BLOCK_ROWS * BLOCK_K; i += THREADS) {
            const int r = block_row + i / BLOCK_K, k = k0 + i % BLOCK_K;
            a_tile[i / BLOCK_K][i % BLOCK_K] = r < M && k < K ? a[INDEX(r) * K + k] : REAL(0);
        }
        for (int i = t; i < BLOCK_K * BLOCK_COLS; i += THREADS) {
            const int k = k0 + i / BLOCK_COLS, s = block_col + i % BLOCK_COLS;
            b_tile[i / BLOCK_COLS][i % BLOCK_COLS] = k < K && s < N ? b[INDEX(k) * N + s] : REAL(0);
        }
        __syncthreads();
        for (int k = 0; k < BLOCK_K; ++k) {
            REAL a_values[ROWS], b_values[COLS];
            for (int i = 0; i < ROWS; ++i) a_values[i] = a_tile[row + i][k];
            for (int j = 0; j < COLS; ++j) b_values[j] = b_tile[k][col + j];
            for (int i = 0; i < ROWS; ++i) {
                for (int j = 0; j < COLS; ++j) sum[i][j] += a_values[i] * b_values[j];
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < ROWS; ++i) {
        for (int j = 0; j < COLS; ++j) {
            const int r = block_row + row + i, s = block_col + col + j;
            if (r >= M || s >= N) continue;
            const INDEX at = INDEX(r) * N + s;
            out[at] = beta == 0 ? alpha * sum[i][j] : alpha * sum[i][j] + beta * c[at];
        }
    }
}
