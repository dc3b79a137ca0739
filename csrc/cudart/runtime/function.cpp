// A kernel's attributes, and its occupancy: how many of its blocks fit on a multiprocessor.
#include <algorithm>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"
#include "cudart/state/work.hpp"

namespace coalesce::cudart {

namespace {

// Values of cudaFuncAttribute.
constexpr int max_dynamic_shared = 8, carveout = 9, large_clusters = 14, last_attribute = 15;
constexpr int max_threads = 1024;  // threads per block
constexpr uint32_t first_with_clusters = 9;

struct Resources {
    const sim::Program& program;
    uint32_t registers;
};

Resources resources_of(Function& f) {
    const bool check = runtime().settings.check;
    const auto purpose = check ? analysis::Purpose::check : analysis::Purpose::run;
    const auto& known = f.module->known.registers;
    const auto registers = known.find(f.entry);
    return {f.module->program(f.entry, purpose), registers == known.end() ? 0 : registers->second};
}

// Returns how many blocks fit on a multiprocessor.
uint32_t blocks_of(Function& f, int threads, size_t dynamic) {
    const Resources needs = resources_of(f);
    const Runtime& rt = runtime();
    require(threads > 0, cudaErrorInvalidValue);
    const uint32_t most = rt.gpu.max_block_shared_bytes(), fixed = needs.program.shared_bytes;
    if (threads > max_threads || fixed > most || dynamic > most - fixed) return 0;
    return model::occupancy(rt.gpu, uint32_t(threads), needs.registers, fixed + uint32_t(dynamic))
        .blocks;
}

}  // namespace

void core::cudaFuncGetAttributes(FunctionAttributes* a, const void* host) {
    require(a, cudaErrorInvalidValue);
    Function& f = runtime().modules.function(host);
    const Resources needs = resources_of(f);
    *a = {};
    a->sharedSizeBytes = needs.program.shared_bytes;
    a->localSizeBytes = needs.program.local_bytes;
    for (const auto& item : f.module->memory->items)
        if (!item.writable) a->constSizeBytes += item.bytes.size();
    const uint32_t bound = needs.program.max_block_threads;
    const uint32_t most = model::most_threads(needs.registers);
    a->maxThreadsPerBlock = int(bound ? std::min(bound, most) : most);
    a->numRegs = int(needs.registers);
    a->ptxVersion = a->binaryVersion = int(f.module->code.arch);
    a->maxDynamicSharedSizeBytes = int(f.most_dynamic_shared(needs.program.shared_bytes));
    a->preferredShmemCarveout = f.carveout;
    a->nonPortableClusterSizeAllowed = f.large_clusters;
}
void core::cudaFuncSetAttribute(const void* host, int attribute, int value) {
    Function& f = runtime().modules.function(host);
    require(attribute >= max_dynamic_shared && attribute <= last_attribute, cudaErrorInvalidValue);
    if (attribute == max_dynamic_shared) {
        const uint32_t most = runtime().gpu.max_block_shared_bytes();
        require(value >= 0 && resources_of(f).program.shared_bytes + uint32_t(value) <= most,
                cudaErrorInvalidValue);
        f.max_dynamic_shared = uint32_t(value);
    } else if (attribute == carveout) {
        require(value >= -1 && value <= 100, cudaErrorInvalidValue);
        // This setting is stored, but has no effect. On a GPU it is a hint on how to divide the
        // memory of a multiprocessor between L1 and shared memory. The model gives shared
        // memory what the blocks need.
        f.carveout = value;
    } else if (attribute == large_clusters && runtime().gpu.major >= first_with_clusters) {
        require(value == 0 || value == 1, cudaErrorInvalidValue);
        f.large_clusters = value;
    } else {
        print_once("coalesce: cudaFuncSetAttribute() of attribute " + std::to_string(attribute) +
                   " is not simulated");
        throw Failure{cudaErrorNotSupported};
    }
}
// On a GPU, this is a hint on how to divide the memory of a multiprocessor between L1 and shared
// memory. On the simulator, it has no effect: the model gives shared memory what the blocks need.
void core::cudaFuncSetCacheConfig(const void* host, int preference) {
    runtime().modules.function(host);
    require(preference >= 0 && preference <= 3, cudaErrorInvalidValue);
}
void core::cudaFuncSetSharedMemConfig(const void* host, int) { runtime().modules.function(host); }
void core::cudaFuncGetName(const char** name, const void* host) {
    require(name, cudaErrorInvalidValue);
    *name = runtime().modules.function(host).entry.c_str();
}
void core::cudaFuncGetParamInfo(const void* host, size_t index, size_t* offset, size_t* bytes) {
    const Function& f = runtime().modules.function(host);
    uint32_t total = 0;
    const auto parameters = sim::lay_out_parameters(f.module->entry(f.entry), total);
    require(index < parameters.size() && offset, cudaErrorInvalidValue);
    *offset = parameters[index].offset;
    if (bytes) *bytes = parameters[index].bytes;
}

void core::cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host, int threads,
                                                         size_t dynamic) {
    require(blocks, cudaErrorInvalidValue);
    *blocks = int(blocks_of(runtime().modules.function(host), threads, dynamic));
}
void core::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* host,
                                                                  int threads, size_t dynamic,
                                                                  unsigned flags) {
    require(blocks && flags <= 1, cudaErrorInvalidValue);
    *blocks = int(blocks_of(runtime().modules.function(host), threads, dynamic));
}
// The blocks of a cluster are in one GPC. How many multiprocessors each GPC has is not known. We
// assume that all GPCs have equally many.
void core::cudaOccupancyMaxActiveClusters(int* clusters, const void* host,
                                          const LaunchConfig* config) {
    require(clusters && config, cudaErrorInvalidValue);
    KernelWork w;
    take_attributes(w, config->attrs, config->numAttrs);
    const model::Gpu& gpu = runtime().gpu;
    require(gpu.major >= first_with_clusters, cudaErrorNotSupported,
            "the simulated GPU has no clusters");
    const Dim& block = config->blockDim;
    const auto threads =
        std::max({block.x, block.y, block.z}) > max_threads ? max_threads + 1 : int(block.count());
    const uint64_t size = w.cluster.count();
    Function& f = runtime().modules.function(host);
    const uint32_t blocks = blocks_of(f, threads, config->dynamicSmemBytes);
    const uint32_t all = gpu.multiprocessors, gpcs = gpu.gpcs();
    *clusters = 0;
    require(size > 0 && size <= f.most_cluster_blocks(), cudaErrorInvalidClusterSize);
    for (uint32_t i = 0; i < gpcs; ++i)
        *clusters += int(((i + 1) * all / gpcs - i * all / gpcs) * blocks / size);
}
void core::cudaOccupancyMaxPotentialClusterSize(int* size, const void* host,
                                                const LaunchConfig* config) {
    require(size && config, cudaErrorInvalidValue);
    const Function& f = runtime().modules.function(host);
    *size = runtime().gpu.major >= first_with_clusters ? int(f.most_cluster_blocks()) : 1;
}
void core::cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* host, int blocks,
                                                     int threads) {
    require(bytes && blocks > 0, cudaErrorInvalidValue);
    Function& f = runtime().modules.function(host);
    constexpr size_t unit = 128;
    size_t fits = 0;
    for (size_t n = 0; n <= runtime().gpu.max_block_shared_bytes(); n += unit)
        if (blocks_of(f, threads, n) >= uint32_t(blocks)) fits = n;
    *bytes = fits;
}

}  // namespace coalesce::cudart
