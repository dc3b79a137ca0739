__global__ void product(const float* a, const float* b, float* out, int M, int N, int K) {
    int col = blockIdx.x * 32 + threadIdx.x % 32;
    int row = blockIdx.y * 32 + threadIdx.x / 32;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[k * N + col];
    out[row * N + col] = sum;
}
