// Functions of the driver API that programs get from the runtime with cudaGetDriverEntryPoint().
//
// Programs that use tensor maps get cuTensorMapEncodeTiled() in this way, without linking to the
// driver. The tensor maps have the simulator's own layout (sim/tensor_map.hpp).
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "cudart/api.hpp"
#include "cudart/runtime.hpp"
#include "sim/tensor_map.hpp"

namespace coalesce::cudart {

namespace {

// Values of CUresult in cuda.h.
constexpr int cuda_success = 0, cuda_error_invalid_value = 1;
// Values of cudaDriverEntryPointQueryResult in driver_types.h.
constexpr int entry_point_success = 0, entry_point_not_found = 1;

int write(void* to, const sim::TensorMap& map) {
    std::string wrong = sim::problem(map);
    if (reinterpret_cast<uintptr_t>(to) % sim::tensor_map_alignment != 0)
        wrong = "the address of a tensor map must be a multiple of 64 bytes";
    if (!wrong.empty()) {
        say_once("coalesce: cuTensorMapEncodeTiled(): " + wrong);
        return cuda_error_invalid_value;
    }
    const sim::TensorMapBytes bytes = sim::encode(map);
    std::memcpy(to, bytes.data(), bytes.size());
    return cuda_success;
}

// Implements cuTensorMapEncodeTiled(). It ignores the L2 promotion, which does not change results.
int encode_tiled(void* to, int element, uint32_t rank, void* address, const uint64_t* extents,
                 const uint64_t* strides, const uint32_t* box, const uint32_t* steps,
                 int interleave, int swizzle, int /*promotion*/, int fill) {
    if (!to || !address || !extents || !box || !steps || (rank > 1 && !strides) || rank == 0 ||
        rank > sim::most_dimensions || element < 0 || swizzle < 0)
        return cuda_error_invalid_value;
    if (interleave != 0) {
        say_once("coalesce: tensor maps with an interleaved layout are not simulated");
        return cuda_error_invalid_value;
    }
    sim::TensorMap map;
    map.address = reinterpret_cast<uintptr_t>(address);
    map.element = sim::MapElement(element);
    map.rank = rank;
    map.swizzle = sim::Swizzle(swizzle);
    map.nan = fill != 0;
    for (uint32_t d = 0; d < rank; ++d) {
        map.extent[d] = extents[d];
        map.box[d] = box[d];
        map.step[d] = steps[d];
        if (d > 0) map.stride[d] = strides[d - 1];
    }
    return write(to, map);
}

int replace_address(void* to, void* address) {
    if (!to || !address) return cuda_error_invalid_value;
    auto map = sim::tensor_map_in(static_cast<const std::byte*>(to));
    if (!map) return cuda_error_invalid_value;
    map->address = reinterpret_cast<uintptr_t>(address);
    return write(to, *map);
}

void* function_named(std::string_view name) {
    if (name == "cuTensorMapEncodeTiled") return reinterpret_cast<void*>(&encode_tiled);
    if (name == "cuTensorMapReplaceAddress") return reinterpret_cast<void*>(&replace_address);
    return nullptr;
}

void find_entry_point(const char* symbol, void** function, int* found) {
    require(symbol && function, cudaErrorInvalidValue);
    *function = function_named(symbol);
    if (found) *found = *function ? entry_point_success : entry_point_not_found;
    if (*function) return;
    say_once("coalesce: " + std::string(symbol) + "() of the driver API is not simulated");
    runtime().report.missing(symbol);
    if (!found) throw Failure{cudaErrorSymbolNotFound};
}

}  // namespace

CUDART(cudaGetDriverEntryPoint)(const char* symbol, void** function, unsigned long long,
                                int* found) {
    return call("cudaGetDriverEntryPoint", Waits::no,
                [&] { find_entry_point(symbol, function, found); });
}
CUDART(cudaGetDriverEntryPointByVersion)(const char* symbol, void** function, unsigned,
                                         unsigned long long, int* found) {
    return call("cudaGetDriverEntryPointByVersion", Waits::no,
                [&] { find_entry_point(symbol, function, found); });
}

}  // namespace coalesce::cudart
