// A large cache of 128-byte lines with four 32-byte sectors, which are filled one by one.
//
// METHOD
// A hash of the line number selects the set. (Without a hash, lines whose numbers differ by a power
// of two would fall into few sets.) If a set is full, the least recently used line is evicted. Each
// place in the cache stores a word: the line number, four bits for valid sectors, and four bits for
// dirty sectors. The places of a set have consecutive numbers. A caller can guess the place of a
// line in advance, and pass it as a hint.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/caches/kept_memory.hpp"

namespace coalesce::model {

// The word of a place without a line.
inline constexpr uint64_t empty_word = ~uint64_t(0);

// The sets of a cache. A line can be stored only in one set, which has 16 places, called ways.
// Each place stores one word. The highest 56 bits of the word are the number of the line at this
// place. The cache may use the lowest eight bits for any purpose.
//
// Two more things are stored for each set. One is the order in which the ways were last used. The
// other is a tag for each way, which is eight bits of a hash of the line's number. A large cache
// does not fit into the caches of the host, so a search for a line should read few lines of the
// host's cache. Therefore all data that a search reads first are in one line of the host's cache.
// These are the order, the tags, and the words of the ways that are filled first.
//
// A short kernel uses only few sets of a large cache. So a set gets its initial state when its
// first line is stored. Before this, its memory has no meaning.
class CacheSets {
  public:
    static constexpr uint32_t ways = 16;

    explicit CacheSets(uint64_t sets) : sets_(sets), in_use_((sets + 63) / 64) { start(0); }

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

class SectoredCache {
  public:
    struct Line {
        uint64_t number = 0;
        uint8_t valid = 0, dirty = 0;  // masks of sectors
        bool fresh = false;            // the line was not in the cache before
    };

    // The place at which a line was found. It is only a hint, because the line may have moved
    // since. It must be 0, or come from guess() or touch(): sets without lines have no words.
    using Place = uint32_t;

    static constexpr uint32_t ways = CacheSets::ways;

    // `lines` is rounded to whole sets, and there is at least one set. If `sample` is not 0, only
    // lines of the sample may be used (is_in_sample).
    explicit SectoredCache(uint64_t lines, uint32_t sample = 0)
        : count_(std::max<uint64_t>(1, lines / ways)), sets_(((count_ - 1) >> sample) + 1) {}

    // Returns true for the lines of the sample. These are the lines of the first 1 / 2^sample of
    // the sets.
    [[nodiscard]] static bool is_in_sample(uint64_t number, uint32_t sample) {
        return number * factor <= ~uint64_t{0} >> sample;
    }

    // Adds sectors to a line, and marks the line as the most recently used one. Returns the state
    // that the line had before. If another line must be evicted, `evicted` is called with that
    // line. `place` says where to look for the line first. The function sets `place` to the place
    // where the line is now.
    template <class Evicted>
    Line touch(uint64_t number, uint8_t valid, uint8_t dirty, Evicted&& evicted, Place& place) {
        const uint64_t sectors = uint64_t(dirty) << 4 | valid;
        if (sets_.word(place) >> 8 != number) {
            const uint64_t set = set_of(number);
            const uint32_t way = sets_.find(set, number);
            place = Place(set * ways + way);
            if (way == ways) {
                place = make_room(set, evicted);
                sets_.word(place) = number << 8 | sectors;
                sets_.replace(place, number);
                sets_.use(place);
                return {number, 0, 0, true};
            }
        }
        const Line before = line_of(sets_.word(place));
        sets_.word(place) |= sectors;
        sets_.use(place);
        return before;
    }
    template <class Evicted>
    Line touch(uint64_t number, uint8_t valid, uint8_t dirty, Evicted&& evicted) {
        Place anywhere = 0;
        return touch(number, valid, dirty, std::forward<Evicted>(evicted), anywhere);
    }

    // Returns the state of a line. The call does not count as a use of the line.
    [[nodiscard]] Line look(uint64_t number) const {
        const uint64_t set = set_of(number);
        const uint32_t way = sets_.find(set, number);
        return way == ways ? Line{number, 0, 0, true} : line_of(sets_.word(set * ways + way));
    }

    // Invalidates sectors of a line, if they are present.
    void drop(uint64_t number, uint8_t sectors) {
        const uint64_t set = set_of(number);
        const uint32_t way = sets_.find(set, number);
        if (way == ways) return;
        sets_.word(set * ways + way) &= ~uint64_t(sectors | sectors << 4);
    }

    // Returns the state of the line at a place. touch() must just have returned this place.
    [[nodiscard]] Line at(Place place) const { return line_of(sets_.word(place)); }

    // A caller can load the data that a lookup needs into the host's cache in advance. The caller
    // first calls prefetch(), a little later guess(), and again a little later touch() with the
    // guessed place.
    void prefetch(uint64_t number) const { sets_.prefetch(set_of(number)); }
    [[nodiscard]] Place guess(uint64_t number) const {
        return Place(sets_.guess(set_of(number), number));
    }

  private:
    [[nodiscard]] uint64_t set_of(uint64_t number) const { return hash_of(number) * count_ >> 32; }

    static Line line_of(uint64_t word) {
        return {word >> 8, uint8_t(word & 15), uint8_t(word >> 4 & 15), false};
    }

    // Returns the place for a new line of the set. If there is a line at this place, evicts it.
    template <class Evicted>
    Place make_room(uint64_t set, Evicted&& evicted) {
        const auto place = Place(sets_.oldest(set));
        if (sets_.word(place) == empty_word) return place;
        evicted(line_of(sets_.word(place)));
        return place;
    }

    static constexpr uint64_t factor = 0x9e3779b97f4a7c15;
    static uint64_t hash_of(uint64_t number) { return (number * factor) >> 32; }

    uint64_t count_;  // the number of sets, without sampling
    CacheSets sets_;  // if there is a sample: only the sets with its lines
};

}  // namespace coalesce::model
