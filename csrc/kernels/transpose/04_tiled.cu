// Transposes a tile in shared memory: loads and stores of global memory are both coalesced.
//
// The block reads along rows of `in` and writes along rows of `out`. The transposition happens in
// shared memory, where no sector is wasted. But 32 lanes that read a column of the tile are 32
// words apart, all in one of the 32 banks: 32 wavefronts per load, not 1 (05_padded, 06_swizzled).

#ifndef REAL
#define REAL float
#endif
#define TILE 32  // a block moves a tile of 32 x 32 elements
#define ROWS 8   // rows of threads; each thread has four elements

extern "C" __global__ void tiled(
    const REAL* __restrict__ in, REAL* __restrict__ out, int rows, int cols) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    __shared__ REAL tile[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;

    const int row = block_y * TILE + ty;
    const int col = blockIdx.x * TILE + tx;
    for (int j = 0; j < TILE; j += ROWS) {
        if (row + j < rows && col < cols) {
            tile[ty + j][tx] = in[size_t(row + j) * cols + col];
        }
    }
    __syncthreads();

    const int out_row = blockIdx.x * TILE + ty;  // rows and columns of tiles swap in `out`
    const int out_col = block_y * TILE + tx;
    for (int j = 0; j < TILE; j += ROWS) {
        if (out_row + j < cols && out_col < rows) {
            out[size_t(out_row + j) * rows + out_col] = tile[tx][ty + j];
        }
    }
}
