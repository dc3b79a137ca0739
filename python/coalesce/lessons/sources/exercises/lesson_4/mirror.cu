__global__ void mirror(const float* image, float* out, int rows, int cols) {
    int row = blockIdx.x * 16 + threadIdx.x;
    int col = blockIdx.y * 16 + threadIdx.y;
    if (row < rows && col < cols) out[row * cols + col] = image[row * cols + cols - 1 - col];
}
