// The driver API: launches, the attributes of kernels, and occupancy.
#include <algorithm>
#include <cstring>

#include "cudart/abi/driver.hpp"
#include "cudart/state/api.hpp"
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

void core::cuLaunchKernel(const void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, Stream stream,
                          void** arguments, void** extra) {
    launch(f, {gx, gy, gz}, {bx, by, bz}, shared, stream, arguments, extra, false);
}
void core::cuLaunchCooperativeKernel(const void* f, unsigned gx, unsigned gy, unsigned gz,
                                     unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                     Stream stream, void** arguments) {
    launch(f, {gx, gy, gz}, {bx, by, bz}, shared, stream, arguments, nullptr, true);
}
void core::cuLaunchKernelEx(const DriverLaunchConfig* c, const void* f, void** arguments,
                            void** extra) {
    require(c, cudaErrorInvalidValue);
    launch_with(kernel_work(checked(f), {c->gridDimX, c->gridDimY, c->gridDimZ},
                            {c->blockDimX, c->blockDimY, c->blockDimZ}, arguments,
                            c->sharedMemBytes, extra),
                c->attrs, c->numAttrs, c->hStream);
}

// The launch functions of CUDA 3 and older. The program sets the block, the shared memory and the
// arguments with separate calls before the launch.
namespace {

OldLaunch& old_launch(const void* f) { return runtime().modules.function(checked(f)).old_launch; }
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
    // See copy_buffer() of runtime/launch.cpp for these numbers.
    void* extra[] = {reinterpret_cast<void*>(1), l.arguments.data(), reinterpret_cast<void*>(2),
                     &bytes, nullptr};
    launch(f, {unsigned(width), unsigned(height), 1}, l.block, l.shared, stream, nullptr, extra,
           false);
}

}  // namespace

void core::cuFuncSetBlockShape(const void* f, int x, int y, int z) {
    require(x > 0 && y > 0 && z > 0, cudaErrorInvalidValue);
    old_launch(f).block = {unsigned(x), unsigned(y), unsigned(z)};
}
void core::cuFuncSetSharedSize(const void* f, unsigned bytes) { old_launch(f).shared = bytes; }
void core::cuParamSetSize(const void* f, unsigned bytes) {
    require(bytes <= 4096, cudaErrorInvalidValue);
    old_launch(f).arguments.resize(bytes);
}
void core::cuParamSeti(const void* f, int offset, unsigned value) {
    set_argument(f, offset, &value, sizeof value);
}
void core::cuParamSetf(const void* f, int offset, float value) {
    set_argument(f, offset, &value, sizeof value);
}
void core::cuParamSetv(const void* f, int offset, const void* value, unsigned bytes) {
    set_argument(f, offset, value, bytes);
}
void core::cuLaunch(const void* f) { launch_old(f, 1, 1, nullptr); }
void core::cuLaunchGrid(const void* f, int width, int height) {
    launch_old(f, width, height, nullptr);
}
void core::cuLaunchGridAsync(const void* f, int width, int height, Stream stream) {
    launch_old(f, width, height, stream);
}

// Attributes.
namespace {

void get_attribute(int* value, int attribute, const void* f) {
    require(value, cudaErrorInvalidValue);
    FunctionAttributes a;
    core::cudaFuncGetAttributes(&a, checked(f));
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

void core::cuFuncGetAttribute(int* value, int attribute, const void* f) {
    get_attribute(value, attribute, f);
}
void core::cuKernelGetAttribute(int* value, int attribute, const void* f, int) {
    get_attribute(value, attribute, f);
}
void core::cuFuncSetAttribute(const void* f, int attribute, int value) {
    core::cudaFuncSetAttribute(checked(f), attribute, value);
}
void core::cuKernelSetAttribute(int attribute, int value, const void* f, int) {
    core::cudaFuncSetAttribute(checked(f), attribute, value);
}
void core::cuFuncSetCacheConfig(const void* f, int preference) {
    core::cudaFuncSetCacheConfig(checked(f), preference);
}
void core::cuKernelSetCacheConfig(const void* f, int preference, int) {
    core::cudaFuncSetCacheConfig(checked(f), preference);
}
void core::cuFuncSetSharedMemConfig(const void* f, int) {
    (void)runtime().modules.function(checked(f));
}
void core::cuFuncGetName(const char** name, const void* f) {
    core::cudaFuncGetName(name, checked(f));
}
void core::cuKernelGetName(const char** name, const void* f) {
    core::cudaFuncGetName(name, checked(f));
}
void core::cuFuncGetParamInfo(const void* f, size_t index, size_t* offset, size_t* bytes) {
    core::cudaFuncGetParamInfo(checked(f), index, offset, bytes);
}
void core::cuKernelGetParamInfo(const void* f, size_t index, size_t* offset, size_t* bytes) {
    core::cudaFuncGetParamInfo(checked(f), index, offset, bytes);
}
void core::cuFuncGetParamCount(const void* f, size_t* count) { count_parameters(count, f); }
void core::cuKernelGetParamCount(const void* f, size_t* count) { count_parameters(count, f); }
void core::cuFuncIsLoaded(int* state, const void* f) {
    require(state, cudaErrorInvalidValue);
    (void)runtime().modules.function(checked(f));
    *state = 1;
}
void core::cuFuncLoad(const void* f) { (void)runtime().modules.function(checked(f)); }

void core::cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* f, int threads,
                                                       size_t dynamic) {
    core::cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, checked(f), threads, dynamic);
}

void core::cuOccupancyMaxActiveClusters(int* clusters, const void* f,
                                        const DriverLaunchConfig* config) {
    require(config, cudaErrorInvalidValue);
    const LaunchConfig same{{config->gridDimX, config->gridDimY, config->gridDimZ},
                            {config->blockDimX, config->blockDimY, config->blockDimZ},
                            config->sharedMemBytes,
                            config->hStream,
                            config->attrs,
                            config->numAttrs};
    core::cudaOccupancyMaxActiveClusters(clusters, checked(f), &same);
}

namespace {

// Finds the largest block with which a multiprocessor holds the most threads.
void largest_block(int* grid, int* block, const void* f, SharedOfBlock shared_of, size_t dynamic,
                   int limit) {
    require(grid && block, cudaErrorInvalidValue);
    FunctionAttributes a;
    core::cudaFuncGetAttributes(&a, checked(f));
    const int most = limit > 0 ? std::min(limit, a.maxThreadsPerBlock) : a.maxThreadsPerBlock;
    int best = 0;
    for (int threads = (most + 31) / 32 * 32; threads > 0; threads -= 32) {
        const int used = std::min(threads, most);
        size_t shared = dynamic;
        if (shared_of) {
            shared = shared_of(used);
        }
        int blocks = 0;
        core::cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, used, shared);
        if (blocks * used <= best) continue;
        best = blocks * used;
        *block = used;
        *grid = blocks * int(runtime().gpu.multiprocessors);
    }
    require(best > 0, cudaErrorLaunchOutOfResources);
}

}  // namespace

void core::cuOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* f,
                                            SharedOfBlock shared_of, size_t dynamic, int limit) {
    largest_block(grid, block, f, shared_of, dynamic, limit);
}
void core::cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, const void* f,
                                                     SharedOfBlock shared_of, size_t dynamic,
                                                     int limit, unsigned flags) {
    require(flags <= 1, cudaErrorInvalidValue);
    largest_block(grid, block, f, shared_of, dynamic, limit);
}

}  // namespace coalesce::cudart
