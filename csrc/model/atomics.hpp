// Models how long L2 is busy with the atomics of a launch.
//
// METHOD
// L2 consists of slices. Each slice serves 512 consecutive bytes, and executes the atomics on these
// bytes one after another, in passes of `cycles_per_sector` cycles. For each sector that a request
// touches, the slice needs at least one pass. If several lanes access the same element, the slice
// needs one pass for each of these lanes. Different elements of a sector are processed in the same
// pass. So the element that the most lanes access determines the number of passes. Floating-point
// additions to the same address also wait for each other. All slices together process at most
// `sectors_per_cycle` sectors in a cycle. The constants are in cycles of an H200 at 1.98 GHz. They
// were measured with `python benchmarks/atomics.py` (docs/measured/atomics_h200.txt).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "model/units.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::model {

class AtomicUnits {
  public:
    // Adds a request. `floats` is true if the atomic adds floating-point numbers. `address(lane)`
    // returns the address that a lane accesses.
    template <class Address>
    void add(sim::LaneMask mask, bool floats, Address&& address) {
        std::array<uint64_t, sim::warp_size> wanted;
        size_t n = 0;
        sim::for_each_lane(mask, [&](int lane) { wanted[n++] = address(lane); });
        std::sort(wanted.begin(), wanted.begin() + n);
        for (size_t i = 0; i < n;) {
            const uint64_t sector = wanted[i] / sector_bytes;
            uint64_t most = 0;
            while (i < n && wanted[i] / sector_bytes == sector) {
                size_t next = i + 1;
                while (next < n && wanted[next] == wanted[i]) ++next;
                most = std::max<uint64_t>(most, next - i);
                if (floats) count(places_, wanted[i], next - i);
                i = next;
            }
            count(slices_, sector / sectors_per_slice, most);
            sectors_.fetch_add(most, std::memory_order_relaxed);
        }
    }

    [[nodiscard]] double cycles() const {
        return std::max({double(most(slices_)) * cycles_per_sector,
                         double(most(places_)) * cycles_per_float_sum,
                         double(sectors_.load()) / sectors_per_cycle});
    }

  private:
    static constexpr double cycles_per_sector = 1.45, cycles_per_float_sum = 3.48,
                            sectors_per_cycle = 50;
    static constexpr uint64_t sectors_per_slice = 512 / sector_bytes;
    // Counts accesses. The index is a hash of the address, so two addresses may share a count. This
    // does not matter: only the largest count is used, and a count is large only if one address is
    // accessed very often.
    using Table = std::array<std::atomic<uint64_t>, 1 << 14>;

    static void count(Table& table, uint64_t key, uint64_t times) {
        table[(key * 0x9e3779b97f4a7c15) >> 50].fetch_add(times, std::memory_order_relaxed);
    }
    static uint64_t most(const Table& table) {
        uint64_t largest = 0;
        for (const auto& times : table) largest = std::max(largest, times.load());
        return largest;
    }

    Table slices_{}, places_{};
    std::atomic<uint64_t> sectors_{0};
};

}  // namespace coalesce::model
