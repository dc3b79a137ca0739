// A copy, for comparison: a transposition moves the same bytes and cannot be faster.
//
// Neighbouring lanes access neighbouring elements of a row of `in` and of `out`: 4 sectors per load
// and 4 per store (float), every byte used. The result is `in` itself, not its transpose.

#ifndef REAL
#define REAL float
#endif
#define TILE 32  // a block moves a tile of 32 x 32 elements
#define ROWS 8   // rows of threads; each thread has four elements

extern "C" __global__ void copy(
    const REAL* __restrict__ in, REAL* __restrict__ out, int rows, int cols) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    const int row = block_y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    for (int j = 0; j < TILE; j += ROWS) {
        if (row + j < rows && col < cols) {
            out[size_t(row + j) * cols + col] = in[size_t(row + j) * cols + col];
        }
    }
}
