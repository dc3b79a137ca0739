__global__ void block_sums(const float* x, float* out, int n) {
    __shared__ float part[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    part[t] = i < n ? x[i] : 0;
    for (int s = 1; s < 256; s *= 2) {
        __syncthreads();
        int j = 2 * s * t;
        if (j < 256) part[j] += part[j + s];
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
