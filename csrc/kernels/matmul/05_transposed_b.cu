// B is transposed beforehand, so each thread reads a row of A and a row of B^T.
//
// Each thread now reads contiguous memory, which is good for the cache of a CPU. On a GPU, the
// lanes of a warp read at the same time. They have neighbouring columns, so their elements b[col,
// k] of B^T are K elements apart: 32 sectors of b and 1 of a per iteration. The transposition has
// made a coalesced load uncoalesced. Coalescing happens across lanes, not along a loop.
//
// Here `b` is B^T, stored row by row: element (k, col) of B is b[col, k].

#ifndef REAL
#define REAL float
#endif
#ifndef INDEX  // counts the elements of a matrix: size_t where there are 2^31 or more
#define INDEX int
#endif
#ifndef TILE
#define TILE 32
#endif

extern "C" __global__ void transposed_b(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    const int row = block_y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    if (row >= M || col >= N) return;

    REAL sum = 0;
    for (int k = 0; k < K; ++k) {
        sum += a[INDEX(row) * K + k] * b[INDEX(col) * K + k];
    }

    const INDEX i = INDEX(row) * N + col;
    out[i] = beta == 0 ? alpha * sum : alpha * sum + beta * c[i];  // beta == 0: c is not read
}
