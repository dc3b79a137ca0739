// Tiles of A and B in shared memory: TILE threads use each element that one thread loads.
//
// The block loads a TILE x TILE tile of each matrix, one element per thread, and multiplies the
// tiles from shared memory. Each element of a and b is read from global memory once per block, not
// once per thread: TILE times fewer sectors. Both loads have threadIdx.x along the columns, so both
// are coalesced: 4 sectors each. In the inner loop a_tile[ty][k] is one word for all lanes of a
// warp (a broadcast), and b_tile[k][tx] is one word in each of the 32 banks: no bank conflicts.

#ifndef REAL
#define REAL float
#endif
#ifndef INDEX  // counts the elements of a matrix: size_t where there are 2^31 or more
#define INDEX int
#endif
#ifndef TILE
#define TILE 32
#endif

extern "C" __global__ void tiled(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    __shared__ REAL a_tile[TILE][TILE];
    __shared__ REAL b_tile[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = block_y * TILE + ty;
    const int col = blockIdx.x * TILE + tx;

    REAL sum = 0;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        // Past the edge of a matrix the tile holds zeros, which add nothing.
        a_tile[ty][tx] = row < M && k0 + tx < K ? a[INDEX(row) * K + k0 + tx] : REAL(0);
        b_tile[ty][tx] = k0 + ty < K && col < N ? b[INDEX(k0 + ty) * N + col] : REAL(0);
        __syncthreads();
        for (int k = 0; k < TILE; ++k) {
            sum += a_tile[ty][k] * b_tile[k][tx];
        }
        __syncthreads();
    }
    if (row >= M || col >= N) return;

    const INDEX i = INDEX(row) * N + col;
    out[i] = beta == 0 ? alpha * sum : alpha * sum + beta * c[i];  // beta == 0: c is not read
}
