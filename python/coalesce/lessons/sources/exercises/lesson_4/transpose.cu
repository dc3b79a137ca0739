__global__ void transpose(const float* in, float* out, int rows, int cols) {
    int row = blockIdx.y * 32 + threadIdx.y;
    int col = blockIdx.x * 32 + threadIdx.x;
    if (row < rows && col < cols) out[col * rows + row] = in[row * cols + col];
}
