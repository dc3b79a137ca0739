#include "model/coalescing.hpp"

#include "model/distinct.hpp"

namespace coalesce::model {

Footprint scattered_footprint(const sim::MemoryEvent& e) {
    uint64_t addresses[sim::warp_size];
    int n = 0;
    // Addresses usually ascend with the lane. Then they need not be sorted.
    sim::for_each_lane(e.mask, [&](int lane) { addresses[n++] = e.addresses[lane]; });
    if (std::is_sorted(addresses, addresses + n)) return footprint_of(addresses, n);
    if (e.access == sim::Access::load || e.access == sim::Access::store) {
        Distinct elements, sectors, lines;  // faster than sorting
        for (int i = 0; i < n; ++i) {
            const uint32_t before = elements.count();
            if (elements.index_of(addresses[i]) != before) continue;
            sectors.index_of(addresses[i] / sector_bytes);
            lines.index_of(addresses[i] / line_bytes);
        }
        return {elements.count(), sectors.count(), lines.count(), 0};
    }
    std::sort(addresses, addresses + n);
    return footprint_of(addresses, n);
}

}  // namespace coalesce::model
