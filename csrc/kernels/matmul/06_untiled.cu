// A loop in steps of TILE, as in a tiled kernel, but it reads global memory directly.
//
// Splitting the loop over k changes no address: each thread still reads K elements of a and of b.
// A step of the inner loop costs 1 + 4 sectors: in total TILE times as many as in 07_tiled. Tiling
// saves sectors because threads share what they load, not because of the order of the loop. (The
// inner loop is necessary: without it, only one of every TILE products would be added.)

#ifndef REAL
#define REAL float
#endif
#ifndef INDEX  // counts the elements of a matrix: size_t where there are 2^31 or more
#define INDEX int
#endif
#ifndef TILE
#define TILE 32
#endif

extern "C" __global__ void untiled(
    const REAL* __restrict__ a, const REAL* __restrict__ b, const REAL* __restrict__ c,
    REAL* __restrict__ out, int M, int N, int K, REAL alpha, REAL beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    const int row = block_y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    if (row >= M || col >= N) return;

    REAL sum = 0;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        for (int k = k0; k < min(k0 + TILE, K); ++k) {
            sum += a[INDEX(row) * K + k] * b[INDEX(k) * N + col];
        }
    }

    const INDEX i = INDEX(row) * N + col;
    out[i] = beta == 0 ? alpha * sum : alpha * sum + beta * c[i];  // beta == 0: c is not read
}
