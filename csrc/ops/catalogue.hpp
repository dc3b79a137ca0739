// The catalogue of operations and variants. Each variant is a row of variants.inc.
//
// For each kernel, the catalogue has its source file, its idea, its launch geometry, its arguments
// and its preparation. To add a variant, add a kernel file and one row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ops/geometry.hpp"

namespace coalesce::ops {

// What an operation does to its operands before the kernel of the variant runs.
enum class Preparation : uint8_t {
    none,
    transpose_b,  // needs a column-major b; if it is not, transpose/05_padded.cu transposes it
    pack_a,       // needs a in strips (layout/02_packed.cu), and rows of b at multiples of 16 bytes
    pack_a_map_b,  // like pack_a, and a tensor map of b
    map_both,      // needs rows of a and b at multiples of 16 bytes, and a tensor map of each
    map_rest,  // like map_both, and the rest of a after rounding to TF32 (layout/03_tf32_rest.cu)
    map_bfloat16,  // needs a and b as bfloat16 (layout/04_bfloat16.cu), and a tensor map of each
};

struct Variant {
    std::string_view operation;  // "matmul"
    std::string_view name;       // the name of the kernel in the source
    std::string_view file;       // path in csrc/kernels, such as "matmul/07_tiled.cu"
    std::string_view arguments;  // names of the kernel's parameters, in order
    std::string_view sentence;   // the idea and its cost
    std::string_view topic;      // where the idea is taught
    Geometry geometry;
    SharedBytes shared_bytes;
    // Values of TILE, the default last; empty: the kernel has no TILE.
    std::span<const uint32_t> tiles;
    Preparation preparation;
    std::string_view dtype = "";  // the only type it accepts; empty: float32 and float64
    bool hopper = false;          // needs compute capability 9.0 or later
    // Reads through tensor maps and uses instructions of sm_90a, which run only on compute
    // capability 9.0.
    bool tensor_maps = false;

    // Its position among the variants of the operation: the number at the start of the file name.
    [[nodiscard]] uint32_t rung() const;
};

// The preparation's name, "pack_a".
[[nodiscard]] std::string_view name_of(Preparation preparation);

// All variants, ordered by operation and rung.
[[nodiscard]] std::span<const Variant> variants();

// Returns nullptr if there is no such variant.
[[nodiscard]] const Variant* find(std::string_view operation, std::string_view name);

}  // namespace coalesce::ops
