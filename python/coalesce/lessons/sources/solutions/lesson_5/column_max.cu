__global__ void column_max(const float* x, float* out, int rows, int cols) {
    __shared__ float part[8][32];
    int col = blockIdx.x * 32 + threadIdx.x;  // a lane for each column, a warp for each 8th row
    float most = -INFINITY;
    if (col < cols) {
        for (int row = threadIdx.y; row < rows; row += 8) most = fmaxf(most, x[row * cols + col]);
    }
    part[threadIdx.y][threadIdx.x] = most;
    __syncthreads();
    if (threadIdx.y == 0 && col < cols) {
        for (int j = 0; j < 8; ++j) most = fmaxf(most, part[j][threadIdx.x]);
        out[col] = most;
    }
}
