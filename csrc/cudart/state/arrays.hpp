// CUDA arrays, mipmapped arrays, and texture and surface objects.
//
// METHOD
// Each of these objects is an allocation in the simulated memory (memory.hpp). So leaks, and uses
// after freeing, are found as for other memory. The program gets the address of the allocation as
// the handle. For a texture object, kernels read the allocation's bytes (sim/memory/texture.hpp).
// Arrays are stored row by row. As on a GPU, the program cannot see this layout. The levels of a
// mipmapped array are stored one after another.
#pragma once

#include <cstdint>
#include <map>

#include "cudart/abi/abi.hpp"
#include "cudart/state/memory.hpp"
#include "cudart/state/work.hpp"
#include "sim/memory/texture.hpp"

namespace coalesce::cudart {

// The flags of cudaMalloc3DArray().
namespace array_flag {
inline constexpr unsigned layered = 1, surface = 2, cube = 4, gather = 8;
}

// The largest extents of arrays (CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability"). They are the same for compute capabilities 7.0 to 9.0. Where an array has layers,
// the last number is their largest number.
struct ArrayLimits {
    int texture_1d = 131072, texture_2d[2] = {131072, 65536}, texture_3d[3] = {16384, 16384, 16384};
    int texture_3d_alternative[3] = {8192, 8192, 32768}, texture_cube = 32768;
    int texture_1d_layered[2] = {32768, 2048}, texture_2d_layered[3] = {32768, 32768, 2048};
    int texture_cube_layered[2] = {32768, 2046}, texture_2d_gather[2] = {32768, 32768};
    int texture_2d_linear[3] = {131072, 65000, 2097120};  // width, height, bytes of the pitch
    int texture_1d_linear = 1 << 28, texture_1d_mipmap = 32768;
    int texture_2d_mipmap[2] = {32768, 32768};
    int surface_1d = 32768, surface_2d[2] = {131072, 65536}, surface_3d[3] = {16384, 16384, 16384};
    int surface_1d_layered[2] = {32768, 2048}, surface_2d_layered[3] = {32768, 32768, 2048};
    int surface_cube = 32768, surface_cube_layered[2] = {32768, 2046};
};
inline constexpr ArrayLimits array_limits;

// A CUDA array or mipmapped array.
struct ArrayInfo {
    uint64_t address = 0;  // the address of the first texel
    ChannelFormat channel{};
    Extent extent{};  // the extent that the program passed: 0 for missing dimensions
    unsigned flags = 0;
    // The extents and the type of the texels, without a sampler.
    sim::TextureObject shape;
    bool is_level = false;  // a level of a mipmapped array
};

// All functions throw Failure with the error that CUDA returns.

// Allocates an array or, with a number of levels, a mipmapped array.
[[nodiscard]] uint64_t allocate_array(const ChannelFormat& channel, const Extent& extent,
                                      unsigned flags, uint32_t levels = 0);
void free_array(uint64_t handle, bool mipmapped);
// Returns the array or mipmapped array of a handle that a call received.
[[nodiscard]] const ArrayInfo& array_of(Array handle);
[[nodiscard]] const ArrayInfo& mipmap_of(Mipmap handle);
// Returns the handle of a level of a mipmapped array.
[[nodiscard]] Array level_of(Mipmap handle, uint32_t level);
// Forgets the arrays and objects whose memory was freed with their context.
void forget_freed_arrays();

// One end of a copy of a box: bytes `x` and rows `y` of slice or layer `z`.
struct ArrayEnd {
    const ArrayInfo* array = nullptr;
    size_t x = 0, y = 0, z = 0;
};
// Sets the destination (or the source) of a copy to a part of an array. Throws if the array does
// not contain this part.
void copy_to(CopyWork& copy, const ArrayEnd& end);
void copy_from(CopyWork& copy, const ArrayEnd& end);

// Makes a texture object and returns its handle. Makes a surface object if `texture` is null.
[[nodiscard]] uint64_t create_object(const ResourceDescription& resource,
                                     const TextureDescription* texture);
// Makes a texture object for a texture reference
// (python/coalesce/compile/device_headers/older/texture_references.h), and stores its handle in
// `object`. Destroys the old object, unless `object` is 0. The memory of the new object starts at
// an aligned address. Returns the distance in bytes from there to the pointer that the program
// binds.
[[nodiscard]] uint64_t bind_texture(uint64_t& object, ResourceDescription resource,
                                    const TextureDescription& texture);
void destroy_object(uint64_t handle, bool surface);
// The descriptions from which a texture or surface object was made.
struct ObjectInfo {
    ResourceDescription resource{};
    TextureDescription texture{};
    bool surface = false;
};
[[nodiscard]] const ObjectInfo& object_of_handle(uint64_t handle, bool surface);

// All arrays and objects. The keys are their handles.
struct Arrays {
    std::map<uint64_t, ArrayInfo> arrays, mipmaps;
    std::map<uint64_t, ObjectInfo> objects;
};

}  // namespace coalesce::cudart
