// Looks up functions of the driver API by name, and implements the functions that make tensor maps.
//
// Programs that use tensor maps get cuTensorMapEncodeTiled() from cudaGetDriverEntryPoint(),
// without linking to the driver. The tensor maps have the simulator's own layout
// (sim/program/tensor_map.hpp).
#include <dlfcn.h>

#include <climits>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"
#include "sim/program/tensor_map.hpp"

namespace coalesce::cudart {

namespace {

// Values of cudaDriverEntryPointQueryResult in driver_types.h.
constexpr int entry_point_success = 0, entry_point_not_found = 1, entry_point_too_new = 2;

void write(void* to, const sim::TensorMap& map) {
    std::string wrong = sim::problem(map);
    if (reinterpret_cast<uintptr_t>(to) % sim::tensor_map_alignment != 0)
        wrong = "the address of a tensor map must be a multiple of 64 bytes";
    if (!wrong.empty()) {
        print_once("coalesce: " + std::string(called()) + "(): " + wrong);
        throw Failure{cudaErrorInvalidValue};
    }
    const sim::TensorMapBytes bytes = sim::encode(map);
    std::memcpy(to, bytes.data(), bytes.size());
}

// New versions of functions, and the CUDA version that introduced each of them.
struct Introduced {
    std::string_view name;
    int version;
};
constexpr Introduced newer[] = {
#define SINCE(name, version) {#name, version},
#include "cudart/abi/functions.inc"
};

int version_of(std::string_view name) {
    for (const Introduced& i : newer)
        if (i.name == name) return i.version;
    return 0;
}

// Returns the newest version of a function that a program of this CUDA version can use. Several
// functions have versions, such as cuMemAlloc and cuMemAlloc_v2.
void* function_named(const std::string& name, int version) {
    static void* const library = [] {
        Dl_info own{};
        dladdr(reinterpret_cast<void*>(&version_of), &own);
        return dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }();
    if (!library || !name.starts_with("cu") || name.starts_with("cuda")) return nullptr;
    for (const char* const ending : {"_v4", "_v3", "_v2", ""}) {
        const std::string whole = name + ending;
        if (version_of(whole) > version) continue;
        if (void* const function = dlsym(library, whole.c_str())) return function;
    }
    return nullptr;
}

// Returns whether the function was found.
bool find_entry_point(const char* symbol, void** function, int version, int* status) {
    require(symbol && function, cudaErrorInvalidValue);
    *function = function_named(symbol, version);
    const bool later = !*function && function_named(symbol, INT_MAX);
    if (status)
        *status = *function ? entry_point_success
                  : later   ? entry_point_too_new
                            : entry_point_not_found;
    if (*function) return true;
    // Python packages look up all functions when they are imported.
    if (runtime().settings.code.empty()) return false;
    print_once("coalesce: " + std::string(symbol) + "() of the driver API is not simulated");
    runtime().report.missing(symbol);
    return false;
}

}  // namespace

void core::cuTensorMapEncodeTiled(void* to, int element, uint32_t rank, void* address,
                                  const uint64_t* extents, const uint64_t* strides,
                                  const uint32_t* box, const uint32_t* steps, int interleave,
                                  int swizzle, int /*promotion*/, int fill) {
    // The L2 promotion does not change results. A tensor map needs no context.
    require(to && address && extents && box && steps && (rank <= 1 || strides) && rank > 0 &&
                rank <= sim::max_dimensions && element >= 0 && swizzle >= 0,
            cudaErrorInvalidValue);
    if (interleave != 0) {
        print_once("coalesce: tensor maps with an interleaved layout are not simulated");
        throw Failure{cudaErrorInvalidValue};
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
    write(to, map);
}

void core::cuTensorMapReplaceAddress(void* to, void* address) {
    require(to && address, cudaErrorInvalidValue);
    auto map = sim::tensor_map_in(static_cast<const std::byte*>(to));
    require(map.has_value(), cudaErrorInvalidValue);
    map->address = reinterpret_cast<uintptr_t>(address);
    write(to, *map);
}

void core::cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t,
                               int* status) {
    if (!find_entry_point(symbol, function, version, status) && !status)
        throw Failure{cudaErrorSymbolNotFound};
}
void core::cuGetProcAddress(const char* symbol, void** function, int version, uint64_t) {
    if (!find_entry_point(symbol, function, version, nullptr))
        throw Failure{cudaErrorSymbolNotFound};
}

// Only NVIDIA's libraries call this function, to get private functions of the driver. They also
// work without them. So no message is printed.
EXPORTED Error cuGetExportTable(const void** table, const void*) {
    if (table) *table = nullptr;
    return cudaErrorNotSupported;
}

void core::cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                   int* status) {
    if (!find_entry_point(symbol, function, runtime_version, status) && !status)
        throw Failure{cudaErrorSymbolNotFound};
}
void core::cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                            unsigned long long, int* status) {
    if (!find_entry_point(symbol, function, int(version), status) && !status)
        throw Failure{cudaErrorSymbolNotFound};
}

}  // namespace coalesce::cudart
