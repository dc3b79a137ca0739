__global__ void rotate(const float* image, float* out, int rows, int cols) {
    __shared__ float tile[32][33];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 32 + ty;
    int col = blockIdx.x * 32 + tx;
    if (row < rows && col < cols) tile[ty][tx] = image[row * cols + col];
    __syncthreads();

    // The tile's column ty is a row of the result, back to front.
    int from = blockIdx.y * 32 + 31 - tx;
    int out_row = blockIdx.x * 32 + ty;
    if (from < rows && out_row < cols) {
        out[out_row * rows + (rows - 1 - from)] = tile[31 - tx][ty];
    }
}
