#include "analysis/caches/request_lines.hpp"

#include <algorithm>
#include <iterator>

namespace coalesce::analysis {

using model::LineAccess;

namespace {

// Collects the lines of a request, in the order of the first lanes that access them.
class Collector {
  public:
    explicit Collector(LineAccess* lines) : lines_(lines) {}

    // Adds the access of one lane, `bytes` bytes at `address`.
    void add(uint64_t address, uint32_t bytes) {
        const uint64_t line = address / model::line_bytes;
        // Neighbouring lanes usually access the same line.
        if (count_ == 0 || lines_[at_].line != line) at_ = find(line);
        const uint32_t sector = uint32_t(address / model::sector_bytes % 4);
        lines_[at_].sectors |= uint8_t(1u << sector);
        covered_[at_][sector] =
            uint8_t(std::min<uint32_t>(model::sector_bytes, covered_[at_][sector] + bytes));
    }
    // Returns the number of lines.
    int end() {
        for (int i = 0; i < count_; ++i)
            for (uint32_t sector = 0; sector < 4; ++sector)
                lines_[i].whole |=
                    uint8_t(uint32_t(covered_[i][sector] == model::sector_bytes) << sector);
        return count_;
    }
    [[nodiscard]] bool is_full() const { return count_ == sim::warp_size; }

  private:
    // Returns the index of a line, which is added if it is new. The table has twice as many entries
    // as there are lines. An entry is the index of a line plus 1, and 0 if it is free.
    int find(uint64_t line) {
        uint64_t entry = line * 0x9e3779b97f4a7c15 >> 58;
        for (; table_[entry]; entry = (entry + 1) % std::size(table_))
            if (lines_[table_[entry] - 1].line == line) return table_[entry] - 1;
        lines_[count_] = {line, 0, 0};
        std::fill_n(covered_[count_], 4, uint8_t(0));
        table_[entry] = uint8_t(count_ + 1);
        return count_++;
    }

    LineAccess* lines_;
    int count_ = 0, at_ = 0;
    uint8_t covered_[sim::warp_size][4];  // the number of accessed bytes of each sector
    uint8_t table_[2 * sim::warp_size] = {};
};

}  // namespace

int RequestLines::of(uint32_t warp, const MemoryRequest& r, LineAccess* lines) const {
    const CacheSite site = sites_[r.pc];
    const uint32_t bytes = site.bytes;
    if (!site.local && !r.scattered && is_dense(r.stride)) {
        const uint64_t last = r.first + uint64_t(int64_t{r.stride} * (sim::warp_size - 1));
        const uint64_t begin = std::min(r.first, last), end = std::max(r.first, last) + bytes;
        const uint64_t first_sector = begin / model::sector_bytes;
        const uint64_t end_sector = (end - 1) / model::sector_bytes + 1;
        // Every byte of a sector is accessed if there are no gaps between the lanes, and the range
        // neither begins nor ends in the sector.
        const bool has_gaps = uint32_t(std::abs(r.stride)) != bytes && bytes < model::sector_bytes;
        const uint64_t first_whole = (begin + model::sector_bytes - 1) / model::sector_bytes;
        const uint64_t end_whole = end / model::sector_bytes;
        int n = 0;
        for (uint64_t line = first_sector / 4; line * 4 < end_sector; ++line)
            lines[n++] = {line, sectors_of_line(line, first_sector, end_sector),
                          has_gaps ? uint8_t{0} : sectors_of_line(line, first_whole, end_whole)};
        if (r.stride < 0) std::reverse(lines, lines + n);
        return n;
    }
    Collector collector(lines);
    // Calls handle(lane, address) for each lane, with its relative address.
    const auto for_each_address = [&](auto&& handle) {
        if (r.scattered) {
            const uint64_t* address = &block_.addresses[r.first];
            sim::for_each_lane(uint32_t(r.stride), [&](int lane) { handle(lane, *address++); });
        } else {
            const uint64_t first = site.local ? r.first - shifts_[0] : r.first;
            for (int lane = 0; lane < sim::warp_size; ++lane)
                handle(lane, first + uint64_t(int64_t(lane) * r.stride));
        }
    };
    if (site.local) {
        // A line of local memory holds one word of each lane.
        const uint64_t base = shifts_[0] + warp * local_of_warp;
        for_each_address([&](int lane, uint64_t address) {
            for (uint32_t word = 0; word < std::max(1u, bytes / 4) && !collector.is_full(); ++word)
                collector.add(base + (address / 4 + word) * model::line_bytes + uint64_t(lane) * 4,
                              std::min(bytes, 4u));
        });
    } else if (r.scattered) {
        for_each_address([&](int, uint64_t address) {
            collector.add(address + shifts_[address >> region_bits], bytes);
        });
    } else {
        for_each_address([&](int, uint64_t address) { collector.add(address, bytes); });
    }
    return collector.end();
}

}  // namespace coalesce::analysis
