#include "analysis/check/clock.hpp"

#include <algorithm>
#include <tuple>

namespace coalesce::analysis {

namespace {

bool before(const Knowledge& a, const Knowledge& b) {
    return std::tie(a.block, a.warp, a.time) < std::tie(b.block, b.warp, b.time);
}

bool implies(const Knowledge& a, const Knowledge& b) {
    return a.block == b.block && (a.warp == every_warp || a.warp == b.warp) &&
           (b.lanes & ~a.lanes) == 0 && a.time >= b.time;
}

// Removes each entry whose information is contained in another entry of the same block. `entries`
// must be sorted, so that an entry for a whole block is the last one of its block.
void simplify(std::vector<Knowledge>& entries) {
    size_t kept = 0;
    for (size_t first = 0; first < entries.size();) {
        size_t last = first;
        while (last < entries.size() && entries[last].block == entries[first].block) ++last;
        const size_t start = kept;
        for (size_t i = first; i < last; ++i) {
            const Knowledge e = entries[i];
            const Knowledge& whole = entries[last - 1];
            if (i != last - 1 && implies(whole, e)) continue;
            // Compare with the entries of the same warp that are already kept.
            bool known = false;
            size_t from = kept;
            while (from > start && entries[from - 1].warp == e.warp) --from;
            size_t to = from;
            Knowledge merged = e;
            for (size_t k = from; k < kept; ++k) {
                const Knowledge other = entries[k];
                known = known || implies(other, merged);
                if (implies(merged, other)) continue;
                if (other.time == merged.time && !known) {
                    merged.lanes |= other.lanes;
                    continue;
                }
                entries[to++] = other;
            }
            kept = to;
            if (!known) entries[kept++] = merged;
        }
        first = last;
    }
    entries.resize(kept);
}

}  // namespace

Clock::Clock(std::vector<Knowledge> entries) : entries_(std::move(entries)) {
    std::sort(entries_.begin(), entries_.end(), before);
    simplify(entries_);
}

template <class F>
bool Clock::any_of_block(uint32_t block, F&& holds) const {
    auto at = std::lower_bound(entries_.begin(), entries_.end(), block,
                               [](const Knowledge& e, uint32_t b) { return e.block < b; });
    for (; at != entries_.end() && at->block == block; ++at) {
        if (holds(*at)) return true;
    }
    return false;
}

bool Clock::covers(uint32_t block, uint32_t warp, uint32_t lane, uint32_t time) const {
    return any_of_block(block, [&](const Knowledge& e) {
        return (e.warp == every_warp || e.warp == warp) && sim::has_lane(e.lanes, int(lane)) &&
               e.time >= time;
    });
}

bool Clock::covers_warp(uint32_t block, uint32_t warp, uint32_t time) const {
    return any_of_block(block, [&](const Knowledge& e) {
        return (e.warp == every_warp || e.warp == warp) && e.time >= time;
    });
}

ClockPtr join(const ClockPtr& a, std::vector<Knowledge> more) {
    if (more.empty()) return a;
    if (a) {
        const std::vector<Knowledge>& known = a->entries();
        std::erase_if(more, [&](const Knowledge& e) {
            const auto from = std::lower_bound(
                known.begin(), known.end(), e.block,
                [](const Knowledge& k, uint32_t block) { return k.block < block; });
            for (auto at = from; at != known.end() && at->block == e.block; ++at) {
                if (implies(*at, e)) return true;
            }
            return false;
        });
        if (more.empty()) return a;
        more.insert(more.end(), known.begin(), known.end());
    }
    return std::make_shared<const Clock>(std::move(more));
}

ClockPtr join(const ClockPtr& a, const ClockPtr& b) {
    if (!b || a == b) return a;
    if (!a) return b;
    // The entries of the smaller clock are added to the larger one. If the larger clock already
    // includes them, it is returned unchanged.
    const bool swap = b->entries().size() > a->entries().size();
    return join(swap ? b : a, swap ? a->entries() : b->entries());
}

}  // namespace coalesce::analysis
