// Every operation and variant the package ships, each a row of variants.inc.
//
// The catalogue is what the rest of the package knows about a kernel: where its text is, what its
// idea is, how it is launched, which arguments it takes and what must happen before. Adding a rung
// to a ladder is a kernel file and one row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ops/geometry.hpp"

namespace coalesce::ops {

// What an operation does to its operands before the variant's kernel runs.
enum class Preparation : uint8_t {
    none,
    transpose_b,  // b is wanted column-major; transposed by transpose/05_padded.cu unless it is
    pack_a,       // a is wanted in strips (layout/02_packed.cu), rows of b at multiples of 16 bytes
    pack_a_map_b,  // the same, and a tensor map of b
    map_both,      // rows of a and b at multiples of 16 bytes, and a tensor map of each
    map_rest,      // the same, and what rounding to TF32 leaves of a (layout/03_tf32_rest.cu)
    map_bfloat16,  // a and b as bfloat16 (layout/04_bfloat16.cu), and a tensor map of each
};

struct Variant {
    std::string_view operation;  // "matmul"
    std::string_view name;       // "tiled"; also the name of the kernel's entry
    std::string_view file;       // below csrc/kernels, "matmul/07_tiled.cu"
    std::string_view arguments;  // the entry's parameters by name, in order
    std::string_view sentence;   // the idea and its cost
    std::string_view topic;      // where the idea is taught
    Geometry geometry;
    SharedBytes shared_bytes;
    std::span<const uint32_t> tiles;  // values TILE may take, the default last; empty: no TILE
    Preparation preparation;
    std::string_view dtype = "";  // the only one it takes; empty: float32 and float64
    bool hopper = false;          // needs compute capability 9.0 or newer
    // Reads through tensor maps, which no simulated GPU has, and uses instructions of sm_90a, which
    // run on compute capability 9.0 and no other.
    bool tensor_maps = false;

    // Its place on the operation's ladder, the number its file begins with.
    [[nodiscard]] uint32_t rung() const;
};

// The preparation's name, "pack_a".
[[nodiscard]] std::string_view name_of(Preparation preparation);

// In the order of the ladders, operation by operation.
[[nodiscard]] std::span<const Variant> variants();

// nullptr where there is no such variant.
[[nodiscard]] const Variant* find(std::string_view operation, std::string_view name);

}  // namespace coalesce::ops
