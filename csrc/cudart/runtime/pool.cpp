// Memory pools: attributes and properties of the pools of cudaMallocAsync().
//
// Freed memory is released at once, so a pool reserves exactly the memory in use.
#include <map>
#include <memory>
#include <set>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

struct PoolRecord {
    std::map<int, uint64_t> attributes{{1, 1}, {2, 1}, {3, 1}, {4, 0}};
};

namespace {

struct Pools {
    PoolRecord default_pool;
    Pool current = &default_pool;
    std::set<Pool> made;
};
Pools& pools() {
    static auto* const all = new Pools;
    return *all;
}
PoolRecord& pool_of(Pool handle) {
    require(handle == &pools().default_pool || pools().made.contains(handle),
            cudaErrorInvalidValue);
    return *handle;
}
constexpr int release_threshold = 4, used_high = 8;

}  // namespace

CUDART(cudaDeviceGetDefaultMemPool)(Pool* pool, int device) {
    return call("cudaDeviceGetDefaultMemPool", Waits::no, [&] {
        require(pool && device == 0, cudaErrorInvalidValue);
        *pool = &pools().default_pool;
    });
}
CUDART(cudaDeviceGetMemPool)(Pool* pool, int device) {
    return call("cudaDeviceGetMemPool", Waits::no, [&] {
        require(pool && device == 0, cudaErrorInvalidValue);
        *pool = pools().current;
    });
}
CUDART(cudaDeviceSetMemPool)(int device, Pool pool) {
    return call("cudaDeviceSetMemPool", Waits::no, [&] {
        require(device == 0, cudaErrorInvalidDevice);
        pools().current = &pool_of(pool);
    });
}
CUDART(cudaMemPoolCreate)(Pool* pool, const PoolProperties* properties) {
    return call("cudaMemPoolCreate", Waits::no, [&] {
        require(pool && properties && properties->allocType == 1, cudaErrorInvalidValue);
        require(properties->handleTypes == 0, cudaErrorNotSupported);
        *pool = *pools().made.insert(new PoolRecord).first;
    });
}
CUDART(cudaMemPoolDestroy)(Pool pool) {
    return call("cudaMemPoolDestroy", Waits::no, [&] {
        require(pools().made.erase(pool) == 1, cudaErrorInvalidValue);
        if (pools().current == pool) pools().current = &pools().default_pool;
        delete pool;
    });
}
CUDART(cudaMemPoolTrimTo)(Pool pool, size_t) {
    return call("cudaMemPoolTrimTo", Waits::no, [&] { (void)pool_of(pool); });
}
CUDART(cudaMemPoolSetAttribute)(Pool pool, int attribute, void* value) {
    return call("cudaMemPoolSetAttribute", Waits::no, [&] {
        require(value && attribute >= 1 && attribute <= used_high, cudaErrorInvalidValue);
        PoolRecord& p = pool_of(pool);
        if (attribute < release_threshold)
            p.attributes[attribute] = uint64_t(*static_cast<int*>(value));
        else
            p.attributes[attribute] = *static_cast<uint64_t*>(value);
    });
}
CUDART(cudaMemPoolGetAttribute)(Pool pool, int attribute, void* value) {
    return call("cudaMemPoolGetAttribute", Waits::no, [&] {
        require(value && attribute >= 1 && attribute <= used_high, cudaErrorInvalidValue);
        PoolRecord& p = pool_of(pool);
        if (attribute < release_threshold)
            *static_cast<int*>(value) = int(p.attributes[attribute]);
        else if (attribute == release_threshold)
            *static_cast<uint64_t*>(value) = p.attributes[attribute];
        else
            *static_cast<uint64_t*>(value) = runtime().memory.used();
    });
}
CUDART(cudaMemPoolSetAccess)(Pool pool, const AccessDescription* list, size_t count) {
    return call("cudaMemPoolSetAccess", Waits::no, [&] {
        (void)pool_of(pool);
        for (size_t i = 0; i < count; ++i)
            require(list[i].location.type == 1 && list[i].location.id == 0, cudaErrorInvalidDevice);
    });
}
CUDART(cudaMemPoolGetAccess)(int* flags, Pool pool, MemoryLocation* location) {
    return call("cudaMemPoolGetAccess", Waits::no, [&] {
        (void)pool_of(pool);
        require(flags && location, cudaErrorInvalidValue);
        *flags = 3;  // read and write
    });
}
CUDART(cudaMallocFromPoolAsync)(void** pointer, size_t bytes, Pool pool, Stream stream) {
    return call("cudaMallocFromPoolAsync", Waits::no, [&] {
        (void)pool_of(pool);
        runtime().streams.stream(stream);
        require(pointer && bytes, cudaErrorInvalidValue);
        *pointer = reinterpret_cast<void*>(
            runtime().memory.allocate(bytes, Kind::device, "cudaMallocFromPoolAsync").address);
    });
}

}  // namespace coalesce::cudart
