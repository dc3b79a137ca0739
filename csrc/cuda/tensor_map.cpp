#include "cuda/tensor_map.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "errors.hpp"

namespace coalesce::cuda {
namespace {

// An element type and its value in CUtensorMapDataType (cuda.h).
struct Element {
    std::string_view name;
    int code;
};
constexpr Element elements[] = {{"float32", 7}, {"float64", 8}, {"bfloat16", 9}, {"tfloat32", 11}};

struct alignas(64) Encoded {
    std::array<char, 128> bytes;
};

}  // namespace

std::string tensor_map(const TiledMatrix& matrix) {
    const Driver& driver = Driver::get();
    if (driver.encode_tensor_map == nullptr)
        throw LaunchError("tensor maps need a driver for CUDA 12.0 or later: update the driver");
    const auto* element = std::ranges::find(elements, matrix.element, &Element::name);
    if (element == std::end(elements))
        throw LaunchError("a tensor map cannot have elements of type " +
                          std::string(matrix.element));
    constexpr int no_interleave = 0, no_swizzle = 0, swizzle_128_bytes = 3;
    constexpr int promote_to_128_bytes = 2, zeros_outside = 0;
    const std::array<uint64_t, 2> extents{matrix.cols, matrix.rows};
    const std::array<uint32_t, 2> box{matrix.box.cols, matrix.box.rows}, steps{1, 1};
    Encoded map{};
    driver.check(
        driver.encode_tensor_map(&map, element->code, 2, matrix.address, extents.data(),
                                 &matrix.row_bytes, box.data(), steps.data(), no_interleave,
                                 matrix.swizzled ? swizzle_128_bytes : no_swizzle,
                                 promote_to_128_bytes, zeros_outside),
        "cuTensorMapEncodeTiled");
    return {map.bytes.begin(), map.bytes.end()};
}

}  // namespace coalesce::cuda
