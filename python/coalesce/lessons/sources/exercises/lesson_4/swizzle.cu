__global__ void swizzle(const float* in, float* out) {
    __shared__ float tile[32][32];  // keep its size: rows of 16 bytes stay aligned
    int tx = threadIdx.x, ty = threadIdx.y;
    tile[ty][tx] = in[ty * 32 + tx];
    __syncthreads();
    out[ty * 32 + tx] = tile[tx][ty];
}
