#include "analysis/caches/once_replay.hpp"

#include <algorithm>
#include <utility>

#include "analysis/caches/request_lines.hpp"
#include "model/caches/block_sectors.hpp"

namespace coalesce::analysis {

using model::LineAccess;
using model::ReplayedBlock;
using model::Traffic;
using Effect = CacheSite::Effect;

namespace {

// If a block has more requests than this, the merged requests of a variant are not stored.
constexpr size_t most_stored = 4096;

// Appends requests for `count` lines, without their time and step.
template <class Entries>
Traffic& append(const LineAccess& first, Traffic::Kind kind, uint32_t pc, uint32_t count,
                Entries& entries) {
    // As in L1Replay::append(), push_back() would make the host wait.
    Traffic& t = entries.emplace_back();
    t.line = first.line;
    t.pc = pc;
    t.kind = kind;
    t.sectors = first.sectors;
    t.whole = first.whole;
    t.count = uint8_t(count);
    return t;
}

}  // namespace

std::shared_ptr<const OnceReplay> OnceReplay::of(const RecordedBlock& block,
                                                 const std::vector<CacheSite>& sites,
                                                 size_t regions) {
    const std::shared_ptr<OnceReplay> once(new OnceReplay);
    std::vector<Misses> misses(sites.size());
    const RequestLines lines_of(block, sites, std::vector<uint64_t>(regions));
    auto& entries = once->traffic_->entries;
    entries.reserve(block.size());
    model::BlockSectorList requested;
    uint64_t lines_sent = 0, loads = 0, stores = 0, cycles = 0;
    LineAccess lines[sim::warp_size];
    for (uint32_t warp = 0; warp < block.requests.size(); ++warp) {
        for (const MemoryRequest& r : block.requests[warp]) {
            if (r.pc == MemoryRequest::pause) {
                append({}, Traffic::Kind::read, r.pc, 0, entries).time = uint32_t(r.first);
                cycles += r.first;
                continue;
            }
            const CacheSite site = sites[r.pc];
            if (site.effect == Effect::atomic) return nullptr;
            const auto kind =
                site.effect == Effect::store ? Traffic::Kind::write : Traffic::Kind::read;
            const AlikeLines alike = r.scattered ? AlikeLines{} : alike_lines(r, site.bytes);
            uint32_t n = 0;
            uint64_t sectors = 0;
            if (alike.count && !site.local) {
                n = uint32_t(alike.count);
                for (uint32_t i = 0; i < n; ++i)
                    if (!requested.add(kind, alike.first.line + i * alike.step,
                                       alike.first.sectors))
                        return nullptr;
                append(alike.first, kind, r.pc, n, entries).step = n > 1 ? int32_t(alike.step) : 0;
                sectors = n * model::sectors_in(alike.first.sectors);
            } else {
                n = uint32_t(lines_of.of(warp, r, lines));
                for (uint32_t i = 0; i < n; ++i) {
                    const LineAccess& a = lines[i];
                    if (!requested.add(kind, a.line, a.sectors)) return nullptr;
                    sectors += model::sectors_in(a.sectors);
                    if (i == 0 || !entries.back().extend({.line = a.line,
                                                          .pc = r.pc,
                                                          .kind = kind,
                                                          .sectors = a.sectors,
                                                          .whole = a.whole}))
                        append(a, kind, r.pc, 1, entries);
                }
                if (n == 0) append({}, kind, r.pc, 0, entries);
            }
            entries.back().time = std::max(1u, n);
            cycles += std::max(1u, n);
            lines_sent += n;
            (kind == Traffic::Kind::write ? stores : loads) += sectors;
            Misses& of_site = misses[r.pc];
            ++of_site.requests;
            of_site.missed += n != 0;
            of_site.lines += n;
            of_site.cycles += site.local || alike.count ? n : 0;
        }
        once->traffic_->ends.push_back(entries.size());
    }
    once->misses_ = with_requests(misses);
    ReplayedBlock& replayed = once->replayed_;
    replayed.sectors = requested.get();
    replayed.counts.l1_loads = loads;
    replayed.counts.l1_stores = stores;
    replayed.cycles = uint32_t(cycles);
    replayed.lines = replayed.lines_sent = lines_sent;
    return once;
}

L1Result OnceReplay::run(uint32_t variant, bool has_barriers) const {
    std::vector<uint32_t> starts(traffic_->ends.size());
    if (!has_barriers)
        for (uint32_t warp = 0; warp < starts.size(); ++warp)
            starts[warp] = idle_rounds(variant, warp);
    auto filtered = std::make_shared<ReplayedBlock>(replayed_);
    model::Turns turns(traffic_, starts);
    if (traffic_->entries.size() > most_stored) {
        filtered->turns = std::move(turns);
    } else {
        filtered->traffic.reserve(traffic_->entries.size());
        turns.take(UINT64_MAX, [&](const Traffic& request, uint32_t time) {
            filtered->traffic.emplace_back(request).time = time;
        });
    }
    return {std::move(filtered), {}, misses_};
}

}  // namespace coalesce::analysis
