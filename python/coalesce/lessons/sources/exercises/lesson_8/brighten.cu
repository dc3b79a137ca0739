__global__ void brighten(const float* image, float* out, int rows, int cols, float gain) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int row = i % rows;
    int col = i / rows;
    if (col < cols) out[row * cols + col] = gain * image[row * cols + col];
}
