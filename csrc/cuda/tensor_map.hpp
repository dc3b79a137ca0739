// Tensor maps: how Hopper's copy engine finds a box of a matrix in global memory.
//
// The driver makes them (cuTensorMapEncodeTiled); their 128 bytes have no documented layout. A
// kernel takes one as a parameter `const __grid_constant__ TensorMap`, any structure of 128 bytes
// aligned to 64, and passes its address to cp.async.bulk.tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cuda/driver.hpp"

namespace coalesce::cuda {

struct Box {
    uint32_t rows = 0;
    uint32_t cols = 0;
};

// A row-major matrix. Its address and `row_bytes` are multiples of 16.
struct TiledMatrix {
    Address address = 0;
    std::string_view element;  // "bfloat16", "float32", "tfloat32" (rounded as it is copied), ...
    uint64_t rows = 0;
    uint64_t cols = 0;
    uint64_t row_bytes = 0;
    Box box;                // at most 256 x 256
    bool swizzled = false;  // rows of a box are 128 bytes; their 16-byte parts are exchanged by row
};

// The 128 bytes. Throws LaunchError where the driver has no tensor maps or refuses this one.
[[nodiscard]] std::string tensor_map(const TiledMatrix& matrix);

}  // namespace coalesce::cuda
