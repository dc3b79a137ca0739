__global__ void smooth(const float* x, float* out, int n) {
    __shared__ float near[256 + 16];
    int first = blockIdx.x * 256 - 8;
    for (int j = threadIdx.x; j < 256 + 16; j += 256) {
        near[j] = x[min(max(first + j, 0), n - 1)];
    }
    __syncthreads();

    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int j = 0; j < 17; ++j) sum += near[threadIdx.x + j];
    out[i] = sum / 17;
}
