// Tests of texture and surface instructions in machine code, in forms that the kernels of
// tests/texture_cases.py do not have. The texels are floats: in layer l, row
// y and column x, channel c of the texture has the value 100 l + 10 y + x + c / 4.
#include <array>
#include <cstring>

#include "sass/rows.hpp"
#include "sim/memory/texture.hpp"

namespace coalesce::sass {
namespace {

constexpr uint32_t width = 8, height = 4, layers = 2, channels = 4;

struct Picture {
    std::array<float, size_t{layers} * height * width * channels> texels{};
    sim::TextureObjectBytes object{};

    static float at(float l, float y, float x, float c) { return 100 * l + 10 * y + x + c / 4; }

    // Adds the texels, and an object with the handle objects_base.
    void add_to(sim::AddressSpace& space, bool layered, bool surface) {
        size_t n = 0;
        for (uint32_t l = 0; l < layers; ++l)
            for (uint32_t y = 0; y < height; ++y)
                for (uint32_t x = 0; x < width; ++x)
                    for (uint32_t c = 0; c < channels; ++c)
                        texels[n++] = at(float(l), float(y), float(x), float(c));
        sim::Buffer data;
        data.name = "texels";
        data.bytes = sizeof texels;
        data.host = reinterpret_cast<std::byte*>(texels.data());
        sim::TextureObject o;
        o.address = space.add(data);
        o.dimensions = 2;
        o.width = width, o.height = height;
        o.layered = layered;
        if (layered) o.layers = layers;
        o.surface = surface;
        o.channels = channels;
        o.row_bytes = uint64_t{width} * o.texel_bytes();
        ASSERT_EQ(sim::problem(o), "");
        object = sim::encode(o);
        sim::Buffer place;
        place.name = "object";
        place.bytes = object.size();
        place.host = object.data();
        place.writable = false;
        ASSERT_EQ(space.add_object(place), sim::objects_base);
    }
};

// `setup` prepares the coordinates, and `code` fetches. The results in R0 and R1 are the floats
// `first` and `second`.
struct Fetch {
    std::vector<std::string> setup;
    std::string code;
    float first, second;
    bool layered = false;
};

void expect(const std::vector<Fetch>& rows, bool surface) {
    for (const sim::Isa isa : sim::instruction_sets()) {
        for (const Fetch& row : rows) {
            Picture picture;
            std::vector<std::string> code{"UMOV UR4, 0xc0000000", "UMOV UR5, URZ"};
            code.insert(code.end(), row.setup.begin(), row.setup.end());
            code.push_back(row.code);
            std::vector<Results> results;
            ASSERT_NO_THROW(results = run_machine(code, std::vector<sim::Words>(40), isa,
                                                  [&](sim::AddressSpace& space) {
                                                      picture.add_to(space, row.layered, surface);
                                                  }))
                << row.code;
            for (const Results& r : results) {
                ASSERT_EQ(std::bit_cast<float>(u32(r.value)), row.first) << row.code;
                ASSERT_EQ(std::bit_cast<float>(u32(r.value >> 32)), row.second) << row.code;
                ASSERT_FALSE(r.p) << row.code;
            }
            expect_every_word_counts({row.code});
        }
    }
}

const std::string one = "0x3f800000", two = "0x40000000", three = "0x40400000";

std::string move(int to, const std::string& bits) {
    return "MOV R" + std::to_string(to) + ", " + bits;
}

TEST(SassLift, Textures) {
    const std::vector<std::string> point{move(10, three), move(11, two), move(12, "0xc2000000")};
    std::vector<std::string> absent = point;
    absent.emplace_back("ISETP.EQ.AND P0, PT, RZ, RZ, PT");
    const auto p = [](float c, float l = 0) { return Picture::at(l, 2, 3, c); };
    const std::vector<std::string> layered{move(10, "0x1"), move(11, three), move(12, two),
                                           move(13, "0xc2000000")};
    const std::vector<std::string> integers{move(10, "0x3"), move(11, "0x2")};
    const std::vector<std::string> integers_of_layer{move(10, "0x1"), move(11, "0x3"),
                                                     move(12, "0x2")};
    const std::vector<std::string> gradients{move(10, three), move(11, two), move(12, "0x1"),
                                             move(16, one),   move(17, one), move(18, one),
                                             move(19, one)};
    expect(
        {
            {point, "TEX.LL R8, R0, R10, R12, UR4, 0x0, 2D", p(0), p(1)},
            {point, "TEX.LL R0, R8, R10, R12, UR4, 0x0, 2D", p(2), p(3)},
            {point, "TEX.LL RZ, R0, R10, R12, UR4, 0x0, 2D, 0x1", p(0), 0},
            {point, "TEX.LL RZ, R0, R10, R12, UR4, 0x0, 2D, 0x8", p(3), 0},
            {point, "TEX.LL RZ, R0, R10, R12, UR4, 0x0, 2D, 0xa", p(1), p(3)},
            {point, "TEX.LL R0, R8, R10, R12, UR4, 0x0, 2D, 0xb", p(3), 0},
            {point, "TEX.LZ RZ, R0, R10, UR4, 0x0, 2D, 0x3", p(0), p(1)},
            {point, "@!PT TEX.LZ RZ, R0, R10, UR4, 0x0, 2D, 0x3", 0, 0},
            {absent, "TEX.LL P0, RZ, R0, R10, R12, UR4, 0x0, 2D, 0x2", p(1), 0},
            {layered, "TEX.LL RZ, R0, R10, R13, UR4, 0x0, ARRAY_2D, 0x5", p(0, 1), p(2, 1), true},
            {integers, "TLD.LL.CL RZ, R0, R10, RZ, UR4, 0x0, 2D, 0x3", p(0), p(1)},
            {integers_of_layer, "TLD.LZ RZ, R0, R10, UR4, 0x0, ARRAY_2D, 0x4", p(2, 1), 0, true},
            {gradients, "TXD RZ, R0, R10, R16, UR4, 0x0, ARRAY_2D, 0x3", p(0, 1), p(1, 1), true},
        },
        false);
}

TEST(SassLift, Surfaces) {
    // The first coordinate counts bytes: column 3 begins at byte 48.
    const std::vector<std::string> place{move(10, "0x30"), move(11, "0x2"), move(12, "0x1")};
    const std::vector<std::string> out_of_range{move(10, "0x30"), move(11, "0x9")};
    const auto p = [](float c, float l = 0) { return Picture::at(l, 2, 3, c); };
    std::vector<std::string> written = place;
    written.insert(written.end(), {move(6, three), move(7, two),
                                   "SUST.D.BA.2D.64.STRONG.SM.TRAP [R10], R6, UR4, 0x0",
                                   "BAR.SYNC.DEFER_BLOCKING 0x0"});
    std::vector<std::string> ignored = out_of_range;
    ignored.insert(ignored.end(), {move(6, three), "SUST.D.BA.2D.STRONG.SM.IGN [R10], R6, UR4, 0x0",
                                   move(11, "0x2"), "BAR.SYNC.DEFER_BLOCKING 0x0"});
    expect(
        {
            {place, "SULD.D.BA.2D.STRONG.SM.TRAP R0, [R10], UR4, 0x0", p(0), 0},
            {place, "SULD.D.BA.2D.64.STRONG.SM.TRAP R0, [R10], UR4, 0x0", p(0), p(1)},
            {place, "SULD.D.BA.2D_ARRAY.64.STRONG.SM.TRAP R0, [R10], UR4, 0x0", p(0, 1), p(1, 1),
             true},
            {out_of_range, "SULD.D.BA.2D.64.STRONG.SM R0, [R10], UR4, 0x0", Picture::at(0, 3, 3, 0),
             Picture::at(0, 3, 3, 1)},
            {out_of_range, "SULD.D.BA.2D.64.STRONG.SM.IGN R0, [R10], UR4, 0x0", 0, 0},
            {written, "SULD.D.BA.2D.64.STRONG.SM.TRAP R0, [R10], UR4, 0x0", 3, 2},
            {ignored, "SULD.D.BA.2D.STRONG.SM.TRAP R0, [R10], UR4, 0x0", p(0), 0},
            {place, "SULD.D.BA.2D.U8.STRONG.SM.TRAP R0, [R10], UR4, 0x0",
             std::bit_cast<float>(std::bit_cast<u32>(p(0)) & 0xff), 0},
        },
        true);
}

}  // namespace
}  // namespace coalesce::sass
