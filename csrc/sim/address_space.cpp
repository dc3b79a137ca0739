#include "sim/address_space.hpp"

#include <algorithm>

namespace coalesce::sim {

uint64_t AddressSpace::add(Buffer buffer) {
    const uint64_t address = buffer.address = next_;
    next_ = (address + buffer.bytes + 2 * guard_gap - 1) & ~(guard_gap - 1);
    add_at(std::move(buffer));
    return address;
}

void AddressSpace::add_at(Buffer buffer) {
    const auto after = std::upper_bound(buffers_.begin(), buffers_.end(), buffer.address,
                                        [](uint64_t a, const Buffer& b) { return a < b.address; });
    buffers_.insert(after, std::move(buffer));
}

const Buffer* AddressSpace::search(uint64_t address, uint64_t bytes, uint16_t& hint) const {
    for (size_t i = 0; i < buffers_.size(); ++i) {
        if (holds(buffers_[i], address, bytes)) {
            hint = static_cast<uint16_t>(i);
            return &buffers_[i];
        }
    }
    return nullptr;
}

const Buffer* AddressSpace::nearest(uint64_t address) const {
    const auto distance = [address](const Buffer& b) {
        if (address < b.address) return b.address - address;
        return address < b.end() ? 0 : address - b.end() + 1;
    };
    const auto best = std::min_element(
        buffers_.begin(), buffers_.end(),
        [&](const Buffer& a, const Buffer& b) { return distance(a) < distance(b); });
    return best == buffers_.end() ? nullptr : &*best;
}

}  // namespace coalesce::sim
