#include "sim/device_heap.hpp"

#include <algorithm>
#include <cstring>

#include "sim/memory.hpp"
#include "sim/observer.hpp"
#include "sim/warp.hpp"

namespace coalesce::sim {

namespace {

// As on a GPU, addresses of allocations are multiples of 16 bytes, but not of larger powers of two.
constexpr uint64_t alignment = 16, gap = 4096;

// Returns the number of bytes of the heap that an allocation uses. An allocation of 0 bytes counts
// as 1 byte. Otherwise a kernel could allocate for ever and never reach the limit.
uint64_t rounded(uint64_t bytes) {
    return (std::max(bytes, uint64_t{1}) + alignment - 1) / alignment * alignment;
}

}  // namespace

DeviceHeap& DeviceHeap::get() {
    static auto* const heap = new DeviceHeap;
    return *heap;
}

Buffer DeviceHeap::Allocation::buffer(uint64_t address) const {
    Buffer b;
    b.name = "memory of malloc";
    b.address = address;
    b.bytes = bytes;
    b.host = host.get();
    b.undefined = undefined.get();
    return b;
}

void DeviceHeap::map_into(AddressSpace& memory) {
    memory.forget_from(device_heap_base);
    for (const auto& [address, a] : live_) memory.add_at(a.buffer(address));
}

uint64_t DeviceHeap::allocate(AddressSpace& memory, uint64_t bytes, const Caller& caller) {
    if (bytes > limit_ || used_ + rounded(bytes) > limit_) return 0;
    Allocation a{bytes, caller, std::make_unique<std::byte[]>(bytes),
                 std::make_unique<bool[]>(bytes)};
    std::memset(a.host.get(), 0xff, bytes);
    std::fill_n(a.undefined.get(), bytes, true);
    used_ += rounded(bytes);
    const uint64_t address = next_ + alignment;
    next_ = (address + bytes + 2 * gap - 1) / gap * gap;
    memory.add_at(a.buffer(address));
    live_.emplace(address, std::move(a));
    return address;
}

std::string DeviceHeap::release(AddressSpace& memory, uint64_t address) {
    const auto found = live_.find(address);
    if (found == live_.end()) {
        const Buffer* const known = memory.at(address);
        if (known && known->host == nullptr) return "memory of malloc is freed twice";
        return "free() was called with an address that malloc() did not return";
    }
    memory.free_at(address);
    used_ -= rounded(found->second.bytes);
    live_.erase(found);
    return "";
}

void DeviceHeap::clear() {
    live_.clear();
    used_ = 0;
}

std::vector<DeviceHeap::Lost> DeviceHeap::lost(const AddressSpace& memory) const {
    std::map<uint64_t, bool> known;
    for (auto a = live_.lower_bound(marked_); a != live_.end(); ++a) known.emplace(a->first, false);
    if (known.empty()) return {};
    const auto note = [&](uint64_t pointer) {
        const auto after = known.upper_bound(pointer);
        if (after == known.begin()) return;
        const auto at = std::prev(after);
        if (pointer - at->first <= live_.at(at->first).bytes) at->second = true;
    };
    for (const Buffer& b : memory.buffers()) {
        for (uint64_t at = (0 - b.address) & 7; at + 8 <= b.bytes; at += 8) {
            uint64_t word;
            std::memcpy(&word, b.host + at, sizeof word);
            if (word >= device_heap_base) note(word);
        }
    }
    std::vector<Lost> lost;
    for (const auto& [address, found] : known)
        if (!found) lost.push_back({live_.at(address).caller, live_.at(address).bytes});
    return lost;
}

uint64_t device_malloc(const Warp& w, const Op& op, int lane, uint64_t bytes) {
    const Block& b = *w.block;
    const size_t t = size_t(w.index) * warp_size + size_t(lane);
    const Dim3 thread{b.thread_index[0][t], b.thread_index[1][t], b.thread_index[2][t]};
    return DeviceHeap::get().allocate(*b.memory, bytes, {op.pc, thread, b.index});
}

void device_free(const Warp& w, const Op& op, int lane, uint64_t address) {
    if (address == 0) return;
    const std::string wrong = DeviceHeap::get().release(*w.block->memory, address);
    if (wrong.empty()) return;
    if (!w.block->announce->misuse(w.block->observer, w, op, lane, wrong))
        throw_misuse(w, op, lane, wrong);
}

}  // namespace coalesce::sim
