// 16 bytes per access and two loads in flight: the full bandwidth of memory.
//
// In 05_padded, each thread has one load of 4 bytes in flight. Here a block moves a tile of 64 x
// 64, and a thread starts all its loads, 16 bytes each, before it uses the first. Sixteen lanes
// cover 256 bytes of a row, which memory delivers faster than two pieces of 128 bytes. The tile has
// a column of padding. If the elements are floats, pairs of lanes still share a bank. These
// conflicts cost no time, because the threads wait longer for global memory.
//
// THE ORDER OF THE TILES. Blocks that run at the same time have neighbouring tiles. By default
// these tiles lie below each other, so that together they write long pieces of rows of `out`. They
// lie side by side if the rows of `out` begin at multiples of 64 bytes but those of `in` do not.
//
// UNALIGNED ROWS. If rows of `out` do not begin at multiples of 16 bytes, memory would take longer,
// because it would write parts of sectors. So the pieces of a block are shifted, row by row, to
// begin with a whole sector. For this, a block reads up to 7 more rows of `in`, which the block
// above has just read. If rows of `in` do not begin at multiples of 16 bytes, single elements are
// loaded, 16 or more in flight per thread.

#ifndef REAL
#define REAL float
#endif
#define TILE 64
#define THREADS 512
#define WIDTH (16 / int(sizeof(REAL)))   // elements in 16 bytes
#define SECTOR (32 / int(sizeof(REAL)))  // elements in a sector
#define HALO (SECTOR - 1)                // more rows that shifted pieces need
#define PER_ROW 16                       // lanes that share a row of the tile
#define ROWS_AT_ONCE (THREADS / PER_ROW)

struct alignas(16) Vector {
    REAL v[WIDTH];
};

// Copies ROWS rows from `first_row` on, in columns `first_col` to first_col + 63, to the tile.
// Leaves out what is outside of `in`. `first_row` may be a negative number, stored as unsigned.
template <int ROWS>
__device__ void load_tile(
    REAL (*tile)[TILE + 1], const REAL* in, unsigned first_row, int first_col, int rows, int cols) {
    const int t = threadIdx.x;
    if (cols % WIDTH == 0 && size_t(in) % 16 == 0) {
        constexpr int passes = (ROWS + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE;
        constexpr int parts = TILE / (PER_ROW * WIDTH);
        Vector values[passes * parts];
#pragma unroll
        for (int i = 0; i < passes * parts; ++i) {
            const int r = t / PER_ROW + i % passes * ROWS_AT_ONCE;
            const int s = first_col + t % PER_ROW * WIDTH + i / passes * (PER_ROW * WIDTH);
            if (r < ROWS && first_row + r < unsigned(rows) && s < cols) {
                values[i] = *reinterpret_cast<const Vector*>(in + size_t(first_row + r) * cols + s);
            }
        }
#pragma unroll
        for (int i = 0; i < passes * parts; ++i) {
            const int r = t / PER_ROW + i % passes * ROWS_AT_ONCE;
            const int s = t % PER_ROW * WIDTH + i / passes * (PER_ROW * WIDTH);
            if (r >= ROWS) continue;
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) tile[r][s + v] = values[i].v[v];
        }
    } else {
        constexpr int passes = (ROWS * TILE + THREADS - 1) / THREADS;
        REAL values[passes];
#pragma unroll
        for (int i = 0; i < passes; ++i) {
            const int r = t / TILE + i * (THREADS / TILE), s = first_col + t % TILE;
            if (r < ROWS && first_row + r < unsigned(rows) && s < cols) {
                values[i] = in[size_t(first_row + r) * cols + s];
            }
        }
#pragma unroll
        for (int i = 0; i < passes; ++i) {
            const int r = t / TILE + i * (THREADS / TILE);
            if (r < ROWS) tile[r][t % TILE] = values[i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    vectorized(const REAL* __restrict__ in, REAL* __restrict__ out, int rows, int cols) {
    const unsigned block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    __shared__ REAL tile[TILE + HALO][TILE + 1];
    const int t = threadIdx.x;
    const bool shifted = rows % WIDTH != 0;
    // The launch chooses the order. The shifted pieces of the last tile may end before `rows`.
    const unsigned row_tiles = (rows + (shifted ? HALO : 0) + TILE - 1u) / TILE;
    const bool rows_on_x = gridDim.x == row_tiles;
    const unsigned first_row = (rows_on_x ? blockIdx.x : block_y) * TILE;
    const int first_col = (rows_on_x ? block_y : blockIdx.x) * TILE;

    if (shifted) {
        load_tile<TILE + HALO>(tile, in, first_row - HALO, first_col, rows, cols);
    } else {
        load_tile<TILE>(tile, in, first_row, first_col, rows, cols);
    }
    __syncthreads();

    constexpr int vectors = TILE * TILE / WIDTH / THREADS;
    if (shifted) {
        const unsigned before = unsigned(size_t(out) / sizeof(REAL));  // elements, modulo SECTOR
#pragma unroll
        for (int i = 0; i < vectors; ++i) {
            const int s = (t / PER_ROW + i * ROWS_AT_ONCE) % TILE, col = first_col + s;
            const int u =
                t % PER_ROW * WIDTH + (t / PER_ROW + i * ROWS_AT_ONCE) / TILE * (PER_ROW * WIDTH);
            if (col >= cols) continue;
            const unsigned shift = (before + unsigned(col) * unsigned(rows)) % SECTOR;
            const unsigned r = first_row + u - shift;
            const REAL* const from = &tile[HALO + u - shift][s];
            REAL* const to = out + size_t(col) * rows;
            if (r < unsigned(rows) && r + WIDTH <= unsigned(rows)) {
                Vector values;
#pragma unroll
                for (int v = 0; v < WIDTH; ++v) values.v[v] = from[v * (TILE + 1)];
                *reinterpret_cast<Vector*>(to + r) = values;
            } else {
#pragma unroll
                for (int v = 0; v < WIDTH; ++v) {
                    if (r + v < unsigned(rows)) to[r + v] = from[v * (TILE + 1)];
                }
            }
        }
    } else if (size_t(out) % 16 == 0) {  // so all rows are aligned: rows % WIDTH is 0
#pragma unroll
        for (int i = 0; i < vectors; ++i) {
            const int s = (t / PER_ROW + i * ROWS_AT_ONCE) % TILE;
            const int r =
                t % PER_ROW * WIDTH + (t / PER_ROW + i * ROWS_AT_ONCE) / TILE * (PER_ROW * WIDTH);
            if (first_col + s >= cols || first_row + r >= unsigned(rows)) continue;
            Vector values;
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) values.v[v] = tile[r + v][s];
            *reinterpret_cast<Vector*>(out + size_t(first_col + s) * rows + first_row + r) = values;
        }
    } else {
        constexpr int elements = TILE * TILE / THREADS;
#pragma unroll
        for (int i = 0; i < elements; ++i) {
            const int s = t / TILE + i * (THREADS / TILE), r = t % TILE;
            if (first_col + s < cols && first_row + r < unsigned(rows)) {
                out[size_t(first_col + s) * rows + first_row + r] = tile[r][s];
            }
        }
    }
}
