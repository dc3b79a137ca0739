#include "cuda/memory/pinned.hpp"

#include <sys/mman.h>

#include <string>

#include "errors.hpp"

namespace coalesce::cuda {

PinnedMemory::PinnedMemory(Device& device, size_t bytes) : device_(device), bytes_(bytes) {
    constexpr unsigned for_every_context = 1;
    const std::string what = "pinning " + std::to_string(bytes) + " bytes of host memory";
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw LaunchError(what + ": the system does not have that much memory");
    try {
        // The workers allocate the pages together, which is faster than the driver's single thread.
        device.prefault(memory, bytes);
        const Device::CurrentContext current(device);
        device.check(device.driver().host_register(memory, bytes, for_every_context), what);
    } catch (...) {
        munmap(memory, bytes);
        throw;
    }
    data_ = static_cast<std::byte*>(memory);
}

PinnedMemory::~PinnedMemory() {
    // Do not call the driver in a forked child, or after the context has ended.
    try {
        const Device::CurrentContext current(device_);
        device_.driver().host_unregister(data_);
    } catch (const LaunchError&) {
    }
    munmap(data_, bytes_);
}

}  // namespace coalesce::cuda
