__global__ void tiled(const float* a, const float* b, float* out, int n) {
    __shared__ float a_tile[16][16], b_tile[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0;
    for (int k0 = 0; k0 < n; k0 += 16) {
        a_tile[ty][tx] = row < n && k0 + tx < n ? a[row * n + k0 + tx] : 0;
        b_tile[ty][tx] = k0 + ty < n && col < n ? b[(k0 + ty) * n + col] : 0;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += a_tile[ty][k] * b_tile[k][tx];
        __syncthreads();
    }
    if (row < n && col < n) out[row * n + col] = sum;
}
