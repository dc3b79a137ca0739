// Computes the lines of recorded requests (block_requests.hpp).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "analysis/caches/block_requests.hpp"
#include "model/caches/caches.hpp"

namespace coalesce::analysis {

// The relative addresses of a warp's local memory begin at `local_of_warp` times its number in the
// block.
inline constexpr uint64_t local_of_warp = uint64_t{1} << 26;

// Describes the `count` lines of a regular request: the first line, and the distance `step` from
// each line to the next. The lanes access the same sectors in every line. If a request does not
// have this form, `count` is 0.
struct AlikeLines {
    model::LineAccess first;
    uint64_t step = 0;
    int count = 0;
};

// Returns the lines of a regular request in which each lane accesses `bytes` bytes. The conditions
// are written so that the compiler needs no branches on the form. The host would often predict such
// branches wrongly.
[[nodiscard]] inline AlikeLines alike_lines(const MemoryRequest& r, uint32_t bytes) {
    using enum RequestForm;
    const auto is = [&](RequestForm p) { return r.form == uint32_t(p); };
    const uint64_t line = r.first / model::line_bytes;
    const uint32_t sector = 1u << (r.first / model::sector_bytes % 4);
    const auto whole = uint8_t(is(whole_lines) ? 15 : 0);
    const auto sectors = uint8_t((is(other) ? 0 : sector) | whole);
    const int32_t of_whole = int32_t(bytes * sim::warp_size / model::line_bytes);
    int32_t count = is(whole_lines) ? of_whole : 0;
    count = is(one_address) ? 1 : count;
    count = is(line_per_lane) ? sim::warp_size : count;
    const int64_t step = is(line_per_lane) ? r.stride >> 7 : int64_t{is(whole_lines)};
    static_assert(model::line_bytes == 1 << 7);
    return {{line, sectors, whole}, uint64_t(step), count};
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
