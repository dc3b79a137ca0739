// The element types of kernel arguments, with the names that NumPy's typestr has for them.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace coalesce::bindings {

// The names of all element types. "f4" is float32. "V2" is bfloat16, for which NumPy has no type. A
// set of element types is a bit mask with one bit for each name.
inline constexpr std::array<std::string_view, 15> scalar_names = {
    "b1", "i1", "u1", "i2", "u2", "f2", "V2", "i4", "u4", "f4", "i8", "u8", "f8", "c8", "c16"};

using ScalarMask = uint32_t;
inline constexpr ScalarMask any_scalar = ~ScalarMask{0};

// Returns the code of a name: its index in scalar_names, or -1 if there is no such name.
inline int scalar_code(std::string_view name) {
    for (size_t i = 0; i < scalar_names.size(); ++i)
        if (scalar_names[i] == name) return static_cast<int>(i);
    return -1;
}

inline ScalarMask scalar_bit(std::string_view name) {
    const int code = scalar_code(name);
    if (code < 0) throw std::invalid_argument("there is no element type " + std::string(name));
    return ScalarMask{1} << code;
}

}  // namespace coalesce::bindings
