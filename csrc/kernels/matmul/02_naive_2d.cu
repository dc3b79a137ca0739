// The naive kernel with threadIdx.x along the columns: neighbouring lanes, neighbouring columns.
//
// threadIdx.x is the index that differs between neighbouring lanes, so its use decides the cost.
// Here the 32 lanes read b[k, col] of 32 neighbouring columns: 128 contiguous bytes, 4 sectors,
// every byte used. All lanes read the same a[row, k]: 1 sector. 5 sectors per iteration, not 33.

#ifndef REAL
#define REAL float
#endif
#ifndef INDEX  // counts the elements of a matrix: size_t where there are 2^31 or more
#define INDEX int
#endif
#ifndef TILE
#define TILE 32
#endif

extern "C" __global__ void naive_2d(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    const int row = block_y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    if (row >= M || col >= N) return;

    REAL sum = 0;
    for (int k = 0; k < K; ++k) {
        sum += a[INDEX(row) * K + k] * b[INDEX(k) * N + col];
    }

    const INDEX i = INDEX(row) * N + col;
    out[i] = beta == 0 ? alpha * sum : alpha * sum + beta * c[i];  // beta == 0: c is not read
}
