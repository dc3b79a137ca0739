// Tests texture objects: how they are stored as bytes, which objects are refused, and the layout of
// their arrays. Texture instructions are tested in tests/python/instructions/test_textures.py.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "sim/memory/texture.hpp"

namespace coalesce::sim {
namespace {

TextureObject picture(uint32_t width, uint32_t height) {
    TextureObject o;
    o.address = 4096;
    o.dimensions = 2;
    o.width = width, o.height = height;
    o.row_bytes = uint64_t{width} * o.texel_bytes();
    return o;
}

TEST(TextureObjects, TheirBytesCanBeReadBack) {
    TextureObject o = picture(7, 5);
    o.mode[1] = AddressMode::border;
    o.border[3] = 2.5f;
    const TextureObjectBytes bytes = encode(o);
    const auto back = texture_object_in(bytes.data());
    ASSERT_TRUE(back);
    EXPECT_EQ(back->width, 7u);
    EXPECT_EQ(back->address, 4096u);
    EXPECT_EQ(back->mode[1], AddressMode::border);
    EXPECT_EQ(back->border[3], 2.5f);
}

TEST(TextureObjects, ChangedBytesAreRefused) {
    for (size_t n = 0; n < texture_object_bytes; ++n) {
        TextureObjectBytes bytes = encode(picture(7, 5));
        bytes[n] ^= std::byte{1};
        EXPECT_FALSE(texture_object_in(bytes.data())) << n;
    }
}

TEST(TextureObjects, LevelsFollowEachOther) {
    TextureObject o = picture(8, 3);
    o.levels = 4;
    o.normalized_coordinates = true;
    EXPECT_EQ(o.offset_of(0), 0u);
    EXPECT_EQ(o.offset_of(1), 8u * 3 * 4);
    EXPECT_EQ(o.offset_of(2), (8u * 3 + 4 * 1) * 4);
    EXPECT_EQ(o.bytes(), (8u * 3 + 4 + 2 + 1) * 4);
    EXPECT_EQ(problem(o), "");
}

TEST(TextureObjects, RowsMayHaveGaps) {
    TextureObject o = picture(7, 5);
    o.memory = TextureMemory::pitched;
    o.row_bytes = 512;
    EXPECT_EQ(o.bytes(), 4u * 512 + 28);
}

TEST(TextureObjects, WrongObjectsHaveAReason) {
    const auto wrong = [](auto change) {
        TextureObject o = picture(8, 8);
        change(o);
        return problem(o);
    };
    using O = TextureObject&;
    EXPECT_EQ(wrong([](O) {}), "");
    EXPECT_NE(wrong([](O o) { o.channels = 3; }), "");
    EXPECT_NE(wrong([](O o) { o.channel_bits = 8; }), "");
    EXPECT_NE(wrong([](O o) { o.width = 0; }), "");
    EXPECT_NE(wrong([](O o) { o.width = 1u << 30, o.row_bytes = 1ull << 32; }), "");
    EXPECT_NE(wrong([](O o) { o.row_bytes = 31; }), "");
    EXPECT_NE(wrong([](O o) { o.cube = true; }), "");
    EXPECT_NE(wrong([](O o) { o.normalized_read = true; }), "");
    EXPECT_NE(wrong([](O o) { o.levels = 2; }), "");
    EXPECT_NE(wrong([](O o) { o.kind = TexelKind::integer, o.linear_filter = true; }), "");
}

// No coordinate may lead outside the array.
TEST(TextureObjects, ExtremeCoordinatesStayInside) {
    const std::array<float, 6> texels = {1, 2, 3, 4, 5, 6};
    constexpr float huge = std::numeric_limits<float>::max();
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const AddressMode mode :
         {AddressMode::wrap, AddressMode::clamp, AddressMode::mirror, AddressMode::border}) {
        for (const bool normalized : {false, true}) {
            for (const bool linear : {false, true}) {
                TextureObject o = picture(3, 2);
                o.mode[0] = o.mode[1] = mode;
                o.linear_filter = linear, o.normalized_coordinates = normalized;
                for (const float x : {0.f, -0.f, 1.f, std::nextafter(1.f, 0.f), 1e-45f, -1e-45f,
                                      huge, -huge, infinity, -infinity, std::nanf("")}) {
                    TextureAccess access;
                    access.geometry.dimensions = 2;
                    TexturePoint point;
                    point.coordinate[0] = x, point.coordinate[1] = -x;
                    TexelList read;
                    const auto* data = reinterpret_cast<const std::byte*>(texels.data());
                    (void)fetch(o, access, point, data, read);
                    (void)gather(o, access, point, data, read);
                    ASSERT_LE(read.count, 16u);
                    for (uint32_t n = 0; n < read.count; ++n)
                        ASSERT_LE(read.offset[n] + 4, sizeof texels) << x;
                }
            }
        }
    }
}

}  // namespace
}  // namespace coalesce::sim
