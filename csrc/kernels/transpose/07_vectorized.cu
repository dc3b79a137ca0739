// 16 bytes per access and two loads in flight: the full bandwidth of memory.
//
// In 05_padded, each thread has one load of 4 bytes in flight. Here a block moves a tile of 64 rows
// of `in`, 512 bytes of each, and a thread starts all its loads, 16 bytes each, before it uses the
// first. A warp reads 512 bytes of a row, which memory delivers faster than four pieces of 128
// bytes. The tile has a column of padding. If the elements are floats, two or four lanes still
// share a bank. These conflicts cost no time, because the threads wait longer for global memory.
//
// THE ORDER OF THE TILES. Blocks that run at the same time have neighbouring tiles. By default
// these tiles lie below each other, so that together they write long pieces of rows of `out`. They
// lie side by side if the rows of `out` begin at multiples of 64 bytes but those of `in` do not.
//
// UNALIGNED ROWS. If rows of `out` do not begin at multiples of 16 bytes, memory would take longer,
// because it would write parts of sectors. So the pieces of a block are shifted, row by row, to
// begin with a whole sector. For this, a block reads up to 7 more rows of `in`, which the block
// above has just read. If rows of `in` do not begin at multiples of 16 bytes, single elements are
// loaded, 8 or more in flight per thread.

#ifndef REAL
#define REAL float
#endif
// The distances between rows and between columns. They are constants unless STRIDED is defined.
#ifdef STRIDED
#define ROW_STRIDE row_stride
#define COL_STRIDE col_stride
#else
#define ROW_STRIDE cols
#define COL_STRIDE 1
#endif
#define ROWS 64                         // rows of the tile
#define COLS (512 / int(sizeof(REAL)))  // columns of the tile
#define THREADS 1024
#define WIDTH (16 / int(sizeof(REAL)))   // elements in 16 bytes
#define SECTOR (32 / int(sizeof(REAL)))  // elements in a sector
#define HALO (SECTOR - 1)                // more rows that shifted pieces need
#define PER_ROW (COLS / WIDTH)           // threads that load a row of the tile
#define PER_COLUMN (ROWS / WIDTH)        // threads that store a column of the tile

struct alignas(16) Vector {
    REAL v[WIDTH];
};

// Copies COUNT rows from `first_row` on, in columns from `first_col` on, to the tile. Leaves out
// what is outside of `in`. `first_row` may be a negative number, stored as unsigned.
template <int COUNT>
__device__ void load_tile(
    REAL (*tile)[COLS + 1], const REAL* in, unsigned first_row, int first_col, int rows, int cols,
    long long row_stride, long long col_stride) {
    const int t = threadIdx.x;
    if (cols % WIDTH == 0 && ROW_STRIDE % WIDTH == 0 && COL_STRIDE == 1 && size_t(in) % 16 == 0) {
        constexpr int at_once = THREADS / PER_ROW, passes = (COUNT + at_once - 1) / at_once;
        const int s = t % PER_ROW * WIDTH;
        Vector values[passes];
#pragma unroll
        for (int i = 0; i < passes; ++i) {
            const int r = t / PER_ROW + i * at_once;
            if (r < COUNT && first_row + r < unsigned(rows) && first_col + s < cols) {
                const REAL* from = in + size_t(first_row + r) * ROW_STRIDE + first_col + s;
                values[i] = *reinterpret_cast<const Vector*>(from);
            }
        }
#pragma unroll
        for (int i = 0; i < passes; ++i) {
            const int r = t / PER_ROW + i * at_once;
            if (r >= COUNT) continue;
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) tile[r][s + v] = values[i].v[v];
        }
    } else {
        constexpr int at_once = THREADS / COLS, passes = (COUNT + at_once - 1) / at_once;
        const int s = first_col + t % COLS;
        REAL values[passes];
#pragma unroll
        for (int i = 0; i < passes; ++i) {
            const int r = t / COLS + i * at_once;
            if (r < COUNT && first_row + r < unsigned(rows) && s < cols) {
                values[i] = in[size_t(first_row + r) * ROW_STRIDE + s * COL_STRIDE];
            }
        }
#pragma unroll
        for (int i = 0; i < passes; ++i) {
            const int r = t / COLS + i * at_once;
            if (r < COUNT) tile[r][t % COLS] = values[i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) vectorized(
    const REAL* __restrict__ in, REAL* __restrict__ out, int rows, int cols, long long row_stride,
    long long col_stride) {
    const unsigned block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    __shared__ REAL tile[ROWS + HALO][COLS + 1];
    const int t = threadIdx.x;
    const bool shifted = rows % WIDTH != 0;
    // The launch chooses the order. The shifted pieces of the last tile may end before `rows`.
    const unsigned row_tiles = (rows + (shifted ? HALO : 0) + ROWS - 1u) / ROWS;
    const bool rows_on_x = gridDim.x == row_tiles;
    const unsigned first_row = (rows_on_x ? blockIdx.x : block_y) * ROWS;
    const int first_col = (rows_on_x ? block_y : blockIdx.x) * COLS;

    if (shifted) {
        load_tile<ROWS + HALO>(
            tile, in, first_row - HALO, first_col, rows, cols, row_stride, col_stride);
    } else {
        load_tile<ROWS>(tile, in, first_row, first_col, rows, cols, row_stride, col_stride);
    }
    __syncthreads();

    constexpr int at_once = THREADS / PER_COLUMN;
    const int u = t % PER_COLUMN * WIDTH;
    if (shifted) {
        const unsigned before = unsigned(size_t(out) / sizeof(REAL));  // elements, modulo SECTOR
#pragma unroll
        for (int i = 0; i < COLS / at_once; ++i) {
            const int s = t / PER_COLUMN + i * at_once, col = first_col + s;
            if (col >= cols) continue;
            const unsigned shift = (before + unsigned(col) * unsigned(rows)) % SECTOR;
            const unsigned r = first_row + u - shift;
            const REAL* const from = &tile[HALO + u - shift][s];
            REAL* const to = out + size_t(col) * rows;
            if (r < unsigned(rows) && r + WIDTH <= unsigned(rows)) {
                Vector values;
#pragma unroll
                for (int v = 0; v < WIDTH; ++v) values.v[v] = from[v * (COLS + 1)];
                *reinterpret_cast<Vector*>(to + r) = values;
            } else {
#pragma unroll
                for (int v = 0; v < WIDTH; ++v) {
                    if (r + v < unsigned(rows)) to[r + v] = from[v * (COLS + 1)];
                }
            }
        }
    } else if (size_t(out) % 16 == 0) {  // so all rows are aligned: rows % WIDTH is 0
#pragma unroll
        for (int i = 0; i < COLS / at_once; ++i) {
            const int s = t / PER_COLUMN + i * at_once;
            if (first_col + s >= cols || first_row + u >= unsigned(rows)) continue;
            Vector values;
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) values.v[v] = tile[u + v][s];
            *reinterpret_cast<Vector*>(out + size_t(first_col + s) * rows + first_row + u) = values;
        }
    } else {
        constexpr int columns = THREADS / ROWS;
#pragma unroll
        for (int i = 0; i < COLS / columns; ++i) {
            const int s = t / ROWS + i * columns, r = t % ROWS;
            if (first_col + s < cols && first_row + r < unsigned(rows)) {
                out[size_t(first_col + s) * rows + first_row + r] = tile[r][s];
            }
        }
    }
}
