// The fields of a tensor map (tensor_map.hpp) that a kernel changes with tensormap.replace.
//
// METHOD
// Such an instruction is a store to the bytes of the field. A kernel may also begin with 128 zero
// bytes, and replace all fields. This tensor map has zeros in place of the mark.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace coalesce::sim {

// The place of a field in the 128 bytes.
struct MapField {
    uint32_t offset = 0, bytes = 0;
};
// Returns the field with a name of PTX, such as "box_dim". `ordinal` is the number of the
// dimension, and 0 for a field that exists once. Returns nothing if there is no such field.
[[nodiscard]] std::optional<MapField> map_field(std::string_view name, uint64_t ordinal);

}  // namespace coalesce::sim
