// The sets of a cache. A line can be stored only in one set, which has a fixed number of places,
// called ways. The classes here find a line in its set, and find the line of a set that was used
// least recently. There are two such classes, and a cache uses one of them.
//
// Each place stores one word. The highest 56 bits of the word are the number of the line at this
// place. The cache may use the lowest eight bits for any purpose. The places of a set have
// consecutive numbers.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "model/caches/kept_memory.hpp"

namespace coalesce::model {

// The word of a place without a line.
inline constexpr uint64_t empty_word = ~uint64_t(0);

// Stores the time of the last use of each place. The times need not be stored at once: a caller can
// store them later. To find a line, its number is compared with the numbers of all lines in its
// set.
class TimedSets {
  public:
    TimedSets(uint64_t sets, uint32_t ways) : ways_(ways), words_(sets * ways), used_(sets * ways) {
        clear();
    }

    [[nodiscard]] uint64_t& word(uint64_t place) { return words_[place]; }
    [[nodiscard]] uint64_t word(uint64_t place) const { return words_[place]; }

    // Returns the way of the set that holds the line, or the number of ways.
    [[nodiscard]] uint32_t find(uint64_t set, uint64_t number) const {
        const uint64_t* const first = &words_[set * ways_];
        if (ways_ == usual) {
            uint64_t hit = 0;
            for (uint64_t way = 0; way < usual; ++way)
                hit |= first[way] >> 8 == number ? way + 1 : 0;
            return hit ? uint32_t(hit - 1) : usual;
        }
        uint32_t way = 0;
        while (way < ways_ && first[way] >> 8 != number) ++way;
        return way;
    }
    // Puts another line at a place. The caller also writes the word.
    void replace(uint64_t, uint64_t) {}

    void use(uint64_t place) { used_[place] = use_of(place, ++now_); }
    // Returns the place of the set's least recently used line.
    [[nodiscard]] uint64_t oldest(uint64_t set) const {
        const int64_t* const used = &used_[set * ways_];
        int64_t least = used[0];
        // With a constant number of ways, the compiler needs no loop.
        if (ways_ == usual)
            for (uint32_t way = 1; way < usual; ++way) least = std::min(least, used[way]);
        else
            for (uint32_t way = 1; way < ways_; ++way) least = std::min(least, used[way]);
        return uint64_t(least) % places;
    }

    // Lets `count` units of time pass without storing a use. Returns the time.
    uint64_t pass(uint32_t count) { return now_ += count; }
    // Stores a use at a time in the past. The place may have been used later, too.
    void use_at(uint64_t place, uint64_t time) {
        used_[place] = std::max(used_[place], use_of(place, time));
    }
    // Removes all lines.
    void clear() {
        std::fill(words_.begin(), words_.end(), empty_word);
        for (size_t place = 0; place < used_.size(); ++place) used_[place] = use_of(place, 0);
        now_ = 0;
    }

  private:
    static constexpr uint32_t usual = 16;
    static constexpr uint64_t places = uint64_t{1} << 24;  // more than a cache has

    // A use is stored as one number: the time, and in the lower bits the place. So the smallest
    // number of a set has the place of the line that was not used for the longest time.
    static int64_t use_of(uint64_t place, uint64_t time) { return int64_t(time * places + place); }

    uint32_t ways_;
    std::vector<uint64_t> words_;
    std::vector<int64_t> used_;  // last use of each place; time 0: never used
    uint64_t now_ = 0;
};

// Stores two things for each set of 16 ways. One is the order in which the ways were last used. The
// other is a tag for each way, which is eight bits of a hash of the line's number. A large cache
// does not fit into the caches of the host, so a search for a line should read few lines of the
// host's cache. Therefore all data that a search reads first are in one line of the host's cache.
// These are the order, the tags, and the words of the ways that are filled first.
//
// A short kernel uses only few sets of a large cache. So a set gets its initial state when its
// first line is stored. Before this, its memory has no meaning.
class OrderedSets {
  public:
    OrderedSets(uint64_t sets, uint32_t) : sets_(sets), in_use_((sets + 63) / 64) { start(0); }

    [[nodiscard]] uint64_t& word(uint64_t place) { return sets_[place / ways].words[place % ways]; }
    [[nodiscard]] uint64_t word(uint64_t place) const {
        return sets_[place / ways].words[place % ways];
    }

    // Returns the way of the set that holds the line, or the number of ways.
    [[nodiscard]] uint32_t find(uint64_t set, uint64_t number) const {
        if (!is_in_use(set)) return ways;
        const Set& s = sets_[set];
        for (uint32_t half = 0; half < 2; ++half) {
            for (uint64_t same = same_tags(s.tags[half], number); same; same &= same - 1) {
                const uint32_t way = 8 * half + uint32_t(std::countr_zero(same)) / 8;
                if (s.words[way] >> 8 == number) return way;
            }
        }
        return ways;
    }
    // Puts another line at a place. The caller also writes the word.
    void replace(uint64_t place, uint64_t number) {
        const uint64_t way = place % ways, shift = way % 8 * 8;
        uint64_t& tags = sets_[place / ways].tags[way / 8];
        tags = (tags & ~(uint64_t{255} << shift)) | tag_of(number) << shift;
    }

    void use(uint64_t place) {
        constexpr uint64_t digits = 0x1111111111111111;
        uint64_t& order = sets_[place / ways].order;
        const uint64_t way = place % ways;
        // `order` is a list of the ways with a digit of four bits for each way. The XOR makes the
        // digit that equals `way` zero. The lowest set bit of `zeros` is the highest bit of this
        // digit.
        const uint64_t others = order ^ way * digits;
        const uint64_t zeros = (others - digits) & ~others & digits << 3;
        const uint64_t later = (uint64_t{1} << (std::countr_zero(zeros) & ~3)) - 1;
        order = (order & ~later << 4) | (order & later) << 4 | way;
    }
    // Returns the place of the set's least recently used line, which the caller will replace.
    [[nodiscard]] uint64_t oldest(uint64_t set) {
        if (!is_in_use(set)) start(set);
        return set * ways + (sets_[set].order >> 60);
    }

    // Loads the part of the set that guess() reads into the host's cache.
    void prefetch(uint64_t set) const { __builtin_prefetch(&sets_[set], 1); }
    // Returns the place where the line probably is, or the place that it will probably get. Loads
    // the word of this place into the host's cache.
    [[nodiscard]] uint64_t guess(uint64_t set, uint64_t number) const {
        if (!is_in_use(set)) return 0;  // any place that is in use
        const Set& s = sets_[set];
        uint64_t way = s.order >> 60;
        for (uint32_t half = 2; half-- > 0;)
            if (const uint64_t same = same_tags(s.tags[half], number))
                way = 8 * half + uint32_t(std::countr_zero(same)) / 8;
        __builtin_prefetch(&s.words[way], 1);
        return set * ways + way;
    }

  private:
    static constexpr uint32_t ways = 16;
    static constexpr uint64_t ones = 0x0101010101010101;

    // Compares each byte of `tags` with the tag of line `number`. If a byte is equal to the tag,
    // its highest bit is set in the result. The highest bits of a few other bytes may be set, too,
    // so the caller must also compare the line numbers.
    static uint64_t same_tags(uint64_t tags, uint64_t number) {
        const uint64_t others = tags ^ tag_of(number) * ones;
        return (others - ones) & ~others & ones << 7;
    }
    // It has no initial values, so that creating the sets does not touch their memory.
    struct alignas(64) Set {
        uint64_t tags[2];  // a byte for each way
        // A list of the 16 ways in 64 bits, four bits for each. It begins with the way that was
        // used last (lowest bits), and ends with the way that was not used for the longest time.
        // The way at the end is filled next.
        uint64_t order;
        uint64_t words[ways];
    };

    [[nodiscard]] bool is_in_use(uint64_t set) const { return in_use_[set / 64] >> set % 64 & 1; }
    // Removes all lines of the set. Its first line will be stored in way 0.
    void start(uint64_t set) {
        in_use_[set / 64] |= uint64_t{1} << set % 64;
        Set& s = sets_[set] = {{0, 0}, 0x0123456789abcdef, {}};
        std::fill_n(s.words, ways, empty_word);
    }

    static uint64_t tag_of(uint64_t number) { return (number * 0x9e3779b97f4a7c15) >> 32 & 255; }

    std::vector<Set, HugePages<Set>> sets_;
    std::vector<uint64_t> in_use_;  // a bit for each set
};

}  // namespace coalesce::model
