__global__ void corner(const float* a, const float* bt, float* out, int n) {
    __shared__ float a_tile[32][32], b_tile[32][32];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    int bcol = blockIdx.x * 32 + ty;  // the row of bt, a column of b, that this thread loads
    float sum = 0;
    for (int k0 = 0; k0 < n; k0 += 32) {
        a_tile[ty][tx] = row < n && k0 + tx < n ? a[row * n + k0 + tx] : 0;
        b_tile[ty][tx] = bcol < n && k0 + tx < n ? bt[bcol * n + k0 + tx] : 0;
        __syncthreads();
        for (int k = 0; k < 32; ++k) sum += a_tile[ty][k] * b_tile[tx][k];
        __syncthreads();
    }
    if (row < n && col < n) out[row * n + col] = sum;
}
