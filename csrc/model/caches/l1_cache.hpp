// Models the part of a multiprocessor's L1 that one block gets.
//
// METHOD
// L1 has lines of four sectors of 32 bytes, in sets of 16 lines. A hash of the line number selects
// the set. (Without a hash, lines whose numbers differ by a power of two would fall into few sets.)
// A line that is requested gets a place in its set. If the set is full, the line that was not used
// for the longest time loses its place. Loads fetch the sectors that are missing from L2. Stores go
// to L2 at once. A store gives its line a place, but puts no data there. The counters report a
// store as a hit if its line already has a place.
//
// A table says for each hash of a line number at which place such a line was found last. So most
// lines are found with one comparison, and not 16.
//
// EXAMPLE
// A load of the sectors 0 and 1 of line 7 finds an empty L1. The line gets a place, and both
// sectors are fetched: 2 sectors loaded, no hit. A load of the sectors 0, 1 and 2 then finds two of
// them, and only sector 2 is fetched: 3 sectors loaded, 2 hits.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "model/units.hpp"

namespace coalesce::model {

class L1Cache {
  public:
    using Place = uint32_t;
    static constexpr uint32_t ways = 16;

    explicit L1Cache(uint32_t bytes)
        : sets_(std::max(1u, bytes / line_bytes / ways)),
          words_(sets_ * ways + 1),
          used_(sets_ * ways + 1),
          latest_(std::bit_ceil(4 * sets_ * ways)) {
        clear();
    }

    [[nodiscard]] uint32_t lines() const { return sets_ * ways; }
    // A place that never has a line. It may be used like any other place.
    [[nodiscard]] Place nowhere() const { return lines(); }

    // Returns the place of a line, and whether the line had it before. A line without a place gets
    // one that has no data.
    struct Found {
        Place place;
        bool before;
    };
    Found find(uint64_t line) {
        const uint64_t hash = line * factor;
        Place& latest = latest_[hash >> shift_];
        if (is_at(latest, line)) [[likely]]
            return {latest, true};
        const Found found = search(line, hash);
        latest = found.place;
        return found;
    }
    [[nodiscard]] bool is_at(Place place, uint64_t line) const {
        return words_[place] >> 4 == line;
    }

    // Each use of a line has a time. They count upwards from 1.
    [[nodiscard]] uint64_t now() const { return now_; }
    void use(Place place) { used_[place] = ++now_; }
    void use_at(Place place, uint64_t time) { used_[place] = time; }
    // Uses the lines at several places, in this order.
    template <size_t count>
    void use(const std::array<Place, count>& places) {
        uint64_t* const used = used_.data();
        const uint64_t before = now_;
        for (size_t n = 0; n < count; ++n) used[places[n]] = before + n + 1;
        now_ = before + count;
    }
    // Returns true if no line that was used after this time has lost a sector.
    [[nodiscard]] bool has_kept(uint64_t after) const { return lost_ <= after; }

    // Fetches sectors of the line at a place. Returns those that were missing.
    uint8_t fetch(Place place, uint8_t sectors) {
        uint64_t& word = words_[place];
        const auto missing = uint8_t(sectors & ~word);
        word |= sectors;
        return missing;
    }
    // Removes sectors of a line.
    void drop(uint64_t line, uint8_t sectors) {
        const Place first = first_of_set(line * factor);
        for (Place place = first; place < first + ways; ++place) {
            if (!is_at(place, line)) continue;
            words_[place] &= ~uint64_t{sectors};
            lost_ = now_;
        }
    }
    // Removes all lines, for another block.
    void clear() {
        std::ranges::fill(words_, ~uint64_t{15});
        std::ranges::fill(used_, 0);
        std::ranges::fill(latest_, nowhere());
        now_ = lost_ = 0;
    }

  private:
    // A number for each of eight ways.
    using Ways [[gnu::vector_size(64)]] = uint64_t;

    static constexpr uint64_t factor = 0x9e3779b97f4a7c15;

    [[nodiscard]] Place first_of_set(uint64_t hash) const {
        return Place((hash >> 32) * sets_ >> 32) * ways;
    }
    // Looks for a line in its set. Eight ways are compared at once, because which line of a set is
    // the oldest is random: the host could not predict branches.
    [[gnu::noinline]] Found search(uint64_t line, uint64_t hash) {
        const Place first = first_of_set(hash);
        constexpr Ways numbers{0, 1, 2, 3, 4, 5, 6, 7};
        const auto load = [](const uint64_t* from) {
            Ways ways;
            std::memcpy(&ways, from, sizeof ways);
            return ways;
        };
        const Ways low = load(&words_[first]) >> 4, high = load(&words_[first + 8]) >> 4;
        // Each element: the way plus 1, or 0 if the way has another line.
        const Ways found =
            (Ways(low == line) & (numbers + 1)) | (Ways(high == line) & (numbers + 9));
        const Ways used = load(&used_[first]) * ways + numbers;
        const Ways later = load(&used_[first + 8]) * ways + numbers + 8;
        const Ways older = used < later ? used : later;
        uint64_t any = 0, oldest = ~uint64_t{0};
        for (uint32_t n = 0; n < 8; ++n) {
            any |= found[n];
            oldest = std::min(oldest, older[n]);
        }
        if (any) return {first + Place(any - 1), true};
        const Place replaced = first + Place(oldest % ways);
        lost_ = std::max(lost_, oldest / ways);
        words_[replaced] = line << 4;
        return {replaced, false};
    }

    const uint32_t sets_;
    // By place: the line number, and in the lowest four bits the sectors that are there. No line
    // has the number that is there at first.
    std::vector<uint64_t> words_;
    std::vector<uint64_t> used_;  // by place: the time of the last use
    uint64_t now_ = 0;
    uint64_t lost_ = 0;  // no line that was used later has lost a sector
    // For each hash of a line number: where such a line was found last.
    std::vector<Place> latest_;
    const uint32_t shift_ = uint32_t(64 - std::countr_zero(latest_.size()));
};

}  // namespace coalesce::model
