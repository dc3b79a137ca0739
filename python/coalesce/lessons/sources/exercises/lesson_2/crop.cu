__global__ void crop(const float* image, float* out, int rows, int cols, int width) {
    int row = blockIdx.y * 8 + threadIdx.y;
    int col = blockIdx.x * 32 + threadIdx.x;
    if (row < rows) out[row * width + col] = image[row * cols + col];
}
