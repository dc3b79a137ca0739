// The one-dimensional block with division and remainder swapped: no load of a is coalesced.
//
// With row = t % TILE and col = t / TILE, neighbouring lanes have neighbouring rows again: 32
// sectors of a and 1 of b per iteration, as in 01_naive. One tutorial prints the kernel in this way
// and calls it coalesced. Only the addresses decide, and counting shows the cost.

#ifndef REAL
#define REAL float
#endif
#ifndef INDEX  // counts the elements of a matrix: size_t where there are 2^31 or more
#define INDEX int
#endif
#ifndef TILE
#define TILE 32
#endif

extern "C" __global__ void coalesced_swapped(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    const int row = blockIdx.x * TILE + threadIdx.x % TILE;
    const int col = block_y * TILE + threadIdx.x / TILE;
    if (row >= M || col >= N) return;

    REAL sum = 0;
    for (int k = 0; k < K; ++k) {
        sum += a[INDEX(row) * K + k] * b[INDEX(k) * N + col];
    }

    const INDEX i = INDEX(row) * N + col;
    out[i] = beta == 0 ? alpha * sum : alpha * sum + beta * c[i];  // beta == 0: c is not read
}
