#include "sim/texture.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "sim/floats.hpp"

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
    constexpr uint32_t most_linear = 1u << 28, most = 1u << 17, most_layers = 1u << 12;
    const bool linear = o.memory == TextureMemory::linear;
    if (o.width == 0 || o.height == 0 || o.depth == 0 || o.layers == 0 ||
        o.width > (linear ? most_linear : most) || o.height > most || o.depth > most ||
        o.layers > most_layers || o.levels == 0 || o.levels > 32)
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
    uint64_t sum = 0xcbf29ce484222325;  // the start value of the FNV-1a checksum
    for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
        uint64_t word;
        std::memcpy(&word, &bytes[at], sizeof word);
        sum = (sum ^ word) * 0x100000001b3;
    }
    return sum;
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

std::optional<TextureObject> texture_object_in(const std::byte* given) {
    TextureObjectBytes bytes;
    std::memcpy(bytes.data(), given, bytes.size());
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

// Positions are clamped to this range, so that they fit in integers.
constexpr double farthest = double(1 << 30);

// The texels along one dimension between which a fetch interpolates. The index -1 stands for the
// color of the border.
struct Span {
    int64_t first = 0, second = 0;
    uint32_t weight = 0;  // the weight of the second texel, in units of 1/256
};

int64_t in_range(int64_t i, int64_t extent, AddressMode mode) {
    if (i >= 0 && i < extent) return i;
    if (mode == AddressMode::border) return -1;
    if (mode == AddressMode::wrap) return (i % extent + extent) % extent;
    return std::clamp<int64_t>(i, 0, extent - 1);
}

// Returns the address mode of a dimension. The modes `wrap` and `mirror` need normalized
// coordinates. Without these, `clamp` is used instead.
AddressMode mode_of(const TextureObject& o, uint32_t dimension) {
    if (o.cube) return AddressMode::clamp;
    const AddressMode mode = o.mode[dimension];
    const bool repeats = mode == AddressMode::wrap || mode == AddressMode::mirror;
    return repeats && !o.normalized_coordinates ? AddressMode::clamp : mode;
}

// Returns the position of a coordinate in texels, after wrapping or mirroring.
double position(float x, bool normalized, uint32_t extent, AddressMode mode) {
    double at = std::isnan(x) ? 0 : double(x);
    if (mode == AddressMode::wrap && std::isfinite(at)) at -= std::floor(at);
    if (mode == AddressMode::mirror && std::isfinite(at)) {
        const double whole = std::floor(at);
        at = std::fmod(whole, 2) == 0 ? at - whole : 1 - (at - whole);
    }
    if (normalized) at *= extent;
    return std::clamp(at, -farthest, farthest);
}

// Returns std::floor() of a position. std::floor() itself is a slow function call on older
// processors.
int64_t whole(double at) {
    const auto truncated = int64_t(at);
    return truncated - (double(truncated) > at ? 1 : 0);
}

Span nearest(double at, uint32_t extent, AddressMode mode) {
    int64_t i = whole(at);
    // After mirroring, the position may be exactly at the end of the range. After wrapping,
    // rounding may move it to the end. In both cases, the last texel is used.
    const bool folded = mode == AddressMode::wrap || mode == AddressMode::mirror;
    if (folded) i = std::clamp<int64_t>(i, 0, int64_t{extent} - 1);
    i = in_range(i, extent, mode);
    return {i, i, 0};
}

// Returns the two texels around a position, for linear filtering. The position is rounded to a
// multiple of 1/256 before it is split into a texel and a weight.
Span between(double at, uint32_t extent, AddressMode mode) {
    const int64_t fixed = whole((at - 0.5) * 256 + 0.5);
    const int64_t i = fixed >> 8;
    return {in_range(i, extent, mode), in_range(i + 1, extent, mode), uint32_t(fixed & 255)};
}

// Returns one channel of a texel. A channel of 8 or 16 bits is extended to 32 bits, or converted to
// a float.
uint32_t channel(const TextureObject& o, const std::byte* texel, uint32_t n) {
    uint32_t bits = 0;
    if (o.channel_bits == 16) {
        uint16_t half;
        std::memcpy(&half, texel + 2 * size_t{n}, 2);
        bits = half;
    } else {
        bits = uint32_t(texel[n]);
    }
    if (o.kind == TexelKind::floating)
        return std::bit_cast<uint32_t>(COALESCE_ISA::half_to_float(uint16_t(bits)));
    const uint32_t shift = 32u - o.channel_bits;
    const int32_t extended = int32_t(bits << shift) >> shift;
    if (!o.normalized_read) return o.kind == TexelKind::integer ? uint32_t(extended) : bits;
    const uint32_t largest = (1u << (o.channel_bits - (o.kind == TexelKind::integer ? 1 : 0))) - 1;
    const float value = o.kind == TexelKind::integer
                            ? std::max(float(extended) / float(largest), -1.0f)
                            : float(bits) / float(largest);
    return std::bit_cast<uint32_t>(value);
}

bool reads_floats(const TextureObject& o) {
    return o.kind == TexelKind::floating || o.normalized_read;
}

// The place of a point in the array: the texels around it in each dimension, the layer, and the
// level.
struct Place {
    Span span[3];
    uint32_t layer = 0, level = 0;
};

class Reader {
  public:
    Reader(const TextureObject& o, const std::byte* data, TexelList& read)
        : o_(o), data_(data), read_(read) {}

    // Returns the bits of a texel's channels. An index of -1 stands for the color of the border.
    TexelBits texel(const Place& at, int64_t x, int64_t y, int64_t z) {
        TexelBits bits{};
        if (x < 0 || y < 0 || z < 0) {
            for (uint32_t n = 0; n < o_.channels; ++n) bits[n] = border(n);
            return bits;
        }
        const uint64_t slice = o_.layered || o_.cube ? at.layer : uint64_t(z);
        uint64_t offset = uint64_t(y) * o_.row_bytes_of(at.level) + uint64_t(x) * o_.texel_bytes();
        if (slice) offset += slice * o_.slice_bytes_of(at.level);
        if (at.level) offset += o_.offset_of(at.level);
        if (read_.count < std::size(read_.offset)) read_.offset[read_.count++] = offset;
        if (o_.channel_bits == 32)
            for (uint32_t n = 0; n < o_.channels; ++n)
                std::memcpy(&bits[n], data_ + offset + 4 * size_t{n}, 4);
        else
            for (uint32_t n = 0; n < o_.channels; ++n) bits[n] = channel(o_, data_ + offset, n);
        return bits;
    }

    // Returns the weighted sum of up to eight texels. Texels whose weight is 0 are not read. The
    // sum is computed in double precision and rounded once.
    std::array<double, 4> filtered(const Place& at) {
        std::array<double, 4> sum{};
        for (int n = 0; n < 1 << o_.dimensions; ++n) {
            double weight = 1;
            int64_t index[3] = {};
            for (int d = 0; d < o_.dimensions; ++d) {
                const Span& s = at.span[d];
                const bool second = (n >> d & 1) != 0;
                weight *= (second ? s.weight : 256 - s.weight) / 256.0;
                index[d] = second ? s.second : s.first;
            }
            if (weight == 0) continue;
            const TexelBits bits = texel(at, index[0], index[1], index[2]);
            for (uint32_t c = 0; c < o_.channels; ++c)
                sum[c] += weight * double(std::bit_cast<float>(bits[c]));
        }
        return sum;
    }

  private:
    [[nodiscard]] uint32_t border(uint32_t n) const {
        const float color = o_.border[n];
        if (reads_floats(o_)) return std::bit_cast<uint32_t>(color);
        // For integer textures, the color of the border is converted to an integer, and clamped to
        // the range of the texels' type.
        const bool negative = o_.kind == TexelKind::integer;
        const double largest = std::ldexp(1.0, o_.channel_bits - (negative ? 1 : 0)) - 1;
        const double value = std::isnan(color) ? 0 : std::trunc(double(color));
        return uint32_t(int64_t(std::clamp(value, negative ? -largest - 1 : 0, largest)));
    }

    const TextureObject& o_;
    const std::byte* data_;
    TexelList& read_;
};

// Returns the face of a cube to which the direction `at` points, and sets `on_face` to the point on
// that face (CUDA C++ Programming Guide, "Cubemap Textures"). If two components are equally large,
// the guide names no face; this function then prefers x to y, and y to z. `divided` is true for
// machine code: it has multiplied the components by the reciprocal of the largest one before the
// fetch.
uint32_t to_face(const float (&at)[3], bool divided, float (&on_face)[3]) {
    float x = at[0], y = at[1], z = at[2];
    if (!divided) {
        const float by = 1 / std::max({std::fabs(x), std::fabs(y), std::fabs(z)});
        if (std::isfinite(by)) x *= by, y *= by, z *= by;
    }
    const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
    float m = az, s = z >= 0 ? x : -x, t = -y;
    uint32_t face = z >= 0 ? 4 : 5;
    if (ax >= ay && ax >= az)
        m = ax, s = x >= 0 ? -z : z, t = -y, face = x >= 0 ? 0 : 1;
    else if (ay >= az)
        m = ay, s = x, t = y >= 0 ? z : -z, face = y >= 0 ? 2 : 3;
    on_face[0] = m > 0 ? (s / m + 1) / 2 : 0.5f;
    on_face[1] = m > 0 ? (t / m + 1) / 2 : 0.5f;
    on_face[2] = 0;
    return face;
}

uint32_t extent_of(const TextureObject& o, uint32_t dimension, uint32_t level) {
    return dimension == 0   ? o.width_of(level)
           : dimension == 1 ? o.height_of(level)
                            : o.depth_of(level);
}

Place place_of(const TextureObject& o, const TextureAccess& access, const TexturePoint& point,
               uint32_t level, bool linear) {
    const bool on_cube = access.geometry.cube;
    Place at;
    at.level = level;
    const uint32_t layers = o.layers / (on_cube ? 6 : 1);
    at.layer = access.geometry.layered ? std::min(point.layer, layers - 1) : 0;
    float coordinate[3] = {point.coordinate[0], point.coordinate[1], point.coordinate[2]};
    if (on_cube) at.layer = 6 * at.layer + to_face(point.coordinate, access.divided, coordinate);
    for (uint32_t d = 0; d < access.geometry.dimensions && d < o.dimensions; ++d) {
        const uint32_t extent = extent_of(o, d, level);
        const AddressMode mode = mode_of(o, d);
        if (access.integer_coordinates) {
            const AddressMode own = mode == AddressMode::border ? mode : AddressMode::clamp;
            const int64_t i = in_range(point.integer[d], extent, own);
            at.span[d] = {i, i, 0};
            continue;
        }
        const double x = position(coordinate[d], o.normalized_coordinates || on_cube, extent, mode);
        at.span[d] = linear ? between(x, extent, mode) : nearest(x, extent, mode);
    }
    return at;
}

// Rounds the sums to float.
TexelBits rounded(const std::array<double, 4>& sum) {
    TexelBits bits;
    for (size_t n = 0; n < 4; ++n) bits[n] = std::bit_cast<uint32_t>(float(sum[n]));
    return bits;
}

}  // namespace

TexelBits fetch(const TextureObject& o, const TextureAccess& access, const TexturePoint& point,
                const std::byte* data, TexelList& read) {
    Reader reader(o, data, read);
    if (o.memory == TextureMemory::linear) {
        const int64_t x = access.integer_coordinates ? point.integer[0] : -1;
        if (x < 0 || x >= int64_t{o.width}) return {};
        return reader.texel({}, x, 0, 0);
    }
    const bool linear = o.linear_filter && !access.integer_coordinates;
    const auto sample = [&](uint32_t level) {
        return reader.filtered(place_of(o, access, point, level, linear));
    };
    const auto nearest_texel = [&](uint32_t level) {
        const Place at = place_of(o, access, point, level, false);
        return reader.texel(at, at.span[0].first, at.span[1].first, at.span[2].first);
    };
    if (o.levels == 1) return linear ? rounded(sample(0)) : nearest_texel(0);
    // Integer coordinates count the texels of the level that the instruction selects.
    const double least = std::clamp<double>(o.least_level, 0, o.levels - 1);
    const double most = std::clamp<double>(o.most_level, least, o.levels - 1);
    // Without a level, machine code asks for level -32, which is the least level for every bias.
    const bool base = access.level_form == LevelForm::base;
    const double wanted = std::isnan(point.level) ? 0 : point.level;
    const double bias = access.integer_coordinates ? 0 : o.level_bias;
    const double level = base ? least : std::clamp(wanted + bias, least, most);
    if (!o.linear_between_levels || !reads_floats(o)) {
        const auto one = uint32_t(std::floor(level + 0.5));
        return linear ? rounded(sample(one)) : nearest_texel(one);
    }
    const auto fixed = uint32_t(std::floor(level * 256 + 0.5));
    const uint32_t low = fixed >> 8, high = std::min(low + 1, o.levels - 1);
    const double weight = (fixed & 255) / 256.0;
    const auto below = sample(low);
    if (weight == 0) return rounded(below);
    const auto above = sample(high);
    std::array<double, 4> sum{};
    for (size_t n = 0; n < 4; ++n) sum[n] = (1 - weight) * below[n] + weight * above[n];
    return rounded(sum);
}

TexelBits gather(const TextureObject& o, const TextureAccess& access, const TexturePoint& point,
                 const std::byte* data, TexelList& read) {
    Reader reader(o, data, read);
    const Place at = place_of(o, access, point, 0, true);
    const Span &x = at.span[0], &y = at.span[1];
    const auto one = [&](int64_t column, int64_t row) {
        return reader.texel(at, column, row, 0)[access.component];
    };
    // The four texels form a square. The results have the order of its corners: counter-clockwise,
    // beginning at the lower left.
    const uint32_t lower_left = one(x.first, y.second), lower_right = one(x.second, y.second);
    const uint32_t upper_right = one(x.second, y.first), upper_left = one(x.first, y.first);
    return {lower_left, lower_right, upper_right, upper_left};
}

float level_of(const TextureObject& o, const float (&dx)[3], const float (&dy)[3]) {
    const auto length = [&](const float (&d)[3]) {
        double sum = 0;
        for (uint32_t n = 0; n < 3; ++n) {
            const double texels = double(d[n]) * extent_of(o, n, 0);
            sum += texels * texels;
        }
        return std::sqrt(sum);
    };
    const double most = std::max(length(dx), length(dy));
    return most > 0 ? float(std::log2(most)) : 0.0f;
}

uint32_t answer(const TextureObject& o, TextureQuery query, uint32_t level) {
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
