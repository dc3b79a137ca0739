// Row sums, one thread per row.
//
// Each thread reads along its row, so the 32 lanes of a warp read one column of x at a time:
// addresses `cols` elements apart, 32 sectors per load. And there are only as many threads as rows:
// a matrix of 4096 rows makes 16 blocks, but a GPU has room for hundreds.

#ifndef REAL
#define REAL float
#endif
#define THREADS 256  // threads per block

extern "C" __global__ void thread_per_row(
    const REAL* __restrict__ x, REAL* __restrict__ sums, int rows, int cols) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;

    REAL sum = 0;
    for (int col = 0; col < cols; ++col) {
        sum += x[size_t(row) * cols + col];
    }
    sums[row] = sum;
}
