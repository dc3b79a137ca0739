// Checks single granules, which each lane accesses by itself: tiles that are read along columns,
// strides, and addresses from tables. Most of these accesses are correct, and few cases are
// frequent. Only these are here. All others are left to rows.cpp and cells.cpp, whose results are
// the same.
#include <array>
#include <bit>
#include <utility>

#include "analysis/check/kept_accesses.hpp"

namespace coalesce::analysis {

using sim::MemoryEvent;
using sim::Shape;
using sim::Warp;

bool CheckObserver::is_settled(BlockState& b, const sim::Warp& w, const MemoryEvent& e) const {
    const uint32_t bytes = e.bytes;
    if (e.of || !std::has_single_bit(bytes) || bytes >> shared_bits_ == 0 || b.order.has_flags())
        return false;
    if (variable_of_[e.pc] >= 0) {
        const sim::Buffer& variable = shared_variables_[size_t(variable_of_[e.pc])];
        const auto is_inside = [&](uint64_t address) {
            return address - variable.address <= variable.bytes - bytes;
        };
        if (variable.bytes < bytes) return false;
        bool all = true;
        if (e.shape == Shape::scattered)
            sim::for_each_lane(e.mask,
                               [&](int lane) { all = all && is_inside(e.addresses[lane]); });
        else
            all = is_inside(e.first) && is_inside(e.address(sim::warp_size - 1));
        if (!all) return false;
    }
    return b.shared.is_settled(e, w.index, b.order.floor());
}

namespace {

// What decides whether an earlier access is ordered before an access by a warp, if the block uses
// no flags.
struct Now {
    uint32_t block, warp, floor, warp_floor;
    [[nodiscard]] bool is_past(const Stamp& s) const {
        return s.time == 0 ||
               (s.block == block && (s.time <= floor || (s.warp == warp && s.time <= warp_floor)));
    }
};

// Sets the lanes of a stamp that has none. If they were stored one after the other, the host would
// wait for these stores when it reads the words.
using StampWords = std::array<uint32_t, sizeof(Stamp) / sizeof(uint32_t)>;
[[gnu::always_inline]] constexpr Stamp with_lane(const StampWords& words, uint32_t lane,
                                                 uint32_t extra) {
    constexpr int extra_bits = 27, lane_bits = 25;
    return std::bit_cast<Stamp>(
        StampWords{words[0] | extra << extra_bits, words[1], words[2] | lane << lane_bits});
}
static_assert([] {
    const Stamp s = with_lane({}, 7, 9);
    return s.lane == 7 && s.extra == 9 && s.block == 0 && s.warp == 0;
}());

enum class Step : uint8_t { same, changed, settled, unclear };

// These functions do what read() and write() do, for the cell of one granule and in the most
// frequent cases. `me` has the lane, and the flags of a write. `flags` are the flags that the cell
// must have.
[[gnu::always_inline]] inline Step read_word(Cell& cell, const Stamp& me, const Now& now,
                                             uint32_t granule, uint32_t flags,
                                             bool only_unwritten) {
    const Stamp& w = cell.write;
    if (w.time && only_unwritten) return Step::unclear;
    if (w.extra != flags || (w.time && (w.block != me.block || w.time > now.floor)))
        return Step::unclear;
    auto& [a, b] = cell.read;
    const auto is_same = [&](const Stamp& r) {
        return r.time == me.time && of_same_warp(r, me) && r.lane_at(granule) == me.lane &&
               r.extra_at(granule) == me.extra;
    };
    if (is_same(a) || is_same(b)) return Step::same;
    if (now.is_past(a)) {
        a = me;
        return Step::changed;
    }
    Stamp* kept = &a;
    if (!of_same_warp(a, me)) {
        if (now.is_past(b)) {
            b = me;
            return a.block == me.block ? Step::settled : Step::changed;
        }
        if (!of_same_warp(b, me)) {
            if (a.block != b.block || a.block == me.block)
                return a.warp != b.warp || a.block != b.block ? Step::same : Step::unclear;
            b = me;
            return Step::changed;
        }
        kept = &b;
    }
    if (kept->shift != Stamp::one_lane) return Step::unclear;
    const bool own = kept->lane == me.lane && kept->extra == me.lane;
    if (kept == &a && !own && b.time == 0 && a.pc != me.pc) {
        b = me;
        return Step::changed;
    }
    Stamp later = me;
    if (!own) (void)merge(*kept, later, 1u << granule);
    *kept = later;
    return Step::changed;
}

[[gnu::always_inline]] inline Step write_word(Cell& cell, const Stamp& me, const Now& now,
                                              uint32_t granule) {
    const auto is_ordered = [&](const Stamp& s) {
        return now.is_past(s) || (of_same_warp(s, me) && s.lane_at(granule) == me.lane);
    };
    const auto is_read_before = [&](const Stamp& r) {
        return now.is_past(r) || (is_ordered(r) && r.extra == r.lane);
    };
    if ((cell.write.extra & ~uint32_t(Cell::initialised)) || !is_ordered(cell.write) ||
        !is_read_before(cell.read[0]) || !is_read_before(cell.read[1]))
        return Step::unclear;
    cell = {me, {}};
    return Step::changed;
}

}  // namespace

template <bool shared, bool reads>
LaneMask CheckObserver::check_words(BlockState& b, const Warp& w, const MemoryEvent& e) {
    static_assert(shared || reads);
    const uint32_t bytes = e.bytes, bits = shared ? shared_bits_ : global_bits_,
                   width = bytes >> bits;
    const BlockOrder& order = b.order;
    if (e.of || !std::has_single_bit(bytes) || width == 0 || order.has_flags() ||
        order.has_pairs(w.index) || order.took_lock(w.index))
        return e.mask;
    const uint32_t time = order.now();
    const int front = std::countr_zero(e.mask);
    const uint64_t from = e.address(front);
    // The memory that the lanes may access: the buffer, or the shared variable.
    uint64_t start = 0, size = UINT64_MAX;
    uint32_t number = 0;
    const sim::Buffer* with_gaps = nullptr;
    if constexpr (shared) {
        if (b.shared.is_shared()) return e.mask;
        if (const int named = variable_of_[e.pc]; named >= 0) {
            start = shared_variables_[size_t(named)].address;
            size = shared_variables_[size_t(named)].bytes;
        }
    } else {
        number = buffer_hints_[e.pc];
        const sim::Buffer* buffer = &global_.memory().buffers()[number];
        if (from - buffer->address >= buffer->bytes) {
            number = buffer_hints_[e.pc] = global_.buffer_of(from);
            buffer = &global_.memory().buffers()[number];
        }
        if (buffer->undefined) return e.mask;
        if (buffer->has_gaps) with_gaps = buffer;
        start = buffer->address;
        size = buffer->bytes;
    }
    if (size < bytes) return e.mask;
    const uint64_t base = shared ? 0 : start;
    const bool only_unwritten =
        !shared && (instructions_[e.pc].traits.read_only || has_alias(e.pc));
    // Rows whose granules share cells are left to check_rows(), if neighbouring lanes access
    // neighbouring granules.
    const int back = sim::warp_size - 1 - std::countl_zero(e.mask);
    if (back > front && e.address(back) - from == uint64_t(back - front) * bytes) {
        if (!shared || !b.shared.row_of_block((from >> bits) / Row::size, time).is_apart())
            return e.mask;
    }
    // If several neighbouring lanes read the same word, its cell keeps the last two of them.
    LaneMask skipped = 0;
    if (reads && e.shape == Shape::scattered) {
        int followers = 0;
        for (LaneMask before = e.mask; before & (before - 1);) {
            const int lane = sim::warp_size - 1 - std::countl_zero(before);
            before &= ~(1u << lane);
            const int previous = sim::warp_size - 1 - std::countl_zero(before);
            if (e.addresses[lane] != e.addresses[previous]) {
                followers = 0;
                continue;
            }
            if (followers >= 2) skipped |= 1u << lane;
            ++followers;
        }
    }
    Stamp of_warp;
    of_warp.block = order.block();
    of_warp.time = time;
    of_warp.pc = e.pc;
    of_warp.warp = w.index;
    of_warp.shift = Stamp::one_lane;
    const Now now{order.block(), w.index, order.floor(), order.floor_of(w.index)};
    const auto words = std::bit_cast<StampWords>(of_warp);
    bool changed = false;
    LaneMask left = reads && e.shape == Shape::uniform ? 1 : e.mask;
    for (; left; left &= left - 1) {
        const int lane = std::countr_zero(left);
        if (sim::has_lane(skipped, lane)) continue;
        const uint64_t address = e.address(lane);
        if (((address - base) & (bytes - 1)) || address - start > size - bytes) break;
        if (with_gaps && with_gaps->in_gap(address - base)) break;
        const uint32_t extra = !reads                      ? uint32_t{Cell::initialised}
                               : e.shape == Shape::uniform ? sim::warp_size - 1
                                                           : uint32_t(lane);
        const Stamp me = with_lane(words, uint32_t(lane), extra);
        const uint64_t first = (address - base) >> bits;
        uint32_t done = 0;
        if constexpr (shared) {
            Cell* const cells = b.shared.row_of_block(first / Row::size, time).apart();
            for (; done < width; ++done) {
                const uint32_t granule = uint32_t(first + done) % Row::size;
                Cell& cell = cells[granule];
                const Step step = reads
                                      ? read_word(cell, me, now, granule, Cell::initialised, false)
                                      : write_word(cell, me, now, granule);
                if (step == Step::unclear) break;
                if (reads && step == Step::settled)
                    b.shared.settle(first + done, cell.read[0].warp, cell.read[1].warp);
            }
        } else {
            Row& row = global_.row(number, first / Row::size);
            if (row.is_settled(me.block)) continue;
            for (; done < width; ++done) {
                const uint32_t granule = uint32_t(first + done) % Row::size;
                const uint32_t n = row.number_at(granule);
                Cell cell = std::as_const(row).cell(n);
                const Step step = read_word(cell, me, now, granule, 0, only_unwritten);
                if (step == Step::unclear) break;
                if (step == Step::same) {
                    // Settles the row once if it is read from its start to its end.
                    if (granule == Row::size - 1) row.settle();
                    continue;
                }
                changed = true;
                if (row.granules(n) == 1u << granule)
                    row.cell(n) = cell;
                else
                    row.assign(1u << granule, cell);
            }
        }
        if (done < width) break;
    }
    if (!shared && changed) ++changes_of(number);
    return left;
}

template LaneMask CheckObserver::check_words<true, true>(BlockState&, const Warp&,
                                                         const MemoryEvent&);
template LaneMask CheckObserver::check_words<true, false>(BlockState&, const Warp&,
                                                          const MemoryEvent&);
template LaneMask CheckObserver::check_words<false, true>(BlockState&, const Warp&,
                                                          const MemoryEvent&);

}  // namespace coalesce::analysis
