#include "analysis/shadow.hpp"

#include <algorithm>

namespace coalesce::analysis {

void SharedShadow::start(uint32_t block, uint64_t bytes, uint32_t granule_bits) {
    block_ = block;
    cells_.resize((bytes + (1u << granule_bits) - 1) >> granule_bits);
    locations_.clear();
}

GlobalShadow::GlobalShadow(const sim::AddressSpace& memory, uint32_t granule_bits)
    : memory_(memory), granule_bits_(granule_bits) {
    for (const sim::Buffer& b : memory.buffers()) {
        const uint64_t cells = (b.bytes + (1u << granule_bits) - 1) >> granule_bits;
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

}  // namespace coalesce::analysis
