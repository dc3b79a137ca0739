#include "catalogue/catalogue.hpp"

#include <algorithm>

namespace coalesce::catalogue {
namespace {

constexpr uint32_t tiles_8_16_32[] = {8, 16, 32};
constexpr std::span<const uint32_t> any_tile{tiles_8_16_32};
constexpr uint32_t tiles_32_64_128[] = {32, 64, 128};
constexpr std::span<const uint32_t> tile_of_split_k{tiles_32_64_128};
constexpr std::span<const uint32_t> no_tile{};
constexpr bool in_turn = false, early = true;  // when a launch starts

#define VARIANT(operation, name, file, geometry, shared, tiles, preparation, arguments, topic, \
                sentence)                                                                      \
    Variant{#operation, #name,    file,   arguments, sentence,                                 \
            topic,      geometry, shared, tiles,     Preparation::preparation},
// A row for a variant that needs instructions of compute capability 9.0.
#define HOPPER_VARIANT(operation, name, file, geometry, shared, tiles, preparation, start, \
                       arguments, topic, sentence)                                         \
    Variant{#operation, #name,    file,   arguments, sentence,                             \
            topic,      geometry, shared, tiles,     Preparation::preparation,             \
            "float32",  true,     false,  start},
// A row for a variant that reads through tensor maps.
#define TENSOR_MAP_VARIANT(operation, name, file, dtype, geometry, shared, preparation, start, \
                           arguments, topic, sentence)                                         \
    Variant{#operation, #name,    file,   arguments, sentence,                                 \
            topic,      geometry, shared, no_tile,   Preparation::preparation,                 \
            dtype,      true,     true,   start},
constexpr Variant table[] = {
#include "catalogue/variants.inc"
};
#undef VARIANT
#undef HOPPER_VARIANT
#undef TENSOR_MAP_VARIANT

}  // namespace

uint32_t Variant::rung() const {
    const std::string_view base = file.substr(file.rfind('/') + 1);
    uint32_t number = 0;
    for (const char c : base) {
        if (c < '0' || c > '9') break;
        number = number * 10 + uint32_t(c - '0');
    }
    return number;
}

std::string_view name_of(Preparation preparation) {
    switch (preparation) {
        case Preparation::none:
            return "none";
        case Preparation::transpose_b:
            return "transpose_b";
        case Preparation::pack_a:
            return "pack_a";
        case Preparation::map_both:
            return "map_both";
        case Preparation::map_rest:
            return "map_rest";
        case Preparation::map_bfloat16:
            return "map_bfloat16";
    }
    return "";
}

std::span<const Variant> variants() { return table; }

const Variant* find(std::string_view operation, std::string_view name) {
    const auto* variant = std::ranges::find_if(
        table, [&](const Variant& v) { return v.operation == operation && v.name == name; });
    return variant == std::end(table) ? nullptr : variant;
}

}  // namespace coalesce::catalogue
