#include "sim/memory/device_arrays.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "errors.hpp"
#include "sim/memory/address_range.hpp"

namespace coalesce::sim {

namespace {

constexpr size_t max_freed = 10'000;

struct DeviceArrays {
    std::mutex mutex;
    AddressRange addresses{device_array_base, device_array_end, guard_gap, guard_gap};
    std::map<uint64_t, std::weak_ptr<DeviceArray>> live;
    // The freed arrays, sorted by address.
    std::map<uint64_t, Buffer> freed;

    // The object is never destroyed, because Python may keep arrays until the process ends.
    static DeviceArrays& get() {
        static auto* registry = new DeviceArrays;
        return *registry;
    }
};

}  // namespace

DeviceArray::DeviceArray(std::vector<int64_t> shape, uint32_t item_bytes, std::string type,
                         uint64_t address, std::byte* host)
    : borrowed_(host != nullptr) {
    constexpr uint64_t most = uint64_t{1} << 40;
    uint64_t bytes = item_bytes;
    for (const int64_t n : shape) bytes = n && bytes > most / uint64_t(n) ? most + 1 : bytes * n;
    buffer_.name = "device array";
    buffer_.bytes = bytes;
    buffer_.shape = std::move(shape);
    buffer_.item_bytes = item_bytes;
    buffer_.type = std::move(type);
    if (host) {
        buffer_.address = address;
        buffer_.host = host;
        return;
    }
    const uint64_t size = (std::max<uint64_t>(bytes, 1) + 63) / 64 * 64;
    if (bytes <= most) buffer_.host = static_cast<std::byte*>(std::aligned_alloc(64, size));
    if (!buffer_.host)
        throw LaunchError("out of memory: cannot allocate a device array of " +
                          std::to_string(bytes >> 20) +
                          " MiB; arrays of a simulated device use the memory of this machine");
    std::memset(buffer_.host, 0xff, bytes);
    DeviceArrays& registry = DeviceArrays::get();
    const std::lock_guard lock(registry.mutex);
    const auto place = address ? address : registry.addresses.take(bytes, registry.freed);
    if (!place) {
        std::free(std::exchange(buffer_.host, nullptr));
        throw LaunchError("cannot allocate a device array of " + std::to_string(bytes >> 20) +
                          " MiB: all addresses of simulated devices are in use");
    }
    buffer_.address = *place;
}

DeviceArray::~DeviceArray() {
    DeviceArrays& registry = DeviceArrays::get();
    const std::lock_guard lock(registry.mutex);
    std::byte* const host = std::exchange(buffer_.host, nullptr);
    if (!borrowed_) std::free(host);
    registry.live.erase(buffer_.address);
    registry.freed.emplace(buffer_.address, std::move(buffer_));
    if (registry.freed.size() > max_freed) registry.freed.erase(registry.freed.begin());
}

std::shared_ptr<DeviceArray> allocate_array(std::vector<int64_t> shape, uint32_t item_bytes,
                                            std::string type, uint64_t address, std::byte* host) {
    auto array =
        std::make_shared<DeviceArray>(std::move(shape), item_bytes, std::move(type), address, host);
    DeviceArrays& registry = DeviceArrays::get();
    const std::lock_guard lock(registry.mutex);
    registry.live[array->buffer().address] = array;
    return array;
}

std::vector<std::shared_ptr<DeviceArray>> live_arrays() {
    DeviceArrays& registry = DeviceArrays::get();
    std::vector<std::shared_ptr<DeviceArray>> arrays;
    const std::lock_guard lock(registry.mutex);
    arrays.reserve(registry.live.size());
    for (const auto& [address, array] : registry.live)
        if (auto kept = array.lock()) arrays.push_back(std::move(kept));
    return arrays;
}

std::optional<Buffer> freed_at(uint64_t address) {
    DeviceArrays& registry = DeviceArrays::get();
    const std::lock_guard lock(registry.mutex);
    const auto after = registry.freed.upper_bound(address);
    if (after == registry.freed.begin()) return std::nullopt;
    const Buffer& before = std::prev(after)->second;
    if (address - before.address >= before.bytes) return std::nullopt;
    return before;
}

}  // namespace coalesce::sim
