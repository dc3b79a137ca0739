// Merges the requests to L2 of the warps of a block.
//
// METHOD
// The warps take turns: in each round, each warp executes one instruction. A warp may start in a
// later round than others. The requests of each warp are known in advance, so a variant of a block
// differs from other variants only in the rounds in which its warps start. Merging is fast. So for
// large blocks, the merged requests are not stored, but computed when the block sends them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "model/caches/caches.hpp"
#include "model/caches/kept_memory.hpp"

namespace coalesce::model {

// The requests of each warp of a block, in order.
struct WarpTraffic {
    // The requests of the first warp, then those of the second warp, and so on. Here, Traffic::time
    // has another meaning: the number of cycles until the next entry of the warp. It is 0 if the
    // next entry belongs to the same instruction. So the turn of a warp ends with an entry whose
    // time is not 0. An instruction without requests has an entry whose `count` is 0.
    std::vector<Traffic, KeptPages<Traffic>> entries;
    std::vector<size_t> ends;  // for each warp, the number of entries of this and all earlier warps
};

class Turns {
  public:
    // `starts` has the first round of each warp.
    Turns(std::shared_ptr<const WarpTraffic> traffic, const std::vector<uint32_t>& starts)
        : traffic_(std::move(traffic)) {
        const Traffic* next = traffic_->entries.data();
        for (size_t warp = 0; warp < starts.size(); ++warp) {
            const Traffic* const end = traffic_->entries.data() + traffic_->ends[warp];
            of_warp_.push_back({std::exchange(next, end), end, starts[warp]});
        }
        start_round();
        take(0, [](const Traffic&, uint32_t) {});  // proceeds to the first request
    }

    [[nodiscard]] bool has_request() const { return !active_.empty(); }
    // Returns the time of the next request. If there is none, returns the time at which the block
    // ends.
    [[nodiscard]] uint32_t time() const { return now_; }

    // Calls handle(request, time) for the next requests, up to the time `before`.
    template <class Handle>
    void take(uint64_t before, Handle&& handle) {
        // In local variables, so that the compiler need not load and store them for each request.
        uint32_t now = now_;
        size_t at = at_, count = active_.size();
        OfWarp* const warps = of_warp_.data();
        const uint32_t* active = active_.data();
        while (count) {
            OfWarp& warp = warps[active[at]];
            const Traffic& next = *warp.next;
            // The requests of different warps are stored far apart in the host's memory.
            __builtin_prefetch(warp.next + requests_ahead);
            if (next.count) {
                if (now >= before) break;
                handle(next, now);
            }
            ++warp.next;
            if (next.time == 0) continue;
            now += next.time;
            if (warp.next == warp.end) changes_ = true;
            if (++at < count) continue;
            at = 0;
            ++round_;
            if (!changes_) continue;
            start_round();
            count = active_.size();
            active = active_.data();
        }
        now_ = now;
        at_ = at;
    }

  private:
    static constexpr int requests_ahead = 4;

    struct OfWarp {
        const Traffic *next, *end;
        uint32_t start;
    };

    // Finds the warps that have started and have not ended. If there are none, skips rounds.
    void start_round() {
        for (; changes_; ++round_) {
            active_.clear();
            changes_ = false;
            for (uint32_t warp = 0; warp < of_warp_.size(); ++warp) {
                if (of_warp_[warp].next == of_warp_[warp].end) continue;
                if (of_warp_[warp].start <= round_)
                    active_.push_back(warp);
                else
                    changes_ = true;
            }
            if (!active_.empty()) return;
        }
    }

    std::shared_ptr<const WarpTraffic> traffic_;
    std::vector<OfWarp> of_warp_;
    std::vector<uint32_t> active_;  // the warps that take turns in this round
    size_t at_ = 0;                 // the index in active_ of the warp whose turn it is
    uint32_t round_ = 0, now_ = 0;
    bool changes_ = true;  // the next round may have other warps
};

}  // namespace coalesce::model
