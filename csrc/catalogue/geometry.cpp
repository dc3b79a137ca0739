#include "catalogue/geometry.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace coalesce::catalogue {
namespace {

constexpr uint64_t max_y = 65535;

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Returns a grid of x by y blocks. If y exceeds the limit, the grid continues along z.
Dim3 grid_of(uint64_t x, uint64_t y = 1) {
    if (x == 0 || y == 0)
        throw std::invalid_argument("the shape is empty, so there is nothing to launch");
    if (x > INT32_MAX || y > max_y * max_y)
        throw std::invalid_argument("the shape needs a grid of " + std::to_string(x) + " x " +
                                    std::to_string(y) + " blocks; a grid can have at most " +
                                    std::to_string(INT32_MAX) + " x " +
                                    std::to_string(max_y * max_y));
    const uint64_t z = ceil_div(y, max_y);
    return {uint32_t(x), uint32_t(ceil_div(y, z)), uint32_t(z)};
}

constexpr uint32_t threads = 256;

}  // namespace

Launch tiles_rows_on_x(const Shape& s) {
    return {grid_of(ceil_div(s.rows, s.tile), ceil_div(s.cols, s.tile)), {s.tile, s.tile}};
}

Launch tiles_columns_on_x(const Shape& s) {
    return {grid_of(ceil_div(s.cols, s.tile), ceil_div(s.rows, s.tile)), {s.tile, s.tile}};
}

Launch tiles_flat_block(const Shape& s) {
    return {grid_of(ceil_div(s.rows, s.tile), ceil_div(s.cols, s.tile)), {s.tile * s.tile}};
}

Launch blocks_of_64_by_64(const Shape& s) {
    return {grid_of(ceil_div(s.cols, 64), ceil_div(s.rows, 64)), {512}};
}

Launch blocks_of_128_by_128(const Shape& s) {
    return {grid_of(ceil_div(s.cols, 128), ceil_div(s.rows, 128)), {threads}};
}

Launch block_for_each_multiprocessor(const Shape& s) {
    constexpr uint32_t stages = 4, steps = 32, tile_rows = 128, tile_cols = 256;
    grid_of(s.cols, s.rows);  // throws if the shape is empty or too large
    return {{s.multiprocessors}, {threads}, stages * steps * (tile_rows + tile_cols) * 4};
}

Launch warpgroups_for_each_multiprocessor(const Shape& s) {
    constexpr uint32_t ring = 192 << 10;  // bytes; the same for all kernels with this geometry
    grid_of(s.cols, s.rows);              // throws if the shape is empty or too large
    return {{s.multiprocessors}, {384}, ring};
}

Launch warpgroups_with_staging(const Shape& s) {
    constexpr uint32_t staged = 2 * 128 * 32 * 4;  // bytes of two tiles of A
    Launch launch = warpgroups_for_each_multiprocessor(s);
    launch.shared_bytes += staged;
    return launch;
}

Launch elements_by_four(const Shape& s) {
    return {grid_of(ceil_div(s.rows * ceil_div(s.cols, 4), threads)), {threads}};
}

// The constants are those of the kernel (17_split_k.cu).
Launch split_k_tiles(const Shape& s) {
    const uint32_t rows = s.tile == 32 ? 32 : 64, cols = s.tile, steps = s.tile == 128 ? 16 : 8;
    const uint32_t parts = s.parts != 0 ? s.parts : s.tile == 32 ? 8 : s.tile == 64 ? 2 : 1;
    const uint32_t cluster = parts == 8 ? 2 : 1, groups = parts / cluster, stages = 4;
    const bool tall_warps = s.tile == 128 || (s.tile == 64 && parts > 1);
    const uint32_t group_threads = rows * cols / (tall_warps ? 64 : 32);
    const uint32_t ring = stages * steps * groups * (rows + 4 + cols);
    const uint32_t sums = groups * rows * (cols + 4);
    return {grid_of(ceil_div(s.cols, cols) * cluster * s.slices, ceil_div(s.rows, rows)),
            {group_threads * groups},
            4 * std::max(ring, sums)};
}

// Chooses whether blocks that are neighbours along x of the grid read tiles below each other or
// side by side. Tiles below each other become tiles side by side in the transposed matrix, so the
// blocks write long pieces of its rows. For tiles side by side, the blocks read long pieces of
// rows. This order is chosen if only the rows that are read are unaligned. The kernel
// (07_vectorized.cu) finds out the order from gridDim.x.
Launch tiles_of_64_rows(const Shape& s) {
    constexpr uint64_t piece = 64, sector = 32, vector = 16;  // bytes
    const uint64_t halo = s.rows * s.item_size % vector != 0 ? sector / s.item_size - 1 : 0;
    const uint64_t row_tiles = ceil_div(s.rows + halo, 64);
    const uint64_t col_tiles = ceil_div(s.cols * s.item_size, 512);
    const bool only_in_is_unaligned =
        s.cols * s.item_size % piece != 0 && s.rows * s.item_size % piece == 0;
    return {only_in_is_unaligned ? grid_of(col_tiles, row_tiles) : grid_of(row_tiles, col_tiles),
            {1024}};
}

Launch strips_of_128_by_32(const Shape& s) {
    return {grid_of(ceil_div(s.rows, 128) * ceil_div(s.cols, 32)), {threads}};
}

Launch tiles_of_32_by_8(const Shape& s) {
    return {grid_of(ceil_div(s.cols, 32), ceil_div(s.rows, 32)), {32, 8}};
}

Launch threads_over_rows(const Shape& s) { return {grid_of(ceil_div(s.rows, threads)), {threads}}; }

Launch threads_over_columns(const Shape& s) {
    return {grid_of(ceil_div(s.cols, threads)), {threads}};
}

Launch block_for_each_row(const Shape& s) { return {grid_of(s.rows), {threads}}; }

Launch block_for_each_row_dynamic(const Shape& s) {
    return {grid_of(s.rows), {threads}, threads * s.item_size};
}

Launch warp_for_each_row(const Shape& s) {
    return {grid_of(ceil_div(s.rows, threads / 32)), {threads}};
}

Launch warps_or_blocks_over_rows(const Shape& s) {
    if (s.cols <= 8192) return {grid_of(ceil_div(s.rows, 8)), {32, 8}};
    return {grid_of(s.rows), {threads}};
}

// A block adds up a group of columns, 16 bytes for each lane. The rows are divided into slices, so
// that all multiprocessors of an H200 have about the same work. A second launch adds up the slices.
// This launch takes time, so slices are long: at least 1024 rows if multiprocessors would otherwise
// have no block, and at least 4096 if all have one. If most multiprocessors have one block each,
// there are no slices. But long columns are always divided, because a thread adds its elements one
// after another, and a long chain of additions collects rounding errors. The number of slices does
// not depend on the GPU, so every GPU adds the elements in the same order.
Launch slices_of_columns(const Shape& s) {
    constexpr uint64_t multiprocessors = 132;
    const uint64_t groups = ceil_div(s.cols, 32 * (16 / s.item_size));
    uint64_t slices = std::max<uint64_t>(1, s.rows / 65536);
    const bool one_block_each = groups > multiprocessors / 2 && groups <= multiprocessors;
    if (!one_block_each) {
        slices = std::max({slices, std::min(multiprocessors / groups, s.rows / 1024),
                           std::min(16 * multiprocessors / groups, s.rows / 4096)});
    }
    return {{grid_of(groups).x, uint32_t(slices)}, {32, 16}};
}

Launch block_for_32_columns(const Shape& s) { return {grid_of(ceil_div(s.cols, 32)), {32, 32}}; }

}  // namespace coalesce::catalogue
