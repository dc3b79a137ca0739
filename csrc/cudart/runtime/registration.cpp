// Functions that nvcc's generated code calls before main(), for fat binaries, kernels and
// variables.
#include <cstring>
#include <vector>

#include "cudart/binary/fatbin.hpp"
#include "cudart/state/api.hpp"
#include "cudart/state/per_thread.hpp"
#include "cudart/state/runtime.hpp"
#include "cudart/state/work.hpp"

namespace coalesce::cudart {

namespace {

// A structure of nvcc's generated code (crt/host_runtime.h). The program registers a pointer to it.
struct Configuration {
    Dim grid, block;
    size_t shared_bytes;
    Stream stream;
};
std::vector<Configuration>& configurations() {
    static const PerThread<std::vector<Configuration>> pushed;
    return pushed.get();
}
thread_local void* configured_from = nullptr;

}  // namespace

void* launched_from() { return configured_from; }

EXPORTED void** __cudaRegisterFatBinary(const void* wrapper) {
    const std::lock_guard guard(runtime().lock);
    const auto* const container = static_cast<const Wrapper*>(wrapper)->container;
    const size_t bytes = container_bytes({container, 16});
    return reinterpret_cast<void**>(runtime().modules.add({container, bytes}));
}

EXPORTED void __cudaRegisterFatBinaryEnd(void** handle) {
    const std::lock_guard guard(runtime().lock);
    try {
        runtime().modules.place_managed(reinterpret_cast<ModuleRecord*>(handle));
    } catch (const Failure&) {  // the first use of the module returns the error
    }
}

EXPORTED char __cudaInitModule(void**) { return 1; }

EXPORTED void __cudaUnregisterFatBinary(void**) {
    // This is called when the process ends or a library is closed. The module is kept, because the
    // report may name its kernels and variables.
}

EXPORTED void __cudaRegisterFunction(void** handle, const void* host, char*, const char* entry, int,
                                     void*, void*, void*, void*, int*) {
    const std::lock_guard guard(runtime().lock);
    runtime().modules.add_function(reinterpret_cast<ModuleRecord*>(handle), host, entry);
}

EXPORTED void __cudaRegisterVar(void** handle, const void* host, char*, const char* name, int,
                                size_t bytes, int, int) {
    const std::lock_guard guard(runtime().lock);
    runtime().modules.add_variable(reinterpret_cast<ModuleRecord*>(handle), host, name, bytes,
                                   nullptr);
}

EXPORTED void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int,
                                       size_t bytes, int, int) {
    const std::lock_guard guard(runtime().lock);
    runtime().modules.add_variable(reinterpret_cast<ModuleRecord*>(handle), host, name, bytes,
                                   host);
}

EXPORTED unsigned __cudaPushCallConfiguration(Dim grid, Dim block, size_t shared_bytes,
                                              Stream stream) {
    configured_from = __builtin_return_address(0);
    configurations().push_back({grid, block, shared_bytes, stream});
    return 0;
}

EXPORTED Error __cudaPopCallConfiguration(Dim* grid, Dim* block, size_t* shared_bytes,
                                          void* stream) {
    if (configurations().empty()) return cudaErrorMissingConfiguration;
    const Configuration& c = configurations().back();
    *grid = c.grid, *block = c.block, *shared_bytes = c.shared_bytes;
    std::memcpy(stream, &c.stream, sizeof c.stream);
    configurations().pop_back();
    return cudaSuccess;
}

}  // namespace coalesce::cudart
