// A cache of 128-byte lines whose four 32-byte sectors come and go one by one.
//
// METHOD
// Lines are spread over sets by a hash, as strides of a power of two would otherwise meet in a few;
// of a set the line that was not used for longest goes. A set is an array of words in the order of
// their last use: the number of the line, and four bits each for sectors that are there and that
// are not yet written back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace coalesce::model {

class SectoredCache {
  public:
    struct Line {
        uint64_t number = 0;
        uint8_t valid = 0, dirty = 0;  // sectors
        bool fresh = false;            // was not there before
    };

    // Of at least one set of so many lines.
    explicit SectoredCache(uint64_t lines, uint32_t ways = 16)
        : ways_(ways), sets_(std::max<uint64_t>(1, lines / ways)), words_(sets_ * ways, empty) {}

    // Adds sectors to a line, which becomes the last used one, and returns what it had before.
    // Tells `evicted(line)` what had to go for it.
    template <class Evicted>
    Line touch(uint64_t number, uint8_t valid, uint8_t dirty, Evicted&& evicted) {
        uint64_t* const set = set_of(number);
        uint32_t way = 0;
        while (way < ways_ && set[way] >> 8 != number) ++way;
        Line before{number, 0, 0, way == ways_};
        if (way == ways_) {
            --way;
            if (set[way] != empty) evicted(line_of(set[way]));
        } else {
            before = line_of(set[way]);
        }
        std::copy_backward(set, set + way, set + way + 1);
        set[0] = number << 8 | uint64_t(before.dirty | dirty) << 4 | uint64_t(before.valid | valid);
        return before;
    }

    // What is there of a line, without using it.
    [[nodiscard]] Line look(uint64_t number) const {
        const uint64_t* const set = words_.data() + index_of(number) * ways_;
        for (uint32_t way = 0; way < ways_; ++way)
            if (set[way] >> 8 == number) return line_of(set[way]);
        return {number, 0, 0, true};
    }

    // Takes sectors of a line away, if they are there.
    void drop(uint64_t number, uint8_t sectors) {
        uint64_t* const set = set_of(number);
        for (uint32_t way = 0; way < ways_; ++way)
            if (set[way] >> 8 == number) set[way] &= ~uint64_t(sectors | sectors << 4);
    }

    [[nodiscard]] uint64_t lines() const { return words_.size(); }
    void clear() { std::fill(words_.begin(), words_.end(), empty); }

  private:
    static constexpr uint64_t empty = ~uint64_t(0);

    static Line line_of(uint64_t word) {
        return {word >> 8, uint8_t(word & 15), uint8_t(word >> 4 & 15), false};
    }
    [[nodiscard]] uint64_t index_of(uint64_t number) const {
        const uint64_t hash = (number * 0x9e3779b97f4a7c15) >> 32;
        return hash * sets_ >> 32;
    }
    uint64_t* set_of(uint64_t number) { return words_.data() + index_of(number) * ways_; }

    uint32_t ways_;
    uint64_t sets_;
    std::vector<uint64_t> words_;
};

}  // namespace coalesce::model
