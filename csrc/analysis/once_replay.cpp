#include "analysis/once_replay.hpp"

#include <algorithm>
#include <utility>

#include "analysis/request_lines.hpp"
#include "model/unlimited_cache.hpp"

namespace coalesce::analysis {

using model::LineAccess;
using model::ReplayedBlock;
using model::Traffic;
using Effect = CacheSite::Effect;

std::shared_ptr<const OnceReplay> OnceReplay::of(const RecordedBlock& block,
                                                 const std::vector<CacheSite>& sites,
                                                 size_t regions) {
    const std::shared_ptr<OnceReplay> once(new OnceReplay(sites.size()));
    ReplayedBlock& replayed = once->replayed_;
    const RequestLines lines_of(block, sites, std::vector<uint64_t>(regions));
    model::UnlimitedCache seen;
    const auto is_new = [&](uint64_t line) {
        return seen.handle(Traffic::Kind::read, line, 15) != 0;
    };
    LineAccess lines[sim::warp_size];
    for (uint32_t warp = 0; warp < block.requests.size(); ++warp) {
        OfWarp& own = once->warps_.emplace_back();
        own.reserve(block.requests[warp].size());
        for (const MemoryRequest& r : block.requests[warp]) {
            if (r.pc == MemoryRequest::pause) {
                own.push_back({.time = uint32_t(r.first), .count = 0});
                replayed.cycles += uint32_t(r.first);
                continue;
            }
            const CacheSite site = sites[r.pc];
            if (site.effect == Effect::atomic) return nullptr;
            const bool stores = site.effect == Effect::store;
            const AlikeLines alike = r.scattered ? AlikeLines{} : alike_lines(r, site.bytes);
            Traffic t{.pc = r.pc, .kind = stores ? Traffic::Kind::write : Traffic::Kind::read};
            uint32_t n = 0;
            uint64_t sectors = 0;
            if (alike.count && !site.local) {
                n = uint32_t(alike.count);
                for (uint32_t i = 0; i < n; ++i)
                    if (!is_new(alike.first.line + i * alike.step)) return nullptr;
                t.line = alike.first.line;
                t.step = n > 1 ? int32_t(alike.step) : 0;
                t.sectors = alike.first.sectors;
                t.whole = alike.first.whole;
                t.count = uint8_t(n);
                sectors = n * model::sectors_in(t.sectors);
                own.push_back(t);
            } else {
                n = uint32_t(lines_of.of(warp, r, lines));
                for (uint32_t i = 0; i < n; ++i) {
                    if (!is_new(lines[i].line)) return nullptr;
                    t.line = lines[i].line;
                    t.sectors = lines[i].sectors;
                    t.whole = lines[i].whole;
                    sectors += model::sectors_in(t.sectors);
                    if (i == 0 || !own.back().extend(t)) own.push_back(t);
                }
                if (n == 0) own.push_back({.count = 0});
            }
            own.back().time = std::max(1u, n);
            Misses& misses = once->misses_[r.pc];
            ++misses.requests;
            misses.missed += n != 0;
            misses.lines += n;
            misses.cycles += site.local || alike.count ? n : 0;
            (stores ? replayed.counts.l1_stores : replayed.counts.l1_loads) += sectors;
            replayed.lines += n;
            replayed.lines_sent += n;
            replayed.cycles += std::max(1u, n);
        }
        once->entries_ += own.size();
    }
    return once;
}

L1Result OnceReplay::run(uint32_t variant, bool has_barriers) const {
    struct Turn {
        const Traffic *next, *end;
        uint32_t start;  // the first round in which the warp takes a turn
    };
    std::vector<Turn> turns;
    for (uint32_t warp = 0; warp < warps_.size(); ++warp) {
        const OfWarp& own = warps_[warp];
        turns.push_back(
            {own.data(), own.data() + own.size(), has_barriers ? 0 : idle_rounds(variant, warp)});
    }
    auto filtered = std::make_shared<ReplayedBlock>(replayed_);
    filtered->traffic.reserve(entries_);
    std::vector<Turn*> active;  // the warps that have started and have not ended
    uint32_t now = 0;
    bool changes = true;
    for (uint32_t round = 0; changes || !active.empty(); ++round) {
        if (changes) {
            active.clear();
            changes = false;
            for (Turn& t : turns) {
                if (t.next == t.end) continue;
                if (t.start <= round)
                    active.push_back(&t);
                else
                    changes = true;
            }
        }
        for (Turn* const t : active) {
            uint32_t cycles = 0;
            do {
                const Traffic& next = *t->next++;
                cycles = next.time;
                if (next.count) filtered->traffic.emplace_back(next).time = now;
            } while (cycles == 0);
            now += cycles;
            changes |= t->next == t->end;
        }
    }
    return {std::move(filtered), {}, misses_};
}

}  // namespace coalesce::analysis
