// Each thread moves its elements directly; the stores are coalesced, the loads are not.
//
// Neighbouring lanes write along a row of `out`, 4 sectors per store (float), and read down a
// column of `in`, 32 sectors per load. These are the counts of 02_naive_read with load and store
// exchanged. This kernel is usually faster: the unused bytes of a loaded sector may still be in the
// cache when they are needed, but a partly written sector must be merged with memory.

#ifndef REAL
#define REAL float
#endif
#define TILE 32  // a block moves a tile of 32 x 32 elements
#define ROWS 8   // rows of threads; each thread has four elements

extern "C" __global__ void naive_write(
    const REAL* __restrict__ in, REAL* __restrict__ out, int rows, int cols) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    const int row = block_y * TILE + threadIdx.x;
    const int col = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS) {
        if (row < rows && col + j < cols) {
            out[size_t(col + j) * rows + row] = in[size_t(row) * cols + col + j];
        }
    }
}
