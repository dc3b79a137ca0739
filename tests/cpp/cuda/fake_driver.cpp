// A fake CUDA driver for tests. It needs no GPU, and is loaded in place of libcuda.so.1.
//
// "Device" memory is host memory, and a launch runs a loop on the host. The kernel's name selects
// the loop:
//  scale(float *x, float factor, int n)
//  add(const float *a, const float *b, float *out, int n)
//  fault()          breaks the context, like an illegal address
//  queries(int n)   the next n queries of a stream find it busy
//  endless()        events are not reached, and streams are busy, until end() is called
// Any other work of a stream counts as finished at once. The driver reads these environment
// variables when it is loaded. Defaults are in parentheses.
//  FAKE_DRIVER_DEVICES  number of GPUs (1)
//  FAKE_DRIVER_VERSION  the result of cuDriverGetVersion (13000)
//  FAKE_DRIVER_NO_RECOVERY  a reset does not repair the context, as with real drivers
//  FAKE_DRIVER_MEMORY   bytes of each GPU (1 GiB)
//  FAKE_DRIVER_INIT     the result of cuInit (0)
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#define FAKE extern "C" __attribute__((visibility("default"))) int

namespace {

using Address = unsigned long long;
using Clock = std::chrono::steady_clock;

enum {
    ok = 0,
    invalid_value = 1,
    out_of_memory = 2,
    no_device = 100,
    invalid_ptx = 218,
    not_ready = 600,
    not_found = 500,
    illegal_address = 700
};

int setting(const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::atoi(text) : otherwise;
}

struct Function {
    std::string name;
};
struct Event {
    Clock::time_point time;
};

struct State {
    std::mutex mutex;
    std::map<Address, size_t> allocations;
    std::map<std::string, Function> functions;
    std::map<void*, size_t> pinned;
    // Pinned memory. Other host memory belongs to the caller.
    std::set<void*> host_allocations;
    std::set<Event*> events;
    size_t used = 0;
    int broken = ok;  // the permanent error of the context
    int retained = 0;
    int busy_queries = 0;
    int copies_to_host = 0;
    int arrays = 0, objects = 0;  // CUDA arrays, and texture and surface objects
    bool endless = false;         // true while the kernel endless() runs, until end() is called
    void* current = nullptr;
    int context = 0;  // the context's handle is the address of this variable
};

State& state() {
    static auto* instance = new State;
    return *instance;
}

size_t memory() {
    const char* text = std::getenv("FAKE_DRIVER_MEMORY");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : size_t{1} << 30;
}

template <class T>
T argument(void** arguments, int i) {
    T value;
    std::memcpy(&value, arguments[i], sizeof(value));
    return value;
}

}  // namespace

FAKE cuInit(unsigned) { return setting("FAKE_DRIVER_INIT", ok); }
FAKE cuDriverGetVersion(int* version) {
    *version = setting("FAKE_DRIVER_VERSION", 13000);
    return ok;
}
FAKE cuGetErrorName(int error, const char** name) {
    *name = error == illegal_address ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKE";
    return ok;
}
FAKE cuGetErrorString(int, const char** text) {
    *text = "a fake error";
    return ok;
}
FAKE cuDeviceGetCount(int* count) {
    *count = setting("FAKE_DRIVER_DEVICES", 1);
    return ok;
}
FAKE cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return ok;
}
FAKE cuDeviceGetName(char* name, int size, int) {
    std::snprintf(name, static_cast<size_t>(size), "Fake GPU");
    return ok;
}
FAKE cuDeviceGetAttribute(int* value, int attribute, int) {
    constexpr int major = 75, multiprocessors = 16, shared_opt_in = 97, cooperative = 95;
    *value = attribute == major             ? 9
             : attribute == multiprocessors ? 132
             : attribute == shared_opt_in   ? 232448
             : attribute == cooperative     ? 1
                                            : 0;
    return ok;
}
FAKE cuDeviceTotalMem_v2(size_t* bytes, int) {
    *bytes = memory();
    return ok;
}
FAKE cuDevicePrimaryCtxRetain(void** context, int) {
    *context = &state().context;
    if (state().broken != ok) return state().broken;
    ++state().retained;
    return ok;
}
FAKE cuDevicePrimaryCtxRelease_v2(int) {
    --state().retained;
    return ok;
}
FAKE cuDevicePrimaryCtxReset_v2(int) {
    const std::lock_guard lock(state().mutex);
    for (const auto& [address, size] : state().allocations)
        std::free(reinterpret_cast<void*>(address));
    for (void* memory : state().host_allocations) std::free(memory);
    for (Event* event : state().events) delete event;
    state().events.clear();
    state().allocations.clear();
    state().host_allocations.clear();
    state().pinned.clear();
    state().used = 0;
    if (std::getenv("FAKE_DRIVER_NO_RECOVERY") == nullptr) state().broken = ok;
    return ok;
}
FAKE cuCtxGetCurrent(void** context) {
    *context = state().current;
    return ok;
}
FAKE cuCtxSetCurrent(void* context) {
    state().current = context;
    return ok;
}
FAKE cuCtxSynchronize() { return state().broken; }
FAKE cuCtxRecordEvent(void*, void*) { return state().broken; }
FAKE cuMemGetInfo_v2(size_t* free, size_t* total) {
    *total = memory();
    *free = memory() - state().used;
    return ok;
}
FAKE cuMemAlloc_v2(Address* address, size_t size) {
    const std::lock_guard lock(state().mutex);
    if (state().broken != ok) return state().broken;
    if (state().used + size > memory()) return out_of_memory;
    *address = reinterpret_cast<Address>(std::aligned_alloc(512, (size + 511) / 512 * 512));
    state().allocations[*address] = size;
    state().used += size;
    return ok;
}
FAKE cuMemFree_v2(Address address) {
    const std::lock_guard lock(state().mutex);
    const auto allocation = state().allocations.find(address);
    if (allocation == state().allocations.end()) return invalid_value;
    state().used -= allocation->second;
    state().allocations.erase(allocation);
    std::free(reinterpret_cast<void*>(address));
    return ok;
}
FAKE cuMemHostAlloc(void** memory, size_t size, unsigned) {
    const std::lock_guard lock(state().mutex);
    *memory = std::malloc(size);
    state().pinned[*memory] = size;
    state().host_allocations.insert(*memory);
    return state().broken;
}
FAKE cuMemFreeHost(void* memory) {
    const std::lock_guard lock(state().mutex);
    state().pinned.erase(memory);
    state().host_allocations.erase(memory);
    std::free(memory);
    return ok;
}
FAKE cuMemHostRegister_v2(void* memory, size_t size, unsigned) {
    if (size > (size_t{1} << 30)) return out_of_memory;
    const std::lock_guard lock(state().mutex);
    state().pinned[memory] = size;
    return state().broken;
}
FAKE cuMemHostUnregister(void* memory) {
    const std::lock_guard lock(state().mutex);
    state().pinned.erase(memory);
    return state().broken;
}
FAKE cuMemcpyHtoDAsync_v2(Address target, const void* source, size_t size, void*) {
    if (state().broken == ok) std::memcpy(reinterpret_cast<void*>(target), source, size);
    return state().broken;
}
FAKE cuMemcpyDtoHAsync_v2(void* target, Address source, size_t size, void*) {
    if (state().broken == ok) std::memcpy(target, reinterpret_cast<const void*>(source), size);
    ++state().copies_to_host;
    return state().broken;
}
// Returns how many copies to the host there were.
FAKE fakeCopiesToHost() { return state().copies_to_host; }
FAKE cuMemcpyDtoDAsync_v2(Address target, Address source, size_t size, void*) {
    std::memmove(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), size);
    return state().broken;
}
FAKE cuMemsetD8Async(Address target, unsigned char value, size_t size, void*) {
    if (state().broken == ok) std::memset(reinterpret_cast<void*>(target), value, size);
    return state().broken;
}

// A fake CUDA array has the layout of linear memory. A texture object is the address of its memory.
struct FakeArray {
    struct {
        size_t width, height, depth;
        int format;
        unsigned channels, flags;
    } described;
    std::string memory;
};
FAKE cuArray3DCreate_v2(FakeArray** array, const void* described) {
    if (state().broken != ok) return state().broken;
    auto made = std::make_unique<FakeArray>();
    std::memcpy(&made->described, described, sizeof(made->described));
    const auto& d = made->described;
    if (d.width > 65536) return invalid_value;
    made->memory.resize(16 * d.width * std::max<size_t>(d.height, 1) *
                        std::max<size_t>(d.depth, 1));
    *array = made.release();
    ++state().arrays;
    return ok;
}
FAKE cuArrayDestroy(FakeArray* array) {
    delete array;
    --state().arrays;
    return ok;
}
FAKE cuMipmappedArrayCreate(void**, const void*, unsigned) { return invalid_value; }
FAKE cuMipmappedArrayGetLevel(FakeArray**, void*, unsigned) { return invalid_value; }
FAKE cuMipmappedArrayDestroy(void*) { return ok; }
FAKE cuMemcpy3DAsync_v2(const void* described, void*) {
    struct End {
        size_t x, y, z, level;
        int type;
        void* host;
        Address address;
        FakeArray* array;
        void* reserved;
        size_t row_bytes, rows;
        [[nodiscard]] char* memory() const {
            return array != nullptr ? array->memory.data() : reinterpret_cast<char*>(address);
        }
    };
    struct {
        End from, to;
        size_t width, height, depth;
    } copy;
    std::memcpy(&copy, described, sizeof(copy));
    std::memcpy(copy.to.memory(), copy.from.memory(), copy.width * copy.height * copy.depth);
    return state().broken;
}
FAKE cuTexObjectCreate(uint64_t* object, const void* resource, const void*, const void*) {
    constexpr int linear = 2;
    int type = 0;
    std::memcpy(&type, resource, sizeof(type));
    std::memcpy(object, static_cast<const char*>(resource) + 8, sizeof(*object));
    if (type != linear)
        *object = reinterpret_cast<uint64_t>(reinterpret_cast<FakeArray*>(*object)->memory.data());
    ++state().objects;
    return state().broken;
}
FAKE cuTexObjectDestroy(uint64_t) {
    --state().objects;
    return ok;
}
FAKE cuSurfObjectCreate(uint64_t* object, const void* resource) {
    return cuTexObjectCreate(object, resource, nullptr, nullptr);
}
FAKE cuSurfObjectDestroy(uint64_t object) { return cuTexObjectDestroy(object); }
// Returns how many CUDA arrays, and texture and surface objects exist.
FAKE fakeTextures() { return state().arrays + state().objects; }
FAKE cuPointerGetAttributes(unsigned, const int*, void** results, Address address) {
    const std::lock_guard lock(state().mutex);
    constexpr unsigned host_memory = 1;
    const auto after = state().pinned.upper_bound(reinterpret_cast<void*>(address));
    if (after == state().pinned.begin()) return ok;
    const auto& [memory, size] = *std::prev(after);
    if (address - reinterpret_cast<Address>(memory) < size)
        *static_cast<unsigned*>(results[0]) = host_memory;
    return ok;
}
FAKE cuStreamCreate(void** stream, unsigned) {
    const std::lock_guard lock(state().mutex);
    static uintptr_t last = 16;
    *stream = reinterpret_cast<void*>(++last);
    return state().broken;
}
FAKE cuStreamDestroy_v2(void*) { return state().broken; }
FAKE cuStreamSynchronize(void*) { return state().broken; }
FAKE cuStreamQuery(void*) {
    if (state().broken != ok) return state().broken;
    if (state().endless) return not_ready;
    return state().busy_queries > 0 ? (--state().busy_queries, not_ready) : ok;
}
FAKE cuStreamWaitEvent(void*, void*, unsigned) { return state().broken; }
FAKE cuEventCreate(void** event, unsigned) {
    const std::lock_guard lock(state().mutex);
    auto* made = new Event;
    state().events.insert(made);
    *event = made;
    return ok;
}
FAKE cuEventDestroy_v2(void* event) {
    const std::lock_guard lock(state().mutex);
    state().events.erase(static_cast<Event*>(event));
    delete static_cast<Event*>(event);
    return ok;
}
FAKE cuEventRecord(void* event, void*) {
    static_cast<Event*>(event)->time = Clock::now();
    return state().broken;
}
FAKE cuEventQuery(void*) {
    if (state().broken != ok) return state().broken;
    return state().endless ? not_ready : ok;
}
FAKE cuEventSynchronize(void*) { return state().broken; }
FAKE cuEventElapsedTime(float* ms, void* start, void* stop) {
    const auto between = static_cast<Event*>(stop)->time - static_cast<Event*>(start)->time;
    *ms = std::chrono::duration<float, std::milli>(between).count();
    return ok;
}
FAKE cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options,
                        void** values) {
    constexpr int error_log = 5;
    if (std::strncmp(static_cast<const char*>(image), "bad", 3) == 0) {
        for (unsigned i = 0; i < count; ++i)
            if (options[i] == error_log)
                std::strcpy(static_cast<char*>(values[i]), "ptxas: line 7: a fake syntax error");
        return invalid_ptx;
    }
    *module = &state();
    return state().broken;
}
FAKE cuModuleGetFunction(void** function, void*, const char* name) {
    const std::lock_guard lock(state().mutex);
    if (std::strcmp(name, "missing") == 0) return not_found;
    *function = &state().functions.try_emplace(name, Function{name}).first->second;
    return ok;
}
FAKE cuModuleGetGlobal_v2(Address* address, size_t* size, void*, const char* name) {
    static int counter = 7;
    if (std::strcmp(name, "counter") != 0) return not_found;
    *address = reinterpret_cast<Address>(&counter);
    *size = sizeof(counter);
    return ok;
}
FAKE cuFuncGetAttribute(int* value, int attribute, void*) {
    constexpr int max_threads = 0, registers = 4;
    *value = attribute == max_threads ? 512 : attribute == registers ? 128 : 0;
    return state().broken;
}
FAKE cuFuncSetAttribute(void*, int, int value) { return value > 232448 ? invalid_value : ok; }
FAKE cuLaunchKernel(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                    unsigned, void*, void** arguments, void**) {
    if (state().broken != ok) return state().broken;
    const std::string& name = static_cast<Function*>(function)->name;
    if (name == "fault") state().broken = illegal_address;
    if (name == "endless") state().endless = true;
    if (name == "end") state().endless = false;
    if (name == "queries") state().busy_queries = argument<int>(arguments, 0);
    if (name == "scale") {
        auto* x = argument<float*>(arguments, 0);
        for (int i = 0; i < argument<int>(arguments, 2); ++i) x[i] *= argument<float>(arguments, 1);
    }
    if (name == "add") {
        const auto* a = argument<const float*>(arguments, 0);
        const auto* b = argument<const float*>(arguments, 1);
        auto* out = argument<float*>(arguments, 2);
        for (int i = 0; i < argument<int>(arguments, 3); ++i) out[i] = a[i] + b[i];
    }
    return ok;
}
FAKE cuLaunchCooperativeKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned bx,
                               unsigned by, unsigned bz, unsigned shared, void* stream,
                               void** arguments) {
    return cuLaunchKernel(function, x, y, z, bx, by, bz, shared, stream, arguments, nullptr);
}
FAKE cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int threads, size_t) {
    *blocks = 2048 / threads;
    return ok;
}
