__global__ void copy_four(const float* x, float* out, int n) {
    int first = 4 * (blockIdx.x * 256 + threadIdx.x);
    for (int j = 0; j < 4; ++j) {
        if (first + j < n) out[first + j] = x[first + j];
    }
}
