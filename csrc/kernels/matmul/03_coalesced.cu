// A one-dimensional block in which consecutive threads compute consecutive columns.
//
// The block has TILE * TILE threads along x, and the kernel computes row and column of each thread.
// With row = t / TILE and col = t % TILE, the lanes of a warp share a row and have neighbouring
// columns, exactly as in 02_naive_2d: 1 sector of a and 4 of b per iteration. A one-dimensional
// block by itself gains nothing; what matters is which index is the remainder.

#ifndef REAL
#define REAL float
#endif
#ifndef INDEX  // counts the elements of a matrix: size_t where there are 2^31 or more
#define INDEX int
#endif
#ifndef TILE
#define TILE 32
#endif

extern "C" __global__ void coalesced(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    const int row = blockIdx.x * TILE + threadIdx.x / TILE;
    const int col = block_y * TILE + threadIdx.x % TILE;
    if (row >= M || col >= N) return;

    REAL sum = 0;
    for (int k = 0; k < K; ++k) {
        sum += a[INDEX(row) * K + k] * b[INDEX(k) * N + col];
    }

    const INDEX i = INDEX(row) * N + col;
    out[i] = beta == 0 ? alpha * sum : alpha * sum + beta * c[i];  // beta == 0: c is not read
}
