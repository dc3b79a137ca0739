// An L2 that is so large that it never evicts a line. Computes which bytes it reads from DRAM.
//
// If only a sample of the requests to L2 is replayed, the bytes from DRAM are estimated in two
// parts. The first part consists of the bytes that each cache must read, because nobody has read or
// written them before. This class counts them for all requests. It needs only four bits per line,
// so it is fast. The second part consists of the bytes that L2 reads again after it has evicted
// them. They are estimated from the sample.
#pragma once

#include <bit>
#include <cstdint>

#include "model/caches/block_sectors.hpp"
#include "model/caches/caches.hpp"
#include "model/caches/line_words.hpp"

namespace coalesce::model {

class UnlimitedCache {
  public:
    struct Answer {
        // The sectors that must be read from DRAM. (GCC would put a small number and a bool into
        // one register, by way of memory, and the host would have to wait for that.)
        uint64_t fetched;
        bool is_new;  // no earlier request had this line
    };
    // Handles requests of one kind for these sectors of a line.
    Answer handle(Traffic::Kind kind, uint64_t line, uint8_t sectors) {
        uint64_t& word = there_[line / lines_of_word];
        const uint32_t place = place_in_word(line);
        const bool is_new = (word >> place & 15) == 0;
        const uint64_t requested = uint64_t{sectors} << place;
        if (kind == Traffic::Kind::write) {
            word |= requested;
            return {0, is_new};
        }
        return {read(requested, word) >> place, is_new};
    }
    // Handles all requests of a block for 16 lines. `origin` is the difference between their lines
    // and those in `block`. Returns how many sectors must be read from DRAM. (If the block reads a
    // sector after it has written the other one of the half line, that one is counted, too.)
    uint64_t handle(const BlockSectors& block, uint64_t origin) {
        const uint64_t first = origin + block.first, number = first / lines_of_word;
        const uint32_t place = place_in_word(first);
        const uint64_t fetched = handle(block.read << place, block.written << place, number);
        if (place == 0) return fetched;
        const uint32_t rest = 64 - place;
        return fetched + handle(block.read >> rest, block.written >> rest, number + 1);
    }

  private:
    uint64_t handle(uint64_t read_sectors, uint64_t written, uint64_t number) {
        if ((read_sectors | written) == 0) return 0;
        uint64_t& word = there_[number];
        const uint64_t fetched = read(read_sectors, word);
        word |= written;
        return uint64_t(std::popcount(fetched));
    }
    // Adds the sectors that are read to a word. Returns those that DRAM must answer, which include
    // the missing sectors of their half lines.
    static uint64_t read(uint64_t requested, uint64_t& word) {
        constexpr uint64_t first_of_half = 0x5555555555555555;
        const uint64_t missing = requested & ~word;
        const uint64_t halves = (missing | missing >> 1) & first_of_half;
        const uint64_t fetched = (halves | halves << 1) & ~word;
        word |= fetched;
        return fetched;
    }

    LineWords<uint64_t> there_;  // the sectors that were read or written
};

}  // namespace coalesce::model
