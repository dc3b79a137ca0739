// Texture and surface objects. Such an object describes an array for the texture and surface
// instructions of a kernel.
//
// METHOD
// On a GPU, the layout of a texture object and of a CUDA array is not documented. On the simulator,
// the handle of an object is the address of 256 bytes in the simulated memory. They contain a mark,
// a checksum, and a TextureObject. The address has 32 bits, because machine code uses only the
// lower half of a handle (AddressSpace::add_object). The array is row-major: texel after texel, row
// after row, slice after slice (or layer after layer), level after level.
//
// The rules of texture fetches are those of the CUDA C++ Programming Guide ("Texture Fetching").
// docs/textures.md lists the rules that are not documented. They were found by comparing results
// with those of an H100 (tools/record_results.py).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "sim/memory/locator.hpp"

namespace coalesce::sim {

// The kind of memory that an object describes, as in cudaResourceType.
enum class TextureMemory : uint8_t {
    linear,   // adjacent elements, which can be read only with integer coordinates
    pitched,  // rows in linear memory
    array,    // a CUDA array, or one level of a mipmapped array
};
enum class TexelKind : uint8_t { integer, unsigned_integer, floating };
// The values of cudaTextureAddressMode.
enum class AddressMode : uint8_t { wrap, clamp, mirror, border };

// The array and the sampler of a texture or surface object.
struct TextureObject {
    uint64_t address = 0;  // the address of the first texel
    // The extents of level 0 in texels. The extent of a dimension that the array does not have is
    // 1.
    uint32_t width = 1, height = 1, depth = 1;
    uint32_t layers = 1;     // six layers are the faces of a cube
    uint64_t row_bytes = 0;  // the distance between rows; only pitched memory may have gaps
    uint32_t levels = 1;     // the number of levels of a mipmapped array
    TextureMemory memory = TextureMemory::array;
    uint8_t dimensions = 1;
    bool layered = false, cube = false;
    bool surface = false;  // a surface object; it has no sampler

    TexelKind kind = TexelKind::floating;
    uint8_t channels = 1, channel_bits = 32;

    AddressMode mode[3] = {AddressMode::clamp, AddressMode::clamp, AddressMode::clamp};
    bool linear_filter = false;
    bool normalized_coordinates = false;
    bool normalized_read = false;  // integers are read as numbers from 0 to 1, or from -1 to 1
    bool linear_between_levels = false;
    float level_bias = 0, min_level = 0, max_level = 0;
    float border[4] = {};

    [[nodiscard]] uint32_t texel_bytes() const { return uint32_t{channels} * channel_bits / 8; }
    // These functions return the extents of a level. Each extent is half the extent of the previous
    // level, rounded down, and at least 1.
    [[nodiscard]] uint32_t width_of(uint32_t level) const { return halved(width, level); }
    [[nodiscard]] uint32_t height_of(uint32_t level) const { return halved(height, level); }
    [[nodiscard]] uint32_t depth_of(uint32_t level) const { return halved(depth, level); }
    // These functions return the distance in bytes between the rows of a level, and between its
    // slices or layers.
    [[nodiscard]] uint64_t row_bytes_of(uint32_t level) const {
        return level == 0 ? row_bytes : uint64_t{width_of(level)} * texel_bytes();
    }
    [[nodiscard]] uint64_t slice_bytes_of(uint32_t level) const {
        return row_bytes_of(level) * height_of(level);
    }
    // Returns the number of bytes from the first texel to the start of a level. If `level` is
    // `levels`, this is the size of all levels.
    [[nodiscard]] uint64_t offset_of(uint32_t level) const;
    [[nodiscard]] uint64_t bytes() const;

  private:
    static uint32_t halved(uint32_t n, uint32_t level) {
        return level >= 32 || n >> level == 0 ? 1 : n >> level;
    }
};

// Returns an error message of one sentence if the object is not valid, or an empty string.
[[nodiscard]] std::string problem(const TextureObject& object);

inline constexpr size_t texture_object_bytes = 256;
using TextureObjectBytes = std::array<std::byte, texture_object_bytes>;
[[nodiscard]] TextureObjectBytes encode(const TextureObject& object);
// Returns nothing if encode() did not write these bytes.
[[nodiscard]] std::optional<TextureObject> texture_object_in(const std::byte* bytes);

// The shape of the texture for which an instruction is made, such as .2d in tex.2d or .a2d (an
// array of layers) in sust.b.a2d.
struct TextureGeometry {
    uint8_t dimensions = 1;
    bool layered = false, cube = false;
    // Returns the number of coordinates without the layer.
    [[nodiscard]] uint32_t coordinates() const { return cube ? 3 : dimensions; }
};

// The property that txq or suq returns.
enum class TextureQuery : uint8_t {
    width,
    height,
    depth,
    channel_data_type,
    channel_order,
    normalized_coordinates,
    array_size,
    levels,
};
// What a surface instruction does if its coordinates are outside the surface.
enum class OutOfRange : uint8_t { trap, clamp, zero };
// How an instruction selects the level of a mipmapped array: level 0, a level in a register, or
// derivatives of the coordinates.
enum class LevelForm : uint8_t { base, level, gradient };

// A texture or surface instruction. Its Op has an index into Program::texture_accesses.
struct TextureAccess {
    TextureGeometry geometry;
    bool integer_coordinates = false;
    LevelForm level_form = LevelForm::base;
    uint8_t component = 0;  // for tld4: the channel that is read
    OutOfRange out_of_range = OutOfRange::trap;
    TextureQuery query = TextureQuery::width;
    // For surface instructions: the number of bytes of a register that hold the value, and the
    // number of bytes of the register in each lane (2, 4 or 8).
    uint8_t value_bytes = 4, register_bytes = 4;
    uint8_t count = 4;    // registers in `value`
    bool halves = false;  // results are f16
    // True for cube maps in machine code. This code divides the coordinates by the largest one
    // before the fetch, so the fetch must not divide again.
    bool divided = false;
    Locator layer = no_operand;
    Locator coordinate[3] = {no_operand, no_operand, no_operand};
    Locator level = no_operand;
    Locator gradient[2][3] = {{no_operand, no_operand, no_operand},
                              {no_operand, no_operand, no_operand}};
    Locator value[4] = {no_operand, no_operand, no_operand, no_operand};
    Locator resident = no_operand;       // a predicate that becomes true
    Locator queried_level = no_operand;  // for a query: the level
};

// The coordinates of one fetch.
struct TexturePoint {
    uint32_t layer = 0;
    float coordinate[3] = {};
    int32_t integer[3] = {};  // for integer coordinates
    float level = 0;
};

// The texels that a fetch reads, for observers: at most two levels of eight.
struct TexelList {
    uint64_t offset[16];
    uint32_t count = 0;
};

// The four channels of a fetched value: bits of floats or of integers.
using TexelBits = std::array<uint32_t, 4>;

// Returns the value of the texture at a point (tex). `data` is the host memory for object.address.
// `read` receives the texels that were read.
[[nodiscard]] TexelBits fetch(const TextureObject& object, const TextureAccess& access,
                              const TexturePoint& point, const std::byte* data, TexelList& read);
// Returns one channel of the four texels around a point (tld4). The parameters are those of
// fetch().
[[nodiscard]] TexelBits gather(const TextureObject& object, const TextureAccess& access,
                               const TexturePoint& point, const std::byte* data, TexelList& read);
// Returns the level of detail that belongs to these derivatives of the coordinates (tex.grad).
[[nodiscard]] float level_of(const TextureObject& object, const float (&dx)[3],
                             const float (&dy)[3]);
// Returns a property of the object. Extents are those of a level.
[[nodiscard]] uint32_t query_result(const TextureObject& object, TextureQuery query,
                                    uint32_t level = 0);

}  // namespace coalesce::sim
