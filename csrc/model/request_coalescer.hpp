// What lies between multiprocessors and L2: reads under way are not asked for again.
//
// METHOD
// From compute capability 9.0 on a read of a sector that another multiprocessor of the same cluster
// (GPC, 16 to 18 multiprocessors) has asked for and not got yet waits for that answer. Nsight
// Compute's Profiling Guide names the unit, L2 Request Coalescer (LRC), but neither whose requests
// it merges nor how long it waits. Both are read off an H200's counters
// (tests/data/models_h200.json), where it shows as lts__t_sectors_srcunit_tex_op_read below
// l1tex__m_xbar2l1tex_read_sectors:
//
//   - `access/gather` reads sectors at random. How many of its reads are merged tells how many are
//     under way in a cluster at once: about 1600 sectors at nine a cycle, and 2900 at four where
//     DRAM answers most, which is 200 cycles and 700. Groups of two or six multiprocessors, or of
//     half of them, would need times that the latencies of L2 and of DRAM exclude.
//   - Of `matmul/coalesced` and `naive_2d` only the operand that blocks with neighbouring numbers
//     share is merged, so here a run of blocks is in one cluster. That is not the whole truth: of
//     `access/offset`, where a block shares one sector with the next, no read is merged.
#pragma once

#include <cstdint>
#include <vector>

#include "model/gpu.hpp"

namespace coalesce::model {

class RequestCoalescer {
  public:
    explicit RequestCoalescer(const Gpu& gpu)
        : multiprocessors_(gpu.multiprocessors),
          clusters_(gpu.clusters()),
          merges_(gpu.major >= 9),
          pending_(merges_ ? clusters_ * entries : 0) {}

    [[nodiscard]] uint32_t cluster_of(uint32_t multiprocessor) const {
        return multiprocessor * clusters_ / multiprocessors_;
    }

    // The sectors of a read that are not under way.
    [[nodiscard]] uint8_t missing(uint32_t cluster, uint64_t line, uint8_t sectors, double now) {
        if (!merges_) return sectors;
        const Pending& p = of(cluster, line);
        if (p.line != line) return sectors;
        uint8_t left = 0;
        for (uint32_t s = 0; s < 4; ++s) {
            const bool under_way = now > p.asked[s] - second_level && now < p.there[s];
            if ((sectors >> s & 1) && !under_way) left |= uint8_t(1u << s);
        }
        return left;
    }

    // They are under way now.
    void ask(uint32_t cluster, uint64_t line, uint8_t sectors, double now, bool from_dram) {
        if (!merges_) return;
        Pending& p = of(cluster, line);
        if (p.line != line) p = Pending{.line = line};
        for (uint32_t s = 0; s < 4; ++s) {
            if (!(sectors >> s & 1)) continue;
            p.asked[s] = now;
            p.there[s] = now + (from_dram ? dram : second_level);
        }
    }

  private:
    static constexpr double second_level = 200, dram = 600;  // cycles
    static constexpr double never = -1e30;
    static constexpr uint32_t entries = 1 << 14;  // of a cluster; as if it forgot none

    // Of a line, when its sectors were asked for and when they come. Requests are not told quite in
    // the order of time.
    struct Pending {
        uint64_t line = ~uint64_t(0);
        double asked[4] = {never, never, never, never};
        double there[4] = {never, never, never, never};
    };
    Pending& of(uint32_t cluster, uint64_t line) {
        return pending_[cluster * entries + ((line * 0x9e3779b97f4a7c15) >> 50)];
    }

    uint32_t multiprocessors_, clusters_;
    bool merges_;
    std::vector<Pending> pending_;
};

}  // namespace coalesce::model
