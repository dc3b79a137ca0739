// Finds what must be read from DRAM whatever the size of L2 is, because no request has read or
// written it before.
//
// METHOD
// An L2 that never evicts a line reads each sector at most once from DRAM. It needs four bits for
// each line, one for each sector that was read or written. 16 neighbouring lines share a word.
// Words are stored in parts of 32,768 lines (4 MB), which exist only where lines are requested. The
// parts that were used last are found without a search.
//
// EXAMPLE
// The sectors 0 and 3 of a line are read. DRAM is read in half lines of two sectors, so all four
// sectors are fetched. If sector 0 had been written before, only the sectors 2 and 3 would be
// fetched: sector 0 is in L2, and sector 1 was not read.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "model/caches/traffic.hpp"

namespace coalesce::model {

class FirstReads {
  public:
    // Sectors of a line are written.
    void write(uint64_t line, uint8_t sectors) {
        word_of(line) |= uint64_t{sectors} << line % lines_of_word * 4;
    }
    // Sectors of a line are read. Returns the number of sectors that DRAM must answer.
    uint64_t read(uint64_t line, uint8_t sectors) {
        uint64_t& word = word_of(line);
        const uint64_t place = line % lines_of_word * 4;
        const auto there = uint32_t(word >> place & 15);
        const uint64_t fetched = half_lines(uint8_t(sectors & ~there)) & ~there;
        word |= fetched << place;
        return sectors_in(uint32_t(fetched));
    }

  private:
    static constexpr uint64_t lines_of_word = 16, words_of_part = 2048;
    using Part = std::array<uint64_t, words_of_part>;

    uint64_t& word_of(uint64_t line) {
        const uint64_t number = line / lines_of_word, part = number / words_of_part;
        Latest& latest = latest_[part % latest_.size()];
        if (latest.number != part) {
            auto& words = parts_[part];
            if (!words) words = std::make_unique<Part>();
            latest = {part, words.get()};
        }
        return (*latest.part)[number % words_of_part];
    }

    struct Latest {
        uint64_t number = ~uint64_t(0);
        Part* part = nullptr;
    };
    std::array<Latest, 64> latest_;  // the part that was used last, by number modulo 64
    std::unordered_map<uint64_t, std::unique_ptr<Part>> parts_;
};

}  // namespace coalesce::model
