// The arithmetic of a linear texture filter.
//
// METHOD
// NVIDIA documents that a filter returns a weighted sum of the texels around a point, and that
// weights have 8 bits. How the sum is rounded is not documented. The rules in texture_filter.cpp
// were found by comparing sums with those of an H100: tests/data/textures_h100.npz has the recorded
// results, and tests/python/instructions/test_recorded_textures.py compares them bit by bit.
#pragma once

#include <array>
#include <cstdint>

namespace coalesce::sim {

struct FloatFormat;
struct TextureObject;

// The weighted sum of up to sixteen texels, for one channel.
class FilterSum {
  public:
    explicit FilterSum(const TextureObject& object) : object_(&object) {}

    // Begins a slice of at most four texels, which have the same level and the same z. The rounding
    // of a sum of floats depends on the slices.
    void begin_slice() { ++slices_; }
    // Adds a texel to the slice. `stored` is the channel of the texel as it is stored. The weights
    // of all texels of a fetch add up to 256.
    void add(int32_t stored, int32_t weight) {
        Slice& slice = slice_[slices_ - 1];
        slice.texel[slice.count++] = {stored, weight};
    }

    // Returns the bits of the sum, a float.
    [[nodiscard]] uint32_t bits() const;

  private:
    struct Texel {
        int32_t stored, weight;
    };
    struct Slice {
        std::array<Texel, 4> texel;
        int count = 0;
    };

    [[nodiscard]] float sum_of_integers() const;
    [[nodiscard]] float sum_of_floats(const FloatFormat& format) const;
    [[nodiscard]] float value_of(int32_t stored) const;

    const TextureObject* object_;
    std::array<Slice, 4> slice_;
    int slices_ = 0;
};

}  // namespace coalesce::sim
