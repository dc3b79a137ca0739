// 16 bytes per load, and the tile of A stored transposed.
//
// The multiplications are those of 12_blocktiled_2d. The loads are wider: a thread loads 16 bytes
// of a and of b with one instruction instead of four, and the tile of A is stored transposed,
// a_tile[k][row]. A thread's 8 words of A are then neighbours and take two loads of 16 bytes
// instead of eight loads. Four extra columns in a_tile keep the transposed stores free of bank
// conflicts.
//
// 16-byte loads need rows that start at multiples of 16 bytes. If K or N is not a multiple of 4 (of
// 2 for double), the same vectors are filled one element at a time.

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
#define WIDTH (16 / int(sizeof(REAL)))  // elements in 16 bytes

struct alignas(16) Vector {
    REAL v[WIDTH];
};

// WIDTH elements of a row of `matrix`, with zeros past its edges.
__device__ Vector load(const REAL* matrix, int rows, int cols, int row, int col, bool aligned) {
    Vector result = {};
    if (row >= rows) return result;
    const REAL* from = matrix + INDEX(row) * cols + col;
    if (aligned && col < cols) return *reinterpret_cast<const Vector*>(from);
    for (int i = 0; i < WIDTH; ++i) {
        if (col + i < cols) result.v[i] = from[i];
    }
    return result;
}

extern "C" __global__ void __launch_bounds__(THREADS) vectorized(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    __shared__ __align__(16) REAL a_tile[BLOCK_K][BLOCK_ROWS + 4];
    __shared__ __align__(16) REAL b_tile[BLOCK_K][BLOCK_COLS];
    const int t = threadIdx.x;
    const int block_row = block_y * BLOCK_ROWS, block_col = blockIdx.x * BLOCK_COLS;
    const int row = t / (BLOCK_COLS / COLS) * ROWS, col = t % (BLOCK_COLS / COLS) * COLS;
    const bool a_aligned = K % WIDTH == 0 && size_t(a) % 16 == 0;
    const bool b_aligned = N % WIDTH == 0 && size_t(b) % 16 == 0;

    REAL sum[ROWS][COLS] = {};
    for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
        for (int i = WIDTH * t; i < BLOCK_ROWS * BLOCK_K; i += WIDTH * THREADS) {
            const int r = i / BLOCK_K, k = i % BLOCK_K;
            const Vector values = load(a, M, K, block_row + r, k0 + k, a_aligned);
            for (int v = 0; v < WIDTH; ++v) a_tile[k + v][r] = values.v[v];
        }
        for (int i = WIDTH * t; i < BLOCK_K * BLOCK_COLS; i += WIDTH * THREADS) {
            const int k = i / BLOCK_COLS, s = i % BLOCK_COLS;
            *reinterpret_cast<Vector*>(&b_tile[k][s]) =
                load(b, K, N, k0 + k, block_col + s, b_aligned);
        }
        __syncthreads();
        for (int k = 0; k < BLOCK_K; ++k) {
            Vector a_values[ROWS / WIDTH], b_values[COLS / WIDTH];
            for (int i = 0; i < ROWS; i += WIDTH) {
                a_values[i / WIDTH] = *reinterpret_cast<const Vector*>(&a_tile[k][row + i]);
            }
            for (int j = 0; j < COLS; j += WIDTH) {
                b_values[j / WIDTH] = *reinterpret_cast<const Vector*>(&b_tile[k][col + j]);
            }
            for (int i = 0; i < ROWS; ++i) {
                for (int j = 0; j < COLS; ++j) {
                    sum[i][j] +=
                        a_values[i / WIDTH].v[i % WIDTH] * b_values[j / WIDTH].v[j % WIDTH];
                }
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
