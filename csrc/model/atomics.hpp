// How long L2 is busy with atomics.
//
// METHOD
// A slice of L2 takes the atomics of 512 bytes one after the other, a sector of a
// request at a time, and as often as its most wanted element is wanted; a sum of floats at one
// place waits for the one before. All slices together take `a_cycle` sectors. The numbers are
// cycles at 1.98 GHz of an H200 (`python benchmarks/atomics.py`, docs/measured/atomics_h200.txt).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "sim/memory.hpp"

namespace coalesce::model {

class AtomicUnits {
  public:
    // A request; `floats` if it adds floating-point numbers.
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
            count(slices_, sector / sectors_of_a_slice, most);
            sectors_.fetch_add(most, std::memory_order_relaxed);
        }
    }

    [[nodiscard]] double cycles() const {
        return std::max({double(most(slices_)) * a_sector, double(most(places_)) * a_sum,
                         double(sectors_.load()) / a_cycle});
    }

  private:
    static constexpr double a_sector = 1.45, a_sum = 3.48, a_cycle = 50;
    static constexpr uint64_t sector_bytes = 32, sectors_of_a_slice = 512 / sector_bytes;
    // Counts by hash: where many places are wanted, which of them share one does not matter.
    using Table = std::array<std::atomic<uint64_t>, 1 << 14>;

    static void count(Table& table, uint64_t key, uint64_t times) {
        table[(key * 0x9e3779b97f4a7c15) >> 50].fetch_add(times, std::memory_order_relaxed);
    }
    static uint64_t most(const Table& table) {
        uint64_t found = 0;
        for (const auto& times : table) found = std::max(found, times.load());
        return found;
    }

    Table slices_{}, places_{};
    std::atomic<uint64_t> sectors_{0};
};

}  // namespace coalesce::model
