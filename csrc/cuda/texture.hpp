// Texture and surface objects on a GPU, for the NumPy arrays that Python passes to a kernel.
//
// METHOD
// A launch first copies all its arrays to linear memory of the GPU. A texture for tex1Dfetch reads
// this memory itself. For all other textures and for surfaces, the driver makes a CUDA array. The
// layout of a CUDA array is not documented, so only the driver can copy the elements. fill() copies
// them from the linear memory to the CUDA array. After the kernel, read_back() copies them from the
// CUDA array to the linear memory.
//
// The description has the options of coalesce.texture(), which sim/memory/texture.hpp has for the
// simulator. The binding (bindings/cuda.cpp) copies them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/device.hpp"

namespace coalesce::cuda {

// The array, and the options of its texture or surface object.
struct TextureDescription {
    // The extents of level 0, x first. The extent of a dimension that the array does not have is 1.
    std::array<size_t, 3> extent{1, 1, 1};
    int dimensions = 1;
    size_t layers = 1;  // six layers are the faces of a cube
    unsigned levels = 1;
    bool layered = false, cube = false;
    bool linear_memory = false;
    bool surface = false;

    enum class Kind : uint8_t { integer, unsigned_integer, floating };
    Kind kind = Kind::floating;
    unsigned channels = 1, channel_bits = 32;

    std::array<int, 3> modes{1, 1, 1};  // the values of CUaddress_mode
    bool linear_filter = false, linear_between_levels = false;
    bool normalized_coordinates = false, normalized_read = false;
    float level_bias = 0, min_level = 0, max_level = 0;
    std::array<float, 4> border{};
};

class Texture {
  public:
    // Creates the CUDA array and the object. The elements are in linear memory at `elements`: texel
    // after texel, row after row, slice after slice or layer after layer, level after level.
    // `what` names the argument in messages. Throws LaunchError.
    Texture(Device& device, const TextureDescription& description, Address elements,
            std::string what);
    ~Texture() { destroy(); }
    Texture(const Texture&) = delete;
    Texture& operator=(const Texture&) = delete;

    // Returns the value for a parameter of type cudaTextureObject_t or cudaSurfaceObject_t.
    [[nodiscard]] uint64_t handle() const { return handle_; }
    // Returns whether the kernel uses a CUDA array, and not the linear memory.
    [[nodiscard]] bool in_array() const { return !d_.linear_memory; }

    // Copy all elements between the linear memory and the CUDA array, without waiting for the copy.
    void fill(Stream stream);
    void read_back(Stream stream);

    // Destroys the object and the CUDA array. No kernel may use them any more.
    void destroy();

  private:
    void create();
    void create_array();
    void copy(Stream stream, bool to_array);
    [[nodiscard]] std::string limits() const;

    Device& device_;
    TextureDescription d_;
    Address elements_;
    std::string what_;
    uint64_t generation_;
    ArrayHandle array_ = nullptr;
    MipmapHandle mipmap_ = nullptr;  // only with several levels; then array_ is null
    uint64_t handle_ = 0;
};

}  // namespace coalesce::cuda
