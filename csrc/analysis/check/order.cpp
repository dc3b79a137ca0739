#include "analysis/check/order.hpp"

#include <algorithm>

namespace coalesce::analysis {

using sim::LaneMask;

void BlockOrder::start(uint32_t block, uint32_t threads) {
    block_ = block;
    now_ = 1;
    floor_ = 0;
    warp_count_ = (threads + sim::warp_size - 1) / sim::warp_size;
    warps_.resize(warp_count_);
    for (uint32_t w = 0; w < warp_count_; ++w) {
        const uint32_t left = threads - w * sim::warp_size;
        warps_[w].existing = left >= sim::warp_size ? sim::all_lanes : (1u << left) - 1;
        warps_[w].together = warps_[w].existing;
        warps_[w].floor = 0;
        warps_[w].pairs.reset();
        warps_[w].regrouped = 0;
        for (LaneMask& unfenced : warps_[w].unfenced) unfenced = 0;
    }
    threads_.clear();
    known_.reset();
    for (ClockPtr& f : fenced_) f.reset();
    for (Arrivals& a : arrivals_) a = {};
}

void BlockOrder::regroup(uint32_t warp, LaneMask lanes) {
    Lanes& w = warps_[warp];
    w.recent[w.regrouped++ % max_together] = {w.together, now_++};
    w.together = lanes;
}

bool BlockOrder::lockstep(const Stamp& then, uint32_t lane_then, uint32_t warp,
                          uint32_t lane) const {
    const Lanes& w = warps_[warp];
    if (then.block == block_ && then.warp == warp) {
        const LaneMask both = 1u << lane | 1u << lane_then;
        if ((w.together & both) == both) return true;
        const uint32_t remembered = std::min<uint32_t>(w.regrouped, max_together);
        for (uint32_t n = 1; n <= remembered; ++n) {
            const Together& t = w.recent[(w.regrouped - n) % max_together];
            if (t.until < then.time) return false;
            if ((t.lanes & both) == both) return true;
        }
        return remembered == max_together;  // too long ago: assume that they executed together
    }
    // The earlier access is by another warp. It happens before this access if a lane of that warp
    // has synchronized with a lane of this warp after the earlier access.
    const auto covers_access = [&](const ClockPtr& c) {
        return c && c->covers_warp(then.block, then.warp, then.time);
    };
    if (covers_access(known_)) return true;
    if (threads_.empty()) return false;
    bool ordered = false;
    sim::for_each_lane(w.together, [&](int l) {
        ordered = ordered || covers_access(threads_[warp * sim::warp_size + uint32_t(l)].known);
    });
    return ordered;
}

bool BlockOrder::knows_of(const Stamp& then, uint32_t lane_then, uint32_t warp,
                          uint32_t lane) const {
    const auto covers = [&](const ClockPtr& c) {
        return c && c->covers(then.block, then.warp, lane_then, then.time);
    };
    if (covers(known_)) return true;
    if (threads_.empty()) return false;
    const Thread& t = threads_[warp * sim::warp_size + lane];
    return covers(t.known) && !(lacks_fence(then) && covers(t.by_lock));
}

BlockOrder::Thread& BlockOrder::thread(uint32_t warp, uint32_t lane) {
    if (threads_.empty()) threads_.resize(size_t(warp_count_) * sim::warp_size);
    return threads_[warp * sim::warp_size + lane];
}

ClockPtr BlockOrder::knowledge(uint32_t warp, LaneMask lanes) const {
    const Lanes& w = warps_[warp];
    std::vector<Knowledge> own;
    if (floor_) own.push_back({block_, every_warp, sim::all_lanes, floor_});
    if (w.floor > floor_) own.push_back({block_, warp, w.existing, w.floor});
    if (w.pairs) {
        for (uint32_t j = 0; j < uint32_t(sim::warp_size); ++j) {
            uint32_t latest = 0;
            sim::for_each_lane(lanes,
                               [&](int i) { latest = std::max(latest, (*w.pairs)[size_t(i)][j]); });
            if (latest > std::max(floor_, w.floor)) own.push_back({block_, warp, 1u << j, latest});
        }
    }
    ClockPtr all = join(known_, std::move(own));
    if (!threads_.empty()) {
        sim::for_each_lane(lanes, [&](int i) {
            all = join(all, threads_[warp * sim::warp_size + uint32_t(i)].known);
        });
    }
    return all;
}

ClockPtr BlockOrder::fenced(uint32_t warp, LaneMask lanes, int scope) const {
    ClockPtr all = fenced_[scope];
    if (threads_.empty()) return all;
    std::vector<Knowledge> own;
    sim::for_each_lane(lanes, [&](int i) {
        const Fenced& f = threads_[warp * sim::warp_size + uint32_t(i)].fenced[scope];
        all = join(all, f.clock);
        if (f.time) own.push_back({block_, warp, 1u << i, f.time});
    });
    return join(all, std::move(own));
}

void BlockOrder::synchronize(uint32_t warp, LaneMask lanes) {
    Lanes& w = warps_[warp];
    const uint32_t time = now_;
    if ((w.existing & ~lanes) == 0) {
        w.floor = time;
        w.pairs.reset();
    } else {
        if (!w.pairs) {
            w.pairs = std::make_unique<Pairs>();
            for (auto& row : *w.pairs) row.fill(0);
        }
        std::array<uint32_t, sim::warp_size> latest{};
        sim::for_each_lane(lanes, [&](int i) {
            for (size_t j = 0; j < latest.size(); ++j)
                latest[j] = std::max(latest[j], (*w.pairs)[size_t(i)][j]);
        });
        sim::for_each_lane(lanes, [&](int i) { latest[size_t(i)] = time; });
        sim::for_each_lane(lanes, [&](int i) { (*w.pairs)[size_t(i)] = latest; });
    }
    if (!threads_.empty()) {
        Thread all;
        for (int scope = 0; scope < 2; ++scope)
            all.fenced[scope].clock = fenced(warp, lanes, scope);
        sim::for_each_lane(lanes, [&](int i) {
            const Thread& t = threads_[warp * sim::warp_size + uint32_t(i)];
            all.known = join(all.known, t.known);
            for (int scope = 0; scope < 2; ++scope)
                all.awaiting[scope] = join(all.awaiting[scope], t.awaiting[scope]);
        });
        sim::for_each_lane(lanes, [&](int i) {
            Thread& t = threads_[warp * sim::warp_size + uint32_t(i)];
            t.known = all.known;
            for (int scope = 0; scope < 2; ++scope) {
                t.fenced[scope].clock = all.fenced[scope].clock;
                t.awaiting[scope] = all.awaiting[scope];
            }
        });
    }
    ++now_;
}

void BlockOrder::arrive(uint32_t warp, LaneMask lanes, uint32_t barrier, bool everyone,
                        bool waits) {
    Arrivals& a = arrivals_[barrier];
    a.everyone = a.everyone && everyone;
    if (waits) a.waiting.push_back({warp, lanes});
    if (!everyone) {
        a.known = join(a.known, snapshot(warp, lanes));
        for (int scope = 0; scope < 2; ++scope)
            a.fenced[scope] = join(a.fenced[scope], fenced(warp, lanes, scope));
    }
    ++now_;
}

void BlockOrder::complete(uint32_t barrier) {
    Arrivals a = std::move(arrivals_[barrier]);
    arrivals_[barrier] = {};
    if (a.everyone) {
        floor_ = now_++;
        for (Lanes& w : warps_) w.unfenced[0] = w.unfenced[1] = 0;
        if (threads_.empty()) return;
        for (uint32_t w = 0; w < warp_count_; ++w) {
            for (int scope = 0; scope < 2; ++scope)
                fenced_[scope] = join(fenced_[scope], fenced(w, warps_[w].existing, scope));
        }
        for (Thread& t : threads_) {
            known_ = join(known_, t.known);
            for (const ClockPtr& awaiting : t.awaiting) known_ = join(known_, awaiting);
            t = {};
        }
        return;
    }
    for (const Arrivals::Group& g : a.waiting) {
        sim::for_each_lane(g.lanes, [&](int lane) {
            Thread& t = thread(g.warp, uint32_t(lane));
            t.known = join(t.known, a.known);
            for (int scope = 0; scope < 2; ++scope)
                t.fenced[scope].clock = join(t.fenced[scope].clock, a.fenced[scope]);
        });
    }
    ++now_;
}

ClockPtr BlockOrder::release(uint32_t warp, LaneMask lanes, bool relaxed) {
    ClockPtr all = relaxed ? fenced(warp, lanes, int(ThreadScope::device)) : snapshot(warp, lanes);
    ++now_;
    return all;
}

void BlockOrder::fence(uint32_t warp, LaneMask lanes, ThreadScope scope) {
    // `visible` is a clock with the events of other threads that a lane knows. Lanes that know the
    // same events share one clock. The clock need not contain the lane's own accesses, because
    // Fenced::time covers them.
    const bool separate_lanes = warps_[warp].pairs != nullptr;
    ClockPtr last_known, visible;
    bool first = true;
    for (int s = 0; s <= int(scope); ++s) warps_[warp].unfenced[s] &= ~lanes;
    sim::for_each_lane(lanes, [&](int i) {
        Thread& t = thread(warp, uint32_t(i));
        for (int s = 0; s <= int(scope); ++s) {
            t.known = join(t.known, t.awaiting[s]);
            t.by_lock = join(t.by_lock, t.awaiting[s]);
            t.awaiting[s].reset();
        }
        if (first || separate_lanes || t.known != last_known) {
            visible = knowledge(warp, 1u << i);
            last_known = t.known;
            first = false;
        }
        for (int s = 0; s <= int(scope); ++s) t.fenced[s] = {now_, visible};
    });
    ++now_;
}

bool BlockOrder::publish(Published& at, uint32_t warp, uint32_t lane, ThreadScope scope,
                         bool releases) {
    if (at.block != block_) {
        at.block = block_;
        at.to_block.reset();
    }
    if (releases) {
        const ClockPtr all = snapshot(warp, 1u << lane);
        (scope == ThreadScope::device ? at.to_device : at.to_block) =
            join(scope == ThreadScope::device ? at.to_device : at.to_block, all);
        ++now_;
        return true;
    }
    if (!has_published()) return false;
    const ClockPtr to_block = fenced(warp, 1u << lane, int(ThreadScope::block));
    at.to_block = join(at.to_block, to_block);
    if (scope == ThreadScope::block) return to_block != nullptr;
    const ClockPtr to_device = fenced(warp, 1u << lane, int(ThreadScope::device));
    at.to_device = join(at.to_device, to_device);
    return to_device != nullptr;
}

void BlockOrder::acquire(const Published& at, uint32_t warp, uint32_t lane, ThreadScope scope,
                         bool needs_fence) {
    if (needs_fence) {
        for (LaneMask& unfenced : warps_[warp].unfenced) unfenced |= 1u << lane;
    }
    const bool near = at.to_block && at.block == block_;
    const bool far = at.to_device && (scope == ThreadScope::device || at.block == block_);
    if (!near && !far) return;
    Thread& t = thread(warp, lane);
    ClockPtr& from_block = needs_fence ? t.awaiting[int(ThreadScope::block)] : t.known;
    ClockPtr& from_device = needs_fence ? t.awaiting[int(ThreadScope::device)] : t.known;
    if (near) from_block = join(from_block, at.to_block);
    if (far) from_device = join(from_device, at.to_device);
}

bool BlockOrder::needs_fence(const Stamp& then, uint32_t lane_then, uint32_t warp,
                             uint32_t lane) const {
    if (threads_.empty()) return false;
    const Thread& t = threads_[warp * sim::warp_size + lane];
    const auto covers = [&](const ClockPtr& c) {
        return c && c->covers(then.block, then.warp, lane_then, then.time);
    };
    return std::ranges::any_of(t.awaiting, covers) || (lacks_fence(then) && covers(t.by_lock));
}

}  // namespace coalesce::analysis
