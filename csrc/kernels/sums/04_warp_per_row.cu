// Row sums, one warp per row: lanes exchange partial sums through registers.
//
// In each iteration the lanes read 32 neighbouring elements: 4 sectors (float). At the end, five
// calls of __shfl_down_sync add the 32 partial sums. Each lane gets the value of the lane 16, 8, 4,
// 2 and 1 further on. This needs no shared memory and no barrier.

#ifndef REAL
#define REAL float
#endif
#define WARPS 8  // per block; each warp sums one row

extern "C" __global__ void warp_per_row(
    const REAL* __restrict__ x, REAL* __restrict__ sums, int rows, int cols) {
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows) return;  // all lanes of a warp return, or none

    REAL sum = 0;
    for (int col = lane; col < cols; col += 32) {
        sum += x[size_t(row) * cols + col];
    }
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, step);
    }
    if (lane == 0) sums[row] = sum;
}
