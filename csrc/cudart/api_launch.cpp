// Launches of kernels and of host functions.
#include <cstring>

#include "cudart/api.hpp"
#include "cudart/runtime.hpp"
#include "cudart/work.hpp"

namespace coalesce::cudart {

KernelWork kernel_work(const void* host, Dim grid, Dim block, void** arguments,
                       size_t shared_bytes) {
    KernelWork w;
    w.function = &runtime().modules.function(host);
    w.grid = grid;
    w.block = block;
    require(shared_bytes <= UINT32_MAX, cudaErrorInvalidValue);
    w.shared_bytes = uint32_t(shared_bytes);
    uint32_t total = 0;
    const auto parameters =
        sim::lay_out_parameters(w.function->module->entry(w.function->entry), total);
    w.parameters.resize(total);
    for (size_t i = 0; i < parameters.size(); ++i)
        std::memcpy(&w.parameters[parameters[i].offset], arguments[i], parameters[i].bytes);
    return w;
}

namespace {

constexpr int attribute_cooperative = 2, attribute_cluster = 4;

void launch_on(const void* host, Dim grid, Dim block, void** arguments, size_t shared_bytes,
               Stream stream, bool cooperative, Dim cluster = {1, 1, 1}) {
    KernelWork w = kernel_work(host, grid, block, arguments, shared_bytes);
    w.cooperative = cooperative;
    w.cluster = cluster;
    submit(std::move(w), stream);
}

}  // namespace

CUDART(cudaLaunchKernel)(const void* f, Dim grid, Dim block, void** args, size_t shared, Stream s) {
    return call("cudaLaunchKernel", Waits::no,
                [&] { launch_on(f, grid, block, args, shared, s, false); });
}

CUDART(__cudaLaunchKernel)(const void* f, Dim grid, Dim block, void** args, size_t shared,
                           Stream s) {
    return call("cudaLaunchKernel", Waits::no,
                [&] { launch_on(f, grid, block, args, shared, s, false); });
}

CUDART(cudaLaunchCooperativeKernel)(const void* f, Dim grid, Dim block, void** args, size_t shared,
                                    Stream s) {
    return call("cudaLaunchCooperativeKernel", Waits::no,
                [&] { launch_on(f, grid, block, args, shared, s, true); });
}

CUDART(cudaLaunchKernelExC)(const LaunchConfig* c, const void* f, void** args) {
    return call("cudaLaunchKernelExC", Waits::no, [&] {
        require(c, cudaErrorInvalidValue);
        bool cooperative = false;
        Dim cluster{1, 1, 1};
        for (unsigned i = 0; i < c->numAttrs; ++i) {
            const LaunchAttribute& a = c->attrs[i];
            if (a.id == attribute_cooperative) cooperative = a.val.cooperative;
            if (a.id != attribute_cluster) continue;
            cluster = {a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z};
            require(cluster.count() > 0, cudaErrorInvalidValue, "the cluster has no blocks");
        }
        launch_on(f, c->gridDim, c->blockDim, args, c->dynamicSmemBytes, c->stream, cooperative,
                  cluster);
    });
}

CUDART(__cudaGetKernel)(const void** kernel, const void* host) {
    // The handle is the address of the host function, because a module is not read before its first
    // use.
    *kernel = host;
    return cudaSuccess;
}

CUDART(cudaGetKernel)(const void** kernel, const void* host) {
    return call("cudaGetKernel", Waits::no, [&] {
        runtime().modules.function(host);
        *kernel = host;
    });
}

CUDART(cudaGetFuncBySymbol)(const void** function, const void* host) {
    return call("cudaGetFuncBySymbol", Waits::no, [&] {
        runtime().modules.function(host);
        *function = host;
    });
}

CUDART(cudaLaunchHostFunc)(Stream stream, HostFunction function, void* data) {
    return call("cudaLaunchHostFunc", Waits::no, [&] {
        require(function, cudaErrorInvalidValue);
        HostWork w;
        w.function = function, w.data = data;
        submit(w, stream);
    });
}

CUDART(cudaStreamAddCallback)(Stream stream, StreamCallback callback, void* data, unsigned flags) {
    return call("cudaStreamAddCallback", Waits::no, [&] {
        require(callback && flags == 0, cudaErrorInvalidValue);
        HostWork w;
        w.callback = callback, w.data = data, w.stream = stream;
        submit(w, stream);
    });
}

}  // namespace coalesce::cudart
