__global__ void untiled(const float* a, const float* b, float* out, int n) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int tile = 0; tile < n / 16; ++tile) {
        for (int k = 0; k < 16; ++k) sum += a[row * n + tile * 16 + k] * b[(tile * 16 + k) * n + col];
    }
    out[row * n + col] = sum;
}
