__global__ void rotate(const float* image, float* out, int rows, int cols) {
    int row = blockIdx.y * 32 + threadIdx.y;
    int col = blockIdx.x * 32 + threadIdx.x;
    if (row < rows && col < cols) {
        out[col * rows + (rows - 1 - row)] = image[row * cols + col];
    }
}
