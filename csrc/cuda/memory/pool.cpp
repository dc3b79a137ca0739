#include "cuda/memory/pool.hpp"

#include <algorithm>
#include <bit>

namespace coalesce::cuda {

namespace {
constexpr size_t smallest = 512;
}

size_t Pool::size_class(size_t bytes) {
    if (bytes <= smallest) return smallest;
    const size_t step = std::max(smallest, std::bit_floor(bytes) / 8);
    return (bytes + step - 1) / step * step;
}

Result Pool::take(size_t bytes, Block& block) {
    const size_t size = size_class(bytes);
    const std::lock_guard lock(mutex_);
    if (const auto entry = free_.find(size); entry != free_.end() && !entry->second.empty()) {
        block = {entry->second.back(), size};
        entry->second.pop_back();
        usage_.cached -= size;
    } else {
        Address address = 0;
        Result result = source_.allocate(&address, size);
        if (result == out_of_memory && trim_locked() > 0) result = source_.allocate(&address, size);
        if (result != success) return result;
        block = {address, size};
    }
    usage_.in_use += size;
    return success;
}

void Pool::give_back(const Block& block) {
    const std::lock_guard lock(mutex_);
    free_[block.bytes].push_back(block.address);
    usage_.in_use -= block.bytes;
    usage_.cached += block.bytes;
}

size_t Pool::trim() {
    const std::lock_guard lock(mutex_);
    return trim_locked();
}

size_t Pool::trim_locked() {
    const size_t released = usage_.cached;
    for (const auto& [size, addresses] : free_)
        for (const Address address : addresses) source_.release(address);
    free_.clear();
    usage_.cached = 0;
    return released;
}

void Pool::forget() {
    const std::lock_guard lock(mutex_);
    free_.clear();
    usage_ = {};
}

Pool::Usage Pool::usage() const {
    const std::lock_guard lock(mutex_);
    return usage_;
}

}  // namespace coalesce::cuda
