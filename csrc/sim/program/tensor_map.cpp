#include "sim/program/tensor_map.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "sim/program/map_field.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::sim {

namespace {

struct ElementInfo {
    std::string_view name;
    uint32_t bytes;
    bool floating;
};
constexpr ElementInfo elements[map_elements] = {
    {"uint8", 1, false},      {"uint16", 2, false},     {"uint32", 4, false},
    {"int32", 4, false},      {"uint64", 8, false},     {"int64", 8, false},
    {"float16", 2, true},     {"float32", 4, true},     {"float64", 8, true},
    {"bfloat16", 2, true},    {"float32_ftz", 4, true}, {"tfloat32", 4, true},
    {"tfloat32_ftz", 4, true}};

constexpr uint64_t mark = 0x70616d726f736e74;  // these are the characters "tnsormap"
constexpr uint32_t largest_box = 256, largest_step = 8;

// The layout of the 128 bytes. The values are those of tensormap.replace.
struct Layout {
    uint64_t mark, address;
    uint64_t stride[max_dimensions - 1];
    uint32_t extent[max_dimensions];  // 0 stands for 2^32
    uint32_t box[max_dimensions], step[max_dimensions];
    uint32_t element;  // an index into `numbered_by_ptx`
    uint32_t last_dimension, interleave, swizzle, fill;
};
static_assert(sizeof(Layout) == tensor_map_bytes);

// The types of elements in the order in which PTX numbers them.
constexpr MapElement numbered_by_ptx[map_elements] = {
    MapElement::u8,   MapElement::u16,  MapElement::u32,     MapElement::s32,     MapElement::u64,
    MapElement::s64,  MapElement::f16,  MapElement::f32,     MapElement::f32_ftz, MapElement::f64,
    MapElement::bf16, MapElement::tf32, MapElement::tf32_ftz};

std::string numbered(const char* what, uint32_t dimension, const std::string& wrong) {
    return std::string(what) + " " + std::to_string(dimension) + " of the tensor map " + wrong;
}

// Returns true if copies to shared memory round the elements to TF32. The names of f32_ftz and
// tf32_ftz suggest that copies flush subnormal numbers. They do not: both types give the same bits
// as f32 and tf32. (Recorded on an H100 by tools/record_results.py, like the two constants below.)
bool rounds_to_tf32(MapElement element) {
    return element == MapElement::tf32 || element == MapElement::tf32_ftz;
}
constexpr uint32_t tf32_nan = 0x7fffe000;  // the bits that replace every NaN
constexpr uint16_t nan_outside = 0x7ff7;   // each 16 bits of an element outside the array

// Rounds a float32 to TF32 as copies do: to the nearest number, ties to even.
uint32_t to_tf32(uint32_t bits) {
    if ((bits & 0x7fffffffu) > 0x7f800000u) return tf32_nan;
    return (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000u;
}

void convert(std::byte* elements, uint32_t bytes) {
    for (uint32_t at = 0; at < bytes; at += 4) {
        uint32_t bits;
        std::memcpy(&bits, elements + at, sizeof bits);
        bits = to_tf32(bits);
        std::memcpy(elements + at, &bits, sizeof bits);
    }
}

}  // namespace

uint32_t bytes_of(MapElement element) { return elements[size_t(element)].bytes; }
bool is_floating(MapElement element) { return elements[size_t(element)].floating; }

std::optional<MapElement> map_element_named(std::string_view name) {
    const auto* const element = std::ranges::find(elements, name, &ElementInfo::name);
    if (element == std::end(elements)) return {};
    return MapElement(element - elements);
}

uint64_t TensorMap::rows() const {
    uint64_t count = 1;
    for (uint32_t d = 1; d < rank; ++d) count *= copied(d);
    return count;
}

// Checks the rules of the CUDA driver API for cuTensorMapEncodeTiled().
std::string problem(const TensorMap& map) {
    if (map.rank < 1 || map.rank > max_dimensions)
        return "a tensor map has 1 to 5 dimensions; got " + std::to_string(map.rank);
    if (uint32_t(map.element) >= map_elements)
        return "tensor maps with elements of type " + std::to_string(uint32_t(map.element)) +
               " are not simulated";
    if (map.address % 16 != 0)
        return "the array of a tensor map must begin at a multiple of 16 bytes";
    for (uint32_t d = 0; d < map.rank; ++d) {
        if (map.extent[d] == 0 || map.extent[d] > uint64_t{1} << 32)
            return numbered("extent", d, "must be 1 to 2^32; got " + std::to_string(map.extent[d]));
        if (d > 0 && (map.stride[d] % 16 != 0 || map.stride[d] >= uint64_t{1} << 40))
            return numbered(
                "stride", d,
                "must be a multiple of 16 bytes below 2^40; got " + std::to_string(map.stride[d]));
        if (map.box[d] == 0 || map.box[d] > largest_box)
            return numbered("the box's extent", d,
                            "must be 1 to 256; got " + std::to_string(map.box[d]));
        if (map.step[d] == 0 || map.step[d] > largest_step)
            return numbered("element stride", d,
                            "must be 1 to 8; got " + std::to_string(map.step[d]));
    }
    const uint32_t row = map.row_bytes();
    if (row % 16 != 0)
        return "a row of a tensor map's box must have a multiple of 16 bytes; got " +
               std::to_string(row);
    if (uint32_t(map.swizzle) > uint32_t(Swizzle::bytes_128))
        return "a tensor map's swizzle must be 0 to 3 (none, 32, 64 or 128 bytes); got " +
               std::to_string(uint32_t(map.swizzle));
    if (map.swizzle != Swizzle::none && row > span_of(map.swizzle))
        return "a row of the box has " + std::to_string(row) +
               " bytes; with this swizzle it can have at most " +
               std::to_string(span_of(map.swizzle));
    if (map.nan && !is_floating(map.element))
        return "only a tensor map with floating-point elements can fill with NaN outside the array";
    return "";
}

TensorMapBytes encode(const TensorMap& map) {
    Layout l{};
    l.mark = mark;
    l.address = map.address;
    l.element = uint32_t(std::ranges::find(numbered_by_ptx, map.element) - numbered_by_ptx);
    l.last_dimension = map.rank - 1;
    l.swizzle = uint32_t(map.swizzle);
    l.fill = map.nan;
    for (uint32_t d = 0; d < map.rank; ++d) {
        l.extent[d] = uint32_t(map.extent[d]);
        if (d > 0) l.stride[d - 1] = map.stride[d];
        l.box[d] = map.box[d];
        l.step[d] = map.step[d];
    }
    TensorMapBytes bytes;
    std::memcpy(bytes.data(), &l, sizeof l);
    return bytes;
}

std::optional<MapField> map_field(std::string_view name, uint64_t ordinal) {
    struct Known {
        std::string_view name;
        uint32_t offset, bytes, count;
    };
    static constexpr Known fields[] = {
        {"global_address", offsetof(Layout, address), 8, 1},
        {"rank", offsetof(Layout, last_dimension), 4, 1},
        {"box_dim", offsetof(Layout, box), 4, max_dimensions},
        {"global_dim", offsetof(Layout, extent), 4, max_dimensions},
        {"global_stride", offsetof(Layout, stride), 8, max_dimensions - 1},
        {"element_stride", offsetof(Layout, step), 4, max_dimensions},
        {"elemtype", offsetof(Layout, element), 4, 1},
        {"interleave_layout", offsetof(Layout, interleave), 4, 1},
        {"swizzle_mode", offsetof(Layout, swizzle), 4, 1},
        {"fill_mode", offsetof(Layout, fill), 4, 1}};
    const auto* const f = std::ranges::find(fields, name, &Known::name);
    if (f == std::end(fields) || ordinal >= f->count) return {};
    return MapField{f->offset + uint32_t(ordinal) * f->bytes, f->bytes};
}

std::optional<TensorMap> tensor_map_in(std::string_view bytes) {
    if (bytes.size() != tensor_map_bytes) return {};
    return tensor_map_in(reinterpret_cast<const std::byte*>(bytes.data()));
}

std::optional<TensorMap> tensor_map_in(const std::byte* bytes) {
    Layout l;
    std::memcpy(&l, bytes, sizeof l);
    if ((l.mark != mark && l.mark != 0) || l.element >= map_elements || l.interleave != 0 ||
        l.fill > 1 || l.last_dimension >= max_dimensions ||
        l.swizzle > uint32_t(Swizzle::bytes_128))
        return {};
    TensorMap map;
    map.address = l.address;
    map.element = numbered_by_ptx[l.element];
    map.rank = l.last_dimension + 1;
    map.swizzle = Swizzle(l.swizzle);
    map.nan = l.fill != 0;
    for (uint32_t d = 0; d < map.rank; ++d) {
        map.extent[d] = l.extent[d] ? l.extent[d] : uint64_t{1} << 32;
        if (d > 0) map.stride[d] = l.stride[d - 1];
        map.box[d] = l.box[d];
        map.step[d] = l.step[d];
    }
    return problem(map).empty() ? std::optional(map) : std::nullopt;
}

void write_box(const TensorBox& box, std::byte* shared) {
    std::vector<std::byte> row(box.row_bytes);
    const uint16_t outside = box.nan ? nan_outside : 0;
    for (size_t n = 0; n < box.rows.size(); ++n) {
        const TensorBox::Row& r = box.rows[n];
        for (uint32_t at = 0; at < box.row_bytes; at += sizeof outside)
            std::memcpy(row.data() + at, &outside, sizeof outside);
        if (r.bytes > 0) {
            std::memcpy(row.data() + r.skipped, r.source, r.bytes);
            if (rounds_to_tf32(box.element)) convert(row.data() + r.skipped, r.bytes);
        }
        for (uint32_t part = 0; part < box.row_bytes; part += 16)
            std::memcpy(shared + box.place_of(n, part), row.data() + part, 16);
    }
}

uint32_t store_box(Block& block, const TensorBox& box) {
    block.boxes.emplace(block.next_box, box);
    return block.next_box++;
}

void write_stored_box(Block& block, uint32_t number) {
    const auto box = block.boxes.find(number);
    write_box(box->second, block.shared);
    block.boxes.erase(box);
}

}  // namespace coalesce::sim
