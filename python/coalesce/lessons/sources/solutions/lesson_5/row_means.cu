__global__ void row_means(const float* x, float* out, int rows, int cols) {
    int row = blockIdx.x * 8 + threadIdx.y;
    if (row >= rows) return;
    float sum = 0;
    for (int col = threadIdx.x; col < cols; col += 32) sum += x[row * cols + col];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
    if (threadIdx.x == 0) out[row] = sum / cols;
}
