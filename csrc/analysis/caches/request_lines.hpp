// Computes the lines of recorded requests (block_requests.hpp).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "analysis/caches/block_requests.hpp"
#include "model/caches/traffic.hpp"
#include "model/units.hpp"

namespace coalesce::analysis {

// The relative addresses of a warp's local memory begin at `local_of_warp` times its number in the
// block.
inline constexpr uint64_t local_of_warp = uint64_t{1} << 26;

// Returns true if the lanes of a regular request with this stride touch all sectors of a range of
// addresses.
[[nodiscard]] inline bool is_dense(int32_t stride) {
    constexpr auto most = int32_t{model::sector_bytes};
    return stride >= -most && stride <= most;
}
// Returns true if each lane of a regular request with this stride accesses a line of its own.
[[nodiscard]] inline bool is_apart(int32_t stride) {
    constexpr auto least = int32_t{model::line_bytes};
    return stride >= least || stride <= -least;
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

// The lines of the requests of one block.
class RequestLines {
  public:
    // `shifts` are added to the relative addresses, by region.
    RequestLines(const RecordedBlock& block, const std::vector<CacheSite>& sites,
                 std::vector<uint64_t> shifts)
        : block_(block), sites_(sites), shifts_(std::move(shifts)) {}

    [[nodiscard]] const std::vector<uint64_t>& shifts() const { return shifts_; }
    // Returns the request with its address shifted, if it is a regular request.
    [[nodiscard]] MemoryRequest shifted(MemoryRequest r) const {
        if (r.pc != MemoryRequest::pause && !r.scattered)
            r.first += shifts_[r.first >> region_bits];
        return r;
    }
    // Computes the lines of a shifted request, in the order of its lanes. Returns their number, at
    // most 32.
    [[nodiscard]] int of(uint32_t warp, const MemoryRequest& r, model::LineAccess* lines) const;

  private:
    const RecordedBlock& block_;
    const std::vector<CacheSite>& sites_;
    const std::vector<uint64_t> shifts_;
};

}  // namespace coalesce::analysis
