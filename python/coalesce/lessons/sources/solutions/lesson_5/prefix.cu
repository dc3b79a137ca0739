__global__ void prefix(const float* x, float* out, int n) {
    __shared__ float part[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    part[t] = i < n ? x[i] : 0;
    for (int s = 1; s < 256; s *= 2) {
        __syncthreads();
        float before = t >= s ? part[t - s] : 0;
        __syncthreads();
        part[t] += before;
    }
    if (i < n) out[i] = part[t];
}
