// The catalogue of operations and their variants. Each variant is a row of variants.inc. The row
// has the variant's source file, idea, launch geometry, arguments and preparation. To add a
// variant, add a kernel file and one row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "catalogue/geometry.hpp"

namespace coalesce::catalogue {

// The work that an operation does on its operands before the kernel of the variant runs.
enum class Preparation : uint8_t {
    none,
    // Needs a column-major b. Another b is first transposed by transpose/05_padded.cu.
    transpose_b,
    // Needs a in strips (layout/02_packed.cu), and rows of b at multiples of 16 bytes.
    pack_a,
    // Needs rows of a and b at multiples of 16 bytes, and a tensor map of each.
    map_both,
    // Like map_both. It also needs the rest of a after rounding to TF32 (layout/03_tf32_rest.cu).
    map_rest,
    // Needs a and b as bfloat16 (layout/04_bfloat16.cu), and a tensor map of each.
    map_bfloat16,
};

struct Variant {
    std::string_view operation;  // such as "matmul"
    std::string_view name;       // the kernel's name in the source
    std::string_view file;       // path in csrc/kernels, such as "matmul/07_tiled.cu"
    std::string_view arguments;  // names of the kernel's parameters, in order
    std::string_view sentence;   // one sentence about the idea and its cost
    std::string_view topic;      // the lesson and the section that teach the idea
    GeometryFunction geometry;
    SharedBytes shared_bytes;
    // The values of TILE; the last one is the default. Empty if the kernel has no TILE.
    std::span<const uint32_t> tiles;
    Preparation preparation;
    // The only element type that the variant accepts. Empty means float32 and float64.
    std::string_view dtype = "";
    bool hopper = false;  // whether the kernel needs compute capability 9.0 or later
    // Whether the kernel reads through tensor maps. Such kernels use instructions of sm_90a, which
    // run only on compute capability 9.0.
    bool tensor_maps = false;
    // Whether a launch may start before earlier launches on its stream have ended. The kernel waits
    // for them itself (griddepcontrol.wait).
    bool starts_early = false;

    // Returns this variant's position among the variants of its operation. It is the number at the
    // start of the file name.
    [[nodiscard]] uint32_t rung() const;
};

// Returns the preparation's name, such as "pack_a".
[[nodiscard]] std::string_view name_of(Preparation preparation);

// Returns all variants, ordered by operation and rung.
[[nodiscard]] std::span<const Variant> variants();

// Returns nullptr if there is no such variant.
[[nodiscard]] const Variant* find(std::string_view operation, std::string_view name);

}  // namespace coalesce::catalogue
