// The blocks of a launch on their multiprocessors: which runs when, and how time passes.
//
// METHOD
// Each multiprocessor holds so many blocks. They are started in the order of their numbers, one a
// multiprocessor in turn, and then wherever one ends. Time passes in slices of an L1's
// cycles, and takes longer where the slice's requests are more than L2 answers. Of
// the blocks of a multiprocessor the older ones get more of it, as its schedulers prefer older
// warps.
//
// Blocks that do the same do not take the same time: the more of them share a multiprocessor, the
// less. Each starts late by a part at random (of its number: all runs are equal) of
//
//     1.7 x (blocks of a multiprocessor) x sqrt(cycles in which it works them off once)
//
// so that they drift apart as in a random walk. The shape and the number are those that explain the
// reads that an H200 merges (model/request_coalescer.hpp) in tiled matrix products of 512 to 4096:
// 36, 26, 16 and 6 % with two blocks a multiprocessor, 35, 27, 16 and 4 % with one, 18 and 12 % of
// 1024 and 2048 with eight.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "model/caches.hpp"

namespace coalesce::model {

// What a block's L1 did.
struct Filtered {
    CacheCounts counts;
    std::vector<Traffic> traffic;
    uint32_t cycles = 0;
    uint64_t lines = 0;
};

class BlockSchedule {
  public:
    // Of multiprocessors that hold `resident` blocks each.
    BlockSchedule(const Gpu& gpu, uint32_t resident);

    // Of the grid so many rounds are left out, of as many blocks as the GPU holds: from the start
    // the blocks are as far apart as at its end.
    void leave_out(double rounds) { left_out_ = rounds; }

    [[nodiscard]] bool has_place() const { return !places_.empty(); }
    [[nodiscard]] bool is_empty() const { return held_ == 0; }
    void start(uint64_t block, std::shared_ptr<const Filtered> filtered);

    // What happens in a slice of time.
    struct Request {
        const Traffic* traffic;
        uint32_t multiprocessor;
        double time;  // cycles since the launch
    };
    struct Slice {
        std::vector<Request> requests;
        std::vector<std::shared_ptr<const Filtered>> ended;
    };
    // Lets time pass. What is returned holds until the next call.
    const Slice& run_slice();

  private:
    // A block on its multiprocessor.
    struct Running {
        std::shared_ptr<const Filtered> filtered;
        size_t next = 0;
        double time = 0;  // of its cycles; less than 0 before it starts
    };
    struct Ended {
        double ago;
        uint32_t multiprocessor;
    };
    void run(uint32_t multiprocessor);

    const uint32_t resident_;
    const uint64_t first_round_;
    const double sectors_a_cycle_;
    double left_out_ = 0;
    double now_ = 0;
    uint64_t held_ = 0;
    std::deque<uint32_t> places_;                // that are free, by multiprocessor
    std::vector<std::vector<Running>> running_;  // by multiprocessor, oldest first
    std::vector<Ended> ended_;
    Slice slice_;
};

}  // namespace coalesce::model
