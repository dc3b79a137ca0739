// Computes the lines that a request touches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "model/caches/tag_sets.hpp"
#include "model/caches/traffic.hpp"
#include "model/distinct.hpp"
#include "model/units.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::analysis {

// Returns true if lanes with this stride touch all sectors of a range of addresses.
[[nodiscard]] inline bool is_dense(int64_t stride) {
    return stride >= 0 && stride <= int64_t{model::sector_bytes};
}
// Returns true if each lane accesses a line of its own.
[[nodiscard]] inline bool is_apart(int64_t stride) {
    return stride >= int64_t{model::line_bytes} || stride <= -int64_t{model::line_bytes};
}

// Returns those of the line's sectors whose numbers are at least `begin` and less than `end`.
//
// EXAMPLE
// Floats from address 208 on, with a stride of 4 bytes: the bytes 208 to 335. They are in the
// sectors 6 to 10: the sectors 0b1100 of line 1, and 0b0111 of line 2.
[[nodiscard]] inline uint8_t sectors_of_line(uint64_t line, uint64_t begin, uint64_t end) {
    const uint64_t first = line * 4;
    const uint64_t skipped = begin > first ? begin - first : 0;
    const uint64_t until = end < first + 4 ? end - first : 4;
    return uint8_t((15u << skipped) & 15 & ~(~0u << until));
}

// Collects the lines of a request, in the order of the first lanes that access them. It has room
// for 32 lines. If it is full (is_full), the caller must not add other lines.
class LineCollector {
  public:
    struct Line : model::LineAccess {
        uint32_t banks;  // one bit for each word that is accessed
    };

    LineCollector() { lines_[0].line = ~uint64_t{0}; }

    // Adds the access of one lane, `bytes` bytes at `address`.
    void add(uint64_t address, uint32_t bytes) {
        const uint64_t line = address / model::line_bytes;
        // Neighbouring lanes usually access the same line.
        if (lines_[at_].line != line) {
            const uint32_t before = distinct_.count();
            at_ = distinct_.index_of(line);
            if (at_ == before) {
                lines_[at_] = {{line, 0, 0}, 0};
                std::fill_n(covered_[at_], 4, uint8_t(0));
            }
        }
        const auto sector = uint32_t(address / model::sector_bytes % 4);
        lines_[at_].sectors |= uint8_t(1u << sector);
        lines_[at_].banks |= model::banks_of(address, bytes);
        covered_[at_][sector] =
            uint8_t(std::min<uint32_t>(model::sector_bytes, covered_[at_][sector] + bytes));
    }
    [[nodiscard]] bool is_full() const { return distinct_.count() == sim::warp_size; }
    // Returns the lines.
    [[nodiscard]] std::span<const Line> get() {
        for (uint32_t i = 0; i < distinct_.count(); ++i)
            for (uint32_t sector = 0; sector < 4; ++sector)
                lines_[i].whole |=
                    uint8_t(uint32_t(covered_[i][sector] == model::sector_bytes) << sector);
        return {lines_, distinct_.count()};
    }

  private:
    model::Distinct distinct_;
    uint32_t at_ = 0;  // the line of the last access
    Line lines_[sim::warp_size];
    uint8_t covered_[sim::warp_size][4];  // the number of accessed bytes of each sector
};

}  // namespace coalesce::analysis
