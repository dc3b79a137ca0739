// Column sums, one block for 32 columns: 32 warps share the rows, then add their partial sums.
//
// Each warp still reads 128 contiguous bytes of a row, 4 sectors (float). But 32 warps work on the
// same columns, and each takes every 32nd row: 32 times as many loads in flight as with one thread
// per column. The 32 partial sums of a column are collected in shared memory. A column of padding
// keeps the transposed read free of bank conflicts, and a warp adds the sums by shuffles.

#ifndef REAL
#define REAL float
#endif
#define TILE 32

extern "C" __global__ void column_tiles(
    const REAL* __restrict__ x, REAL* __restrict__ sums, int rows, int cols) {
    __shared__ REAL partial[TILE][TILE + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int col = blockIdx.x * TILE + tx;

    REAL sum = 0;
    if (col < cols) {
        for (int row = ty; row < rows; row += TILE) {
            sum += x[size_t(row) * cols + col];
        }
    }
    partial[ty][tx] = sum;
    __syncthreads();

    sum = partial[tx][ty];  // warp ty now holds the parts of column ty
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, step);
    }
    const int out = blockIdx.x * TILE + ty;
    if (tx == 0 && out < cols) sums[out] = sum;
}
