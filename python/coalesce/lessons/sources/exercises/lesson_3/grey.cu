__global__ void grey(const float* pixels, float* out, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    out[i] = 0.30f * pixels[3 * i] + 0.59f * pixels[3 * i + 1] + 0.11f * pixels[3 * i + 2];
}
