// Launches of kernels and of host functions.
#include <cstring>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"
#include "cudart/state/work.hpp"

namespace coalesce::cudart {

namespace {

// Copies the arguments of a launch that come in one buffer, in the layout of the .param space.
void copy_buffer(std::vector<std::byte>& to, void** extra) {
    // The values of CU_LAUNCH_PARAM_END, CU_LAUNCH_PARAM_BUFFER_POINTER and ..._BUFFER_SIZE.
    constexpr uintptr_t end = 0, pointer = 1, size = 2;
    const void* buffer = nullptr;
    size_t bytes = 0;
    for (; reinterpret_cast<uintptr_t>(*extra) != end; extra += 2) {
        const auto what = reinterpret_cast<uintptr_t>(*extra);
        require(what == pointer || what == size, cudaErrorInvalidValue);
        if (what == pointer) buffer = extra[1];
        if (what == size) bytes = *static_cast<const size_t*>(extra[1]);
    }
    require(buffer && bytes >= to.size(), cudaErrorInvalidValue,
            "the buffer of the arguments is smaller than the kernel's parameters");
    std::memcpy(to.data(), buffer, to.size());
}

}  // namespace

KernelWork kernel_work(const void* host, Dim grid, Dim block, void** arguments, size_t shared_bytes,
                       void** extra) {
    KernelWork w;
    w.function = &runtime().modules.function(host);
    w.grid = grid;
    w.block = block;
    w.shared_bytes = uint32_t(shared_bytes);  // an H200 ignores the upper bits, too
    if (w.shared_bytes != shared_bytes)
        print_once("coalesce: a launch asks for " + std::to_string(shared_bytes) +
                   " bytes of shared memory; CUDA takes this number modulo 2^32");
    uint32_t total = 0;
    const auto parameters =
        sim::lay_out_parameters(w.function->module->entry(w.function->entry), total);
    w.parameters.resize(total);
    if (total == 0) return w;
    if (!arguments && extra) {
        copy_buffer(w.parameters, extra);
        return w;
    }
    require(arguments, cudaErrorInvalidValue,
            "the launch passes no arguments, but the kernel has parameters");
    for (size_t i = 0; i < parameters.size(); ++i)
        std::memcpy(&w.parameters[parameters[i].offset], arguments[i], parameters[i].bytes);
    return w;
}

void take_attributes(KernelWork& w, const LaunchAttribute* attributes, unsigned count) {
    constexpr int attribute_cooperative = 2, attribute_cluster = 4;
    require(attributes || count == 0, cudaErrorInvalidValue);
    for (unsigned i = 0; i < count; ++i) {
        const LaunchAttribute& a = attributes[i];
        if (a.id == attribute_cooperative) w.cooperative = a.val.cooperative;
        if (a.id != attribute_cluster) continue;
        const Dim cluster{a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z};
        if (cluster != Dim{0, 0, 0}) w.cluster = cluster;  // zeros ask for no clusters
    }
}

void launch_with(KernelWork w, const LaunchAttribute* attributes, unsigned count, Stream stream) {
    take_attributes(w, attributes, count);
    submit(std::move(w), stream);
}

namespace {

void launch_on(const void* host, Dim grid, Dim block, void** arguments, size_t shared_bytes,
               Stream stream, bool cooperative) {
    KernelWork w = kernel_work(host, grid, block, arguments, shared_bytes);
    w.cooperative = cooperative;
    submit(std::move(w), stream);
}

}  // namespace

void core::cudaLaunchKernel(const void* f, Dim grid, Dim block, void** args, size_t shared,
                            Stream s) {
    launch_on(f, grid, block, args, shared, s, false);
}

void core::__cudaLaunchKernel(const void* f, Dim grid, Dim block, void** args, size_t shared,
                              Stream s) {
    launch_on(f, grid, block, args, shared, s, false);
}

void core::cudaLaunchCooperativeKernel(const void* f, Dim grid, Dim block, void** args,
                                       size_t shared, Stream s) {
    launch_on(f, grid, block, args, shared, s, true);
}

void core::cudaLaunchKernelExC(const LaunchConfig* c, const void* f, void** args) {
    require(c, cudaErrorInvalidValue);
    launch_with(kernel_work(f, c->gridDim, c->blockDim, args, c->dynamicSmemBytes), c->attrs,
                c->numAttrs, c->stream);
}

EXPORTED Error __cudaGetKernel(const void** kernel, const void* host) {
    // A module is read only at its first use, so there may be no object for the kernel yet.
    // Therefore the handle of a kernel is the address of its host function.
    *kernel = host;
    return cudaSuccess;
}

void core::cudaGetKernel(const void** kernel, const void* host) {
    runtime().modules.function(host);
    *kernel = host;
}

void core::cudaGetFuncBySymbol(const void** function, const void* host) {
    runtime().modules.function(host);
    *function = host;
}

void core::cudaLaunchHostFunc(Stream stream, HostFunction function, void* data) {
    require(function, cudaErrorInvalidValue);
    HostWork w;
    w.function = function, w.data = data;
    submit(w, stream);
}

void core::cudaStreamAddCallback(Stream stream, StreamCallback callback, void* data,
                                 unsigned flags) {
    require(callback && flags == 0, cudaErrorInvalidValue);
    HostWork w;
    w.callback = callback, w.data = data, w.stream = stream;
    submit(w, stream);
}

}  // namespace coalesce::cudart
