#include "analysis/caches/l2_replay.hpp"

#include <array>
#include <span>

#include "model/time.hpp"

namespace coalesce::analysis {

using model::L2Request;
using model::Traffic;

// The data that a request needs are in large tables, which do not fit into the caches of the host.
// Therefore a request is handled in three steps: prefetch(), guess() and handle(). Between two
// steps of a request come the steps of 8 other requests. Meanwhile the host loads the data that the
// next step needs.
void L2Replay::handle(const model::BlockSchedule::Slice& slice) {
    coalescer_.advance(slice.start);
    const std::span<const L2Request> requests = slice.requests;
    constexpr size_t later = 8;
    std::array<model::L2Cache::Guess, 2 * later> guesses;
    for (size_t n = 0; n < requests.size() + 2 * later; ++n) {
        if (n < requests.size()) prefetch(requests[n]);
        if (const size_t i = n - later; n >= later && i < requests.size())
            guesses[i % guesses.size()] = guess(requests[i]);
        if (const size_t i = n - 2 * later; n >= 2 * later)
            handle(requests[i], guesses[i % guesses.size()]);
    }
}

void L2Replay::prefetch(const L2Request& r) const {
    if (r.kind != Traffic::Kind::write) __builtin_prefetch(&arrivals_[arrival_of(r.line)], 1);
    if (r.kind == Traffic::Kind::read) coalescer_.prefetch(r.from, r.line);
    l2_.prefetch(r.kind, r.line, r.from);
}

model::L2Cache::Guess L2Replay::guess(const L2Request& r) const {
    if (r.kind == Traffic::Kind::read) coalescer_.prefetch_pending(r.from, r.line);
    return l2_.guess(r.kind, r.line, r.from);
}

void L2Replay::handle(const L2Request& r, model::L2Cache::Guess guess) {
    model::LineAccess a = r.access();
    if (r.kind == Traffic::Kind::write) {
        l2_.handle(r.kind, a, r.from, guess);
        return;
    }
    Arrival& arrival = arrivals_[arrival_of(a.line)];
    const bool on_the_way = arrival.line == a.line && r.time < arrival.time;
    ++misses_[r.pc].read;
    misses_[r.pc].slow += on_the_way;
    const model::RequestCoalescer::Entry entry = coalescer_.entry_of(r.from, a.line);
    if (r.kind == Traffic::Kind::read) {
        a.sectors = coalescer_.missing(entry, a.line, a.sectors, r.time);
        merged_ += model::sectors_in(r.sectors & ~a.sectors);
        if (!a.sectors) return;
    }
    const bool from_dram = l2_.handle(r.kind, a, r.from, guess);
    if (from_dram && !on_the_way) {
        arrival = {a.line, r.time + model::dram_latency};
        ++misses_[r.pc].slow;
    }
    if (r.kind == Traffic::Kind::read)
        coalescer_.mark_pending(entry, a.line, a.sectors, r.time, from_dram);
}

}  // namespace coalesce::analysis
