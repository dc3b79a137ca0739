// The driver API: launches, the attributes of kernels, and occupancy.
#include <algorithm>
#include <cstring>
#include <map>

#include "cudart/abi/driver.hpp"
#include "cudart/driver/driver.hpp"
#include "cudart/state/runtime.hpp"
#include "cudart/state/work.hpp"

namespace coalesce::cudart {

namespace {

const void* checked(const void* function) {
    require(function, cudaErrorInvalidResourceHandle, "the kernel is null");
    return function;
}

void launch(const void* f, Dim grid, Dim block, unsigned shared, Stream stream, void** arguments,
            void** extra, bool cooperative) {
    KernelWork w = kernel_work(checked(f), grid, block, arguments, shared, extra);
    w.cooperative = cooperative;
    submit(std::move(w), stream);
}

}  // namespace

CUDRIVER(cuLaunchKernel)
(const void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
 unsigned shared, Stream stream, void** arguments, void** extra) {
    return driver_call("cuLaunchKernel", Needs::context, Waits::no, [&] {
        launch(f, {gx, gy, gz}, {bx, by, bz}, shared, stream, arguments, extra, false);
    });
}
CUDRIVER(cuLaunchCooperativeKernel)
(const void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
 unsigned shared, Stream stream, void** arguments) {
    return driver_call("cuLaunchCooperativeKernel", Needs::context, Waits::no, [&] {
        launch(f, {gx, gy, gz}, {bx, by, bz}, shared, stream, arguments, nullptr, true);
    });
}
CUDRIVER(cuLaunchKernelEx)
(const DriverLaunchConfig* c, const void* f, void** arguments, void** extra) {
    return driver_call("cuLaunchKernelEx", Needs::context, Waits::no, [&] {
        require(c, cudaErrorInvalidValue);
        launch_with(kernel_work(checked(f), {c->gridDimX, c->gridDimY, c->gridDimZ},
                                {c->blockDimX, c->blockDimY, c->blockDimZ}, arguments,
                                c->sharedMemBytes, extra),
                    c->attrs, c->numAttrs, c->hStream);
    });
}

// The launch functions of CUDA 3 and older. The program sets the block, the shared memory and the
// arguments with separate calls before the launch.
namespace {

struct OldLaunch {
    Dim block;
    unsigned shared = 0;
    std::vector<std::byte> arguments;
};
OldLaunch& old_launch(const void* f) {
    static auto* const all = new std::map<const void*, OldLaunch>;
    (void)runtime().modules.function(checked(f));
    return (*all)[f];
}
void set_argument(const void* f, int offset, const void* value, size_t bytes) {
    std::vector<std::byte>& arguments = old_launch(f).arguments;
    require(offset >= 0 && offset < 4096 && bytes <= 4096 && value, cudaErrorInvalidValue);
    arguments.resize(std::max(arguments.size(), size_t(offset) + bytes));
    std::memcpy(arguments.data() + offset, value, bytes);
}
void launch_old(const void* f, int width, int height, Stream stream) {
    OldLaunch& l = old_launch(f);
    require(width > 0 && height > 0, cudaErrorInvalidValue);
    size_t bytes = l.arguments.size();
    // See copy_buffer() of api_launch.cpp for these numbers.
    void* extra[] = {reinterpret_cast<void*>(1), l.arguments.data(), reinterpret_cast<void*>(2),
                     &bytes, nullptr};
    launch(f, {unsigned(width), unsigned(height), 1}, l.block, l.shared, stream, nullptr, extra,
           false);
}

}  // namespace

CUDRIVER(cuFuncSetBlockShape)(const void* f, int x, int y, int z) {
    return driver_call("cuFuncSetBlockShape", Needs::context, Waits::no, [&] {
        require(x > 0 && y > 0 && z > 0, cudaErrorInvalidValue);
        old_launch(f).block = {unsigned(x), unsigned(y), unsigned(z)};
    });
}
CUDRIVER(cuFuncSetSharedSize)(const void* f, unsigned bytes) {
    return driver_call("cuFuncSetSharedSize", Needs::context, Waits::no,
                       [&] { old_launch(f).shared = bytes; });
}
CUDRIVER(cuParamSetSize)(const void* f, unsigned bytes) {
    return driver_call("cuParamSetSize", Needs::context, Waits::no, [&] {
        require(bytes <= 4096, cudaErrorInvalidValue);
        old_launch(f).arguments.resize(bytes);
    });
}
CUDRIVER(cuParamSeti)(const void* f, int offset, unsigned value) {
    return driver_call("cuParamSeti", Needs::context, Waits::no,
                       [&] { set_argument(f, offset, &value, sizeof value); });
}
CUDRIVER(cuParamSetf)(const void* f, int offset, float value) {
    return driver_call("cuParamSetf", Needs::context, Waits::no,
                       [&] { set_argument(f, offset, &value, sizeof value); });
}
CUDRIVER(cuParamSetv)(const void* f, int offset, const void* value, unsigned bytes) {
    return driver_call("cuParamSetv", Needs::context, Waits::no,
                       [&] { set_argument(f, offset, value, bytes); });
}
CUDRIVER(cuLaunch)(const void* f) {
    return driver_call("cuLaunch", Needs::context, Waits::no,
                       [&] { launch_old(f, 1, 1, nullptr); });
}
CUDRIVER(cuLaunchGrid)(const void* f, int width, int height) {
    return driver_call("cuLaunchGrid", Needs::context, Waits::no,
                       [&] { launch_old(f, width, height, nullptr); });
}
CUDRIVER(cuLaunchGridAsync)(const void* f, int width, int height, Stream stream) {
    return driver_call("cuLaunchGridAsync", Needs::context, Waits::no,
                       [&] { launch_old(f, width, height, stream); });
}

// Attributes.
CUDART(cudaFuncGetAttributes)(FunctionAttributes* a, const void* host);
CUDART(cudaFuncSetAttribute)(const void* host, int attribute, int value);
CUDART(cudaFuncSetCacheConfig)(const void* host, int preference);
CUDART(cudaFuncGetName)(const char** name, const void* host);
CUDART(cudaFuncGetParamInfo)(const void* host, size_t index, size_t* offset, size_t* bytes);
CUDART(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
(int* blocks, const void* host, int threads, size_t dynamic);
namespace {

void get_attribute(int* value, int attribute, const void* f) {
    require(value, cudaErrorInvalidValue);
    FunctionAttributes a;
    (void)cudaFuncGetAttributes(&a, checked(f));
    // The values of CUfunction_attribute are the positions in this list.
    const int values[] = {a.maxThreadsPerBlock,
                          int(a.sharedSizeBytes),
                          int(a.constSizeBytes),
                          int(a.localSizeBytes),
                          a.numRegs,
                          a.ptxVersion,
                          a.binaryVersion,
                          a.cacheModeCA,
                          a.maxDynamicSharedSizeBytes,
                          a.preferredShmemCarveout,
                          a.clusterDimMustBeSet,
                          a.requiredClusterWidth,
                          a.requiredClusterHeight,
                          a.requiredClusterDepth,
                          a.nonPortableClusterSizeAllowed,
                          a.clusterSchedulingPolicyPreference};
    require(attribute >= 0 && size_t(attribute) < std::size(values), cudaErrorInvalidValue);
    *value = values[attribute];
}

void count_parameters(size_t* count, const void* handle) {
    require(count, cudaErrorInvalidValue);
    const Function& f = runtime().modules.function(checked(handle));
    uint32_t total = 0;
    *count = sim::lay_out_parameters(f.module->entry(f.entry), total).size();
}

}  // namespace

CUDRIVER(cuFuncGetAttribute)(int* value, int attribute, const void* f) {
    return driver_call("cuFuncGetAttribute", Needs::context, Waits::no,
                       [&] { get_attribute(value, attribute, f); });
}
CUDRIVER(cuKernelGetAttribute)(int* value, int attribute, const void* f, int) {
    return driver_call("cuKernelGetAttribute", Needs::initialization, Waits::no,
                       [&] { get_attribute(value, attribute, f); });
}
CUDRIVER(cuFuncSetAttribute)(const void* f, int attribute, int value) {
    return driver_call("cuFuncSetAttribute", Needs::context, Waits::no,
                       [&] { (void)cudaFuncSetAttribute(checked(f), attribute, value); });
}
CUDRIVER(cuKernelSetAttribute)(int attribute, int value, const void* f, int) {
    return driver_call("cuKernelSetAttribute", Needs::initialization, Waits::no,
                       [&] { (void)cudaFuncSetAttribute(checked(f), attribute, value); });
}
CUDRIVER(cuFuncSetCacheConfig)(const void* f, int preference) {
    return driver_call("cuFuncSetCacheConfig", Needs::context, Waits::no,
                       [&] { (void)cudaFuncSetCacheConfig(checked(f), preference); });
}
CUDRIVER(cuKernelSetCacheConfig)(const void* f, int preference, int) {
    return driver_call("cuKernelSetCacheConfig", Needs::initialization, Waits::no,
                       [&] { (void)cudaFuncSetCacheConfig(checked(f), preference); });
}
CUDRIVER(cuFuncSetSharedMemConfig)(const void* f, int) {
    return driver_call("cuFuncSetSharedMemConfig", Needs::context, Waits::no,
                       [&] { (void)runtime().modules.function(checked(f)); });
}
CUDRIVER(cuFuncGetName)(const char** name, const void* f) {
    return driver_call("cuFuncGetName", Needs::context, Waits::no,
                       [&] { (void)cudaFuncGetName(name, checked(f)); });
}
CUDRIVER(cuKernelGetName)(const char** name, const void* f) {
    return driver_call("cuKernelGetName", Needs::initialization, Waits::no,
                       [&] { (void)cudaFuncGetName(name, checked(f)); });
}
CUDRIVER(cuFuncGetParamInfo)(const void* f, size_t index, size_t* offset, size_t* bytes) {
    return driver_call("cuFuncGetParamInfo", Needs::context, Waits::no,
                       [&] { (void)cudaFuncGetParamInfo(checked(f), index, offset, bytes); });
}
CUDRIVER(cuKernelGetParamInfo)(const void* f, size_t index, size_t* offset, size_t* bytes) {
    return driver_call("cuKernelGetParamInfo", Needs::initialization, Waits::no,
                       [&] { (void)cudaFuncGetParamInfo(checked(f), index, offset, bytes); });
}
CUDRIVER(cuFuncGetParamCount)(const void* f, size_t* count) {
    return driver_call("cuFuncGetParamCount", Needs::context, Waits::no,
                       [&] { count_parameters(count, f); });
}
CUDRIVER(cuKernelGetParamCount)(const void* f, size_t* count) {
    return driver_call("cuKernelGetParamCount", Needs::initialization, Waits::no,
                       [&] { count_parameters(count, f); });
}
CUDRIVER(cuFuncIsLoaded)(int* state, const void* f) {
    return driver_call("cuFuncIsLoaded", Needs::context, Waits::no, [&] {
        require(state, cudaErrorInvalidValue);
        (void)runtime().modules.function(checked(f));
        *state = 1;
    });
}
CUDRIVER(cuFuncLoad)(const void* f) {
    return driver_call("cuFuncLoad", Needs::context, Waits::no,
                       [&] { (void)runtime().modules.function(checked(f)); });
}

FORWARD(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        (int* blocks, const void* f, int threads, size_t dynamic, unsigned flags),
        (blocks, f, threads, dynamic, flags))
FORWARD(cuOccupancyAvailableDynamicSMemPerBlock, cudaOccupancyAvailableDynamicSMemPerBlock,
        (size_t* bytes, const void* f, int blocks, int threads), (bytes, f, blocks, threads))
CUDRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor)
(int* blocks, const void* f, int threads, size_t dynamic) {
    return driver_call("cuOccupancyMaxActiveBlocksPerMultiprocessor", Needs::context, Waits::no,
                       [&] {
                           (void)cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, checked(f),
                                                                               threads, dynamic);
                       });
}

CUDART(cudaOccupancyMaxActiveClusters)(int* clusters, const void* host, const LaunchConfig* config);
CUDRIVER(cuOccupancyMaxActiveClusters)
(int* clusters, const void* f, const DriverLaunchConfig* config) {
    return driver_call("cuOccupancyMaxActiveClusters", Needs::context, Waits::no, [&] {
        require(config, cudaErrorInvalidValue);
        const LaunchConfig same{{config->gridDimX, config->gridDimY, config->gridDimZ},
                                {config->blockDimX, config->blockDimY, config->blockDimZ},
                                config->sharedMemBytes,
                                config->hStream,
                                config->attrs,
                                config->numAttrs};
        (void)cudaOccupancyMaxActiveClusters(clusters, checked(f), &same);
    });
}
FORWARD(cuOccupancyMaxPotentialClusterSize, cudaOccupancyMaxPotentialClusterSize,
        (int* size, const void* f, const LaunchConfig* config), (size, f, config))

namespace {

using SharedOfBlock = size_t (*)(int threads);

// Finds the largest block with which a multiprocessor holds the most threads.
void largest_block(int* grid, int* block, const void* f, SharedOfBlock shared_of, size_t dynamic,
                   int limit) {
    require(grid && block, cudaErrorInvalidValue);
    FunctionAttributes a;
    (void)cudaFuncGetAttributes(&a, checked(f));
    const int most = limit > 0 ? std::min(limit, a.maxThreadsPerBlock) : a.maxThreadsPerBlock;
    int best = 0;
    for (int threads = (most + 31) / 32 * 32; threads > 0; threads -= 32) {
        const int used = std::min(threads, most);
        size_t shared = dynamic;
        if (shared_of) {
            const detail::ProgramCall program(false);
            shared = shared_of(used);
        }
        int blocks = 0;
        (void)cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, used, shared);
        if (blocks * used <= best) continue;
        best = blocks * used;
        *block = used;
        *grid = blocks * int(runtime().gpu.multiprocessors);
    }
    require(best > 0, cudaErrorLaunchOutOfResources);
}

}  // namespace

CUDRIVER(cuOccupancyMaxPotentialBlockSize)
(int* grid, int* block, const void* f, SharedOfBlock shared_of, size_t dynamic, int limit) {
    return driver_call("cuOccupancyMaxPotentialBlockSize", Needs::context, Waits::no,
                       [&] { largest_block(grid, block, f, shared_of, dynamic, limit); });
}
CUDRIVER(cuOccupancyMaxPotentialBlockSizeWithFlags)
(int* grid, int* block, const void* f, SharedOfBlock shared_of, size_t dynamic, int limit,
 unsigned flags) {
    return driver_call("cuOccupancyMaxPotentialBlockSizeWithFlags", Needs::context, Waits::no, [&] {
        require(flags <= 1, cudaErrorInvalidValue);
        largest_block(grid, block, f, shared_of, dynamic, limit);
    });
}

}  // namespace coalesce::cudart
