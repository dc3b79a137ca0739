// A cache of 128-byte lines with four 32-byte sectors, which are filled one by one.
//
// METHOD
// A hash of the line number selects the set. (Without a hash, lines whose numbers differ by a power
// of two would fall into few sets.) If a set is full, the least recently used line is evicted. Each
// place in the cache stores a word: the line number, four bits for valid sectors, and four bits for
// dirty sectors. A caller can remember the place of a line and pass it as a hint, which may save
// the search.
//
// Often the same lines are used together again and again. A caller can treat such lines as a group.
// A group is complete if all sectors that the caller needs from its lines are in the cache. A
// complete group stays complete until a line of the cache loses a sector. Until then, a use of the
// group need not look at its lines. It only stores its time in the group. The times of the lines
// are needed when a line must be evicted. Only then are the times of all groups copied to their
// lines.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/caches/cache_sets.hpp"

namespace coalesce::model {

template <class Sets>
class SectoredCacheOf {
  public:
    struct Line {
        uint64_t number = 0;
        uint8_t valid = 0, dirty = 0;  // masks of sectors
        bool fresh = false;            // the line was not in the cache before
    };

    // The place at which a line was found. It is only a hint, because the line may have moved
    // since. Any number below lines() is allowed.
    using Place = uint32_t;

    // Lines that are used together, in this order. A line may occur several times.
    struct Group {
        static constexpr uint32_t most = 32;
        uint64_t intact = 0;  // the value of intact_ when the lines were last known to be complete
        // the time of the last use, if it has not been copied to the lines; otherwise 0
        uint64_t used = 0;
        uint32_t count = 0;
        bool waits = false;  // the group is in waiting_
        Place places[most] = {};
    };

    static constexpr uint32_t usual_ways = 16;

    // `lines` is rounded to whole sets, and there is at least one set. If `sample` is not 0, only
    // lines of the sample may be used (is_in_sample).
    explicit SectoredCacheOf(uint64_t lines, uint32_t ways = usual_ways, uint32_t sample = 0)
        : ways_(ways),
          sample_(sample),
          count_(std::max<uint64_t>(1, lines / ways)),
          sets_(sets(), ways) {}

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
            place = Place(set * ways_ + way);
            if (way == ways_) {
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

    // Returns true if the group was marked as complete and all its sectors are still in the cache.
    [[nodiscard]] bool is_intact(const Group& g) const { return g.intact == intact_; }

    // Looks for `count` lines at the places of the group. The first line is `number`, and
    // consecutive lines are `step` apart. If all lines are there, and some sectors are valid in all
    // of them, the group is marked as complete, and these sectors are returned. Otherwise changes
    // nothing and returns 0.
    uint8_t find(Group& g, uint64_t number, uint64_t step, uint32_t count) {
        if (sets_.word(g.places[0]) >> 8 != number) return 0;
        uint64_t different = 0, sectors = ~uint64_t{0};
        for (uint32_t i = 0; i < count; ++i) {
            const uint64_t word = sets_.word(g.places[i]);
            different |= (word >> 8) ^ (number + i * step);
            sectors &= word;
        }
        sectors &= 15;
        if (different || !sectors) return 0;
        store_group_times(g);
        g.count = count;
        g.intact = intact_;
        return uint8_t(sectors);
    }

    // The same for any lines, of which different sectors may be needed. `word_of(i)` returns the
    // number of line i, shifted left by 8 bits, and its needed sectors. Returns true if all needed
    // sectors are there.
    template <class WordOf>
    bool find(Group& g, uint32_t count, WordOf&& word_of) {
        uint64_t missing = 0;
        for (uint32_t i = 0; i < count; ++i) {
            const uint64_t word = sets_.word(g.places[i]), needed = word_of(i);
            missing |= (word ^ needed) >> 8 | (needed & ~word & 15);
        }
        if (missing) return false;
        store_group_times(g);
        g.count = count;
        g.intact = intact_;
        return true;
    }

    // Uses all lines of the group, which must be intact.
    void use(Group& g) {
        g.used = sets_.pass(g.count);
        if (g.waits) return;
        g.waits = true;
        waiting_.push_back(&g);
    }

    // Call this function before the places of a group change. The group is not intact afterwards.
    void open(Group& g) {
        store_group_times(g);
        g.intact = 0;
    }
    // Call this function after all `count` lines of the group have been used at the group's places.
    // `before` is the state of the cache before the first of these uses. If no line has lost a
    // sector since then, the group is marked as complete.
    void close(Group& g, uint32_t count, uint64_t before) {
        g.count = count;
        g.intact = before == intact_ ? before : 0;
    }
    [[nodiscard]] uint64_t state() const { return intact_; }

    // Empties the cache. All groups are forgotten, too.
    void clear() {
        store_group_times();
        sets_.clear();
        ++intact_;
    }

    // Returns the state of a line. The call does not count as a use of the line.
    [[nodiscard]] Line look(uint64_t number) const {
        const uint64_t set = set_of(number);
        const uint32_t way = sets_.find(set, number);
        return way == ways_ ? Line{number, 0, 0, true} : line_of(sets_.word(set * ways_ + way));
    }

    // Invalidates sectors of a line, if they are present.
    void drop(uint64_t number, uint8_t sectors) {
        const uint64_t set = set_of(number);
        const uint32_t way = sets_.find(set, number);
        if (way == ways_) return;
        sets_.word(set * ways_ + way) &= ~uint64_t(sectors | sectors << 4);
        ++intact_;
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

    [[nodiscard]] uint64_t lines() const { return count_ * ways_; }
    // The number of sets, or if there is a sample, of sets with lines of the sample.
    [[nodiscard]] uint64_t sets() const { return ((count_ - 1) >> sample_) + 1; }
    [[nodiscard]] uint64_t set_of(uint64_t number) const { return hash_of(number) * count_ >> 32; }

  private:
    static Line line_of(uint64_t word) {
        return {word >> 8, uint8_t(word & 15), uint8_t(word >> 4 & 15), false};
    }

    // Returns the place for a new line of the set. If there is a line at this place, evicts it.
    template <class Evicted>
    Place make_room(uint64_t set, Evicted&& evicted) {
        auto place = Place(sets_.oldest(set));
        if (sets_.word(place) == empty_word) return place;
        if (!waiting_.empty()) {
            store_group_times();
            place = Place(sets_.oldest(set));
        }
        evicted(line_of(sets_.word(place)));
        ++intact_;
        return place;
    }

    // Copies the times of all waiting groups to their lines.
    void store_group_times() {
        for (Group* const g : waiting_) {
            store_group_times(*g);
            g->waits = false;
        }
        waiting_.clear();
    }
    void store_group_times(Group& g) {
        if (!g.used) return;
        if constexpr (requires(Sets r) { r.use_at(0, 0); }) {
            const uint64_t start = g.used - g.count;
            for (uint32_t i = 0; i < g.count; ++i) sets_.use_at(g.places[i], start + i + 1);
        }
        g.used = 0;
    }

    static constexpr uint64_t factor = 0x9e3779b97f4a7c15;
    static uint64_t hash_of(uint64_t number) { return (number * factor) >> 32; }

    uint32_t ways_, sample_;
    uint64_t count_;  // the number of sets, without sampling
    Sets sets_;
    // A number that stands for the state of the cache. It changes whenever a line may have lost a
    // sector. For groups that are not complete, 0 is stored instead.
    uint64_t intact_ = 1;
    std::vector<Group*> waiting_;  // groups whose times have not been copied to their lines
};

// A cache that supports groups of lines.
using SectoredCache = SectoredCacheOf<TimedSets>;
// A cache with many lines, which does not support groups.
using LargeSectoredCache = SectoredCacheOf<OrderedSets>;

}  // namespace coalesce::model
