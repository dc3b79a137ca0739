__global__ void histogram(const int* values, int* counts, int n) {
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        atomicAdd(&counts[values[i]], 1);  // 64 bins
    }
}
