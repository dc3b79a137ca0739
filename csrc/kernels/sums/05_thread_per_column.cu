// Column sums, one thread per column.
//
// Unlike in 01_thread_per_row, the loads are coalesced: lanes have neighbouring columns, so in each
// iteration a warp reads 128 contiguous bytes, 4 sectors (float). But there are few threads: one
// per column leaves most of the GPU idle while each thread waits for its loads.

#ifndef REAL
#define REAL float
#endif
#define THREADS 256  // threads per block

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
