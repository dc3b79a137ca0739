__global__ void copy_four(const float* x, float* out, int n) {
    for (int j = 0; j < 4; ++j) {
        int i = blockIdx.x * 1024 + j * 256 + threadIdx.x;
        if (i < n) out[i] = x[i];
    }
}
