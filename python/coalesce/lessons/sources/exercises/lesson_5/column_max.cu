__global__ void column_max(const float* x, float* out, int rows, int cols) {
    for (int c = threadIdx.y; c < 32; c += 8) {  // a warp for each column
        int col = blockIdx.x * 32 + c;
        float most = -INFINITY;
        if (col < cols) {
            for (int row = threadIdx.x; row < rows; row += 32) {
                most = fmaxf(most, x[row * cols + col]);
            }
        }
        for (int step = 16; step > 0; step /= 2) {
            most = fmaxf(most, __shfl_down_sync(0xffffffff, most, step));
        }
        if (threadIdx.x == 0 && col < cols) out[col] = most;
    }
}
