// The driver API: initialization, errors, devices and contexts.
#include <cstdio>
#include <cstring>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

const char* driver_name_of(Error error) {
    switch (int(error)) {
#define D(name, number) \
    case number:        \
        return #name;
#include "cudart/driver/errors.inc"
#undef D
        default:
            return nullptr;
    }
}

}  // namespace

extern "C" const char* cudaGetErrorString(Error error);

void core::cuInit(unsigned flags) {
    require(flags == 0, cudaErrorInvalidValue, "the flags of cuInit() must be 0");
    runtime().contexts.initialized = true;
}
void core::cuDriverGetVersion(int* version) {
    require(version, cudaErrorInvalidValue);
    *version = runtime_version;
}
EXPORTED Error cuGetErrorName(Error error, const char** name) {
    if (!name) return cudaErrorInvalidValue;
    *name = driver_name_of(error);
    return *name ? cudaSuccess : cudaErrorInvalidValue;
}
EXPORTED Error cuGetErrorString(Error error, const char** text) {
    if (!text) return cudaErrorInvalidValue;
    *text = driver_name_of(error) ? cudaGetErrorString(error) : nullptr;
    return *text ? cudaSuccess : cudaErrorInvalidValue;
}

void core::cuDeviceGetDefaultMemPool(Pool* pool, int device) {
    core::cudaDeviceGetDefaultMemPool(pool, device);
}
void core::cuDeviceGetMemPool(Pool* pool, int device) { core::cudaDeviceGetMemPool(pool, device); }
void core::cuDeviceSetMemPool(int device, Pool pool) { core::cudaDeviceSetMemPool(device, pool); }

void core::cuDeviceGet(int* device, int ordinal) {
    require(device, cudaErrorInvalidValue);
    check_device(ordinal);
    *device = ordinal;
}
void core::cuDeviceGetName(char* name, int length, int device) {
    require(name && length > 0, cudaErrorInvalidValue);
    DeviceProperties p;
    core::cudaGetDeviceProperties(&p, device);
    std::snprintf(name, size_t(length), "%s", p.name);
}
void core::cuDeviceTotalMem_v2(size_t* bytes, int device) {
    require(bytes, cudaErrorInvalidValue);
    check_device(device);
    *bytes = runtime().memory.total();
}
void core::cuDeviceComputeCapability(int* major, int* minor, int device) {
    require(major && minor, cudaErrorInvalidValue);
    check_device(device);
    *major = int(runtime().gpu.major);
    *minor = int(runtime().gpu.minor);
}
void core::cuDeviceGetProperties(int* properties, int device) {
    require(properties, cudaErrorInvalidValue);
    DeviceProperties p;
    core::cudaGetDeviceProperties(&p, device);
    int clock = 0, texture = 0;
    constexpr int clock_rate = 13, texture_alignment = 14;
    core::cudaDeviceGetAttribute(&clock, clock_rate, device);
    core::cudaDeviceGetAttribute(&texture, texture_alignment, device);
    // The fields of CUdevprop, in their order.
    const int values[] = {p.maxThreadsPerBlock,
                          p.maxThreadsDim[0],
                          p.maxThreadsDim[1],
                          p.maxThreadsDim[2],
                          p.maxGridSize[0],
                          p.maxGridSize[1],
                          p.maxGridSize[2],
                          int(p.sharedMemPerBlock),
                          int(p.totalConstMem),
                          p.warpSize,
                          int(p.memPitch),
                          p.regsPerBlock,
                          clock,
                          texture};
    std::memcpy(properties, values, sizeof values);
}
void core::cuDeviceGetUuid_v2(char* uuid, int device) {
    require(uuid, cudaErrorInvalidValue);
    DeviceProperties p;
    core::cudaGetDeviceProperties(&p, device);
    std::memcpy(uuid, p.uuid, sizeof p.uuid);
}
void core::cuDeviceGetExecAffinitySupport(int* supported, int, int device) {
    require(supported, cudaErrorInvalidValue);
    check_device(device);
    *supported = 0;
}

// Contexts.
namespace {
void create(Context* context, unsigned flags, int device) {
    require(context, cudaErrorInvalidValue);
    check_device(device);
    *context = runtime().contexts.create(flags);
    Contexts::push(*context);
}
}  // namespace
void core::cuCtxCreate_v2(Context* context, unsigned flags, int device) {
    create(context, flags, device);
}
void core::cuCtxCreate_v3(Context* context, void*, int affinities, unsigned flags, int device) {
    require(affinities == 0, cudaErrorUnsupportedExecAffinity);
    create(context, flags, device);
}
void core::cuCtxCreate_v4(Context* context, void* parameters, unsigned flags, int device) {
    // CUctxCreateParams: affinities, their number, parameters of graphics.
    struct Parameters {
        void* affinities;
        int count;
        void* graphics;
    };
    const auto* const p = static_cast<const Parameters*>(parameters);
    require(!p || p->count == 0, cudaErrorUnsupportedExecAffinity);
    require(!p || !p->graphics, cudaErrorNotSupported,
            "contexts that share a GPU with graphics are not simulated");
    create(context, flags, device);
}
void core::cuCtxDestroy_v2(Context context) {
    Contexts& contexts = runtime().contexts;
    require(context != contexts.primary(), cudaErrorDeviceUninitialized,
            "cuCtxDestroy() cannot destroy the primary context; cuDevicePrimaryCtxRelease() "
            "releases it");
    contexts.destroy(context);
}
void core::cuCtxPushCurrent_v2(Context context) {
    Contexts::push(&runtime().contexts.context(context));
}
void core::cuCtxPopCurrent_v2(Context* context) {
    require(Contexts::current(), cudaErrorDeviceUninitialized,
            "no context is current in this host thread");
    const Context top = Contexts::pop();
    if (context) *context = top;
}
void core::cuCtxSetCurrent(Context context) {
    Contexts::set_current(context ? &runtime().contexts.context(context) : nullptr);
}
void core::cuCtxGetCurrent(Context* context) {
    require(context, cudaErrorInvalidValue);
    *context = Contexts::current();
}
void core::cuCtxGetDevice(int* device) {
    require(device, cudaErrorInvalidValue);
    *device = 0;
}
void core::cuCtxGetDevice_v2(int* device, Context context) {
    require(device, cudaErrorInvalidValue);
    if (context) (void)runtime().contexts.context(context);
    *device = 0;
}
void core::cuCtxGetFlags(unsigned* flags) {
    require(flags, cudaErrorInvalidValue);
    *flags = Contexts::current()->flags;
}
void core::cuCtxSetFlags(unsigned flags) { Contexts::current()->flags = flags; }
void core::cuCtxGetId(Context context, unsigned long long* id) {
    require(id, cudaErrorInvalidValue);
    if (!context) require_context();
    *id = runtime().contexts.context(context ? context : Contexts::current()).id;
}
void core::cuCtxGetApiVersion(Context context, unsigned* version) {
    require(version, cudaErrorInvalidValue);
    if (context) (void)runtime().contexts.context(context);
    *version = runtime_version;
}
void core::cuCtxAttach(Context* context, unsigned) {
    require(context, cudaErrorInvalidValue);
    *context = Contexts::current();
}
void core::cuCtxDetach(Context context) { (void)runtime().contexts.context(context); }
void core::cuCtxSynchronize() { core::cudaDeviceSynchronize(); }
void core::cuCtxSynchronize_v2(Context context) {
    if (context) (void)runtime().contexts.context(context);
    core::cudaDeviceSynchronize();
}
void core::cuCtxEnablePeerAccess(Context peer, unsigned) {
    // There is one device, and a device is not its own peer.
    (void)runtime().contexts.context(peer);
    throw Failure{cudaErrorInvalidDevice,
                  "both contexts are on the same device; a device is not a peer of itself"};
}
void core::cuCtxDisablePeerAccess(Context) { throw Failure{cudaErrorPeerAccessNotEnabled}; }

// The primary context.
void core::cuDevicePrimaryCtxRetain(Context* context, int device) {
    require(context, cudaErrorInvalidValue);
    check_device(device);
    *context = runtime().contexts.retain_primary();
}
void core::cuDevicePrimaryCtxRelease_v2(int device) {
    check_device(device);
    runtime().contexts.release_primary();
}

void core::cuDevicePrimaryCtxReset_v2(int device) {
    check_device(device);
    runtime().contexts.reset_primary();
}
void core::cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
    check_device(device);
    runtime().contexts.primary()->flags = flags;
}
void core::cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
    require(flags && active, cudaErrorInvalidValue);
    check_device(device);
    const Context primary = runtime().contexts.primary();
    *flags = primary->flags;
    *active = primary->active;
}

}  // namespace coalesce::cudart
