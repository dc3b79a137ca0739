// Replays the requests that multiprocessors send to L2, and counts hits and misses.
//
// METHOD
// As long as no line is read again, the counts do not depend on what L2 holds, and need no model of
// it (model/caches/new_lines.hpp). As soon as a line is read again, all requests from the first one
// on are passed to the models of L2 and of the unit that merges reads
// (model/request_coalescer.hpp).
//
// If there are many requests, only those for a sample of the lines are replayed
// (model/caches/l2_sample.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/caches/cache_result.hpp"
#include "model/block_schedule.hpp"
#include "model/caches/l2_sample.hpp"
#include "model/caches/new_lines.hpp"

namespace coalesce::analysis {

class L2Replay {
  public:
    // `instructions` is the number of instructions of the kernel. `sample` is the exponent of
    // L2Sample.
    L2Replay(const model::Gpu& gpu, size_t instructions, uint32_t sample);
    ~L2Replay();

    // The block schedule adds all requests to this sample.
    [[nodiscard]] model::L2Sample& sample() { return sample_; }
    // Replays the requests of the next slice, in this order.
    void handle(const model::BlockSchedule::Slice& slice);

    // Returns the counts of L2 so far, estimated for all lines.
    [[nodiscard]] model::CacheCounts counts() const;
    // By instruction: Misses::read and Misses::slow of the lines of the sample.
    [[nodiscard]] const std::vector<Misses>& misses() const { return misses_; }

  private:
    class Models;

    void stop_keeping();
    void keep(const model::L2Request& r);

    const model::Gpu& gpu_;
    const uint32_t exponent_;
    model::L2Sample sample_;
    model::NewLines new_lines_;
    std::unique_ptr<Models> models_;  // null as long as all requests are in `new_lines_`
    std::vector<Misses> misses_;
};

}  // namespace coalesce::analysis
