// Row sums, one block per row, with dynamic shared memory.
//
// 02_block_per_row fixes the array's length at compile time. `extern __shared__` leaves it to the
// launch, which passes the number of bytes after grid and block. The cost of the loads is the same.

#ifndef REAL
#define REAL float
#endif
#define THREADS 256  // threads per block

extern "C" __global__ void block_per_row_dynamic(
    const REAL* __restrict__ x, REAL* __restrict__ sums, int rows, int cols) {
    extern __shared__ REAL partial[];  // it has THREADS elements
    const int t = threadIdx.x;
    const size_t row = blockIdx.x;

    REAL sum = 0;
    for (int col = t; col < cols; col += THREADS) {
        sum += x[row * cols + col];
    }
    partial[t] = sum;

    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) partial[t] += partial[t + half];
    }
    if (t == 0) sums[row] = partial[0];
}
