// The unit between multiprocessors and L2 that merges reads of a sector that is already requested.
//
// METHOD
// From compute capability 9.0 on, some reads do not reach L2. A cluster (GPC) has 16 to 18
// multiprocessors. If one of them waits for a sector, a read by another one waits for the same
// answer. Nsight Compute's Profiling Guide names the unit, L2 Request Coalescer
// (LRC). It says neither which multiprocessors share a unit nor how long a request can be merged.
// Both were derived from an H200's counters (tests/data/models_h200.json): a merged read is missing
// in lts__t_sectors_srcunit_tex_op_read, but counted in l1tex__m_xbar2l1tex_read_sectors.
//
// - `access/gather` reads sectors at random. The share of merged reads shows how many sectors are
//   pending in a cluster at once. These are about 1600 at nine sectors per cycle, and 2900 at four
//   sectors per cycle if DRAM answers most of them. The waiting times are therefore about 200 and
//   700 cycles. If a unit served two or six multiprocessors, or half a cluster, the waiting times
//   would contradict the latencies of L2 and DRAM.
// - In `matmul/coalesced` and `naive_2d`, only the operand that blocks with neighbouring numbers
//   share is merged. Therefore the model places neighbouring blocks in one cluster. This is not the
//   whole rule: in `access/offset` each block shares a sector with the next, but no read is merged.
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

    // Returns the sectors of a read that are not pending.
    [[nodiscard]] uint8_t missing(uint32_t cluster, uint64_t line, uint8_t sectors, double now) {
        if (!merges_) return sectors;
        const Pending& p = of(cluster, line);
        if (p.line != line) return sectors;
        uint8_t left = 0;
        for (uint32_t s = 0; s < 4; ++s) {
            const bool under_way = now > p.asked[s] - l2 && now < p.there[s];
            if ((sectors >> s & 1) && !under_way) left |= uint8_t(1u << s);
        }
        return left;
    }

    // Marks these sectors as pending. `from_dram` means that DRAM must answer the request.
    void ask(uint32_t cluster, uint64_t line, uint8_t sectors, double now, bool from_dram) {
        if (!merges_) return;
        Pending& p = of(cluster, line);
        if (p.line != line) p = Pending{.line = line};
        for (uint32_t s = 0; s < 4; ++s) {
            if (!(sectors >> s & 1)) continue;
            p.asked[s] = now;
            p.there[s] = now + (from_dram ? dram : l2);
        }
    }

  private:
    static constexpr double l2 = 200, dram = 600;  // waiting times in cycles
    static constexpr double never = -1e30;
    // The number of entries per cluster. With so many entries, almost no request is forgotten.
    static constexpr uint32_t entries = 1 << 14;

    // For each sector of a line, the time of its request and the time of its arrival. The model
    // does not handle requests exactly in the order of time, so it checks both.
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
