// Column sums with 16-byte loads, eight of them in flight per thread.
//
// A warp reads 512 contiguous bytes of a row (float): each lane has 4 neighbouring columns. The 16
// warps of a block take rows in turn. Each warp loads 8 rows at a time, so 128 rows are in flight.
// The rows may be divided into slices, one for each block along y. The sums of the slices form a
// matrix with one row per slice, and a second launch of the same kernel adds these rows up. There
// are no atomics: the order of additions is fixed, and every run gives the same bits.
//
// If rows do not begin at multiples of 16 bytes, single elements are loaded. Then the columns of a
// lane are 32 columns apart, so that the lanes of a warp still read neighbouring elements.

#ifndef REAL
#define REAL float
#endif
// The distances between rows and between columns. They are constants unless STRIDED is defined.
#ifdef STRIDED
#define ROW_STRIDE row_stride
#define COL_STRIDE col_stride
#else
#define ROW_STRIDE cols
#define COL_STRIDE 1
#endif
#define WARPS 16
#define ROWS 8                          // loads in flight per thread
#define WIDTH (16 / int(sizeof(REAL)))  // elements in 16 bytes

struct alignas(16) Vector {
    REAL v[WIDTH];
};

extern "C" __global__ void __launch_bounds__(32 * WARPS) vectorized(
    const REAL* __restrict__ x, REAL* __restrict__ sums, int rows, int cols, long long row_stride,
    long long col_stride) {
    __shared__ Vector partial[WARPS][32];
    const int lane = threadIdx.x, warp = threadIdx.y;
    const int slice = (rows + gridDim.y - 1) / gridDim.y;
    const int begin = min(rows, int(blockIdx.y) * slice), end = min(rows, begin + slice);
    const bool aligned =
        cols % WIDTH == 0 && ROW_STRIDE % WIDTH == 0 && COL_STRIDE == 1 && size_t(x) % 16 == 0;
    // The first column of the lane, and the distance to its next one.
    const int col = blockIdx.x * 32 * WIDTH + lane * (aligned ? WIDTH : 1);
    const int next = aligned ? 1 : 32;

    Vector sum = {};
    for (int row = begin + warp * ROWS; row < end && col < cols; row += WARPS * ROWS) {
        Vector values[ROWS] = {};
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const REAL* from = x + size_t(row + i) * ROW_STRIDE + col * COL_STRIDE;
            if (row + i >= end) continue;
            if (aligned) {
                values[i] = *reinterpret_cast<const Vector*>(from);
            } else {
#pragma unroll
                for (int v = 0; v < WIDTH; ++v) {
                    if (col + v * next < cols) values[i].v[v] = from[v * next * COL_STRIDE];
                }
            }
        }
#pragma unroll
        for (int v = 0; v < WIDTH; ++v) {  // adds pairs, then adds the result to the sum
#pragma unroll
            for (int half = ROWS / 2; half > 0; half /= 2) {
#pragma unroll
                for (int i = 0; i < half; ++i) values[i].v[v] += values[i + half].v[v];
            }
            sum.v[v] += values[0].v[v];
        }
    }
    partial[warp][lane] = sum;
    __syncthreads();

    if (warp > 0) return;
#pragma unroll
    for (int v = 0; v < WIDTH; ++v) {
        REAL total = 0;
        for (int w = 0; w < WARPS; ++w) total += partial[w][lane].v[v];
        const int at = col + v * next;
        if (at < cols) sums[size_t(blockIdx.y) * cols + at] = total;
    }
}
