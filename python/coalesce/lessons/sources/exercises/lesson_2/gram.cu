__global__ void gram(const float* x, float* out, int K, int N) {
    int i = blockIdx.x * 16 + threadIdx.x;
    int j = blockIdx.y * 16 + threadIdx.y;
    if (i >= N || j >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += x[k * N + i] * x[k * N + j];
    out[i * N + j] = sum;
}
