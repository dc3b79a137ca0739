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

}  // namespace coalesce::analysis
