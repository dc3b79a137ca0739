#include "analysis/caches/request_lines.hpp"

#include <algorithm>
#include <cstdlib>

namespace coalesce::analysis {

using model::LineAccess;

namespace {

// Adds the access of one lane, `bytes` bytes at `address`, to the lines of a request. The request
// has `n` lines so far, and `highest` is the highest line number so far. `covered` has the number
// of accessed bytes of each sector.
void add_access(uint64_t address, uint32_t bytes, LineAccess* lines, uint8_t (*covered)[4], int& n,
                uint64_t& highest) {
    const uint64_t line = address / model::line_bytes;
    int at = n - 1;  // neighbouring lanes usually access the same line or the next one
    if (n == 0 || lines[at].line != line) {
        at = n && line > highest ? n : 0;
        while (at < n && lines[at].line != line) ++at;
        if (at == n) {
            lines[n] = {line, 0, 0};
            std::fill_n(covered[n++], 4, uint8_t(0));
            highest = std::max(highest, line);
        }
    }
    const uint32_t sector = uint32_t(address / model::sector_bytes % 4);
    lines[at].sectors |= uint8_t(1u << sector);
    covered[at][sector] =
        uint8_t(std::min<uint32_t>(model::sector_bytes, covered[at][sector] + bytes));
}

}  // namespace

int RequestLines::of(uint32_t warp, const MemoryRequest& r, LineAccess* lines) const {
    const CacheSite site = sites_[r.pc];
    const uint32_t bytes = site.bytes;
    uint8_t covered[sim::warp_size][4];
    int n = 0;
    uint64_t highest = 0;
    if (site.local) {
        // A line of local memory holds one word of each lane.
        const uint64_t base = shifts_[0] + warp * local_of_warp;
        const auto add_local = [&](int lane, uint64_t address) {
            for (uint32_t word = 0; word < std::max(1u, bytes / 4) && n < sim::warp_size; ++word)
                add_access(base + (address / 4 + word) * model::line_bytes + uint64_t(lane) * 4,
                           std::min(bytes, 4u), lines, covered, n, highest);
        };
        if (r.scattered) {
            const uint64_t* address = &block_.addresses[r.first];
            sim::for_each_lane(uint32_t(r.stride), [&](int lane) { add_local(lane, *address++); });
        } else {
            for (int lane = 0; lane < sim::warp_size; ++lane)
                add_local(lane, r.first - shifts_[0] + uint64_t(int64_t(lane) * r.stride));
        }
    } else if (r.scattered) {
        const uint64_t* address = &block_.addresses[r.first];
        sim::for_each_lane(uint32_t(r.stride), [&](int) {
            const uint64_t shifted = *address + shifts_[*address >> region_bits];
            add_access(shifted, bytes, lines, covered, n, highest);
            ++address;
        });
    } else if (r.stride == int32_t(bytes)) {  // a contiguous range
        const uint64_t end = r.first + uint64_t(sim::warp_size) * bytes;
        for (uint64_t sector = r.first / model::sector_bytes; sector * model::sector_bytes < end;
             ++sector) {
            if (n == 0 || lines[n - 1].line != sector / 4) lines[n++] = {sector / 4, 0, 0};
            const bool whole = sector * model::sector_bytes >= r.first &&
                               (sector + 1) * model::sector_bytes <= end;
            const auto bit = uint8_t(1u << sector % 4);
            lines[n - 1].sectors |= bit;
            if (whole) lines[n - 1].whole |= bit;
        }
        return n;
    } else if (r.stride == 0 || std::abs(r.stride) >= int(model::line_bytes)) {
        // The request accesses a single address, or a different line in each lane.
        const int most = r.stride == 0 ? 1 : sim::warp_size;
        for (; n < most; ++n) {
            const uint64_t address = r.first + uint64_t(int64_t(n) * r.stride);
            const auto sector = uint8_t(1u << (address / model::sector_bytes % 4));
            const bool whole = bytes == model::sector_bytes;
            lines[n] = {address / model::line_bytes, sector, whole ? sector : uint8_t(0)};
        }
        return n;
    } else {
        for (int lane = 0; lane < sim::warp_size; ++lane)
            add_access(r.first + uint64_t(int64_t(lane) * r.stride), bytes, lines, covered, n,
                       highest);
    }
    for (int i = 0; i < n; ++i)
        for (uint32_t sector = 0; sector < 4; ++sector)
            lines[i].whole |=
                uint8_t(uint32_t(covered[i][sector] == model::sector_bytes) << sector);
    return n;
}

}  // namespace coalesce::analysis
