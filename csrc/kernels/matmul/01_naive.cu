// One thread per element of the result; neighbouring lanes compute neighbouring rows.
//
// In each iteration, the 32 lanes of a warp read a[row, k] of 32 different rows. These addresses
// are K elements apart, so every lane touches its own 32-byte sector and uses 4 bytes of it. All
// lanes read the same b[k, col]: 1 sector. That is 33 sectors per iteration, where 5 would be
// enough (02_naive_2d). The store of the result is as scattered as the loads of a.

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
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
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
