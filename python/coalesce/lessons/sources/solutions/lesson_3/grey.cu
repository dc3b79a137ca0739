__global__ void grey(const float* pixels, float* out, int n) {
    __shared__ float tile[3 * 256];
    for (int j = threadIdx.x; j < 3 * 256; j += 256) {
        int from = blockIdx.x * 3 * 256 + j;
        if (from < 3 * n) tile[j] = pixels[from];
    }
    __syncthreads();
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    if (i < n) out[i] = 0.30f * tile[3 * t] + 0.59f * tile[3 * t + 1] + 0.11f * tile[3 * t + 2];
}
