#include "cuda/launch/cublas.hpp"

#include <map>

#include "cuda/library.hpp"
#include "errors.hpp"

namespace coalesce::cuda {

struct CublasFunctions {
    explicit CublasFunctions(const std::string& path) : library(path) {}

    Library library;
    int (*create)(void**) = nullptr;
    int (*destroy)(void*) = nullptr;
    int (*version)(void*, int*) = nullptr;
    int (*set_stream)(void*, Stream) = nullptr;
    int (*set_workspace)(void*, void*, size_t) = nullptr;
    int (*multiply)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*,
                    int, int, const void*, void*, int, int, int, int) = nullptr;
};

namespace {

// cuBLAS allocates memory by itself if it has no workspace, which is not possible while a graph is
// recorded. 32 MiB is the size that NVIDIA recommends for GPUs of compute capability 9.0.
constexpr size_t workspace_bytes = size_t{32} << 20;

int data_type(const std::string& name) {  // cudaDataType_t
    static const std::map<std::string, int> types{{"float32", 0}, {"float64", 1}, {"bfloat16", 14}};
    const auto found = types.find(name);
    if (found == types.end())
        throw LaunchError("the matrices have element type " + name +
                          "; cuBLAS products need float32, float64 or bfloat16");
    return found->second;
}

}  // namespace

Cublas::Cublas(const std::string& path, Device& device)
    : device_(device),
      generation_(device.generation()),
      functions_(std::make_unique<CublasFunctions>(path)) {
    CublasFunctions& f = *functions_;
    if (!f.library.ok()) throw DeviceUnavailable("cannot open cuBLAS: " + f.library.error());
    const bool complete = f.library.find("cublasCreate_v2", f.create) &&
                          f.library.find("cublasDestroy_v2", f.destroy) &&
                          f.library.find("cublasGetVersion_v2", f.version) &&
                          f.library.find("cublasSetStream_v2", f.set_stream) &&
                          f.library.find("cublasSetWorkspace_v2", f.set_workspace) &&
                          f.library.find("cublasGemmEx", f.multiply);
    if (!complete) throw DeviceUnavailable(path + " is not cuBLAS 11 or newer");
    workspace_ = device_.allocate(workspace_bytes, "the workspace of cuBLAS");
    workspace_->used_elsewhere();
    const Device::CurrentContext current(device_);
    if (const int status = f.create(&handle_); status != 0)
        throw DeviceUnavailable("cuBLAS does not start: cublasCreate returned " +
                                std::to_string(status));
    f.version(handle_, &version_);
}

Cublas::~Cublas() {
    if (handle_ == nullptr || generation_ != device_.generation()) return;
    const Device::CurrentContext current(device_);
    functions_->destroy(handle_);
}

void Cublas::multiply(const Product& product, Stream stream) {
    constexpr int in_float32 = 68, in_float64 = 70, in_tf32 = 77;  // cublasComputeType_t
    constexpr int not_transposed = 0, any_algorithm = -1;
    const int operands = data_type(product.operands), result = data_type(product.result);
    const bool wide = product.operands == "float64";
    const int compute = wide ? in_float64 : product.tf32 ? in_tf32 : in_float32;
    const auto [m, n, k] = product.extents;
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    const void* const alpha = wide ? static_cast<const void*>(&wide_one) : &one;
    const void* const beta = wide ? static_cast<const void*>(&wide_zero) : &zero;
    const auto at = [](Address address) { return reinterpret_cast<void*>(address); };

    const Device::CurrentContext current(device_);
    int status = functions_->set_stream(handle_, stream);
    // Setting the stream takes the workspace away.
    if (status == 0)
        status = functions_->set_workspace(handle_, at(workspace_->address()), workspace_bytes);
    // cuBLAS takes column-major matrices. A row-major matrix is the transpose of a column-major
    // one, and the transpose of a b is b' a'.
    if (status == 0)
        status = functions_->multiply(handle_, not_transposed, not_transposed, n, m, k, alpha,
                                      at(product.b), operands, n, at(product.a), operands, k, beta,
                                      at(product.out), result, n, compute, any_algorithm);
    if (status != 0)
        throw LaunchError("cuBLAS could not compute the product: cublasGemmEx returned status " +
                          std::to_string(status));
}

}  // namespace coalesce::cuda
