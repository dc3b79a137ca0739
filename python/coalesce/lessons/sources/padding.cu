// A tiled product whose tile of `a` has rows of TILE + PAD words.
//
// All lanes of a warp read the same words of this tile, so padding has no bank conflict to avoid.
// Four neighbouring words are read by one load of 16 bytes if they start at a multiple of 16 bytes.
// With PAD 1, a row has 33 words. Then most groups of four words do not start at such a multiple.

#define TILE 32
#ifndef PAD
#define PAD 0
#endif

__device__ float4 four(const float* p) {
    if (PAD % 4 == 0) return *reinterpret_cast<const float4*>(p);
    return make_float4(p[0], p[1], p[2], p[3]);
}

extern "C" __global__ void product(const float* a, const float* b, float* out, int n) {
    __shared__ __align__(16) float a_tile[TILE][TILE + PAD];
    __shared__ float b_tile[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;

    float sum = 0;
    for (int k0 = 0; k0 < n; k0 += TILE) {
        a_tile[ty][tx] = a[row * n + k0 + tx];
        b_tile[ty][tx] = b[(k0 + ty) * n + col];
        __syncthreads();
        for (int k = 0; k < TILE; k += 4) {
            float4 v = four(&a_tile[ty][k]);
            sum += v.x * b_tile[k][tx];
            sum += v.y * b_tile[k + 1][tx];
            sum += v.z * b_tile[k + 2][tx];
            sum += v.w * b_tile[k + 3][tx];
        }
        __syncthreads();
    }
    out[row * n + col] = sum;
}
