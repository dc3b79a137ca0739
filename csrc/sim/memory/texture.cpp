#include "sim/memory/texture.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "sim/memory/checksum.hpp"
#include "sim/memory/floats.hpp"
#include "sim/memory/texture_filter.hpp"

namespace coalesce::sim {

uint64_t TextureObject::offset_of(uint32_t level) const {
    uint64_t offset = 0;
    for (uint32_t l = 0; l < level; ++l) offset += slice_bytes_of(l) * depth_of(l) * layers;
    return offset;
}

uint64_t TextureObject::bytes() const {
    // The last row of pitched memory may end after its last texel, without the gap that follows
    // other rows.
    if (memory == TextureMemory::pitched)
        return row_bytes * (height - 1) + uint64_t{width} * texel_bytes();
    return offset_of(levels);
}

std::string problem(const TextureObject& o) {
    const bool channels = o.channels == 1 || o.channels == 2 || o.channels == 4;
    const bool bits = o.channel_bits == 16 || o.channel_bits == 32 ||
                      (o.channel_bits == 8 && o.kind != TexelKind::floating);
    if (!channels || !bits)
        return "a texel has 1, 2 or 4 channels, which are integers of 8, 16 or 32 bits or floats "
               "of 16 or 32 bits";
    constexpr uint32_t max_linear = 1u << 31, most = 1u << 17, max_layers = 1u << 12;
    const bool linear = o.memory == TextureMemory::linear;
    if (o.width == 0 || o.height == 0 || o.depth == 0 || o.layers == 0 ||
        o.width > (linear ? max_linear : most) || o.height > most || o.depth > most ||
        o.layers > max_layers || o.levels == 0 || o.levels > 32)
        return "an extent is 0 or larger than a GPU allows";
    if (o.row_bytes < uint64_t{o.width} * o.texel_bytes() || o.row_bytes >> 40)
        return "the pitch is smaller than a row";
    if (o.cube && (o.layers % 6 != 0 || o.width != o.height))
        return "a cube map must have square faces, and its number of layers must be a multiple of "
               "6";
    if (o.bytes() >> 46) return "the array is larger than the memory of a GPU";
    if (o.surface) return "";
    const bool floats = o.kind == TexelKind::floating || o.normalized_read;
    if (o.normalized_read && (o.kind == TexelKind::floating || o.channel_bits == 32))
        return "only integers of 8 or 16 bits can be read as normalized floats";
    if (o.linear_filter && !floats) return "only texels that are read as floats can be filtered";
    if (o.levels > 1 && !o.normalized_coordinates)
        return "a mipmapped texture needs normalized coordinates";
    return "";
}

namespace {

constexpr uint64_t mark = 0x3a6572757478657c;

struct Layout {
    uint64_t mark, checksum;
    TextureObject object;
};
static_assert(sizeof(Layout) <= texture_object_bytes);

uint64_t checksum_of(TextureObjectBytes bytes) {
    std::memset(bytes.data() + offsetof(Layout, checksum), 0, sizeof(uint64_t));
    return fnv1a(bytes.data(), bytes.size());
}

}  // namespace

TextureObjectBytes encode(const TextureObject& object) {
    TextureObjectBytes bytes{};
    std::memcpy(bytes.data(), &mark, sizeof mark);
    std::memcpy(bytes.data() + offsetof(Layout, object), &object, sizeof object);
    const uint64_t sum = checksum_of(bytes);
    std::memcpy(bytes.data() + offsetof(Layout, checksum), &sum, sizeof sum);
    return bytes;
}

std::optional<TextureObject> texture_object_in(const std::byte* source) {
    TextureObjectBytes bytes;
    std::memcpy(bytes.data(), source, bytes.size());
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    if (word != mark) return {};
    std::memcpy(&word, bytes.data() + offsetof(Layout, checksum), sizeof word);
    if (word != checksum_of(bytes)) return {};
    TextureObject object;
    std::memcpy(&object, bytes.data() + offsetof(Layout, object), sizeof object);
    return object;
}

namespace {

// The texels along one dimension between which a fetch interpolates. The index -1 stands for the
// color of the border.
struct TexelPair {
    int64_t first = 0, second = 0;
    int32_t weight = 0;  // the weight of the second texel, in units of 1/256
};

// Returns the index of a texel inside the array, or -1 for the border.
int64_t in_range(int64_t i, int64_t extent, AddressMode mode) {
    if (i >= 0 && i < extent) return i;
    if (mode == AddressMode::border) return -1;
    if (mode == AddressMode::clamp) return std::clamp<int64_t>(i, 0, extent - 1);
    const int64_t period = mode == AddressMode::wrap ? extent : 2 * extent;
    const int64_t folded = (i % period + period) % period;
    return folded < extent ? folded : period - 1 - folded;
}

// Returns the address mode of a dimension. The modes `wrap` and `mirror` need normalized
// coordinates. Without these, `clamp` is used instead.
AddressMode mode_of(const TextureObject& o, uint32_t dimension) {
    if (o.cube) return AddressMode::clamp;
    const AddressMode mode = o.mode[dimension];
    const bool repeats = mode == AddressMode::wrap || mode == AddressMode::mirror;
    return repeats && !o.normalized_coordinates ? AddressMode::clamp : mode;
}

// Returns std::floor(x). std::floor() itself is a slow function call on older processors.
int64_t floor_to_integer(double x) {
    const auto truncated = int64_t(x);
    return truncated - (double(truncated) > x ? 1 : 0);
}

// A position along one dimension, in units of 2^-21 texels.
using Position = int64_t;
constexpr int position_bits = 21;

// Returns the position of a coordinate. A normalized coordinate is rounded down to a multiple of
// 2^-21 before it is multiplied by the extent.
Position position(float x, bool normalized, uint32_t extent, AddressMode mode) {
    if (std::isnan(x) || std::fabs(x) < 0x1p-126f) x = 0;  // subnormal numbers count as 0
    const bool repeats = mode == AddressMode::wrap || mode == AddressMode::mirror;
    // The result must fit in 63 bits. Beyond these limits, a texel does not depend on the
    // coordinate.
    const double limit = repeats ? 0x1p40 : normalized ? 0x1p20 : 0x1p30;
    int64_t fixed = floor_to_integer(std::clamp(double(x), -limit, limit) * (1 << position_bits));
    if (repeats) fixed &= (2 << position_bits) - 1;  // both modes repeat after two periods
    return normalized ? fixed * extent : fixed;
}

TexelPair nearest(Position at, uint32_t extent, AddressMode mode) {
    const int64_t i = in_range(at >> position_bits, extent, mode);
    return {i, i, 0};
}

// Returns the two texels around a position, for linear filtering. The distance from the center of
// the first texel, rounded to a multiple of 1/256, is the weight of the second texel.
TexelPair texels_around(Position at, uint32_t extent, AddressMode mode) {
    constexpr Position half_texel = Position{1} << (position_bits - 1);
    constexpr int below_weight = position_bits - 8;
    const int64_t fixed = (at - half_texel + (1 << (below_weight - 1))) >> below_weight;
    const int64_t i = fixed >> 8;
    const int64_t first = in_range(i, extent, mode), second = in_range(i + 1, extent, mode);
    const bool clamped = first == second && mode == AddressMode::clamp;
    return {first, second, clamped ? 0 : int32_t(fixed & 255)};
}

// Returns one channel of a texel as an integer or, for floats, their bits.
int32_t stored_channel(const TextureObject& o, const std::byte* texel, uint32_t n) {
    if (o.channel_bits == 32) {
        int32_t word;
        std::memcpy(&word, texel + 4 * size_t{n}, 4);
        return word;
    }
    uint32_t bits = 0;
    if (o.channel_bits == 16) {
        uint16_t half;
        std::memcpy(&half, texel + 2 * size_t{n}, 2);
        bits = half;
    } else {
        bits = uint32_t(texel[n]);
    }
    if (o.kind != TexelKind::integer) return int32_t(bits);
    const uint32_t shift = 32u - o.channel_bits;
    return int32_t(bits << shift) >> shift;
}

// Returns the largest value of an integer channel.
int32_t largest_value(const TextureObject& o) {
    return int32_t((1u << (o.channel_bits - (o.kind == TexelKind::integer ? 1 : 0))) - 1);
}

// Returns what a fetch of a single texel returns for a channel.
uint32_t read_channel(const TextureObject& o, int32_t stored) {
    if (o.kind == TexelKind::floating)
        return o.channel_bits == 32
                   ? uint32_t(stored)
                   : std::bit_cast<uint32_t>(COALESCE_ISA::half_to_float(uint16_t(stored)));
    if (!o.normalized_read) return uint32_t(stored);
    return std::bit_cast<uint32_t>(std::max(float(stored) / float(largest_value(o)), -1.0f));
}

// Returns the color of the border as a stored channel. If the texels are integers, the hardware
// takes the lowest bits of the float. Only normalized reads convert the color to an integer.
int32_t border_channel(const TextureObject& o, uint32_t n) {
    const float color = o.border[n];
    if (o.kind == TexelKind::floating && o.channel_bits == 16)
        return COALESCE_ISA::float_to_half(color);
    if (o.normalized_read) {
        const float least = o.kind == TexelKind::integer ? -1.0f : 0.0f;
        const float inside = std::isnan(color) ? 0.0f : std::clamp(color, least, 1.0f);
        return int32_t(std::lrint(inside * float(largest_value(o))));
    }
    std::byte bytes[4];
    std::memcpy(bytes, &color, 4);
    return stored_channel(o, bytes, 0);
}

// The place of a point in the array: the texels around it in each dimension, the layer, and the
// level.
struct SamplePosition {
    TexelPair span[3];
    uint32_t layer = 0, level = 0;
};

// The channels of a texel as they are stored.
using Stored = std::array<int32_t, 4>;

class Reader {
  public:
    Reader(const TextureObject& o, const std::byte* data, TexelList& read)
        : o_(o), data_(data), read_(read) {}

    // Returns the channels of a texel. An index of -1 stands for the color of the border.
    Stored texel(const SamplePosition& at, int64_t x, int64_t y, int64_t z) {
        Stored stored{};
        if (x < 0 || y < 0 || z < 0) {
            for (uint32_t n = 0; n < o_.channels; ++n) stored[n] = border_channel(o_, n);
            return stored;
        }
        const uint64_t slice = o_.layered || o_.cube ? at.layer : uint64_t(z);
        uint64_t offset = uint64_t(y) * o_.row_bytes_of(at.level) + uint64_t(x) * o_.texel_bytes();
        if (slice) offset += slice * o_.slice_bytes_of(at.level);
        if (at.level) offset += o_.offset_of(at.level);
        if (read_.count < std::size(read_.offset)) read_.offset[read_.count++] = offset;
        for (uint32_t n = 0; n < o_.channels; ++n)
            stored[n] = stored_channel(o_, data_ + offset, n);
        return stored;
    }

    // Returns what a fetch without a filter returns.
    TexelBits nearest_texel(const SamplePosition& at) {
        const Stored stored = texel(at, at.span[0].first, at.span[1].first, at.span[2].first);
        TexelBits bits{};
        for (uint32_t n = 0; n < o_.channels; ++n) bits[n] = read_channel(o_, stored[n]);
        return bits;
    }

    // Adds the texels around a place to a sum. Their weights add up to `share`.
    void add(const SamplePosition& at, int32_t share, FilterSum (&sums)[4]) {
        const TexelPair& z = at.span[2];
        const int32_t back = weight_of(share, z.weight);
        add_slice(at, z.first, share - back, sums);
        if (back) add_slice(at, z.second, back, sums);
    }

  private:
    // Returns share * part / 256, rounded to the nearest integer. A tie is rounded up.
    static int32_t weight_of(int32_t share, int32_t part) { return (share * part + 128) >> 8; }

    // The weights of the four texels of a slice add up to `share`. For each x, one weight is
    // rounded, and the weight of the other y is the rest.
    void add_slice(const SamplePosition& at, int64_t z, int32_t share, FilterSum (&sums)[4]) {
        for (FilterSum& sum : sums) sum.begin_slice();
        const TexelPair &x = at.span[0], &y = at.span[1];
        const int32_t right = weight_of(share, x.weight), left = share - right;
        const int32_t lower_right = weight_of(right, y.weight);
        const int32_t upper_left = weight_of(left, 256 - y.weight);
        const auto add_texel = [&](int64_t column, int64_t row, int32_t weight) {
            if (weight == 0) return;  // this texel is not read
            const Stored stored = texel(at, column, row, z);
            for (uint32_t n = 0; n < o_.channels; ++n) sums[n].add(stored[n], weight);
        };
        add_texel(x.first, y.first, upper_left);
        add_texel(x.second, y.first, right - lower_right);
        add_texel(x.first, y.second, left - upper_left);
        add_texel(x.second, y.second, lower_right);
    }

    const TextureObject& o_;
    const std::byte* data_;
    TexelList& read_;
};

// Returns the face of a cube to which the direction `at` points, and sets `on_face` to the point on
// that face (CUDA C++ Programming Guide, "Cubemap Textures"). If two components are equally large,
// the guide names no face; GPUs then prefer z to y, and y to x. A NaN counts as the smallest
// component. `divided` is true for machine code: it has multiplied the components by the reciprocal
// of the largest one before the fetch.
uint32_t to_face(const float (&at)[3], bool divided, float (&on_face)[3]) {
    float component[3] = {at[0], at[1], at[2]};
    if (!divided) {
        float by = 1 / std::fmax(std::fmax(std::fabs(at[0]), std::fabs(at[1])), std::fabs(at[2]));
        if (by < 0x1p-126f) by = 0;  // MUFU.RCP flushes a subnormal result to zero
        for (float& c : component) c *= by;
    }
    float size[3];
    for (int n = 0; n < 3; ++n) {
        size[n] = std::isnan(component[n]) ? -1 : std::fabs(component[n]);
        if (std::isnan(component[n])) component[n] = 0;
    }
    const auto [x, y, z] = component;
    const auto [ax, ay, az] = size;
    float s = z < 0 ? -x : x, t = -y;
    uint32_t face = z < 0 ? 5 : 4;
    if (ax > ay && ax > az)
        s = x < 0 ? z : -z, t = -y, face = x < 0 ? 1 : 0;
    else if (ay > az)
        s = x, t = y < 0 ? -z : z, face = y < 0 ? 3 : 2;
    on_face[0] = (s + 1) / 2;
    on_face[1] = (t + 1) / 2;
    on_face[2] = 0;
    return face;
}

uint32_t extent_of(const TextureObject& o, uint32_t dimension, uint32_t level) {
    return dimension == 0   ? o.width_of(level)
           : dimension == 1 ? o.height_of(level)
                            : o.depth_of(level);
}

SamplePosition sample_position(const TextureObject& o, const TextureAccess& access,
                               const TexturePoint& point, uint32_t level, bool linear) {
    const bool on_cube = access.geometry.cube;
    SamplePosition at;
    at.level = level;
    const uint32_t layers = o.layers / (on_cube ? 6 : 1);
    at.layer = access.geometry.layered ? std::min(point.layer, layers - 1) : 0;
    float coordinate[3] = {point.coordinate[0], point.coordinate[1], point.coordinate[2]};
    if (on_cube) at.layer = 6 * at.layer + to_face(point.coordinate, access.divided, coordinate);
    for (uint32_t d = 0; d < access.geometry.dimensions && d < o.dimensions; ++d) {
        const uint32_t extent = extent_of(o, d, level);
        const AddressMode mode = mode_of(o, d);
        const Position x =
            position(coordinate[d], o.normalized_coordinates || on_cube, extent, mode);
        at.span[d] = linear ? texels_around(x, extent, mode) : nearest(x, extent, mode);
    }
    // For a one-dimensional array, the hardware fetches as if there were a second dimension with
    // one texel, and y were 0. In the address mode `border`, half of the result is therefore the
    // color of the border. Machine code has an instruction of two dimensions for it.
    if (linear && std::min(access.geometry.dimensions, o.dimensions) == 1 && !on_cube)
        at.span[1] = texels_around(0, 1, mode_of(o, 1));
    return at;
}

// Returns the texel at integer coordinates (tex.2d.v4.f32.s32). Outside the array, it is zero for
// every address mode. The coordinates count the texels of the level that the instruction selects.
TexelBits at_integers(const TextureObject& o, const TextureAccess& access,
                      const TexturePoint& point, Reader& reader) {
    SamplePosition at;
    if (o.levels > 1 && access.level_form != LevelForm::base)
        at.level = uint32_t(
            std::clamp<double>(std::isnan(point.level) ? 0 : point.level, 0, o.levels - 1));
    at.layer = access.geometry.layered ? std::min(point.layer, o.layers - 1) : 0;
    for (uint32_t d = 0; d < access.geometry.dimensions && d < o.dimensions; ++d) {
        const int64_t i = point.integer[d];
        if (i < 0 || i >= int64_t{extent_of(o, d, at.level)}) return {};
        at.span[d] = {i, i, 0};
    }
    return reader.nearest_texel(at);
}

}  // namespace

TexelBits fetch(const TextureObject& o, const TextureAccess& access, const TexturePoint& point,
                const std::byte* data, TexelList& read) {
    Reader reader(o, data, read);
    if (o.memory == TextureMemory::linear) {
        const int64_t x = access.integer_coordinates ? point.integer[0] : -1;
        if (x < 0 || x >= int64_t{o.width}) return {};
        SamplePosition at;
        at.span[0] = {x, x, 0};
        return reader.nearest_texel(at);
    }
    if (access.integer_coordinates) return at_integers(o, access, point, reader);
    const auto sum = [&](uint32_t low, uint32_t high, int32_t weight) {
        FilterSum sums[4] = {FilterSum(o), FilterSum(o), FilterSum(o), FilterSum(o)};
        reader.add(sample_position(o, access, point, low, o.linear_filter), 256 - weight, sums);
        if (weight)
            reader.add(sample_position(o, access, point, high, o.linear_filter), weight, sums);
        TexelBits bits{};
        for (uint32_t n = 0; n < o.channels; ++n) bits[n] = sums[n].bits();
        return bits;
    };
    const auto at_level = [&](uint32_t level) {
        return o.linear_filter
                   ? sum(level, level, 0)
                   : reader.nearest_texel(sample_position(o, access, point, level, false));
    };
    if (o.levels == 1) return at_level(0);
    // Levels are multiples of 1/256, rounded towards zero.
    const auto fixed = [](float level) {
        return int(std::clamp(std::isnan(level) ? 0.0 : double(level), -1000.0, 1000.0) * 256);
    };
    const int last = 256 * int(o.levels - 1);
    const int least = std::clamp(fixed(o.min_level), 0, last);
    const int most = std::clamp(fixed(o.max_level), least, last);
    // Without a level, machine code asks for level -32, which is the least level for every bias.
    const int level = access.level_form == LevelForm::base
                          ? least
                          : std::clamp(fixed(point.level) + fixed(o.level_bias), least, most);
    const bool floats = o.kind == TexelKind::floating || o.normalized_read;
    if (!o.linear_between_levels || !floats) return at_level(uint32_t(level + 128) >> 8);
    const auto low = uint32_t(level) >> 8;
    return level & 255 ? sum(low, low + 1, level & 255) : at_level(low);
}

TexelBits gather(const TextureObject& o, const TextureAccess& access, const TexturePoint& point,
                 const std::byte* data, TexelList& read) {
    Reader reader(o, data, read);
    const SamplePosition at = sample_position(o, access, point, 0, true);
    const TexelPair &x = at.span[0], &y = at.span[1];
    const auto one = [&](int64_t column, int64_t row) {
        return read_channel(o, reader.texel(at, column, row, 0)[access.component]);
    };
    // The four texels form a square. The results have the order of its corners: counter-clockwise,
    // beginning at the lower left.
    const uint32_t lower_left = one(x.first, y.second), lower_right = one(x.second, y.second);
    const uint32_t upper_right = one(x.second, y.first), upper_left = one(x.first, y.first);
    return {lower_left, lower_right, upper_right, upper_left};
}

float level_of(const TextureObject& o, const float (&dx)[3], const float (&dy)[3]) {
    double x[3], y[3], sum[3], difference[3];
    for (uint32_t n = 0; n < 3; ++n) {
        x[n] = double(dx[n]) * extent_of(o, n, 0);
        y[n] = double(dy[n]) * extent_of(o, n, 0);
        sum[n] = x[n] + y[n];
        difference[n] = x[n] - y[n];
    }
    // For a derivative that is infinite or NaN, a GPU reads the last level.
    constexpr float beyond_all_levels = 1000;
    for (uint32_t n = 0; n < 3; ++n)
        if (!std::isfinite(x[n]) || !std::isfinite(y[n])) return beyond_all_levels;
    // The formula was found by comparing levels with those of an H100, which differ by less than
    // 2/256 from these. Derivatives in three dimensions were not compared.
    const auto length = [](const double (&v)[3]) {
        const double a = std::fabs(v[0]), b = std::fabs(v[1]), c = std::fabs(v[2]);
        const double largest = std::max({a, b, c});
        return largest + 11.0 / 32 * (a + b + c - largest);
    };
    const double most =
        std::max({length(x), length(y), 11.0 / 16 * length(sum), 11.0 / 16 * length(difference)});
    return most > 0 ? float(std::log2(most)) : 0.0f;
}

uint32_t query_result(const TextureObject& o, TextureQuery query, uint32_t level) {
    // Values of cl_channel_type and cl_channel_order in OpenCL's header cl.h, which PTX uses.
    constexpr uint32_t snorm8 = 0x10d0, snorm16 = 0x10d1, unorm8 = 0x10d2, unorm16 = 0x10d3;
    constexpr uint32_t s8 = 0x10d7, u8 = 0x10da, half = 0x10dd, order_r = 0x10b0, order_rg = 0x10b2,
                       order_rgba = 0x10b5;
    const uint32_t wider = o.channel_bits == 8 ? 0 : o.channel_bits == 16 ? 1 : 2;
    const bool plus_minus = o.kind == TexelKind::integer;
    switch (query) {
        case TextureQuery::width:
            return o.width_of(level);
        case TextureQuery::height:
            return o.dimensions >= 2 ? o.height_of(level) : 0;
        case TextureQuery::depth:
            return o.dimensions >= 3 ? o.depth_of(level) : 0;
        case TextureQuery::channel_data_type:
            if (o.kind == TexelKind::floating) return o.channel_bits == 16 ? half : half + 1;
            if (o.normalized_read && o.channel_bits == 8) return plus_minus ? snorm8 : unorm8;
            if (o.normalized_read) return plus_minus ? snorm16 : unorm16;
            return (plus_minus ? s8 : u8) + wider;
        case TextureQuery::channel_order:
            return o.channels == 1 ? order_r : o.channels == 2 ? order_rg : order_rgba;
        case TextureQuery::normalized_coordinates:
            return o.normalized_coordinates ? 1 : 0;
        case TextureQuery::array_size:
            return o.layered ? o.layers / (o.cube ? 6 : 1) : 0;
        case TextureQuery::levels:
            return o.levels;
    }
    return 0;
}

}  // namespace coalesce::sim
