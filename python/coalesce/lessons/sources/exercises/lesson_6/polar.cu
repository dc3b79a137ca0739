__global__ void polar(const float* r, const float* phi, float* out, int n) {
    int i = blockIdx.x * 128 + threadIdx.x / 2;  // two threads for each point
    if (i >= n) return;
    if (threadIdx.x % 2 == 0) out[i] = r[i] * cosf(phi[i]);  // x
    else out[n + i] = r[i] * sinf(phi[i]);                   // y
}
