// 16 bytes per access and four loads in flight: the full bandwidth of memory.
//
// In 05_padded, each thread has one load of 4 bytes in flight. Here a block moves a tile of 64 x
// 64, and a thread starts all its loads, 16 bytes each, before it uses the first. Sixteen lanes
// cover 256 bytes of a row, which memory delivers faster than two pieces of 128 bytes. The tile has
// a column of padding. With floats, pairs of lanes still conflict; other waits hide these conflicts.
//
// Vectors need rows of `in` and `out` that begin at multiples of 16 bytes. If they do not, the same
// tile is moved element by element, with 16 loads in flight per thread.

#ifndef REAL
#define REAL float
#endif
#define TILE 64
#define THREADS 256
#define WIDTH (16 / int(sizeof(REAL)))         // elements in 16 bytes
#define LOADS (TILE * TILE / WIDTH / THREADS)  // vectors per thread
#define SINGLE_LOADS (TILE * TILE / THREADS)   // elements per thread

struct alignas(16) Vector {
    REAL v[WIDTH];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    vectorized(const REAL* __restrict__ in, REAL* __restrict__ out, int rows, int cols) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    __shared__ REAL tile[TILE][TILE + 1];
    const int t = threadIdx.x, first_row = block_y * TILE, first_col = blockIdx.x * TILE;

    if (cols % WIDTH == 0 && size_t(in) % 16 == 0) {
        constexpr int per_row = 16;  // lanes that share a row of the tile
        Vector values[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            const int r = first_row + (t / per_row + i * (THREADS / per_row)) % TILE;
            const int s = first_col + t % per_row * WIDTH +
                          (t / per_row + i * (THREADS / per_row)) / TILE * (per_row * WIDTH);
            if (r < rows && s < cols) {
                values[i] = *reinterpret_cast<const Vector*>(in + size_t(r) * cols + s);
            }
        }
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            const int r = (t / per_row + i * (THREADS / per_row)) % TILE;
            const int s = t % per_row * WIDTH +
                          (t / per_row + i * (THREADS / per_row)) / TILE * (per_row * WIDTH);
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) tile[r][s + v] = values[i].v[v];
        }
    } else {
        REAL values[SINGLE_LOADS];
#pragma unroll
        for (int i = 0; i < SINGLE_LOADS; ++i) {
            const int r = first_row + t / TILE + i * (THREADS / TILE), s = first_col + t % TILE;
            if (r < rows && s < cols) values[i] = in[size_t(r) * cols + s];
        }
#pragma unroll
        for (int i = 0; i < SINGLE_LOADS; ++i) {
            tile[t / TILE + i * (THREADS / TILE)][t % TILE] = values[i];
        }
    }
    __syncthreads();

    if (rows % WIDTH == 0 && size_t(out) % 16 == 0) {
        constexpr int per_row = 16;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            const int s = (t / per_row + i * (THREADS / per_row)) % TILE;
            const int r = t % per_row * WIDTH +
                          (t / per_row + i * (THREADS / per_row)) / TILE * (per_row * WIDTH);
            if (first_col + s >= cols || first_row + r >= rows) continue;
            Vector values;
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) values.v[v] = tile[r + v][s];
            *reinterpret_cast<Vector*>(out + size_t(first_col + s) * rows + first_row + r) = values;
        }
    } else {
#pragma unroll
        for (int i = 0; i < SINGLE_LOADS; ++i) {
            const int s = t / TILE + i * (THREADS / TILE), r = t % TILE;
            if (first_col + s < cols && first_row + r < rows) {
                out[size_t(first_col + s) * rows + first_row + r] = tile[r][s];
            }
        }
    }
}
