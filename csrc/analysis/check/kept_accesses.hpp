// Tests of the accesses that a cell keeps, for one granule of a row or for several that have the
// same cell. They are inline, because nearly all of a check's time is spent in them.
#pragma once

#include <bit>

#include "analysis/check/state.hpp"

namespace coalesce::analysis {

using sim::LaneMask;

// Returns true if both accesses are by the same warp.
inline bool of_same_warp(const Stamp& a, const Stamp& b) {
    return a.block == b.block && a.warp == b.warp;
}

// Returns true if this is at most one granule.
inline bool is_one(LaneMask granules) { return (granules & (granules - 1)) == 0; }

// Makes one read of two reads by a warp: `later` gets two of their lanes, and the earlier time.
// Returns false if the result differs between the granules.
inline bool merge(Stamp earlier, Stamp& later, LaneMask granules) {
    if (earlier.shift != later.shift) {
        if (!is_one(granules)) return false;
        const uint32_t granule = uint32_t(std::countr_zero(granules));
        const uint32_t lane = earlier.lane_at(granule), extra = earlier.extra_at(granule);
        earlier.lane = lane - (granule >> later.shift);
        earlier.extra = extra - (granule >> later.shift);
    }
    if (later.extra == later.lane)
        later.extra = earlier.lane != later.lane ? earlier.lane : earlier.extra;
    later.time = earlier.time;
    return true;
}

// Returns true if an earlier access, by `lane_then`, is ordered before this access, by `lane`.
[[gnu::always_inline]] inline CheckObserver::Answer CheckObserver::ordered(
    const Place& at, const Stamp& then, uint32_t lane_then, uint32_t lane, LaneMask granules) {
    const BlockOrder& order = at.block.order;
    if (order.before_barrier(then) || order.before_sync_of_warp(then, at.me.warp))
        return Answer::yes;
    const bool same_warp = of_same_warp(then, at.me);
    if (!same_warp && !order.has_flags()) return Answer::no;
    const uint32_t first = uint32_t(std::countr_zero(granules));
    lane_then = (lane_then + (first >> then.shift)) % sim::warp_size;
    lane = (lane + (first >> at.me.shift)) % sim::warp_size;
    const bool same_lane = same_warp && lane_then == lane;
    if (is_one(granules)) {
        const bool is = same_lane || order.ordered(then, lane_then, at.me.warp, lane);
        return is ? Answer::yes : Answer::no;
    }
    if (then.shift != at.me.shift) return Answer::differs;
    if (same_lane) return Answer::yes;
    return order.has_flags() || order.has_pairs(at.me.warp) ? Answer::differs : Answer::no;
}

// Returns true if the read is certainly correct, and the cell need not be changed. The other checks
// of the read can then be skipped. This test is fast, and it succeeds for nearly every read.
[[gnu::always_inline]] inline CheckObserver::Answer CheckObserver::is_known(const Place& at,
                                                                            const Cell& cell,
                                                                            LaneMask granules) {
    using enum Answer;
    const BlockOrder& order = at.block.order;
    const Stamp& w = cell.write;
    const uint32_t wanted = at.shared ? Cell::initialised : 0;
    if (w.extra != wanted || at.undefined || order.has_flags()) return no;
    if (w.time && (!order.before_barrier(w) || at.instruction.traits.read_only)) return no;
    const Stamp &a = cell.read[0], &b = cell.read[1];
    const auto same = [&](const Stamp& r) {
        if (r.time != at.me.time || r.block != at.me.block || r.warp != at.me.warp) return no;
        if (r.shift == at.me.shift) return r.lane == at.me.lane && r.extra == at.other ? yes : no;
        if (!is_one(granules)) return differs;
        const uint32_t granule = uint32_t(std::countr_zero(granules)), by = granule >> at.me.shift;
        return r.lane_at(granule) == (at.me.lane + by) % sim::warp_size &&
                       r.extra_at(granule) == (at.other + by) % sim::warp_size
                   ? yes
                   : no;
    };
    const Answer same_a = same(a), same_b = same(b);
    if (same_a == yes || same_b == yes) return yes;
    if (same_a == differs || same_b == differs) return differs;
    // A cell keeps two reads by different warps, if there are such reads. If neither of the kept
    // reads is by this warp, this read need not be kept. A later write that races with this read
    // then also races with one of the kept reads. There is one exception: if both kept reads are by
    // the same other block, read() replaces one of them by this read.
    const auto elsewhere = [&](const Stamp& r) {
        return r.time &&
               (r.block != at.me.block || (r.warp != at.me.warp && !order.before_barrier(r)));
    };
    const bool is = elsewhere(a) && elsewhere(b) && !of_same_warp(a, b) &&
                    (a.block != b.block || a.block == at.me.block);
    return is ? yes : no;
}

[[gnu::always_inline]] inline bool CheckObserver::keep_read(const Place& at, Cell& cell,
                                                            LaneMask granules) {
    Stamp me = at.me;
    me.extra = at.other;
    auto& [first, second] = cell.read;
    for (Stamp* const r : {&first, &second}) {
        Answer replaces = Answer::yes;
        if (r->time) {
            replaces = ordered(at, *r, r->lane, at.me.lane, granules);
            if (replaces == Answer::yes && r->extra != r->lane)
                replaces = ordered(at, *r, r->extra, at.me.lane, granules);
        }
        if (replaces == Answer::differs) return false;
        if (replaces == Answer::yes) {
            *r = me;
            return true;
        }
        if (!of_same_warp(*r, me)) continue;
        // The same warp has read this cell before. If another instruction has read it, both reads
        // are kept until another warp reads the cell, so that findings name the right line.
        const bool keeps_both = r == &first && second.time == 0 && first.pc != me.pc;
        if (!keeps_both && !merge(*r, me, granules)) return false;
        *(keeps_both ? &second : r) = me;
        return true;
    }
    if (of_same_warp(first, second)) {
        if (!merge(first, second, granules)) return false;
        first = second;
        second = me;
        return true;
    }
    // A cell keeps two reads. At this place, both kept reads are by other warps, and the new read
    // replaces one of them. If possible, the two kept reads are by different blocks, because two
    // reads by the same block would detect fewer races.
    (me.block == first.block && second.block != first.block ? first : second) = me;
    return true;
}

}  // namespace coalesce::analysis
