// The threads of a warp share a compact tile: no bank conflicts, and fewer distinct words.
//
// In 13_vectorized, neighbouring lanes have neighbouring groups of 8 columns: their 16-byte loads
// are 32 bytes apart and use half of the banks twice. Here a warp has a tile of 32 x 64 elements,
// and a thread has 4 x 4 elements in each quarter of the tile. Neighbouring lanes read neighbouring
// 16 bytes: a load of B by 8 lanes covers 128 contiguous bytes, all 32 banks once. A load of A
// touches 4 different groups of 16 bytes, which the other lanes share. On average, a load takes 3
// wavefronts instead of 5. Nothing else changes.

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

// Return the distance from a thread's first row (column) to its i-th row (j-th column).
// The second four rows (columns) lie half a tile of the warp further on.
__device__ int row_of(int i) { return i / 4 * (WARP_ROWS / 2) + i % 4; }
__device__ int col_of(int j) { return j / 4 * (WARP_COLS / 2) + j % 4; }

extern "C" __global__ void __launch_bounds__(THREADS) warptiled(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    __shared__ __align__(16) REAL a_tile[BLOCK_K][BLOCK_ROWS + 4];
    __shared__ __align__(16) REAL b_tile[BLOCK_K][BLOCK_COLS];
    const int t = threadIdx.x;
    const int block_row = block_y * BLOCK_ROWS, block_col = blockIdx.x * BLOCK_COLS;
    const int warp = t / 32, lane = t % 32;
    const int row = warp / (BLOCK_COLS / WARP_COLS) * WARP_ROWS + lane / 8 * 4;
    const int col = warp % (BLOCK_COLS / WARP_COLS) * WARP_COLS + lane % 8 * 4;
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
                a_values[i / WIDTH] = *reinterpret_cast<const Vector*>(&a_tile[k][row + row_of(i)]);
            }
            for (int j = 0; j < COLS; j += WIDTH) {
                b_values[j / WIDTH] = *reinterpret_cast<const Vector*>(&b_tile[k][col + col_of(j)]);
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
            const int r = block_row + row + row_of(i), s = block_col + col + col_of(j);
            if (r >= M || s >= N) continue;
            const INDEX at = INDEX(r) * N + s;
            out[at] = beta == 0 ? alpha * sum[i][j] : alpha * sum[i][j] + beta * c[at];
        }
    }
}
