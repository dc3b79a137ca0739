#include "sim/run/device_heap.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "round_up.hpp"
#include "sim/warp/memory.hpp"
#include "sim/warp/observer.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::sim {

namespace {

// As on a GPU, addresses of allocations are multiples of 16 bytes, but not of larger powers of two.
constexpr uint64_t alignment = 16, gap = 4096;

// The first bytes of an allocation have a value that is unlikely to be right, and count as
// uninitialized. The others are zero and do not use memory of the host before the kernel writes to
// them: a kernel may allocate much more than it uses.
constexpr uint64_t most_marked = 1 << 20;

// Returns the number of bytes of the heap that an allocation uses. An allocation of 0 bytes counts
// as 1 byte. Otherwise a kernel could allocate for ever and never reach the limit.
uint64_t rounded(uint64_t bytes) { return round_up(std::max(bytes, uint64_t{1}), alignment); }

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
    b.host = contents->bytes.get();
    b.undefined = contents->undefined.get();
    return b;
}

void DeviceHeap::map_into(AddressSpace& memory) {
    const std::lock_guard lock(mutex_);
    memory.remove_from(device_heap_base);
    memory.heap = {++launches_, {}};
    for (const auto& [address, a] : live_) {
        memory.add_at(a.buffer(address));
        memory.heap.held.emplace(address, a.contents);
    }
}

uint64_t DeviceHeap::allocate(AddressSpace& memory, uint64_t bytes, const Caller& caller) {
    const std::lock_guard lock(mutex_);
    if (bytes > limit_ || used_ + rounded(bytes) > limit_) {
        full_in_ = memory.heap.launch;
        return 0;
    }
    auto contents = std::make_shared<Contents>();
    contents->bytes.reset(static_cast<std::byte*>(std::calloc(bytes + 1, 1)));
    contents->undefined.reset(static_cast<bool*>(std::calloc(bytes + 1, 1)));
    if (!contents->bytes || !contents->undefined) return 0;
    const uint64_t marked = std::min(bytes, most_marked);
    std::memset(contents->bytes.get(), 0xff, marked);
    std::fill_n(contents->undefined.get(), marked, true);
    Allocation a{bytes, caller, memory.heap.launch, std::move(contents)};
    used_ += rounded(bytes);
    const uint64_t address = next_ + alignment;
    next_ = (address + bytes + 2 * gap - 1) / gap * gap;
    memory.add_at(a.buffer(address));
    memory.heap.held.emplace(address, a.contents);
    live_.emplace(address, std::move(a));
    return address;
}

bool DeviceHeap::release(AddressSpace& memory, uint64_t address, const Caller& caller) {
    const std::lock_guard lock(mutex_);
    const auto entry = live_.find(address);
    if (entry == live_.end() || !memory.heap.held.erase(address)) return false;
    memory.free_at(address);
    used_ -= rounded(entry->second.bytes);
    freed_[address] = {entry->second.bytes, caller, memory.heap.launch};
    if (freed_.size() > max_freed) freed_.erase(freed_.begin());
    live_.erase(entry);
    return true;
}

std::optional<DeviceHeap::Freed> DeviceHeap::freed(uint64_t address) const {
    const std::lock_guard lock(mutex_);
    const auto entry = freed_.find(address);
    if (entry == freed_.end()) return {};
    return entry->second;
}

void DeviceHeap::clear() {
    const std::lock_guard lock(mutex_);
    live_.clear();
    freed_.clear();
    used_ = 0;
}

std::vector<DeviceHeap::Lost> DeviceHeap::lost(const AddressSpace& memory) const {
    const std::lock_guard lock(mutex_);
    std::set<uint64_t> unfound;
    for (const auto& [address, a] : live_)
        if (a.launch == memory.heap.launch) unfound.insert(address);
    if (unfound.empty()) return {};
    std::vector<Buffer> to_search;
    for (const Buffer& b : memory.buffers())
        if (!unfound.contains(b.address)) to_search.push_back(b);
    const auto follow = [&](uint64_t pointer) {
        const auto after = live_.upper_bound(pointer);
        if (after == live_.begin()) return;
        const auto& [address, a] = *std::prev(after);
        if (pointer - address <= a.bytes && unfound.erase(address))
            to_search.push_back(a.buffer(address));
    };
    while (!to_search.empty()) {
        const Buffer b = std::move(to_search.back());
        to_search.pop_back();
        for (uint64_t at = (0 - b.address) & 7; at + 8 <= b.bytes; at += 8) {
            uint64_t word;
            std::memcpy(&word, b.host + at, sizeof word);
            if (word >= device_heap_base) follow(word);
        }
    }
    std::vector<Lost> lost;
    for (const uint64_t address : unfound)
        lost.push_back({live_.at(address).caller, live_.at(address).bytes});
    return lost;
}

namespace {

DeviceHeap::Caller caller_of(const Warp& w, const Op& op, int lane) {
    const Block& b = *w.block;
    const size_t t = size_t(w.index) * warp_size + size_t(lane);
    return {op.pc, {b.thread_index[0][t], b.thread_index[1][t], b.thread_index[2][t]}, b.index};
}

std::string described(const Program& program, const DeviceHeap::Caller& caller) {
    const auto text = [](const Dim3& d) {
        return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) +
               ")";
    };
    Op call;
    call.pc = caller.pc;
    return "thread " + text(caller.thread) + " in block " + text(caller.block) + ", " +
           where(program, call);
}

// Returns the error message for free() of an address at which there is no allocation.
std::string misuse_of_free(const Warp& w, uint64_t address) {
    const DeviceHeap& heap = DeviceHeap::get();
    if (const auto freed = heap.freed(address))
        return "memory from malloc() is freed twice\n  the " + std::to_string(freed->bytes) +
               " bytes were freed before by " +
               (freed->launch == w.block->memory->heap.launch
                    ? described(*w.block->program, freed->caller)
                    : "an earlier launch");
    const std::string wrong = "free() was called with an address that malloc() did not return";
    uint16_t hint = 0;
    const Buffer* const b = w.block->memory->find(address, 1, hint);
    if (!b) return wrong;
    return wrong + "\n  " + describe(*b) + "; the address is that of " +
           element(*b, int64_t(address - b->address));
}

}  // namespace

uint64_t device_malloc(const Warp& w, const Op& op, int lane, uint64_t bytes) {
    return DeviceHeap::get().allocate(*w.block->memory, bytes, caller_of(w, op, lane));
}

void device_free(const Warp& w, const Op& op, int lane, uint64_t address) {
    if (address == 0) return;
    if (DeviceHeap::get().release(*w.block->memory, address, caller_of(w, op, lane))) return;
    Misuse wrong;
    wrong.message = misuse_of_free(w, address);
    // On an H200, this is an access to an illegal address, except for memory that was freed before.
    const bool freed = DeviceHeap::get().freed(address).has_value();
    if (!freed) wrong.verb = "free";
    if (!w.block->announce->misuse(w.block->observer, w, op, lane, wrong))
        throw_misuse(w, op, lane, wrong.message, {}, freed ? Fault::misuse : Fault::outside);
}

}  // namespace coalesce::sim
