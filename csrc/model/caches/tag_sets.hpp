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
    const auto odd = [](uint64_t bits) {
        bits ^= bits >> 8;
        bits ^= bits >> 4;
        return uint32_t(0x6996 >> (bits & 15) & 1);
    };
    return odd(line & lower) | odd(line & upper) << 1;
}

struct L1Cycles {
    uint32_t lookups = 0;  // lookups of tags
    uint32_t data = 0;     // wavefronts of data
};

// Returns the cycles that L1 needs for a request in which each lane of `mask` accesses `bytes`
// bytes. `address(lane)` returns the address of a lane.
template <class Address>
L1Cycles l1_cycles(sim::LaneMask mask, uint32_t bytes, Address&& address) {
    struct Line {
        uint64_t line;
        uint32_t banks;  // one bit for each bank
    };
    std::array<std::array<Line, sim::warp_size>, tag_sets> lines_of_set;
    std::array<uint32_t, tag_sets> count{};
    // A bit for each hash of the lines so far. Most lines are new, and then need not be compared
    // with the others.
    std::array<uint64_t, 4> known{};
    sim::for_each_lane(mask, [&](int lane) {
        const uint64_t a = address(lane), line = a / line_bytes;
        const uint32_t set = tag_set(line);
        auto& lines = lines_of_set[set];
        const auto hash = uint32_t((line * 0x9e3779b97f4a7c15) >> 56);
        uint64_t& bits = known[hash / 64];
        uint32_t at = bits >> hash % 64 & 1 ? 0 : count[set];
        bits |= uint64_t{1} << hash % 64;
        while (at < count[set] && lines[at].line != line) ++at;
        if (at == count[set]) lines[count[set]++] = {line, 0};
        const uint32_t words = (uint32_t{1} << std::max(1u, bytes / word_bytes)) - 1;
        lines[at].banks |= words << (a % line_bytes / word_bytes);
    });
    L1Cycles total;
    total.lookups = *std::max_element(count.begin(), count.end());
    for (uint32_t k = 0; k < total.lookups; ++k) {
        // by_at_least[n] has one bit for each bank. The bit is set if at least n + 1 of the lines
        // of this cycle (up to four) need the bank.
        std::array<uint32_t, tag_sets> by_at_least{};
        for (uint32_t set = 0; set < tag_sets; ++set) {
            uint32_t more = k < count[set] ? lines_of_set[set][k].banks : 0;
            for (uint32_t& banks : by_at_least) {
                const uint32_t both = banks & more;
                banks |= more;
                more = both;
            }
        }
        for (const uint32_t banks : by_at_least) total.data += banks != 0;
    }
    return total;
}

}  // namespace coalesce::model
