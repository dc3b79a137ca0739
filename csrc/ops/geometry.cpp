#include "ops/geometry.hpp"

#include <stdexcept>

namespace coalesce::ops {
namespace {

constexpr uint64_t max_y = 65535;

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// A grid of x by y blocks, with what exceeds the y axis folded onto z.
Extent3 grid_of(uint64_t x, uint64_t y = 1) {
    if (x == 0 || y == 0) throw std::invalid_argument("an empty shape has no launch");
    if (x > INT32_MAX || y > max_y * max_y)
        throw std::invalid_argument("too many blocks for a grid");
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

Launch block_for_32_columns(const Shape& s) { return {grid_of(ceil_div(s.cols, 32)), {32, 32}}; }

}  // namespace coalesce::ops
