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
#include <cstdint>

#include "model/units.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::model {

inline constexpr uint32_t tag_sets = 4;

inline constexpr uint32_t tag_bits = 14;

// Returns the set of a line. It is computed from the lowest `tag_bits` bits of the line number. The
// effect of higher bits is not known.
inline uint32_t tag_set(uint64_t line) {
    constexpr uint64_t lower = 0b11'1010'1011'0101, upper = 0b01'0101'1101'1010;
    // Returns 1 if the number of set bits is odd, otherwise 0.
    const auto odd = [](uint64_t bits) { return uint32_t(__builtin_parity(uint32_t(bits))); };
    return odd(line & lower) | odd(line & upper) << 1;
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

// The lines of a request, by their sets of tags. A loop over lanes calls add(), so it is inlined.
class L1Lines {
  public:
    // Adds an access to a line, which needs these banks (one bit for each).
    [[gnu::always_inline]] void add(uint64_t line, uint32_t banks) {
        // Neighbouring lanes usually access the same line.
        if (line == latest_) {
            *banks_of_latest_ |= banks;
            return;
        }
        latest_ = line;
        const uint32_t set = tag_set(line);
        auto& lines = lines_[set];
        const auto hash = uint32_t((line * 0x9e3779b97f4a7c15) >> 56);
        uint64_t& bits = known_[hash / 64];
        uint32_t at = bits >> hash % 64 & 1 ? 0 : count_[set];
        bits |= uint64_t{1} << hash % 64;
        while (at < count_[set] && lines[at].line != line) ++at;
        if (at == count_[set]) lines[count_[set]++] = {line, 0};
        lines[at].banks |= banks;
        banks_of_latest_ = &lines[at].banks;
    }
    // The same for a line that no earlier access has used.
    [[gnu::always_inline]] void add_new(uint64_t line, uint32_t banks) {
        const uint32_t set = tag_set(line);
        lines_[set][count_[set]++] = {line, banks};
    }
    [[nodiscard]] L1Cycles cycles() const;

  private:
    struct Line {
        uint64_t line;
        uint32_t banks;
    };
    std::array<std::array<Line, sim::warp_size>, tag_sets> lines_;
    std::array<uint32_t, tag_sets> count_{};
    // A bit for each hash of the lines so far. Most lines are new, and then need not be compared
    // with the others.
    std::array<uint64_t, 4> known_{};
    uint64_t latest_ = ~uint64_t{0};
    uint32_t* banks_of_latest_ = nullptr;
};

// Returns the cycles that L1 needs for a request in which each lane of `mask` accesses `bytes`
// bytes. `address(lane)` returns the address of a lane.
template <class Address>
L1Cycles l1_cycles(sim::LaneMask mask, uint32_t bytes, Address&& address) {
    L1Lines lines;
    sim::for_each_lane(mask, [&](int lane) {
        const uint64_t a = address(lane);
        lines.add(a / line_bytes, banks_of(a, bytes));
    });
    return lines.cycles();
}

// The same for a request for neighbouring bytes, from `begin` to before `end`.
L1Cycles l1_cycles_of_range(uint64_t begin, uint64_t end);

}  // namespace coalesce::model
