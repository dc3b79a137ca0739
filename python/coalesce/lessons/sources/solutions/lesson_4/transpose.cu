__global__ void transpose(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[32][33];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    if (row < rows && col < cols) tile[ty][tx] = in[row * cols + col];
    __syncthreads();
    int out_row = blockIdx.x * 32 + ty, out_col = blockIdx.y * 32 + tx;
    if (out_row < cols && out_col < rows) out[out_row * rows + out_col] = tile[tx][ty];
}
