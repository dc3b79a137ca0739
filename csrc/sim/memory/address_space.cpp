#include "sim/memory/address_space.hpp"

#include <algorithm>
#include <iterator>

#include "round_up.hpp"

namespace coalesce::sim {

uint64_t AddressSpace::add(Buffer buffer) {
    // An array of another owner (DeviceArray) has an address of this process, which may be here.
    auto b = std::partition_point(buffers_.begin(), buffers_.end(), [this](const Buffer& other) {
        return other.end() + guard_gap <= next_;
    });
    for (; b != buffers_.end() && b->address < next_ + buffer.bytes + guard_gap; ++b)
        next_ = round_up(b->end() + guard_gap, guard_gap);
    const uint64_t address = buffer.address = next_;
    next_ = (address + buffer.bytes + 2 * guard_gap - 1) & ~(guard_gap - 1);
    add_at(std::move(buffer));
    return address;
}

uint64_t AddressSpace::add_object(Buffer buffer) {
    const uint64_t address = buffer.address = next_object_;
    next_object_ += round_up(buffer.bytes, uint64_t{256});
    add_at(std::move(buffer));
    return address;
}

void AddressSpace::add_at(Buffer buffer) {
    const auto after = std::upper_bound(buffers_.begin(), buffers_.end(), buffer.address,
                                        [](uint64_t a, const Buffer& b) { return a < b.address; });
    buffers_.insert(after, std::move(buffer));
}

void AddressSpace::prepare_grid_workspace() {
    if (!workspace_) {
        workspace_ = std::make_shared<std::array<uint32_t, 2>>();
        Buffer b;
        b.name = "the barrier of the grid";
        b.address = grid_workspace;
        b.bytes = sizeof *workspace_;
        b.host = reinterpret_cast<std::byte*>(workspace_->data());
        add_at(std::move(b));
    }
    *workspace_ = {sizeof *workspace_, 0};
}

const Buffer* AddressSpace::search(uint64_t address, uint64_t bytes, uint16_t& hint) const {
    const auto after = std::upper_bound(buffers_.begin(), buffers_.end(), address,
                                        [](uint64_t a, const Buffer& b) { return a < b.address; });
    if (after == buffers_.begin() || !holds(*std::prev(after), address, bytes)) return nullptr;
    hint = static_cast<uint16_t>(after - buffers_.begin() - 1);
    return &*std::prev(after);
}

size_t AddressSpace::number_at(uint64_t address) const {
    const auto buffer = std::lower_bound(buffers_.begin(), buffers_.end(), address,
                                         [](const Buffer& b, uint64_t a) { return b.address < a; });
    return buffer != buffers_.end() && buffer->address == address
               ? size_t(buffer - buffers_.begin())
               : buffers_.size();
}

void AddressSpace::free_at(uint64_t address) {
    Buffer& b = buffers_.at(number_at(address));
    freed_[address] = b;
    b.bytes = 0;
    b.host = nullptr;
    b.undefined = nullptr;
}

void AddressSpace::remove_from(uint64_t address) {
    std::erase_if(buffers_, [=](const Buffer& b) { return b.address >= address; });
    std::erase_if(freed_, [=](const auto& b) { return b.first >= address; });
}

const Buffer* AddressSpace::freed(uint64_t address) const {
    const auto after = freed_.upper_bound(address);
    if (after == freed_.begin()) return nullptr;
    const Buffer& b = std::prev(after)->second;
    return address - b.address < b.bytes ? &b : nullptr;
}

const Buffer::Part* Buffer::part_at(int64_t offset) const {
    const auto distance = [offset](const Part& p) {
        const int64_t first = int64_t(p.offset), end = first + int64_t(p.bytes);
        if (offset < first) return first - offset;
        return offset < end ? 0 : offset - end + 1;
    };
    const auto best = std::ranges::min_element(parts, {}, distance);
    return best == parts.end() ? nullptr : &*best;
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
