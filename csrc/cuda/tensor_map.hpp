// Tensor maps. A tensor map describes a matrix in global memory to Hopper's copy engine, which
// copies boxes (rectangular parts) of the matrix.
//
// The driver makes tensor maps (cuTensorMapEncodeTiled). The layout of their 128 bytes is not
// documented. A kernel takes a tensor map as a parameter `const __grid_constant__ TensorMap`, where
// TensorMap is any structure of 128 bytes aligned to 64. The kernel passes the address of the
// parameter to cp.async.bulk.tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cuda/driver.hpp"

namespace coalesce::cuda {

// The size of a box, in elements.
struct Box {
    uint32_t rows = 0;
    uint32_t cols = 0;
};

// A row-major matrix. Its address and `row_bytes` must be multiples of 16.
struct TiledMatrix {
    Address address = 0;
    // The element type: "bfloat16", "float32", "tfloat32" (rounded during the copy), ...
    std::string_view element;
    uint64_t rows = 0;
    uint64_t cols = 0;
    uint64_t row_bytes = 0;
    Box box;  // at most 256 x 256 elements
    // True: a row of a box has 128 bytes, and its 16-byte parts are permuted in each row.
    bool swizzled = false;
};

// Returns the 128 bytes of a tensor map. Throws LaunchError if the driver does not support tensor
// maps or refuses this one.
[[nodiscard]] std::string tensor_map(const TiledMatrix& matrix);

}  // namespace coalesce::cuda
