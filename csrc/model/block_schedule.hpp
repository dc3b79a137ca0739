// Models which block runs on which multiprocessor at which time.
//
// METHOD
// Each multiprocessor holds a fixed number of blocks. Blocks start in the order of their numbers,
// one on each multiprocessor in turn. When a block ends, the next block takes its place. The model
// advances in slices of time, each of a fixed number of L1 cycles. If L2 cannot answer the requests
// of a slice in that time, the slice lasts longer. The older blocks of a multiprocessor get more
// time than the younger ones, because schedulers prefer older warps.
//
// Blocks that do the same work do not take the same time. The more blocks share a multiprocessor,
// the larger the differences are. Therefore the start of each block is delayed by a random fraction
// of
//
//    1.7 x (blocks per multiprocessor) x sqrt(cycles to execute these blocks once)
//
// cycles, and the blocks drift apart as in a random walk. The fraction is pseudo-random and depends
// only on the block's number. So every run of the model gives the same result. The form of the term
// and the factor 1.7 were fitted to recordings of tiled matrix products on an H200. They were
// chosen to match the share of reads that are merged before L2 (model/request_coalescer.hpp). For
// the sizes 512, 1024, 2048 and 4096, the H200 merges 36, 26, 16 and 6 % of the reads with two
// blocks per multiprocessor, and 35, 27, 16 and 4 % with one block. With eight blocks, it merges 18
// and 12 % for the sizes 1024 and 2048.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "model/caches/cache_counts.hpp"
#include "model/caches/kept_memory.hpp"
#include "model/caches/l2_sample.hpp"
#include "model/caches/traffic.hpp"

namespace coalesce::model {

// The addresses of a block's requests are relative to the block. The upper bits of such an address,
// from this bit on, are the number of an array.
inline constexpr uint32_t region_bits = 44;

// The result of replaying one block through its L1: counts, requests to L2, and cycles.
struct ReplayedBlock {
    CacheCounts counts;
    std::vector<Traffic, KeptPages<Traffic>> traffic;
    uint32_t cycles = 0;
    uint64_t lines = 0;       // lines that were looked up in L1
    uint64_t lines_sent = 0;  // requests to L2, one for each line
};

class BlockSchedule {
  public:
    // `resident` is the number of blocks that a multiprocessor holds. All requests to L2 are added
    // to `sample`.
    BlockSchedule(const Gpu& gpu, uint32_t resident, L2Sample& sample);

    // Call this if the modelled blocks stand for a larger grid, and some blocks of the grid are
    // left out. The model then assumes that the left-out blocks ran before the modelled ones. Their
    // number is `rounds` times the number of blocks that the GPU holds at once. Blocks drift apart
    // while they run, so the first modelled blocks do not start at the same time.
    void leave_out(double rounds) { left_out_ = rounds; }

    [[nodiscard]] bool has_place() const { return !places_.empty(); }
    [[nodiscard]] bool is_empty() const { return held_ == 0; }
    // `origins` has the differences between addresses and those in `filtered`, by array.
    void start(uint64_t block, std::shared_ptr<const ReplayedBlock> filtered,
               std::vector<uint64_t> origins = {0});

    struct Slice {
        double start = 0;  // cycles since the launch; no request is earlier
        std::vector<L2Request, KeptPages<L2Request>> requests;  // those for lines of the sample
        std::vector<std::shared_ptr<const ReplayedBlock>> ended;
    };
    // Advances by one slice. The result is valid until the next call.
    const Slice& run_slice();

  private:
    // A block that a multiprocessor is executing.
    struct Running {
        std::shared_ptr<const ReplayedBlock> filtered;
        std::vector<uint64_t> origins;
        size_t next = 0;  // the next request in `filtered->traffic`

        [[nodiscard]] bool has_request() const { return next < filtered->traffic.size(); }
        // Returns the time of the next request. If there is none, returns the time at which the
        // block ends.
        [[nodiscard]] double next_event() const {
            return double(has_request() ? filtered->traffic[next].time : filtered->cycles);
        }
        // Calls handle(request) for the next requests, up to the time `before`.
        template <class Handle>
        void take(uint64_t before, Handle&& handle);
    };
    // The blocks that a multiprocessor is executing, oldest first. Times are in cycles since the
    // start of a block. They are in vectors of their own, because most slices only advance them.
    struct Multiprocessor {
        std::vector<Running> blocks;
        std::vector<double> times;   // negative before the block starts
        std::vector<double> events;  // Running::next_event()
        bool all_started = false;    // false: perhaps some of the blocks have not started yet

        bool pass(const std::vector<double>& steps);
    };
    struct Ended {
        double ago;
        uint32_t multiprocessor;
    };
    void run(uint32_t multiprocessor);
    void send_requests(Running& r, uint32_t multiprocessor, double start, double step, double end);

    const Gpu& gpu_;
    const uint32_t resident_;
    const uint64_t first_round_;
    const double sectors_per_cycle_;
    L2Sample& sample_;
    // The cycles that each block of a multiprocessor gets in a slice. The first index is the number
    // of blocks that have started, the second is the rank of the block by age.
    std::vector<std::vector<double>> steps_;
    double left_out_ = 0;
    double now_ = 0;
    uint64_t sectors_ = 0;  // the sectors of all requests of the current slice
    uint64_t held_ = 0;
    std::deque<uint32_t> places_;  // the multiprocessor of each free slot
    std::vector<Multiprocessor> running_;
    std::vector<Ended> ended_;
    Slice slice_;
};

}  // namespace coalesce::model
