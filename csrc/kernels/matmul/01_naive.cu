// One thread for each element of the result, and the lanes of a warp step down the rows.
//
// At each step of the loop the 32 lanes read a[row, k] of 32 rows: addresses K elements apart, so
// every lane touches a 32-byte sector of its own and uses 4 bytes of it. b[k, col] is one address
// for the whole warp, 1 sector. That is 33 sectors a step where 5 would do (02_naive_2d), and the
// store of the result is as scattered as the loads of a.

#ifndef REAL
#define REAL float
#endif
#ifndef INDEX  // counts the elements of a matrix: size_t where there are 2^31 or more
#define INDEX int
#endif
#ifndef TILE
#define TILE 32
#endif

extern "C" __global__ void naive(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // z goes on where y ends, at 65535
    const int row = blockIdx.x * TILE + threadIdx.x;
    const int col = block_y * TILE + threadIdx.y;
    if (row >= M || col >= N) return;

    REAL sum = 0;
    for (int k = 0; k < K; ++k) {
        sum += a[INDEX(row) * K + k] * b[INDEX(k) * N + col];
    }

    const INDEX i = INDEX(row) * N + col;
    out[i] = beta == 0 ? alpha * sum : alpha * sum + beta * c[i];  // beta == 0: c is not read
}
