__global__ void histogram(const int* values, int* counts, int n) {
    __shared__ int mine[64];
    if (threadIdx.x < 64) mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        atomicAdd(&mine[values[i]], 1);
    }
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}
