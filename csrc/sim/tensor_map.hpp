// Tensor maps: how a copy finds a box of an array in global memory (TMA).
//
// METHOD
// On a GPU the driver makes the 128 bytes of a tensor map, whose layout is not documented. Here
// they have a layout of our own: a mark, a checksum, and the arguments of cuTensorMapEncodeTiled.
// Bytes that another driver made are recognised by the mark and refused. Dimensions are counted
// from the innermost one, as in CUDA's documentation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/locator.hpp"

namespace coalesce::sim {

struct Block;

inline constexpr size_t tensor_map_bytes = 128, tensor_map_alignment = 64;
inline constexpr uint32_t most_dimensions = 5;

// CUtensorMapDataType, cuda.h, in its order.
enum class MapElement : uint8_t {
    u8,
    u16,
    u32,
    s32,
    u64,
    s64,
    f16,
    f32,
    f64,
    bf16,
    f32_ftz,
    tf32,
    tf32_ftz,
};
inline constexpr uint32_t map_elements = 13;
[[nodiscard]] uint32_t bytes_of(MapElement element);
[[nodiscard]] bool is_floating(MapElement element);
// The element that Python names: "float32", "bfloat16", "tfloat32", ...
[[nodiscard]] std::optional<MapElement> map_element_named(std::string_view name);

// How the 16-byte parts of shared memory are exchanged; CUtensorMapSwizzle, cuda.h.
enum class Swizzle : uint8_t { none, bytes_32, bytes_64, bytes_128 };

// Where the byte at an address of shared memory lies: of the bits 4 to 6 of the address, as many as
// the swizzle has are combined (exclusive or) with those three bits above.
[[nodiscard]] constexpr uint32_t swizzled(uint32_t address, Swizzle swizzle) {
    const uint32_t bits = (1u << uint32_t(swizzle)) - 1;
    return address ^ ((address >> 7 & bits) << 4);
}
// The bytes in which parts are exchanged: 32, 64 or 128.
[[nodiscard]] constexpr uint32_t span_of(Swizzle swizzle) { return 16u << uint32_t(swizzle); }

struct TensorMap {
    uint64_t address = 0;
    MapElement element = MapElement::f32;
    uint32_t rank = 0;
    Swizzle swizzle = Swizzle::none;
    bool nan = false;                                     // what lies outside is NaN, not zero
    std::array<uint64_t, most_dimensions> extent{};       // elements
    std::array<uint64_t, most_dimensions> stride{};       // bytes; of dimension 0 not used
    std::array<uint32_t, most_dimensions> box{}, step{};  // elements; `step`: element strides

    // Elements of a box that are copied along a dimension.
    [[nodiscard]] uint32_t copied(uint32_t dimension) const {
        return dimension == 0 ? box[0] : (box[dimension] + step[dimension] - 1) / step[dimension];
    }
    [[nodiscard]] uint32_t row_bytes() const { return box[0] * bytes_of(element); }
    [[nodiscard]] uint64_t rows() const;
};

// What is wrong with it, in a sentence; empty: nothing.
[[nodiscard]] std::string problem(const TensorMap& map);

using TensorMapBytes = std::array<std::byte, tensor_map_bytes>;
[[nodiscard]] TensorMapBytes encode(const TensorMap& map);
// Nothing if these 128 bytes are not what encode() returned.
[[nodiscard]] std::optional<TensorMap> tensor_map_in(const std::byte* bytes);
[[nodiscard]] std::optional<TensorMap> tensor_map_in(std::string_view bytes);

// A copy of a box as an instruction names it: the side table of Program that its Op points into.
struct TensorCopy {
    uint32_t rank = 0;
    Locator coordinate[most_dimensions] = {no_operand, no_operand, no_operand, no_operand,
                                           no_operand};
    Locator shared = no_operand, barrier = no_operand;
    int32_t shared_offset = 0, barrier_offset = 0;
    bool narrow_shared = false, narrow_barrier = false;
    Locator blocks = no_operand;  // multicast: the ranks in the cluster, a bit for each
};

// A box that is on its way to shared memory: its rows in global memory, found and checked.
struct TensorBox {
    struct Row {
        const std::byte* source = nullptr;  // of the elements that lie in the array
        uint32_t skipped = 0, bytes = 0;    // the bytes of the row before them, and their bytes
    };
    std::vector<Row> rows;
    uint32_t row_bytes = 0;
    Swizzle swizzle = Swizzle::none;
    MapElement element = MapElement::f32;
    bool nan = false;
};

// Keeps a box in Block::boxes while its copy is under way; returns its number.
[[nodiscard]] uint32_t keep_box(Block& block, const TensorBox& box);
// Puts this box into the block's shared memory, `at` bytes from its start, and forgets it.
void land_box(Block& block, uint32_t number, uint32_t at);

// Puts a box into a block's shared memory, `at` bytes from its start; addresses of shared memory
// count `reserved` bytes before it.
void put_box(const TensorBox& box, std::byte* shared, uint32_t at, uint32_t reserved);

}  // namespace coalesce::sim
