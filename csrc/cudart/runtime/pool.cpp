// Memory pools: attributes and properties of the pools of cudaMallocAsync().
//
// Freed memory is released at once, so a pool reserves exactly the memory in use.

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

PoolRecord& pool_of(Pool handle) {
    require(handle == &runtime().pools.default_pool || runtime().pools.made.contains(handle),
            cudaErrorInvalidValue);
    return *handle;
}
constexpr int release_threshold = 4, used_high = 8;

}  // namespace

void core::cudaDeviceGetDefaultMemPool(Pool* pool, int device) {
    require(pool && device == 0, cudaErrorInvalidValue);
    *pool = &runtime().pools.default_pool;
}
void core::cudaDeviceGetMemPool(Pool* pool, int device) {
    require(pool && device == 0, cudaErrorInvalidValue);
    *pool = runtime().pools.current;
}
void core::cudaDeviceSetMemPool(int device, Pool pool) {
    require(device == 0, cudaErrorInvalidDevice);
    runtime().pools.current = &pool_of(pool);
}
void core::cudaMemPoolCreate(Pool* pool, const PoolProperties* properties) {
    require(pool && properties && properties->allocType == 1, cudaErrorInvalidValue);
    require(properties->handleTypes == 0, cudaErrorNotSupported);
    *pool = *runtime().pools.made.insert(new PoolRecord).first;
}
void core::cudaMemPoolDestroy(Pool pool) {
    require(runtime().pools.made.erase(pool) == 1, cudaErrorInvalidValue);
    if (runtime().pools.current == pool) runtime().pools.current = &runtime().pools.default_pool;
    delete pool;
}
void core::cudaMemPoolTrimTo(Pool pool, size_t) { (void)pool_of(pool); }
void core::cudaMemPoolSetAttribute(Pool pool, int attribute, void* value) {
    require(value && attribute >= 1 && attribute <= used_high, cudaErrorInvalidValue);
    PoolRecord& p = pool_of(pool);
    if (attribute < release_threshold)
        p.attributes[attribute] = uint64_t(*static_cast<int*>(value));
    else
        p.attributes[attribute] = *static_cast<uint64_t*>(value);
}
void core::cudaMemPoolGetAttribute(Pool pool, int attribute, void* value) {
    require(value && attribute >= 1 && attribute <= used_high, cudaErrorInvalidValue);
    PoolRecord& p = pool_of(pool);
    if (attribute < release_threshold)
        *static_cast<int*>(value) = int(p.attributes[attribute]);
    else if (attribute == release_threshold)
        *static_cast<uint64_t*>(value) = p.attributes[attribute];
    else
        *static_cast<uint64_t*>(value) = runtime().memory.used();
}
void core::cudaMemPoolSetAccess(Pool pool, const AccessDescription* list, size_t count) {
    (void)pool_of(pool);
    for (size_t i = 0; i < count; ++i)
        require(list[i].location.type == 1 && list[i].location.id == 0, cudaErrorInvalidDevice);
}
void core::cudaMemPoolGetAccess(int* flags, Pool pool, MemoryLocation* location) {
    (void)pool_of(pool);
    require(flags && location, cudaErrorInvalidValue);
    *flags = 3;  // read and write
}
void core::cudaMallocFromPoolAsync(void** pointer, size_t bytes, Pool pool, Stream stream) {
    (void)pool_of(pool);
    require(bytes, cudaErrorInvalidValue);
    cudaMallocAsync(pointer, bytes, stream);
}

}  // namespace coalesce::cudart
