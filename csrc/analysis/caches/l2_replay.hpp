// Replays the requests that multiprocessors send to L2, and counts hits and misses.
//
// METHOD
// A read passes the unit that merges reads (model/request_coalescer.hpp), and what is left of it is
// looked up in L2 (model/caches/l2_cache.hpp). Writes and atomics are not merged. If there are many
// requests, only those for a sample of the lines are replayed (model/caches/l2_sample.hpp).
//
// EXAMPLE
// Two multiprocessors of a GPC read the sectors 0 and 1 of a line, at the cycles 100 and 150. The
// first read finds nothing in L2, and DRAM answers it. The second one is merged with it, because
// the data have not arrived yet: 2 sectors read, 2 merged, and 64 bytes from DRAM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/caches/cache_result.hpp"
#include "model/block_schedule.hpp"
#include "model/caches/kept_memory.hpp"
#include "model/caches/l2_cache.hpp"
#include "model/caches/l2_sample.hpp"
#include "model/request_coalescer.hpp"

namespace coalesce::analysis {

class L2Replay {
  public:
    // `instructions` is the number of instructions of the kernel. `sample` is the exponent of
    // L2Sample.
    L2Replay(const model::Gpu& gpu, size_t instructions, uint32_t sample)
        : sample_(sample),
          coalescer_(gpu),
          l2_(gpu, sample),
          misses_(instructions),
          arrivals_((1 << 16) >> sample) {}

    // The block schedule adds all requests to this sample.
    [[nodiscard]] model::L2Sample& sample() { return sample_; }
    // Replays the requests of the next slice, in this order.
    void handle(const model::BlockSchedule::Slice& slice);

    // Returns the counts of L2 so far, estimated for all lines.
    [[nodiscard]] model::CacheCounts counts() const {
        return sample_.estimate(l2_.counts(), merged_);
    }
    // By instruction: Misses::read and Misses::slow of the lines of the sample.
    [[nodiscard]] const std::vector<Misses>& misses() const { return misses_; }

  private:
    void prefetch(const model::L2Request& r) const;
    [[nodiscard]] model::L2Cache::Guess guess(const model::L2Request& r) const;
    void handle(const model::L2Request& r, model::L2Cache::Guess guess);

    model::L2Sample sample_;
    model::RequestCoalescer coalescer_;
    model::L2Cache l2_;
    uint64_t merged_ = 0;  // the number of sectors of merged reads
    std::vector<Misses> misses_;
    // A line that is being fetched from DRAM, and the time at which it arrives. The entry of a line
    // in the table `arrivals_` is computed from the line number. If two lines have the same entry,
    // the older line is forgotten.
    struct Arrival {
        uint64_t line = ~uint64_t(0);
        double time = 0;
    };
    static uint64_t arrival_of(uint64_t line) { return (line * 0x9e3779b97f4a7c15) >> 48; }
    // Lines of the sample only have the first 1 / 2^`sample` of the entries (is_in_sample).
    std::vector<Arrival, model::HugePages<Arrival>> arrivals_;
};

}  // namespace coalesce::analysis
