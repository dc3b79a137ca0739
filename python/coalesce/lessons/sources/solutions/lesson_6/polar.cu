__global__ void polar(const float* r, const float* phi, float* out, int n) {
    int i = blockIdx.x * 128 + threadIdx.x % 128;
    if (i >= n) return;
    if (threadIdx.x < 128) out[i] = r[i] * cosf(phi[i]);  // x: warps 0 to 3
    else out[n + i] = r[i] * sinf(phi[i]);                // y: warps 4 to 7
}
