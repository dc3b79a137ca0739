// Models how many cycles L1 needs for a request. A tag says which line is stored at a place. The
// tags of L1 are in four sets, and its data are in 32 banks.
//
// METHOD
// In each cycle, L1 looks up one line in each of the four sets, and each of the 32 banks delivers
// one word. Lanes whose line or word is not served wait for another cycle. Nsight Compute counts
// the lookups beyond the first one as l1tex__t_set_conflicts_pipe_lsu_mem_global_op_ld.
//
// NVIDIA does not publish which set a line is in. In the model, the number of the set has two bits.
// Each of them is the parity (the sum modulo 2) of some bits of the line number. This rule was
// derived from an H200's counters of single loads (tests/data/tag_sets_h200.json). It reproduces
// these counters exactly.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "model/distinct.hpp"
#include "model/units.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::model {

inline constexpr uint32_t tag_sets = 4;

inline constexpr uint32_t tag_bits = 14;

// Returns the set of a line. It is computed from the lowest `tag_bits` bits of the line number. The
// effect of higher bits is not known.
inline uint32_t tag_set(uint64_t line) {
    constexpr uint32_t lower = 0b11'1010'1011'0101, upper = 0b01'0101'1101'1010;
    // Both parities are computed together: each one in a half of a word, whose lowest bit becomes
    // the sum of its bits. A loop over lines can compute this in vectors.
    uint32_t bits = (uint32_t(line) & lower) | (uint32_t(line) & upper) << 16;
    for (const int by : {8, 4, 2, 1}) bits ^= bits >> by;
    return (bits & 1) | (bits >> 15 & 2);
}

struct L1Cycles {
    uint32_t lookups = 0;  // lookups of tags
    uint32_t data = 0;     // wavefronts of data
};

// Returns the banks that an access of a lane needs in its line, one bit for each.
inline uint32_t banks_of(uint64_t address, uint32_t bytes) {
    const uint32_t words = (uint32_t{1} << std::max(1u, bytes / word_bytes)) - 1;
    return words << address % line_bytes / word_bytes;
}

// The lines of a request, and the banks that each of them needs.
class L1Lines {
  public:
    // Adds a line that has not been added before.
    void add_new(uint64_t line, uint32_t banks) {
        lines_[count_] = uint32_t(line);  // the set does not depend on higher bits
        banks_[count_++] = banks;
    }
    // The same for a line that may have been added by the previous call.
    void add(uint64_t line, uint32_t banks) {
        if (count_ && lines_[count_ - 1] == uint32_t(line))
            banks_[count_ - 1] |= banks;
        else
            add_new(line, banks);
    }
    // Adds the banks to the line that was added as number `n`.
    void add_banks(uint32_t n, uint32_t banks) { banks_[n] |= banks; }
    // Adds the accesses of `lanes` lanes. Each of them is to a line of its own.
    void add_apart(uint64_t first, int64_t stride, uint32_t lanes, uint32_t bytes) {
        const uint32_t words = banks_of(0, bytes);
        for (uint32_t lane = 0; lane < sim::warp_size; ++lane) {
            const uint64_t address = first + uint64_t(stride * int64_t{lane});
            lines_[lane] = uint32_t(address / line_bytes);
            banks_[lane] = words << address % line_bytes / word_bytes;
        }
        count_ = lanes;
    }
    [[nodiscard]] L1Cycles cycles() const;

  private:
    uint32_t count_ = 0;
    std::array<uint32_t, sim::warp_size> lines_, banks_;
};

// Returns the cycles that L1 needs for a request in which each lane of `mask` accesses `bytes`
// bytes. `address(lane)` returns the address of a lane.
template <class Address>
L1Cycles l1_cycles(sim::LaneMask mask, uint32_t bytes, Address&& address) {
    L1Lines lines;
    Distinct numbers;
    sim::for_each_lane(mask, [&](int lane) {
        const uint64_t a = address(lane);
        const uint32_t before = numbers.count(), n = numbers.index_of(a / line_bytes);
        if (n == before)
            lines.add_new(a / line_bytes, banks_of(a, bytes));
        else
            lines.add_banks(n, banks_of(a, bytes));
    });
    return lines.cycles();
}

// The same for a request for neighbouring bytes, from `begin` to before `end`.
L1Cycles l1_cycles_of_range(uint64_t begin, uint64_t end);

}  // namespace coalesce::model
