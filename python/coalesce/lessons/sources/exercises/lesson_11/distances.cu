__global__ void distances(const float* x, const float* y, float* out, int n) {
    int col = blockIdx.x * 32 + threadIdx.x;
    for (int r = 0; r < 8; ++r) {
        int row = blockIdx.y * 64 + threadIdx.y + 8 * r;
        if (row < n && col < n) out[row * n + col] = fabsf(x[row] - y[col]);
    }
}
