__global__ void double_all(const float* x, float* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = 2 * x[i];
}
