__global__ void warp_sums(const float* x, float* out, int n) {
    __shared__ float part[256];
    int t = threadIdx.x, lane = t % 32, i = blockIdx.x * 256 + t;
    part[t] = i < n ? x[i] : 0;
    for (int s = 16; s > 0; s /= 2) {
        __syncwarp();
        if (lane < s) part[t] += part[t + s];
    }
    if (lane == 0 && i < n) out[i / 32] = part[t];
}
