// A cache of 128-byte lines with four 32-byte sectors, which are filled one by one.
//
// METHOD
// A hash of the line number selects the set. (Without a hash, strides of a power of two would fall
// into few sets.) If a set is full, the least recently used line is evicted. Each place stores a
// word and the time of its last use. The word has the line number, four bits for valid sectors and
// four bits for dirty sectors. A caller can remember the place of a line and pass it as a hint,
// which may save the search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace coalesce::model {

class SectoredCache {
  public:
    struct Line {
        uint64_t number = 0;
        uint8_t valid = 0, dirty = 0;  // masks of sectors
        bool fresh = false;            // the line was not in the cache before
    };

    // The place at which a line was found. It is only a hint, because the line may have moved
    // since. Any number below lines() is allowed.
    using Place = uint32_t;

    // `lines` is rounded to whole sets, and there is at least one set.
    explicit SectoredCache(uint64_t lines, uint32_t ways = 16)
        : ways_(ways),
          sets_(std::max<uint64_t>(1, lines / ways)),
          words_(sets_ * ways, empty),
          used_(words_.size()) {}

    // Adds sectors to a line and marks the line as most recently used. Returns the previous state
    // of the line. If another line is evicted, it is passed to `evicted`. The search begins at
    // `place`. The function updates `place`.
    template <class Evicted>
    Line touch(uint64_t number, uint8_t valid, uint8_t dirty, Evicted&& evicted, Place& place) {
        const uint64_t sectors = uint64_t(dirty) << 4 | valid;
        if (words_[place] >> 8 != number) {
            const Place first = Place(index_of(number) * ways_);
            const uint32_t way = way_of(&words_[first], number);
            place = first + way;
            if (way == ways_) {
                place = Place(std::min_element(&used_[first], &used_[first] + ways_) - &used_[0]);
                if (words_[place] != empty) evicted(line_of(words_[place]));
                words_[place] = number << 8 | sectors;
                used_[place] = ++now_;
                return {number, 0, 0, true};
            }
        }
        const Line before = line_of(words_[place]);
        words_[place] |= sectors;
        used_[place] = ++now_;
        return before;
    }
    template <class Evicted>
    Line touch(uint64_t number, uint8_t valid, uint8_t dirty, Evicted&& evicted) {
        Place anywhere = 0;
        return touch(number, valid, dirty, std::forward<Evicted>(evicted), anywhere);
    }

    // Marks `count` lines as used. Consecutive lines are `step` apart. Each line must be at its
    // place in `places` and have the sectors `valid`. Otherwise the function does nothing and
    // returns false.
    bool touch_again(uint64_t number, uint64_t step, uint32_t count, uint8_t valid,
                     const Place* places) {
        if (words_[places[0]] >> 8 != number) return false;
        uint64_t different = 0;
        for (uint32_t i = 0; i < count; ++i) {
            const uint64_t word = words_[places[i]];
            different |= ((word >> 8) ^ (number + i * step)) | (valid & ~word);
        }
        if (different) return false;
        for (uint32_t i = 0; i < count; ++i) used_[places[i]] = ++now_;
        return true;
    }

    // Returns the state of a line. This does not count as a use of the line.
    [[nodiscard]] Line look(uint64_t number) const {
        const uint64_t* const set = words_.data() + index_of(number) * ways_;
        for (uint32_t way = 0; way < ways_; ++way)
            if (set[way] >> 8 == number) return line_of(set[way]);
        return {number, 0, 0, true};
    }

    // Invalidates sectors of a line, if they are present.
    void drop(uint64_t number, uint8_t sectors) {
        uint64_t* const set = words_.data() + index_of(number) * ways_;
        for (uint32_t way = 0; way < ways_; ++way)
            if (set[way] >> 8 == number) set[way] &= ~uint64_t(sectors | sectors << 4);
    }

    [[nodiscard]] uint64_t lines() const { return words_.size(); }

  private:
    static constexpr uint64_t empty = ~uint64_t(0);

    static Line line_of(uint64_t word) {
        return {word >> 8, uint8_t(word & 15), uint8_t(word >> 4 & 15), false};
    }
    // Returns the way of a set that holds a line, or ways_ if there is none. If there are 16 ways,
    // all are compared at once.
    [[nodiscard]] uint32_t way_of(const uint64_t* set, uint64_t number) const {
        constexpr uint32_t usual = 16;
        if (ways_ == usual) {
            uint64_t found = 0;
            for (uint64_t way = 0; way < usual; ++way)
                found |= set[way] >> 8 == number ? way + 1 : 0;
            return found ? uint32_t(found - 1) : usual;
        }
        uint32_t way = 0;
        while (way < ways_ && set[way] >> 8 != number) ++way;
        return way;
    }
    [[nodiscard]] uint64_t index_of(uint64_t number) const {
        const uint64_t hash = (number * 0x9e3779b97f4a7c15) >> 32;
        return hash * sets_ >> 32;
    }

    uint32_t ways_;
    uint64_t sets_;
    std::vector<uint64_t> words_;
    std::vector<uint64_t> used_;  // last use of each place; 0: never used
    uint64_t now_ = 0;
};

}  // namespace coalesce::model
