// Column sums, one thread a column.
//
// The mirror image of 01_thread_per_row, and coalesced: lanes hold neighbouring columns, so at
// every step a warp reads 128 contiguous bytes, 4 sectors (float). What remains is the number of
// threads: one a column leaves most of the GPU idle while each of them waits for its loads.

#ifndef REAL
#define REAL float
#endif
#define THREADS 256  // a block

extern "C" __global__ void thread_per_column(
    const REAL* __restrict__ x, REAL* __restrict__ sums, int rows, int cols) {
    const int col = blockIdx.x * THREADS + threadIdx.x;
    if (col >= cols) return;

    REAL sum = 0;
    for (int row = 0; row < rows; ++row) {
        sum += x[size_t(row) * cols + col];
    }
    sums[col] = sum;
}
