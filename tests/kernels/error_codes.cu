// Every error code of the runtime and driver API that one healthy GPU can return, and misuses that
// must give it. The calls run in random orders. After each call the API must still work.
//
//   nvcc tests/kernels/error_codes.cu -o error_codes -lcuda -cudart shared
//   ./error_codes SECONDS SEED [keep]
//
// `keep`: leave out faults of kernels, after which only a new process can use a real GPU.
// tests/python/programs/test_error_codes.py runs it on the simulator and says which codes are left out.
#include <cassert>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

// Kernels.

__constant__ int constant[4];
__device__ int variable[4];

__global__ void write(int* p, long i, int value) { p[i] = value; }
__global__ void has_shared() {
    __shared__ volatile char own[8192];
    own[threadIdx.x] = 1;
}
__global__ void failed_assertion(int n) { assert(threadIdx.x < n); }
__global__ void stop() { __trap(); }
__global__ void call(unsigned long long x) { reinterpret_cast<void (*)()>(x)(); }
__global__ void free_foreign(int* p) { free(p); }
__global__ void __launch_bounds__(64) bounded(int* p) { p[threadIdx.x] = 1; }
__global__ void uses_heap(int* p) {
    int* q = static_cast<int*>(malloc(4));
    p[0] = q != nullptr;
    free(q);
}
__device__ int sink;
__device__ __noinline__ int deep(int n) {
    volatile int pad[16];
    pad[n % 16] = n;
    if (n == 0) return sink;
    const int below = deep(n - 1);
    return below + pad[n % 16];
}
__global__ void recursive(int n) { sink = deep(n); }
// 48 doubles in registers: more than 64 registers for each thread.
__global__ void many_registers(const double* x, double* y) {
    const int t = threadIdx.x;
    double a[48], sum = 0;
#pragma unroll
    for (int i = 0; i < 48; ++i) a[i] = x[i * 1024 + t];
#pragma unroll 1
    for (int k = 0; k < 3; ++k) {
#pragma unroll
        for (int i = 0; i < 48; ++i) a[i] = a[i] * a[(i * 7 + 3) % 48] + a[(i + 11) % 48];
    }
#pragma unroll
    for (int i = 0; i < 48; ++i) sum += a[i];
    y[t] = sum;
}

// Stores a box whose first coordinate is negative. GPUs before Hopper do not have the instruction.
__global__ void store_box(const __grid_constant__ CUtensorMap map) {
#if __CUDA_ARCH__ >= 900
    __shared__ alignas(128) int box[16];
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(box));
    asm volatile(
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%1}], [%2];" ::"l"(&map),
        "r"(-4), "r"(from));
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

const char ptx[] =
    ".version 8.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry nothing()\n{\n ret;\n}\n";
const char no_ptx[] = ".version 8.0\n.target sm_50\n.address_size 64\n.entry k() { nonsense; }\n";
const char new_ptx[] = ".version 99.9\n.target sm_50\n.address_size 64\n.entry k() { ret; }\n";
const char ptx_for_newer[] = ".version 8.7\n.target sm_120\n.address_size 64\n.entry k() { ret; }\n";

// What the calls use. Each call leaves these objects as they were.

constexpr size_t bytes = 4096;
int *device, *host, *pinned, *freed, *managed;
int pageable[bytes / 4];
cudaStream_t stream, other, gone_stream;
cudaEvent_t event, gone_event, untimed;
cudaGraph_t graph;
cudaGraphExec_t executable;
cudaArray_t array;
CUmodule module;
CUfunction nothing;
CUcontext context;

#define OK(call)                                                                   \
    do {                                                                           \
        const int code_ = int(call);                                               \
        if (code_) printf("line %d: %s gave %d\n", __LINE__, #call, code_), exit(9); \
    } while (0)

void prepare() {
    OK(cudaMalloc(&device, bytes));
    OK(cudaMallocHost(&pinned, bytes));
    OK(cudaMallocManaged(&managed, bytes));
    OK(cudaMalloc(&freed, bytes));
    OK(cudaFree(freed));
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamCreate(&other));
    OK(cudaStreamCreate(&gone_stream));
    OK(cudaStreamDestroy(gone_stream));
    OK(cudaEventCreate(&event));
    OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    OK(cudaEventCreate(&gone_event));
    OK(cudaEventDestroy(gone_event));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    const auto format = cudaCreateChannelDesc<float>();
    OK(cudaMallocArray(&array, &format, 16, 16));
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&nothing, module, "nothing"));
    OK(cuCtxGetCurrent(&context));
}

void works() {
    OK(cudaMemset(device, 3, bytes));
    write<<<1, 1, 0, stream>>>(device, 5, 77);
    OK(cudaGetLastError());
    int got[8];
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(got, device, sizeof got, cudaMemcpyDeviceToHost));
    if (got[5] != 77 || got[4] != 0x03030303) printf("the GPU computes wrong values\n"), exit(9);
}

// The rows of the table.

struct Row {
    int code;
    const char* text;
    std::function<int()> call;
    bool runtime;  // cudaGetLastError() must return the code
};
std::vector<Row> rows, faults;
struct Add {
    Add(std::vector<Row>& to, Row row) { to.push_back(std::move(row)); }
};
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
// A call of the runtime API, a call of the driver API, and statements that return a code.
#define RUNTIME(code, ...) \
    Add JOIN(row, __COUNTER__)(rows, {code, #__VA_ARGS__, [] { return int(__VA_ARGS__); }, true});
#define DRIVER(code, ...) \
    Add JOIN(row, __COUNTER__)(rows, {code, #__VA_ARGS__, [] { return int(__VA_ARGS__); }, false});
#define STEPS(code, ...) \
    Add JOIN(row, __COUNTER__)(rows, {code, #__VA_ARGS__, []() -> int { __VA_ARGS__ }, false});
#define FAULT(code, ...) \
    Add JOIN(row, __COUNTER__)(faults, {code, #__VA_ARGS__, []() -> int { __VA_ARGS__ }, false});

template <class T>
T bad(uintptr_t value) {
    return reinterpret_cast<T>(value);
}
void* p;
size_t n;
int number;
float ms;
CUdeviceptr at(void* address) { return reinterpret_cast<CUdeviceptr>(address); }
int launched() { return int(cudaGetLastError()); }
void host_function(void*) {}

// 0 and 1: arguments.
RUNTIME(cudaSuccess, cudaFree(nullptr))
RUNTIME(cudaSuccess, cudaFreeHost(nullptr))
RUNTIME(cudaSuccess, cudaMemset2D(device, 512, 0, 0, size_t(1) << 60))
RUNTIME(cudaSuccess, cudaMemcpy2D(device, 512, device, 512, 0, size_t(1) << 60, cudaMemcpyDefault))
RUNTIME(cudaErrorInvalidValue, cudaMalloc(static_cast<void**>(nullptr), 16))
RUNTIME(cudaErrorInvalidValue, cudaMallocHost(static_cast<void**>(nullptr), 16))
RUNTIME(cudaErrorInvalidValue, cudaHostAlloc(&p, 16, 64))
RUNTIME(0, cudaMallocManaged(&p, 0))
RUNTIME(cudaErrorInvalidValue, cudaMallocManaged(&p, 16, 5))
RUNTIME(cudaErrorInvalidValue, cudaMallocPitch(&p, &n, size_t(-1), 1))
RUNTIME(cudaErrorInvalidValue, [] {
    cudaPitchedPtr box;
    return cudaMalloc3D(&box, make_cudaExtent(100, size_t(1) << 32, size_t(1) << 28));
}())
RUNTIME(cudaErrorInvalidValue, cudaFree(freed))
RUNTIME(cudaErrorInvalidValue, cudaFree(device + 1))
RUNTIME(cudaErrorInvalidValue, cudaFree(pageable))
RUNTIME(cudaErrorInvalidValue, cudaFreeHost(device))
RUNTIME(cudaErrorInvalidValue, cudaMemcpy(device, pageable, bytes + 1, cudaMemcpyHostToDevice))
RUNTIME(cudaErrorInvalidValue, cudaMemcpy(pageable, device, 16, cudaMemcpyHostToDevice))
RUNTIME(cudaErrorInvalidValue, cudaMemcpy(freed, pageable, 16, cudaMemcpyHostToDevice))
RUNTIME(cudaErrorInvalidValue, cudaMemcpy(nullptr, pageable, 16, cudaMemcpyDefault))
RUNTIME(cudaErrorInvalidValue, cudaMemset(device, 0, bytes + 1))
RUNTIME(cudaErrorInvalidValue, cudaMemset(pageable, 0, 16))
RUNTIME(cudaErrorInvalidValue, cudaMemset2D(device, 512, 0, 512, 9))
RUNTIME(cudaErrorInvalidValue, cudaMemcpyToSymbol(variable, pageable, 17))
RUNTIME(cudaErrorInvalidValue, cudaMemcpyFromSymbol(pageable, constant, 4, 16))
RUNTIME(cudaErrorInvalidValue, cudaMemcpyToSymbol(variable, pageable, 4, size_t(-4)))
RUNTIME(cudaErrorInvalidValue, [] {
    cudaMemcpy3DParms c{};
    c.srcPtr = c.dstPtr = make_cudaPitchedPtr(device, 64, 64, 8);
    c.extent = make_cudaExtent(16, 2, 1);
    c.dstPos = make_cudaPos(size_t(-5), 0, 0);
    c.kind = cudaMemcpyDeviceToDevice;
    return cudaMemcpy3D(&c);
}())
RUNTIME(cudaErrorInvalidValue,
        cudaMemset3D(make_cudaPitchedPtr(device, 16, 16, size_t(1) << 60), 0,
                     make_cudaExtent(16, 1, size_t(1) << 60)))
RUNTIME(cudaErrorInvalidValue, [] {
    cudaMemsetParams set{};
    set.dst = device, set.elementSize = 4, set.width = 1, set.height = size_t(1) << 60;
    cudaGraphNode_t node;
    return cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &set);
}())
RUNTIME(cudaErrorInvalidValue, cudaEventCreateWithFlags(&event, cudaEventInterprocess))
RUNTIME(cudaErrorInvalidValue, cudaEventCreateWithFlags(&event, 64))
RUNTIME(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&other, 64))
RUNTIME(cudaErrorInvalidValue, cudaDeviceSetLimit(cudaLimitStackSize, size_t(1) << 40))
RUNTIME(cudaErrorInvalidValue, cudaDeviceSetLimit(cudaLimitStackSize, 512 << 10))
RUNTIME(cudaSuccess, [] {
    OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1));
    OK(cudaDeviceGetLimit(&n, cudaLimitMallocHeapSize));
    if (n != 4 << 20) return cudaErrorUnknown;
    return cudaDeviceSetLimit(cudaLimitMallocHeapSize, size_t(1) << 46);
}())
RUNTIME(cudaErrorInvalidValue, cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, size_t(1) << 40))
RUNTIME(cudaErrorInvalidValue, cudaGetDeviceCount(nullptr))
RUNTIME(cudaErrorInvalidValue, cudaDeviceGetAttribute(&number, cudaDeviceAttr(100000), 0))
RUNTIME(cudaErrorInvalidValue, cudaFuncSetAttribute(
                                   write, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20))
RUNTIME(cudaErrorInvalidValue, cudaFuncSetAttribute(
                                   write, cudaFuncAttributePreferredSharedMemoryCarveout, 101))
RUNTIME(cudaErrorInvalidValue, cudaFuncSetAttribute(write, cudaFuncAttribute(77), 1))
RUNTIME(cudaErrorInvalidValue, (has_shared<<<1, 1, 49152 - 8191>>>(), cudaPeekAtLastError()))
RUNTIME(cudaErrorInvalidValue, cudaHostRegister(pageable, bytes, 1 << 9))
RUNTIME(cudaErrorInvalidValue, (write<<<1, 1, 49153>>>(device, 0, 0), cudaPeekAtLastError()))
RUNTIME(cudaErrorInvalidValue, cudaLaunchHostFunc(stream, nullptr, nullptr))
RUNTIME(cudaErrorInvalidValue, cudaStreamBeginCapture(stream, cudaStreamCaptureMode(9)))
RUNTIME(cudaErrorInvalidValue, cudaMemAdvise(pageable, 0, cudaMemAdviseSetReadMostly, {}))
DRIVER(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(nullptr, 16))
DRIVER(CUDA_ERROR_INVALID_VALUE, [] { CUdeviceptr d; return cuMemAlloc(&d, 0); }())
DRIVER(CUDA_ERROR_INVALID_VALUE, cuMemFree(at(freed)))
DRIVER(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(at(device), pageable, bytes + 1))
DRIVER(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(pageable, at(freed), 4))
DRIVER(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(at(device), 0, bytes))
DRIVER(CUDA_ERROR_INVALID_VALUE, cuDeviceGet(nullptr, 0))
DRIVER(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, size_t(1) << 40))
DRIVER(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(nothing, 1, 0, 1, 1, 1, 1, 0, 0, nullptr, nullptr))
DRIVER(CUDA_ERROR_INVALID_VALUE, cuInit(1))
DRIVER(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(CUresult(12345), nullptr))

// 2: memory.
RUNTIME(cudaErrorMemoryAllocation, cudaMalloc(&p, size_t(1) << 50))
RUNTIME(cudaErrorMemoryAllocation, cudaMalloc(&p, size_t(-1)))
RUNTIME(cudaErrorMemoryAllocation, cudaMallocAsync(&p, size_t(1) << 50, stream))
RUNTIME(cudaErrorMemoryAllocation, cudaMallocPitch(&p, &n, 1 << 20, 1 << 30))
DRIVER(CUDA_ERROR_OUT_OF_MEMORY, [] { CUdeviceptr d; return cuMemAlloc(&d, size_t(1) << 50); }())

// 1: the geometry of a launch. Before CUDA 13, the code was 9.
RUNTIME(cudaErrorInvalidValue, (write<<<0, 1>>>(device, 0, 0), cudaPeekAtLastError()))
RUNTIME(cudaErrorInvalidValue, (write<<<1, 0>>>(device, 0, 0), cudaPeekAtLastError()))
RUNTIME(cudaErrorInvalidValue, (write<<<1, 1025>>>(device, 0, 0), cudaPeekAtLastError()))
RUNTIME(cudaErrorInvalidValue,
        (write<<<1, dim3(1, 1, 65)>>>(device, 0, 0), cudaPeekAtLastError()))
RUNTIME(cudaErrorInvalidValue,
        (write<<<dim3(1, 65536), 1>>>(device, 0, 0), cudaPeekAtLastError()))
RUNTIME(cudaErrorInvalidValue,
        (write<<<dim3(1, 1, 65536), 1>>>(device, 0, 0), cudaPeekAtLastError()))
RUNTIME(cudaErrorInvalidValue,
        (write<<<dim3(1u << 31), 1>>>(device, 0, 0), cudaPeekAtLastError()))

// 12 to 21: copies.
RUNTIME(cudaErrorInvalidPitchValue,
        cudaMemcpy2D(device, 16, device, 64, 32, 2, cudaMemcpyDeviceToDevice))
RUNTIME(cudaErrorInvalidPitchValue,
        cudaMemcpy2DToArray(array, 0, 0, pageable, size_t(1) << 60, 4, 2, cudaMemcpyDefault))
RUNTIME(cudaErrorInvalidPitchValue,
        cudaMemcpy2DFromArray(pageable, size_t(1) << 31, array, 0, 0, 4, 2, cudaMemcpyDefault))
RUNTIME(cudaErrorInvalidValue, cudaMemset2D(device, 16, 0, 32, 2))
RUNTIME(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(pageable, &number, 4))
RUNTIME(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&p, pageable))
RUNTIME(cudaErrorInvalidMemcpyDirection, cudaMemcpy(device, device, 4, cudaMemcpyKind(9)))
RUNTIME(cudaErrorInvalidMemcpyDirection,
        cudaMemcpyAsync(device, device, 4, cudaMemcpyKind(-1), stream))

// 20, 26 and 27: arrays and textures.
int texture(cudaChannelFormatDesc format, cudaTextureDesc how) {
    cudaArray_t own;
    cudaTextureObject_t object;
    OK(cudaMallocArray(&own, &format, 16, 16));
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = own;
    const int code = cudaCreateTextureObject(&object, &resource, &how, nullptr);
    if (!code) OK(cudaDestroyTextureObject(object));
    OK(cudaFreeArray(own));
    return code;
}
RUNTIME(cudaErrorInvalidChannelDescriptor, [] {
    cudaArray_t own;
    const auto format = cudaCreateChannelDesc(32, 32, 32, 0, cudaChannelFormatKindFloat);
    return cudaMallocArray(&own, &format, 16, 16);
}())
RUNTIME(cudaErrorInvalidChannelDescriptor, [] {
    cudaArray_t own;
    const auto format = cudaCreateChannelDesc(32, 0, 8, 0, cudaChannelFormatKindUnsigned);
    return cudaMallocArray(&own, &format, 16, 16);
}())
RUNTIME(cudaErrorInvalidFilterSetting, [] {
    cudaTextureDesc how{};
    how.filterMode = cudaFilterModeLinear;
    return texture(cudaCreateChannelDesc<int>(), how);
}())
RUNTIME(cudaErrorInvalidFilterSetting, [] {
    cudaTextureDesc how{};
    how.filterMode = cudaFilterModeLinear;
    how.readMode = cudaReadModeNormalizedFloat;
    return texture(cudaCreateChannelDesc<unsigned>(), how);
}())
RUNTIME(cudaErrorInvalidNormSetting, [] {
    cudaMipmappedArray_t levels;
    cudaTextureObject_t object;
    const auto format = cudaCreateChannelDesc<float>();
    OK(cudaMallocMipmappedArray(&levels, &format, make_cudaExtent(16, 16, 0), 3));
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeMipmappedArray;
    resource.res.mipmap.mipmap = levels;
    cudaTextureDesc how{};
    const int code = cudaCreateTextureObject(&object, &resource, &how, nullptr);
    OK(cudaFreeMipmappedArray(levels));
    return code;
}())

// 98 to 224: functions, devices, contexts, modules.
RUNTIME(cudaErrorInvalidResourceHandle, [] {
    cudaFuncAttributes a;
    return cudaFuncGetAttributes(&a, pageable);
}())
RUNTIME(cudaErrorInvalidResourceHandle,
        cudaLaunchKernel(static_cast<void*>(pageable), 1, 1, nullptr, 0, nullptr))
RUNTIME(cudaErrorInvalidDevice, cudaSetDevice(99))
RUNTIME(cudaErrorInvalidDevice, cudaSetDevice(-1))
RUNTIME(cudaErrorInvalidDevice, [] {
    static cudaDeviceProp properties;
    return cudaGetDeviceProperties(&properties, 99);
}())
RUNTIME(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 99))
RUNTIME(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(0, 0))
RUNTIME(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(99, 0))
DRIVER(CUDA_ERROR_INVALID_DEVICE, [] { CUdevice d; return cuDeviceGet(&d, 99); }())
DRIVER(CUDA_ERROR_INVALID_IMAGE, [] { CUmodule m; return cuModuleLoadData(&m, "\1\2\3\4\5"); }())
STEPS(CUDA_ERROR_INVALID_CONTEXT, {
    CUcontext own;
    OK(cuCtxPopCurrent(&own));
    CUdeviceptr d;
    const int code = cuMemAlloc(&d, 16);
    OK(cuCtxPushCurrent(own));
    return code;
})
STEPS(CUDA_ERROR_INVALID_CONTEXT, {
    CUcontext own;
    CUcontext none;
    OK(cuCtxPopCurrent(&own));
    const int code = cuCtxPopCurrent(&none);
    OK(cuCtxPushCurrent(own));
    return code;
})
RUNTIME(cudaErrorInvalidValue, cudaDeviceGetLimit(&n, cudaLimit(99)))
RUNTIME(cudaErrorUnsupportedLimit, cudaDeviceSetLimit(cudaLimitDevRuntimeSyncDepth, 2))
RUNTIME(cudaErrorInvalidValue, cudaDeviceSetLimit(cudaLimit(99), 1))
DRIVER(CUDA_ERROR_INVALID_PTX, [] { CUmodule m; return cuModuleLoadData(&m, no_ptx); }())
DRIVER(CUDA_ERROR_INVALID_PTX, [] { CUmodule m; return cuModuleLoadData(&m, ptx_for_newer); }())
DRIVER(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
       [] { CUmodule m; return cuModuleLoadData(&m, new_ptx); }())
DRIVER(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, [] {
    CUcontext made;
    CUexecAffinityParam affinity{};
    affinity.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
    affinity.param.smCount.val = 4;
    CUctxCreateParams parameters{};
    parameters.execAffinityParams = &affinity;
    parameters.numExecAffinityParams = 1;
    return cuCtxCreate(&made, &parameters, 0, 0);
}())

// 301 to 500: files, handles, symbols.
DRIVER(CUDA_ERROR_FILE_NOT_FOUND, [] { CUmodule m; return cuModuleLoad(&m, "/no/such/file"); }())
RUNTIME(cudaErrorOperatingSystem, cudaGraphDebugDotPrint(graph, "/no/such/folder/graph.dot", 0))
RUNTIME(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(gone_stream))
RUNTIME(cudaErrorInvalidResourceHandle, cudaStreamDestroy(gone_stream))
RUNTIME(cudaErrorInvalidResourceHandle, cudaStreamQuery(gone_stream))
RUNTIME(cudaErrorInvalidResourceHandle, cudaMemsetAsync(device, 0, 16, gone_stream))
RUNTIME(cudaErrorInvalidResourceHandle, cudaEventSynchronize(gone_event))
STEPS(cudaErrorNotReady, OK(cudaMemsetAsync(device, 0, 16, stream)); return cudaStreamQuery(stream);)
RUNTIME(cudaErrorInvalidResourceHandle, cudaEventRecord(gone_event, stream))
RUNTIME(cudaErrorInvalidResourceHandle, cudaStreamWaitEvent(stream, gone_event, 0))
RUNTIME(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, untimed, untimed))
RUNTIME(cudaErrorInvalidResourceHandle,
        (write<<<1, 1, 0, gone_stream>>>(device, 0, 0), cudaPeekAtLastError()))
DRIVER(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(gone_stream))
DRIVER(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(gone_event))
DRIVER(CUDA_ERROR_INVALID_HANDLE,
       cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr))
RUNTIME(cudaErrorIllegalState, [] { cudaGraph_t g; return cudaStreamEndCapture(stream, &g); }())
DRIVER(CUDA_ERROR_NOT_FOUND, [] { CUfunction f; return cuModuleGetFunction(&f, module, "no"); }())
DRIVER(CUDA_ERROR_NOT_FOUND,
       [] { CUdeviceptr d; return cuModuleGetGlobal(&d, &n, module, "no"); }())
DRIVER(CUDA_ERROR_NOT_FOUND, [] { CUdeviceptr d; return cuMemGetAddressRange(&d, &n, 4096); }())

// 701 to 720: launches and memory of the host.
RUNTIME(cudaErrorLaunchOutOfResources,
        (many_registers<<<1, 1024>>>(nullptr, nullptr), cudaPeekAtLastError()))
RUNTIME(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0))
STEPS(CUDA_ERROR_CONTEXT_IS_DESTROYED, {
    CUcontext own;
    CUcontext second;
    CUcontext top;
    OK(cuCtxCreate(&second, nullptr, 0, 0));
    OK(cuCtxPopCurrent(&top));
    OK(cuCtxPushCurrent(second));
    std::thread([&] { OK(cuCtxDestroy(second)); }).join();
    CUdeviceptr d;
    const int code = cuMemAlloc(&d, 16);
    OK(cuCtxPopCurrent(&own));
    return code;
})
STEPS(cudaErrorHostMemoryAlreadyRegistered, {
    OK(cudaHostRegister(pageable, bytes, 0));
    const int code = cudaHostRegister(pageable, bytes, 0);
    OK(cudaHostUnregister(pageable));
    return code;
})
RUNTIME(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(pageable))
STEPS(cudaErrorCooperativeLaunchTooLarge, {
    long i = 0;
    int value = 0;
    void* arguments[] = {&device, &i, &value};
    return cudaLaunchCooperativeKernel(reinterpret_cast<void*>(write), 1000000, 32, arguments);
})

// 800: calls in a function that a stream calls.
STEPS(cudaErrorNotPermitted, {
    int code = -1;
    OK(cudaLaunchHostFunc(stream, [](void* to) {
        void* memory;
        *static_cast<int*>(to) = cudaMalloc(&memory, 16);
    }, &code));
    OK(cudaStreamSynchronize(stream));
    return code;
})

// 900 to 908: captures. `capture` runs the statements in a capture of `stream`.
int capture(cudaStreamCaptureMode mode, int end, int (*inside)()) {
    cudaGraph_t made = nullptr;
    OK(cudaStreamBeginCapture(stream, mode));
    const int code = inside();
    const int ended = cudaStreamEndCapture(stream, &made);
    if (ended != end) return 10000 + ended;
    if (made) OK(cudaGraphDestroy(made));
    return code;
}
#define CAPTURE(code, mode, end, ...)                                                    \
    Add JOIN(row, __COUNTER__)(rows, {code, "in a capture: " #__VA_ARGS__,               \
                                      [] {                                               \
                                          return capture(cudaStreamCaptureMode##mode, end, \
                                                         []() -> int { __VA_ARGS__ });   \
                                      },                                                 \
                                      false});
constexpr int spoilt = cudaErrorStreamCaptureInvalidated;
constexpr int unsupported = cudaErrorStreamCaptureUnsupported;
CAPTURE(unsupported, Global, spoilt, return cudaMalloc(&p, 64);)
CAPTURE(unsupported, ThreadLocal, spoilt, return cudaMalloc(&p, 64);)
CAPTURE(unsupported, Global, spoilt, return cudaFree(freed);)
CAPTURE(unsupported, Global, spoilt, return cudaDeviceSynchronize();)
CAPTURE(unsupported, Global, spoilt, return cudaStreamSynchronize(stream);)
CAPTURE(unsupported, Relaxed, spoilt, return cudaStreamSynchronize(stream);)
CAPTURE(unsupported, Relaxed, spoilt, return cudaStreamQuery(stream);)
CAPTURE(cudaErrorStreamCaptureImplicit, Global, spoilt,
        return cudaMemcpy(pageable, device, 4, cudaMemcpyDefault);)
CAPTURE(cudaErrorStreamCaptureImplicit, Global, spoilt, return cudaMemset(device, 0, 4);)
CAPTURE(unsupported, Global, spoilt, return cudaDeviceSetLimit(cudaLimitStackSize, 1024);)
CAPTURE(unsupported, Global, spoilt, return cuMemFree(at(freed));)
CAPTURE(0, Global, 0, return cudaMemsetAsync(device, 0, 16, stream);)
CAPTURE(0, Relaxed, 0, {
    OK(cudaMalloc(&p, 64));
    return cudaFree(p);
})
CAPTURE(0, Global, 0, {
    auto mode = cudaStreamCaptureModeRelaxed;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    OK(cudaMalloc(&p, 64));
    OK(cudaFree(p));
    return cudaThreadExchangeStreamCaptureMode(&mode);
})
CAPTURE(unsupported, Global, spoilt, {
    int code;
    std::thread([&] { code = cudaMalloc(&p, 64); }).join();
    return code;
})
CAPTURE(0, ThreadLocal, 0, {
    int code;
    std::thread([&] {
        code = cudaMalloc(&p, 64);
        cudaFree(p);
    }).join();
    return code;
})
CAPTURE(cudaErrorStreamCaptureInvalidated, Global, spoilt, {
    if (cudaMalloc(&p, 64) != unsupported) return -1;
    return cudaMemsetAsync(device, 0, 16, stream);
})
CAPTURE(cudaErrorStreamCaptureMerge, Global, spoilt, {
    cudaGraph_t made;
    OK(cudaStreamBeginCapture(other, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(event, other));
    const int code = cudaStreamWaitEvent(stream, event, 0);
    if (cudaStreamEndCapture(other, &made) != spoilt) return -1;
    return code;
})
CAPTURE(cudaErrorStreamCaptureUnmatched, Global, spoilt, {
    cudaGraph_t made;
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(other, event, 0));
    OK(cudaMemsetAsync(device, 0, 16, other));
    return cudaStreamEndCapture(other, &made);
})
STEPS(cudaErrorStreamCaptureUnjoined, {
    cudaGraph_t made;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(other, event, 0));
    OK(cudaMemsetAsync(device, 0, 16, other));
    return cudaStreamEndCapture(stream, &made);
})
CAPTURE(cudaErrorStreamCaptureImplicit, Relaxed, spoilt,
        return cudaMemsetAsync(device, 0, 16, nullptr);)
CAPTURE(cudaErrorStreamCaptureImplicit, Relaxed, spoilt, {
    write<<<1, 1>>>(device, 0, 0);
    return launched();
})
CAPTURE(cudaErrorCapturedEvent, Relaxed, spoilt, {
    OK(cudaEventRecord(event, stream));
    return cudaEventSynchronize(event);
})
STEPS(cudaErrorInvalidResourceHandle, {
    cudaGraph_t made = nullptr;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    const int code = cudaEventSynchronize(nullptr);
    if (cudaStreamEndCapture(stream, &made) == 0) OK(cudaGraphDestroy(made));
    return code;
})
STEPS(cudaErrorStreamCaptureIsolation, {
    cudaGraph_t made;
    OK(cudaEventRecord(untimed, other));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    const int code = cudaStreamWaitEvent(stream, untimed, 0);
    if (cudaStreamEndCapture(stream, &made) != spoilt) return -1;
    return code;
})
STEPS(cudaErrorStreamCaptureWrongThread, {
    cudaGraph_t made;
    int code;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    std::thread([&] { code = cudaStreamEndCapture(stream, &made); }).join();
    OK(cudaStreamEndCapture(stream, &made));
    OK(cudaGraphDestroy(made));
    return code;
})
RUNTIME(cudaErrorStreamCaptureUnsupported,
        cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal))

// 910 and 912: graphs and clusters.
STEPS(cudaErrorGraphExecUpdateFailure, {
    cudaGraph_t changed;
    cudaGraphNode_t node;
    cudaGraphExecUpdateResultInfo result;
    OK(cudaGraphCreate(&changed, 0));
    OK(cudaGraphAddEmptyNode(&node, changed, nullptr, 0));
    const int code = cudaGraphExecUpdate(executable, changed, &result);
    OK(cudaGraphDestroy(changed));
    return code;
})
int clusters(unsigned blocks, unsigned x, unsigned y) {
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = 32;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = x;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = y;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, write, device, 0l, 0);
}
STEPS(cudaErrorInvalidClusterSize, return clusters(64, 32, 1);)
STEPS(cudaErrorInvalidClusterSize, return clusters(9, 0, 1);)
STEPS(0, return clusters(8, 0, 0);)

// Faults of kernels. Every later call returns the same code.
FAULT(cudaErrorIllegalAddress, write<<<1, 1>>>(nullptr, 0, 0); return cudaDeviceSynchronize();)
FAULT(cudaErrorIllegalAddress, write<<<1, 1>>>(freed, 0, 0); return cudaDeviceSynchronize();)
FAULT(cudaErrorIllegalAddress, {
    write<<<1, 1>>>(device, 1l << 28, 0);
    return cudaDeviceSynchronize();
})
FAULT(cudaErrorIllegalAddress, {
    write<<<1, 1>>>(bad<int*>(0x1234567890abcdec), 0, 0);
    return cudaDeviceSynchronize();
})
FAULT(cudaErrorIllegalAddress, recursive<<<1, 1>>>(100); return cudaDeviceSynchronize();)
FAULT(cudaErrorIllegalAddress, {
    OK(cudaDeviceSetLimit(cudaLimitStackSize, 131072));
    recursive<<<1, 1>>>(2000);
    return cudaDeviceSynchronize();
})
FAULT(cudaErrorAssert, failed_assertion<<<1, 32>>>(9); return cudaDeviceSynchronize();)
FAULT(cudaErrorMisalignedAddress, {
    write<<<1, 1>>>(reinterpret_cast<int*>(reinterpret_cast<char*>(device) + 2), 0, 0);
    return cudaDeviceSynchronize();
})
FAULT(cudaErrorLaunchFailure, stop<<<1, 1>>>(); return cudaDeviceSynchronize();)
FAULT(cudaErrorInvalidPc, call<<<1, 1>>>(3); return cudaDeviceSynchronize();)
FAULT(cudaErrorIllegalAddress, call<<<1, 1>>>(1ull << 44); return cudaDeviceSynchronize();)
FAULT(cudaErrorIllegalInstruction, call<<<1, 1>>>(~0ull << 4); return cudaDeviceSynchronize();)
FAULT(cudaErrorIllegalAddress, free_foreign<<<1, 1>>>(device); return cudaDeviceSynchronize();)
FAULT(cudaErrorIllegalInstruction, {
    CUtensorMap map;
    const cuuint64_t extent = 64;
    const cuuint32_t box = 16, step = 1;
    OK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 1, device, &extent, &extent, &box,
                              &step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                              CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    store_box<<<1, 1>>>(map);
    return cudaDeviceSynchronize();
})

int report(const Row& row, int got) {
    if (got == row.code) return 0;
    printf("%s\n  gave %d (%s), not %d (%s)\n", row.text, got, cudaGetErrorName(cudaError_t(got)),
           row.code, cudaGetErrorName(cudaError_t(row.code)));
    fflush(stdout);
    return 1;
}

int check(const Row& row) {
    const int got = row.call();
    int wrong = report(row, got);
    if (row.runtime) {
        const int last = cudaGetLastError();
        if (last != got) printf("%s\n  cudaGetLastError() gave %d\n", row.text, last), ++wrong;
    }
    (void)cudaGetLastError();
    return wrong;
}

int fail(const Row& row) {
    int wrong = report(row, row.call());
    for (const int later : {int(cudaMalloc(&p, 16)), int(cudaGetLastError()),
                            int(cudaMemcpy(pageable, device, 4, cudaMemcpyDefault)),
                            int(cuMemFree(at(device)))})
        if (later != row.code) printf("%s\n  a later call gave %d\n", row.text, later), ++wrong;
    OK(cudaDeviceReset());
    (void)cudaGetLastError();
    prepare();
    works();
    return wrong;
}

void at_end() {
    printf("at the end: %s, %d\n", cudaGetErrorName(cudaMalloc(&p, 16)), int(cuMemFree(at(p))));
}

int main(int count, char** words) {
    const double seconds = atof(words[1]);
    std::mt19937 random(atoi(words[2]));
    const bool keep = count > 3;
    int device_count = 0;
    Row first{CUDA_ERROR_NOT_INITIALIZED, "cuDeviceGetCount() before cuInit()",
              [&] { return int(cuDeviceGetCount(&device_count)); }, false};
    atexit(at_end);
    int wrong = report(first, first.call()), calls = 1;
    prepare();
    OK(cudaDeviceGetAttribute(&number, cudaDevAttrComputeCapabilityMajor, 0));
    if (number < 9) faults.pop_back();  // store_box() needs Hopper
    std::vector<const Row*> order;
    for (const Row& row : rows) order.push_back(&row);
    const auto start = std::chrono::steady_clock::now();
    for (bool go_on = true; go_on && wrong < 20;) {
        std::shuffle(order.begin(), order.end(), random);
        for (const Row* row : order) {
            wrong += check(*row), ++calls;
            if (random() % 8 == 0) works();
        }
        if (!keep) wrong += fail(faults[random() % faults.size()]), ++calls;
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
        go_on = passed.count() < seconds;
    }
    if (!keep)
        for (const Row& row : faults) wrong += fail(row), ++calls;
    printf("codes:");
    for (const auto* table : {&rows, &faults})
        for (const Row& row : *table) printf(" %d", row.code);
    printf("\n%d calls, %d wrong\n", calls, wrong);
    return wrong ? 1 : 0;
}
