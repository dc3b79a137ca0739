// Each thread computes a column of 8 elements: each value of B is read once and used 8 times.
//
// In 07_tiled every multiplication reads two words of shared memory, and these loads take most of
// the time. Here a block computes 64 x 64 elements with 512 threads, and a thread keeps 8 sums in
// registers. For each k, a thread reads one word of B and 8 words of A: 9 words for 8
// multiplications instead of 16. The words of A are the same for all lanes of a warp (a broadcast),
// and the assembler reads four of them, neighbours along k, with one load.

#ifndef REAL
#define REAL float
#endif
#ifndef INDEX  // counts the elements of a matrix: size_t where there are 2^31 or more
#define INDEX int
#endif
#define BLOCK_ROWS 64
#define BLOCK_COLS 64
#define BLOCK_K 8
#define ROWS 8  // per thread
#define THREADS 512

extern "C" __global__ void __launch_bounds__(THREADS, 2) blocktiled_1d(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    __shared__ __align__(16) REAL a_tile[BLOCK_ROWS][BLOCK_K];
    __shared__ __align__(16) REAL b_tile[BLOCK_K][BLOCK_COLS];
    const int t = threadIdx.x;
    const int block_row = block_y * BLOCK_ROWS, block_col = blockIdx.x * BLOCK_COLS;
    const int a_row = t / BLOCK_K, a_k = t % BLOCK_K;             // the element of A that t loads
    const int b_k = t / BLOCK_COLS, b_col = t % BLOCK_COLS;       // the element of B that t loads
    const int row = t / BLOCK_COLS * ROWS, col = t % BLOCK_COLS;  // the first one that t computes

    REAL sum[ROWS] = {};
    for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
        // Past the edge of a matrix the tile holds zeros, which add nothing.
        const bool a_inside = block_row + a_row < M && k0 + a_k < K;
        const bool b_inside = k0 + b_k < K && block_col + b_col < N;
        a_tile[a_row][a_k] = a_inside ? a[INDEX(block_row + a_row) * K + k0 + a_k] : REAL(0);
        b_tile[b_k][b_col] = b_inside ? b[INDEX(k0 + b_k) * N + block_col + b_col] : REAL(0);
        __syncthreads();
        for (int k = 0; k < BLOCK_K; ++k) {
            const REAL b_value = b_tile[k][col];
            for (int i = 0; i < ROWS; ++i) {
                sum[i] += a_tile[row + i][k] * b_value;
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < ROWS; ++i) {
        const int r = block_row + row + i, s = block_col + col;
        if (r >= M || s >= N) continue;
        const INDEX at = INDEX(r) * N + s;
        out[at] = beta == 0 ? alpha * sum[i] : alpha * sum[i] + beta * c[at];
    }
}
