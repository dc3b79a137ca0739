// Corner turning: B is stored column by column, and its tile is loaded along its columns.
//
// If a kernel loaded the tile of a column-major B row by row, neighbouring lanes would be K
// elements apart. Corner turning lets threadIdx.x run along k, which is contiguous, during the
// load: 4 sectors. As a result, the tile lies transposed in shared memory. The inner loop reads
// b_tile[tx][k]: lanes are TILE words apart, all in one bank, 32 wavefronts per load. The order of
// accesses matters for shared memory, too; see 10_corner_turned_padded.
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

extern "C" __global__ void corner_turned(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    __shared__ REAL a_tile[TILE][TILE];
    __shared__ REAL b_tile[TILE][TILE];
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
