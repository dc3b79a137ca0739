#include "analysis/check/shadow.hpp"

#include <algorithm>

namespace coalesce::analysis {

void SharedShadow::start(uint32_t block, uint64_t bytes, uint32_t granule_bits, bool is_shared) {
    block_ = block;
    is_shared_ = is_shared;
    if (is_shared) cells_.clear();
    cells_.resize((bytes + (1u << granule_bits) - 1) >> granule_bits);
    locations_.clear();
}

GlobalShadow::GlobalShadow(const sim::AddressSpace& memory, uint32_t granule_bits)
    : memory_(memory), granule_bits_(granule_bits) {
    add_buffers();
}

void GlobalShadow::add_buffers() {
    for (size_t n = pages_.size(); n < memory_.buffers().size(); ++n) {
        const uint64_t cells =
            (memory_.buffers()[n].bytes + (1u << granule_bits_) - 1) >> granule_bits_;
        pages_.emplace_back((cells + page_cells - 1) / page_cells);
    }
}

uint32_t GlobalShadow::buffer_of(uint64_t address) const {
    const auto& buffers = memory_.buffers();
    const auto after =
        std::upper_bound(buffers.begin(), buffers.end(), address,
                         [](uint64_t a, const sim::Buffer& b) { return a < b.address; });
    return uint32_t(after - buffers.begin()) - 1;
}

Touched GlobalShadow::touched() const {
    Touched all;
    const uint64_t bytes = uint64_t{1} << granule_bits_;
    const auto add = [&](Touched::Ranges& ranges, uint64_t address) {
        if (!ranges.empty() && ranges.back().second == address)
            ranges.back().second += bytes;
        else
            ranges.emplace_back(address, address + bytes);
    };
    for (size_t n = 0; n < pages_.size(); ++n) {
        const uint64_t start = memory_.buffers()[n].address;
        for (size_t p = 0; p < pages_[n].size(); ++p) {
            const Cell* const cells = pages_[n][p].get();
            for (uint64_t i = 0; cells && i < page_cells; ++i) {
                const uint64_t address = start + ((p * page_cells + i) << granule_bits_);
                // A plain read beside atomics may belong to a loop with compare-and-swap. So it is
                // left out.
                if (cells[i].write.time)
                    add(all.written, address);
                else if (cells[i].read[0].time && !cells[i].is(Cell::has_strong))
                    add(all.read, address);
            }
        }
    }
    std::vector<uint64_t> strong;
    for (const auto& [address, location] : locations_) strong.push_back(address);
    std::sort(strong.begin(), strong.end());
    for (const uint64_t address : strong) {
        const Location& l = locations_.at(address);
        add(!l.write.last.time ? all.strongly_read
            : l.atomic_write   ? all.atomics
                               : all.flags,
            address);
    }
    return all;
}

}  // namespace coalesce::analysis
