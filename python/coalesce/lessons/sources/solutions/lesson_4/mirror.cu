__global__ void mirror(const float* image, float* out, int rows, int cols) {
    int row = blockIdx.y * 16 + threadIdx.y;
    int col = blockIdx.x * 16 + threadIdx.x;
    if (row < rows && col < cols) out[row * cols + col] = image[row * cols + cols - 1 - col];
}
