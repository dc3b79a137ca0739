// Row sums, one block per row: a strided sum in each thread, then a tree in shared memory.
//
// In each iteration the block reads 256 neighbouring elements, so each warp's load is contiguous: 4
// sectors (float). The 256 partial sums are then added in eight steps, each of which halves their
// number: the lower half of the threads adds the sums of the upper half. So the working threads
// stay neighbours: no bank conflicts, and whole warps finish.

#ifndef REAL
#define REAL float
#endif
#define THREADS 256  // threads per block

extern "C" __global__ void block_per_row(
    const REAL* __restrict__ x, REAL* __restrict__ sums, int rows, int cols) {
    __shared__ REAL partial[THREADS];
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
