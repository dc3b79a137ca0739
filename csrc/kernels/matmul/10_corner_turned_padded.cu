// Corner turning with a column of padding in the tile of B: no bank conflicts.
//
// A row of the tile is now TILE + 1 words long. In b_tile[tx][k], neighbouring lanes are 33 words
// apart instead of 32. 33 is odd, so each lane accesses another bank: 1 wavefront per load instead
// of 32. The padding costs only TILE unused words.
//
// Here `b` is column-major: element (k, col) of B is b[col, k].

#ifndef REAL
#define REAL float
#endif
#ifndef INDEX  // counts the elements of a matrix: size_t where there are 2^31 or more
#define INDEX int
#endif
#ifndef TILE
#define TILE 32
#endif

extern "C" __global__ void corner_turned_padded(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    __shared__ REAL a_tile[TILE][TILE];
    __shared__ REAL b_tile[TILE][TILE + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = block_y * TILE + ty;
    const int col = blockIdx.x * TILE + tx;
    const int bcol = blockIdx.x * TILE + ty;  // the column of B that this thread loads

    REAL sum = 0;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        // Past the edge of a matrix the tile holds zeros, which add nothing.
        a_tile[ty][tx] = row < M && k0 + tx < K ? a[INDEX(row) * K + k0 + tx] : REAL(0);
        b_tile[ty][tx] = bcol < N && k0 + tx < K ? b[INDEX(bcol) * K + k0 + tx] : REAL(0);
        __syncthreads();
        for (int k = 0; k < TILE; ++k) {
            sum += a_tile[ty][k] * b_tile[tx][k];
        }
        __syncthreads();
    }
    if (row >= M || col >= N) return;

    const INDEX i = INDEX(row) * N + col;
    out[i] = beta == 0 ? alpha * sum : alpha * sum + beta * c[i];  // beta == 0: c is not read
}
