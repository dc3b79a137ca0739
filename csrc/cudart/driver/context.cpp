// The driver API: initialization, errors, devices and contexts.
#include <cstdio>
#include <cstring>

#include "cudart/driver/driver.hpp"
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

CUDRIVER(cuInit)(unsigned flags) {
    return driver_call("cuInit", Needs::nothing, Waits::no, [&] {
        require(flags == 0, cudaErrorInvalidValue, "the flags of cuInit() must be 0");
        runtime().contexts.initialized = true;
    });
}
CUDRIVER(cuDriverGetVersion)(int* version) {
    return driver_call("cuDriverGetVersion", Needs::nothing, Waits::no, [&] {
        require(version, cudaErrorInvalidValue);
        *version = runtime_version;
    });
}
CUDRIVER(cuGetErrorName)(Error error, const char** name) {
    if (!name) return cudaErrorInvalidValue;
    *name = driver_name_of(error);
    return *name ? cudaSuccess : cudaErrorInvalidValue;
}
CUDRIVER(cuGetErrorString)(Error error, const char** text) {
    if (!text) return cudaErrorInvalidValue;
    *text = driver_name_of(error) ? cudaGetErrorString(error) : nullptr;
    return *text ? cudaSuccess : cudaErrorInvalidValue;
}

// Functions about the device. They return what the functions of the runtime API return.
#define FORWARD_DEVICE(driver, runtime, parameters, arguments)                    \
    CUDART(runtime) parameters;                                                   \
    CUDRIVER(driver) parameters {                                                 \
        return driver_call(#driver, Needs::initialization, Waits::no,             \
                           [&] { (void)::coalesce::cudart::runtime arguments; }); \
    }
FORWARD_DEVICE(cuDeviceGetCount, cudaGetDeviceCount, (int* count), (count))
FORWARD_DEVICE(cuDeviceGetAttribute, cudaDeviceGetAttribute, (int* value, int number, int device),
               (value, number, device))
FORWARD_DEVICE(cuDeviceCanAccessPeer, cudaDeviceCanAccessPeer, (int* can, int device, int peer),
               (can, device, peer))
FORWARD_DEVICE(cuDeviceGetPCIBusId, cudaDeviceGetPCIBusId, (char* text, int length, int device),
               (text, length, device))
FORWARD_DEVICE(cuDeviceGetByPCIBusId, cudaDeviceGetByPCIBusId, (int* device, const char* text),
               (device, text))
FORWARD_DEVICE(cuDeviceGetDefaultMemPool, cudaDeviceGetDefaultMemPool, (Pool * pool, int device),
               (pool, device))
FORWARD_DEVICE(cuDeviceGetMemPool, cudaDeviceGetMemPool, (Pool * pool, int device), (pool, device))
FORWARD_DEVICE(cuDeviceSetMemPool, cudaDeviceSetMemPool, (int device, Pool pool), (device, pool))
CUDART(cudaGetDeviceProperties)(DeviceProperties* p, int device);

CUDRIVER(cuDeviceGet)(int* device, int ordinal) {
    return driver_call("cuDeviceGet", Needs::initialization, Waits::no, [&] {
        require(device, cudaErrorInvalidValue);
        check_device(ordinal);
        *device = ordinal;
    });
}
CUDRIVER(cuDeviceGetName)(char* name, int length, int device) {
    return driver_call("cuDeviceGetName", Needs::initialization, Waits::no, [&] {
        require(name && length > 0, cudaErrorInvalidValue);
        DeviceProperties p;
        (void)cudaGetDeviceProperties(&p, device);
        std::snprintf(name, size_t(length), "%s", p.name);
    });
}
CUDRIVER(cuDeviceTotalMem_v2)(size_t* bytes, int device) {
    return driver_call("cuDeviceTotalMem", Needs::initialization, Waits::no, [&] {
        require(bytes, cudaErrorInvalidValue);
        check_device(device);
        *bytes = runtime().memory.total();
    });
}
CUDRIVER(cuDeviceComputeCapability)(int* major, int* minor, int device) {
    return driver_call("cuDeviceComputeCapability", Needs::initialization, Waits::no, [&] {
        require(major && minor, cudaErrorInvalidValue);
        check_device(device);
        *major = int(runtime().gpu.major);
        *minor = int(runtime().gpu.minor);
    });
}
CUDRIVER(cuDeviceGetProperties)(int* properties, int device) {
    return driver_call("cuDeviceGetProperties", Needs::initialization, Waits::no, [&] {
        require(properties, cudaErrorInvalidValue);
        DeviceProperties p;
        (void)cudaGetDeviceProperties(&p, device);
        int clock = 0, texture = 0;
        constexpr int clock_rate = 13, texture_alignment = 14;
        (void)cudaDeviceGetAttribute(&clock, clock_rate, device);
        (void)cudaDeviceGetAttribute(&texture, texture_alignment, device);
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
    });
}
CUDRIVER(cuDeviceGetUuid_v2)(char* uuid, int device) {
    return driver_call("cuDeviceGetUuid", Needs::initialization, Waits::no, [&] {
        require(uuid, cudaErrorInvalidValue);
        DeviceProperties p;
        (void)cudaGetDeviceProperties(&p, device);
        std::memcpy(uuid, p.uuid, sizeof p.uuid);
    });
}
CUDRIVER(cuDeviceGetExecAffinitySupport)(int* supported, int, int device) {
    return driver_call("cuDeviceGetExecAffinitySupport", Needs::initialization, Waits::no, [&] {
        require(supported, cudaErrorInvalidValue);
        check_device(device);
        *supported = 0;
    });
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
CUDRIVER(cuCtxCreate_v2)(Context* context, unsigned flags, int device) {
    return driver_call("cuCtxCreate", Needs::initialization, Waits::no,
                       [&] { create(context, flags, device); });
}
CUDRIVER(cuCtxCreate_v3)(Context* context, void*, int affinities, unsigned flags, int device) {
    return driver_call("cuCtxCreate", Needs::initialization, Waits::no, [&] {
        require(affinities == 0, cudaErrorUnsupportedExecAffinity);
        create(context, flags, device);
    });
}
CUDRIVER(cuCtxCreate_v4)(Context* context, void* parameters, unsigned flags, int device) {
    return driver_call("cuCtxCreate", Needs::initialization, Waits::no, [&] {
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
    });
}
CUDRIVER(cuCtxDestroy_v2)(Context context) {
    return driver_call("cuCtxDestroy", Needs::initialization, Waits::yes, [&] {
        Contexts& contexts = runtime().contexts;
        require(context != contexts.primary(), cudaErrorDeviceUninitialized,
                "cuCtxDestroy() cannot destroy the primary context; cuDevicePrimaryCtxRelease() "
                "releases it");
        contexts.destroy(context);
    });
}
CUDRIVER(cuCtxPushCurrent_v2)(Context context) {
    return driver_call("cuCtxPushCurrent", Needs::initialization, Waits::no,
                       [&] { Contexts::push(&runtime().contexts.context(context)); });
}
CUDRIVER(cuCtxPopCurrent_v2)(Context* context) {
    return driver_call("cuCtxPopCurrent", Needs::initialization, Waits::no, [&] {
        require(Contexts::current(), cudaErrorDeviceUninitialized,
                "no context is current in this host thread");
        const Context top = Contexts::pop();
        if (context) *context = top;
    });
}
CUDRIVER(cuCtxSetCurrent)(Context context) {
    return driver_call("cuCtxSetCurrent", Needs::initialization, Waits::no, [&] {
        Contexts::set_current(context ? &runtime().contexts.context(context) : nullptr);
    });
}
CUDRIVER(cuCtxGetCurrent)(Context* context) {
    return driver_call("cuCtxGetCurrent", Needs::initialization, Waits::no, [&] {
        require(context, cudaErrorInvalidValue);
        *context = Contexts::current();
    });
}
CUDRIVER(cuCtxGetDevice)(int* device) {
    return driver_call("cuCtxGetDevice", Needs::context, Waits::no, [&] {
        require(device, cudaErrorInvalidValue);
        *device = 0;
    });
}
CUDRIVER(cuCtxGetDevice_v2)(int* device, Context context) {
    return driver_call("cuCtxGetDevice", Needs::initialization, Waits::no, [&] {
        require(device, cudaErrorInvalidValue);
        if (context) (void)runtime().contexts.context(context);
        *device = 0;
    });
}
CUDRIVER(cuCtxGetFlags)(unsigned* flags) {
    return driver_call("cuCtxGetFlags", Needs::context, Waits::no, [&] {
        require(flags, cudaErrorInvalidValue);
        *flags = Contexts::current()->flags;
    });
}
CUDRIVER(cuCtxSetFlags)(unsigned flags) {
    return driver_call("cuCtxSetFlags", Needs::context, Waits::no,
                       [&] { Contexts::current()->flags = flags; });
}
CUDRIVER(cuCtxGetId)(Context context, unsigned long long* id) {
    return driver_call("cuCtxGetId", Needs::initialization, Waits::no, [&] {
        require(id, cudaErrorInvalidValue);
        if (!context) detail::check(Needs::context);
        *id = runtime().contexts.context(context ? context : Contexts::current()).id;
    });
}
CUDRIVER(cuCtxGetApiVersion)(Context context, unsigned* version) {
    return driver_call("cuCtxGetApiVersion", Needs::initialization, Waits::no, [&] {
        require(version, cudaErrorInvalidValue);
        if (context) (void)runtime().contexts.context(context);
        *version = runtime_version;
    });
}
CUDRIVER(cuCtxAttach)(Context* context, unsigned) {
    return driver_call("cuCtxAttach", Needs::context, Waits::no, [&] {
        require(context, cudaErrorInvalidValue);
        *context = Contexts::current();
    });
}
CUDRIVER(cuCtxDetach)(Context context) {
    return driver_call("cuCtxDetach", Needs::initialization, Waits::no,
                       [&] { (void)runtime().contexts.context(context); });
}
CUDART(cudaDeviceSynchronize)();
CUDRIVER(cuCtxSynchronize)() {
    return driver_call("cuCtxSynchronize", Needs::context, Waits::no,
                       [&] { (void)cudaDeviceSynchronize(); });
}
CUDRIVER(cuCtxSynchronize_v2)(Context context) {
    return driver_call("cuCtxSynchronize", Needs::initialization, Waits::no, [&] {
        if (context) (void)runtime().contexts.context(context);
        (void)cudaDeviceSynchronize();
    });
}
CUDRIVER(cuCtxEnablePeerAccess)(Context peer, unsigned) {
    return driver_call("cuCtxEnablePeerAccess", Needs::context, Waits::no, [&] {
        // There is one device, and a device is not its own peer.
        (void)runtime().contexts.context(peer);
        throw Failure{cudaErrorInvalidDevice,
                      "both contexts are on the same device; a device is not a peer of itself"};
    });
}
CUDRIVER(cuCtxDisablePeerAccess)(Context) {
    return driver_call("cuCtxDisablePeerAccess", Needs::context, Waits::no,
                       [&] { throw Failure{cudaErrorPeerAccessNotEnabled}; });
}
FORWARD(cuCtxSetLimit, cudaDeviceSetLimit, (int limit, size_t value), (limit, value))
FORWARD(cuCtxGetSharedMemConfig, cudaDeviceGetSharedMemConfig, (int* config), (config))
FORWARD(cuCtxSetSharedMemConfig, cudaDeviceSetSharedMemConfig, (int config), (config))
FORWARD(cuCtxGetCacheConfig, cudaDeviceGetCacheConfig, (int* preference), (preference))
FORWARD(cuCtxSetCacheConfig, cudaDeviceSetCacheConfig, (int preference), (preference))
FORWARD(cuCtxGetStreamPriorityRange, cudaDeviceGetStreamPriorityRange, (int* least, int* greatest),
        (least, greatest))
FORWARD(cuProfilerStart, cudaProfilerStart, (), ())
FORWARD(cuProfilerStop, cudaProfilerStop, (), ())
FORWARD(cuCtxGetLimit, cudaDeviceGetLimit, (size_t* value, int limit), (value, limit))

// The primary context.
CUDRIVER(cuDevicePrimaryCtxRetain)(Context* context, int device) {
    return driver_call("cuDevicePrimaryCtxRetain", Needs::initialization, Waits::no, [&] {
        require(context, cudaErrorInvalidValue);
        check_device(device);
        *context = runtime().contexts.retain_primary();
    });
}
CUDRIVER(cuDevicePrimaryCtxRelease_v2)(int device) {
    return driver_call("cuDevicePrimaryCtxRelease", Needs::initialization, Waits::no, [&] {
        check_device(device);
        runtime().contexts.release_primary();
    });
}
FORWARD(cuCtxResetPersistingL2Cache, cudaCtxResetPersistingL2Cache, (), ())

CUDRIVER(cuDevicePrimaryCtxReset_v2)(int device) {
    return driver_call("cuDevicePrimaryCtxReset", Needs::initialization, Waits::no, [&] {
        check_device(device);
        runtime().contexts.reset_primary();
    });
}
CUDRIVER(cuDevicePrimaryCtxSetFlags_v2)(int device, unsigned flags) {
    return driver_call("cuDevicePrimaryCtxSetFlags", Needs::initialization, Waits::no, [&] {
        check_device(device);
        runtime().contexts.primary()->flags = flags;
    });
}
CUDRIVER(cuDevicePrimaryCtxGetState)(int device, unsigned* flags, int* active) {
    return driver_call("cuDevicePrimaryCtxGetState", Needs::initialization, Waits::no, [&] {
        require(flags && active, cudaErrorInvalidValue);
        check_device(device);
        const Context primary = runtime().contexts.primary();
        *flags = primary->flags;
        *active = primary->active;
    });
}

}  // namespace coalesce::cudart
