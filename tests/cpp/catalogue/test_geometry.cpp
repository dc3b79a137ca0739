// Tests that each launch covers all elements, respects CUDA's limits and wastes less than one block
// per row.
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "catalogue/geometry.hpp"

namespace coalesce::catalogue {
namespace {

uint64_t threads(const Dim3& e) { return uint64_t(e.x) * e.y * e.z; }

// The number of rows and columns that the threads of a launch cover.
struct Reach {
    uint64_t rows, cols;
};

Reach reach(GeometryFunction geometry, const Launch& l, const Shape& s) {
    const uint64_t x = l.grid.x, y = uint64_t(l.grid.y) * l.grid.z;
    const uint32_t tile = s.tile;
    if (geometry == tiles_rows_on_x || geometry == tiles_flat_block) return {x * tile, y * tile};
    if (geometry == tiles_columns_on_x) return {y * tile, x * tile};
    if (geometry == tiles_of_32_by_8) return {y * 32, x * 32};
    if (geometry == threads_over_rows) return {x * l.block.x, UINT64_MAX};
    if (geometry == threads_over_columns) return {UINT64_MAX, x * l.block.x};
    if (geometry == block_for_each_row || geometry == block_for_each_row_dynamic)
        return {x, UINT64_MAX};
    if (geometry == warp_for_each_row) return {x * l.block.x / 32, UINT64_MAX};
    if (geometry == block_for_32_columns) return {UINT64_MAX, x * 32};
    if (geometry == blocks_of_64_by_64) return {y * 64, x * 64};
    if (geometry == tiles_of_64_rows) {  // the kernel compares gridDim.x with the tiles of the rows
        const bool shifted = s.rows * s.item_size % 16 != 0;
        const uint64_t halo = shifted ? 32 / s.item_size - 1 : 0;
        const bool rows_on_x = x == (s.rows + halo + 63) / 64;
        const uint64_t cols = 512 / s.item_size;
        if (rows_on_x) return {x * 64 - halo, y * cols};
        return {y * 64 - halo, x * cols};
    }
    if (geometry == blocks_of_128_by_128) return {y * 128, x * 128};
    if (geometry == block_for_each_multiprocessor ||
        geometry == warpgroups_for_each_multiprocessor ||
        geometry == warpgroups_with_staging) {  // the blocks process several tiles
        EXPECT_EQ(x * y, s.multiprocessors);
        return {UINT64_MAX, UINT64_MAX};
    }
    if (geometry == split_k_tiles) {
        const uint64_t cluster = tile == 32 ? 2 : 1;  // for the default of `parts`
        EXPECT_EQ(x % cluster, 0u);
        return {y * (tile == 32 ? 32 : 64), x / cluster * tile};
    }
    if (geometry == elements_by_four) {
        const uint64_t groups = (s.cols + 3) / 4;  // groups of four elements per row
        return {x * l.block.x / groups, s.cols};
    }
    if (geometry == strips_of_128_by_32) {
        const uint64_t strips = (s.cols + 31) / 32;
        EXPECT_EQ(x % strips, 0u);
        return {x / strips * 128, strips * 32};
    }
    if (geometry == warps_or_blocks_over_rows) return {l.block.y == 8 ? x * 8 : x, UINT64_MAX};
    if (geometry == slices_of_columns)  // a block processes the rows of its slice one after another
        return {UINT64_MAX, x * 32 * (16 / s.item_size)};
    ADD_FAILURE() << "add the geometry to reach()";
    return {0, 0};
}

TEST(Geometry, CoversEveryShapeWithinTheLimits) {
    const uint64_t extents[] = {1,     7,      8,         31,          32,        33,
                                65535, 524280, 2'097'120, 100'000'000, max_extent};
    for (const Variant& v : variants()) {
        for (const uint64_t rows : extents) {
            for (const uint64_t cols : extents) {
                if (rows * cols > uint64_t(1) << 40) continue;  // larger than the memory of any GPU
                const std::vector<uint32_t> none = {8, 16, 32};
                for (const uint32_t tile :
                     v.tiles.empty() ? none : std::vector(v.tiles.begin(), v.tiles.end())) {
                    const Shape shape{rows, cols, tile, 4};
                    const Launch l = v.geometry(shape);
                    const auto [reached_rows, reached_cols] = reach(v.geometry, l, shape);
                    EXPECT_GE(reached_rows, rows) << v.operation << ' ' << v.name;
                    EXPECT_GE(reached_cols, cols) << v.operation << ' ' << v.name;
                    EXPECT_LE(l.grid.x, uint32_t(INT32_MAX));
                    EXPECT_LE(l.grid.y, 65535u);
                    EXPECT_LE(l.grid.z, 65535u);
                    EXPECT_LE(threads(l.block), 1024u);
                    // A kernel's index past the end must still fit in an int.
                    if (reached_rows != UINT64_MAX) {
                        EXPECT_LT(reached_rows, uint64_t(INT32_MAX));
                    }
                    if (reached_cols != UINT64_MAX) {
                        EXPECT_LT(reached_cols, uint64_t(INT32_MAX));
                    }
                }
            }
        }
    }
}

TEST(Geometry, FoldsRowsBeyondTheYAxisOntoZ) {
    const Launch l = tiles_columns_on_x({65536ull * 32, 32, 32, 4});
    EXPECT_EQ(l.grid, (Dim3{1, 32768, 2}));
    EXPECT_EQ(tiles_columns_on_x({65535ull * 32, 32, 32, 4}).grid, (Dim3{1, 65535, 1}));
}

TEST(Geometry, DynamicSharedMemoryDependsOnTheElementSize) {
    EXPECT_EQ(block_for_each_row_dynamic({5, 5, 32, 4}).shared_bytes, 1024u);
    EXPECT_EQ(block_for_each_row_dynamic({5, 5, 32, 8}).shared_bytes, 2048u);
    EXPECT_EQ(block_for_each_row({5, 5, 32, 8}).shared_bytes, 0u);
}

TEST(Geometry, RefusesEmptyShapes) {
    EXPECT_THROW(tiles_columns_on_x({0, 5, 32, 4}), std::invalid_argument);
    EXPECT_THROW(tiles_columns_on_x({5, 0, 32, 4}), std::invalid_argument);
    EXPECT_THROW(threads_over_rows({0, 1, 32, 4}), std::invalid_argument);
}

}  // namespace
}  // namespace coalesce::catalogue
