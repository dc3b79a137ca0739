// Launch geometries: grid, block and shared memory as functions of the shape.
//
// METHOD
// The text of a kernel says what a thread computes from its indices. The functions here say how
// many threads there are. A grid has at most 65535 blocks along y. With TILE 32, a matrix of more
// than 65535 * 32 rows (about 2.1 million) needs more blocks. They continue along z, and every
// kernel that uses y computes
//    block_y = blockIdx.y + gridDim.y * blockIdx.z
// The last few blocks may have nothing to do. The limit along x is 2^31 - 1 blocks. No accepted
// shape needs more.
#pragma once

#include <cstdint>

#include "kernel_launch.hpp"

namespace coalesce::catalogue {

// The largest number of rows or columns of a matrix. Kernels store each of them in an int, and
// rounding up to whole blocks must not overflow the int. Operations on access patterns use a size_t
// and have no such limit.
inline constexpr uint64_t max_extent = 2'000'000'000;

// The sizes from which a launch geometry is computed. For matmul, rows x cols is the shape of the
// result. For transpose and sums, it is the shape of the matrix that is read. For access, rows is
// the number of results, and cols is 1.
struct Shape {
    uint64_t rows = 0;
    uint64_t cols = 0;
    uint32_t tile = 32;      // the kernel's TILE
    uint32_t item_size = 4;  // bytes of an element
    // The number of multiprocessors of the GPU. Kernels with one block per multiprocessor need it.
    uint32_t multiprocessors = 132;
    uint32_t slices = 1;  // number of slices of K, for kernels that divide K
    uint32_t parts = 0;   // the kernel's PARTS; 0 means its default
};

// A function that returns the launch for a shape. Throws std::invalid_argument if the shape is
// empty, because there is nothing to launch.
using GeometryFunction = Launch (*)(const Shape&);

Launch tiles_rows_on_x(const Shape&);       // TILE x TILE threads; threadIdx.x selects the row
Launch tiles_columns_on_x(const Shape&);    // TILE x TILE threads; threadIdx.x selects the column
Launch tiles_flat_block(const Shape&);      // TILE * TILE threads in one dimension; rows on x
Launch blocks_of_64_by_64(const Shape&);    // 512 threads for 64 x 64 elements; columns on x
Launch blocks_of_128_by_128(const Shape&);  // 256 threads for 128 x 128 elements; columns on x
// Blocks of 256 threads. Each block processes several tiles.
Launch block_for_each_multiprocessor(const Shape&);
// Two warpgroups multiply, and one copies. They process several tiles.
Launch warpgroups_for_each_multiprocessor(const Shape&);
// Like warpgroups_for_each_multiprocessor. Tiles of A wait for their transposition.
Launch warpgroups_with_staging(const Shape&);
// 256 threads per block. Each thread processes four elements of a row.
Launch elements_by_four(const Shape&);
// A cluster of 1 or 2 blocks per tile and slice. TILE and PARTS select the tile and its threads.
Launch split_k_tiles(const Shape&);
Launch tiles_of_32_by_8(const Shape&);  // 32 x 8 threads, four elements per thread; columns on x
// 1024 threads for 64 rows, 512 bytes of each; columns or rows on x.
Launch tiles_of_64_rows(const Shape&);
Launch strips_of_128_by_32(const Shape&);   // 256 threads for 128 rows x 32 columns; all on x
Launch threads_over_rows(const Shape&);     // 256 threads per block, one row per thread
Launch threads_over_columns(const Shape&);  // 256 threads per block, one column per thread
Launch block_for_each_row(const Shape&);    // 256 threads per row
// Like block_for_each_row, with one element of dynamic shared memory per thread.
Launch block_for_each_row_dynamic(const Shape&);
Launch warp_for_each_row(const Shape&);  // 8 warps per block, one row per warp
// One warp per row. For long rows, one block of 256 threads per row.
Launch warps_or_blocks_over_rows(const Shape&);
Launch block_for_32_columns(const Shape&);  // 32 x 32 threads for 32 columns
// 32 x 16 threads, each for 16 bytes of a row. The slices of rows are on y.
Launch slices_of_columns(const Shape&);

// The static shared memory of a kernel in bytes. It depends on TILE and the size of an element.
using SharedBytes = uint32_t (*)(uint32_t tile, uint32_t item_size);

inline uint32_t no_shared(uint32_t, uint32_t) { return 0; }
inline uint32_t one_tile(uint32_t tile, uint32_t item) { return tile * tile * item; }
inline uint32_t one_padded_tile(uint32_t tile, uint32_t item) { return tile * (tile + 1) * item; }
inline uint32_t two_tiles(uint32_t tile, uint32_t item) { return 2 * tile * tile * item; }
inline uint32_t two_tiles_one_padded(uint32_t tile, uint32_t item) {
    return tile * (2 * tile + 1) * item;
}
inline uint32_t one_per_warp(uint32_t, uint32_t item) { return 8 * item; }
inline uint32_t vector_per_thread(uint32_t, uint32_t) { return 512 * 16; }
// A tile of 512 bytes of 64 rows, with one column of padding. It has additional rows, which shifted
// pieces need (transpose/07_vectorized.cu).
inline uint32_t padded_tile_of_64_rows(uint32_t, uint32_t item) {
    return (63 + 32 / item) * (512 + item);
}
inline uint32_t padded_strip(uint32_t, uint32_t) { return 128 * 33 * 4; }
// The mbarriers of a ring of three stages: two of 8 bytes for each stage.
inline uint32_t barriers_of_3_stages(uint32_t, uint32_t) { return 48; }
inline uint32_t ring_barriers(uint32_t, uint32_t) { return 64; }
// The mbarriers of a ring of four stages, and of two tiles of A that wait for their transposition.
inline uint32_t barriers_of_staged_ring(uint32_t, uint32_t) { return 96; }
inline uint32_t barriers_of_6_stages(uint32_t, uint32_t) { return 96; }
inline uint32_t one_per_thread(uint32_t, uint32_t item) { return 256 * item; }

// The bytes of shared memory of the matmul kernels with register tiles. A block loads a strip of A
// and a strip of B for eight values of k at a time. For each value of k, a strip has as many
// elements as the edge of the block's tile (64 or 128; 132 with padding).
inline uint32_t strips_of_64(uint32_t, uint32_t item) { return 8 * (64 + 64) * item; }
inline uint32_t strips_of_128(uint32_t, uint32_t item) { return 8 * (128 + 128) * item; }
inline uint32_t strips_of_128_padded(uint32_t, uint32_t item) { return 8 * (132 + 128) * item; }
inline uint32_t stages_of_strips(uint32_t, uint32_t item) {
    return (item == 4 ? 4 : 2) * strips_of_128_padded(0, item);
}

}  // namespace coalesce::catalogue
