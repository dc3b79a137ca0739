__global__ void distances(const float* x, const float* y, float* out, int n) {
    int col = blockIdx.x * 32 + threadIdx.x;
    if (col >= n) return;
    float own = y[col];
    for (int r = 0; r < 8; ++r) {
        int row = blockIdx.y * 64 + threadIdx.y + 8 * r;
        if (row < n) out[row * n + col] = fabsf(x[row] - own);
    }
}
