// Each thread moves its elements directly; the loads are coalesced, the stores are not.
//
// Neighbouring lanes read along a row of `in`, 4 sectors per load (float). They write down a column
// of `out`: addresses `rows` elements apart, 32 sectors per store, 4 bytes written in each.

#ifndef REAL
#define REAL float
#endif
#define TILE 32  // a block moves a tile of 32 x 32 elements
#define ROWS 8   // rows of threads; each thread has four elements

extern "C" __global__ void naive_read(
    const REAL* __restrict__ in, REAL* __restrict__ out, int rows, int cols) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    const int row = block_y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    for (int j = 0; j < TILE; j += ROWS) {
        if (row + j < rows && col < cols) {
            out[size_t(col) * rows + row + j] = in[size_t(row + j) * cols + col];
        }
    }
}
