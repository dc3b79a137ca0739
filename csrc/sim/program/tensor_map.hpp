// Tensor maps. A tensor map describes an array in global memory for the Tensor Memory Accelerator
// (TMA), which copies boxes. A box is a rectangular part of the array.
//
// METHOD
// On a GPU, the driver makes the 128 bytes of a tensor map, and their layout is not documented. On
// the simulator, they contain a mark and the arguments of cuTensorMapEncodeTiled. A tensor map that
// a driver made has no mark and is refused. map_field.hpp says how a kernel changes a tensor map.
// Dimensions are numbered from the innermost one, as in CUDA's documentation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/memory/locator.hpp"

namespace coalesce::sim {

struct Block;

inline constexpr size_t tensor_map_bytes = 128, tensor_map_alignment = 64;
inline constexpr uint32_t max_dimensions = 5;

// The values of CUtensorMapDataType in cuda.h, in the same order.
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
// Returns the element type for a name that Python uses: "float32", "bfloat16", "tfloat32", ...
[[nodiscard]] std::optional<MapElement> map_element_named(std::string_view name);

// How the 16-byte parts of a box are permuted in shared memory. The values are those of
// CUtensorMapSwizzle in cuda.h.
enum class Swizzle : uint8_t { none, bytes_32, bytes_64, bytes_128 };

// Returns the address in shared memory at which a swizzle stores a byte that would be at `address`
// without a swizzle. A swizzle of 32, 64 or 128 bytes changes 1, 2 or 3 bits of the address, from
// bit 4 on. These bits are combined by exclusive or with the same number of bits from bit 7 on.
[[nodiscard]] constexpr uint32_t swizzled(uint32_t address, Swizzle swizzle) {
    const uint32_t bits = (1u << uint32_t(swizzle)) - 1;
    return address ^ ((address >> 7 & bits) << 4);
}
// Returns the size of the unit in which parts are permuted: 32, 64 or 128 bytes.
[[nodiscard]] constexpr uint32_t span_of(Swizzle swizzle) { return 16u << uint32_t(swizzle); }

// The arguments of cuTensorMapEncodeTiled.
struct TensorMap {
    uint64_t address = 0;
    MapElement element = MapElement::f32;
    uint32_t rank = 0;
    Swizzle swizzle = Swizzle::none;
    bool nan = false;  // elements outside the array are read as NaN, not as zero
    std::array<uint64_t, max_dimensions> extent{};  // the number of elements in each dimension
    // The distance in bytes between neighbouring elements in each dimension. The entry of dimension
    // 0 is not used, because its elements are adjacent.
    std::array<uint64_t, max_dimensions> stride{};
    // `box` is the size of a box in each dimension, in elements. `step` has the element strides:
    // with a step of 2, every second element is copied.
    std::array<uint32_t, max_dimensions> box{}, step{};

    // Returns the number of elements of a box that are copied along a dimension.
    [[nodiscard]] uint32_t copied(uint32_t dimension) const {
        return dimension == 0 ? box[0] : (box[dimension] + step[dimension] - 1) / step[dimension];
    }
    [[nodiscard]] uint32_t row_bytes() const { return box[0] * bytes_of(element); }
    // Returns the distance between rows in shared memory. With a swizzle, each row starts a new
    // unit of 32, 64 or 128 bytes, even if the row is shorter (recorded on an H100).
    [[nodiscard]] uint32_t row_pitch() const {
        return swizzle == Swizzle::none ? row_bytes() : span_of(swizzle);
    }
    [[nodiscard]] uint64_t rows() const;
};

// Returns an error message of one sentence if the map is not valid, or an empty string.
[[nodiscard]] std::string problem(const TensorMap& map);

using TensorMapBytes = std::array<std::byte, tensor_map_bytes>;
[[nodiscard]] TensorMapBytes encode(const TensorMap& map);
// Returns nothing if these 128 bytes are not a valid tensor map that encode() or a kernel made.
[[nodiscard]] std::optional<TensorMap> tensor_map_in(const std::byte* bytes);
[[nodiscard]] std::optional<TensorMap> tensor_map_in(std::string_view bytes);

// The operands of an instruction that copies a box. The instruction's Op has an index into
// Program::tensor_copies.
struct TensorCopy {
    uint32_t rank = 0;
    Locator coordinate[max_dimensions] = {no_operand, no_operand, no_operand, no_operand,
                                          no_operand};
    Locator shared = no_operand, barrier = no_operand;
    int32_t shared_offset = 0, barrier_offset = 0;
    bool narrow_shared = false, narrow_barrier = false;
    // For multicast: a register with one bit for each rank in the cluster. The blocks whose bit is
    // set get the box.
    Locator blocks = no_operand;
};

// A box that is being copied to shared memory. The rows have the host addresses of the elements in
// global memory, which have been checked.
struct TensorBox {
    struct Row {
        const std::byte* source = nullptr;  // the first element of the row that is in the array
        // `skipped` is the number of bytes of the row before these elements. `bytes` is the size of
        // these elements.
        uint32_t skipped = 0, bytes = 0;
        uint64_t address = 0;  // the address in global memory of these elements
    };
    std::vector<Row> rows;
    uint32_t row_bytes = 0, row_pitch = 0;
    Swizzle swizzle = Swizzle::none;
    MapElement element = MapElement::f32;
    bool nan = false;
    uint32_t start = 0;  // the address of the box in the block's shared memory
    // The swizzle depends on the addresses that the kernel sees. Such an address is the offset in
    // the block's shared memory plus `reserved` (Program::reserved_shared).
    uint32_t reserved = 0;

    // Returns the offset in the block's shared memory of a 16-byte part of a row. `part` is the
    // byte offset of the part in the row.
    [[nodiscard]] uint32_t place_of(size_t row, uint32_t part) const {
        const uint32_t at = start + reserved + uint32_t(row) * row_pitch + part;
        return swizzled(at, swizzle) - reserved;
    }
};

// Stores a box in Block::boxes until its copy is performed. Returns its number.
[[nodiscard]] uint32_t store_box(Block& block, const TensorBox& box);
// Writes the box with this number to the block's shared memory, and removes it from Block::boxes.
void write_stored_box(Block& block, uint32_t number);

// Writes a box to a block's shared memory.
void write_box(const TensorBox& box, std::byte* shared);

}  // namespace coalesce::sim
