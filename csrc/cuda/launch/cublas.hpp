// cuBLAS, NVIDIA's library of matrix products. Benchmarks compare kernels with it.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "cuda/device.hpp"

namespace coalesce::cuda {

struct CublasFunctions;

class Cublas {
  public:
    // Starts the library at `path` on a GPU. Throws DeviceUnavailable if the library cannot be
    // opened, is not cuBLAS, or does not start.
    Cublas(const std::string& path, Device& device);
    ~Cublas();
    Cublas(const Cublas&) = delete;
    Cublas& operator=(const Cublas&) = delete;

    // Returns the library's version: 130100 means 13.1.0.
    [[nodiscard]] int version() const { return version_; }

    // A product of row-major matrices without gaps: an M x K and a K x N matrix.
    struct Product {
        std::array<int, 3> extents;  // M, N, K
        Address a, b, out;
        std::string operands, result;  // element types: "float32", "float64" or "bfloat16"
        bool tf32 = false;             // compute in TF32, not in float32
    };

    // Enqueues a product. Throws LaunchError if cuBLAS refuses it.
    void multiply(const Product& product, Stream stream);

  private:
    Device& device_;
    uint64_t generation_;
    std::unique_ptr<CublasFunctions> functions_;
    void* handle_ = nullptr;
    std::shared_ptr<Memory> workspace_;
    int version_ = 0;
};

}  // namespace coalesce::cuda
