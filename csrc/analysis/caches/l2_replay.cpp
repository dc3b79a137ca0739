#include "analysis/caches/l2_replay.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "model/caches/kept_memory.hpp"
#include "model/request_coalescer.hpp"
#include "model/time.hpp"

namespace coalesce::analysis {

using model::L2Request;
using model::Traffic;

// L2, and the unit that merges reads.
class L2Replay::Models {
  public:
    Models(const model::Gpu& gpu, uint32_t sample, std::vector<Misses>& misses)
        : coalescer_(gpu), l2_(gpu, sample), misses_(misses), arrivals_((1 << 16) >> sample) {}

    // Handles the requests of a slice, in this order. `start` is the start of the slice.
    //
    // The data that a request needs are in large tables, which do not fit into the caches of the
    // host. Therefore a request is handled in three steps: prefetch(), guess() and handle().
    // Between two steps of a request come the steps of 8 other requests. Meanwhile the host loads
    // the data that the next step needs.
    void handle(double start, std::span<const L2Request> requests) {
        coalescer_.advance(start);
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

    [[nodiscard]] const model::CacheCounts& counts() const { return l2_.counts(); }
    // The number of sectors of merged reads.
    [[nodiscard]] uint64_t merged() const { return merged_; }

  private:
    void prefetch(const L2Request& r) const {
        if (r.kind != Traffic::Kind::write) __builtin_prefetch(&arrivals_[arrival_of(r.line)], 1);
        if (r.kind == Traffic::Kind::read) coalescer_.prefetch(r.from, r.line);
        l2_.prefetch(r.kind, r.line, r.from);
    }

    [[nodiscard]] model::L2Cache::Guess guess(const L2Request& r) const {
        if (r.kind == Traffic::Kind::read) coalescer_.prefetch_pending(r.from, r.line);
        return l2_.guess(r.kind, r.line, r.from);
    }

    void handle(const L2Request& r, model::L2Cache::Guess guess) {
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

    model::RequestCoalescer coalescer_;
    model::L2Cache l2_;
    uint64_t merged_ = 0;
    std::vector<Misses>& misses_;
    // A line that is being fetched from DRAM, and the time at which it arrives. The entry of a line
    // in the table `arrivals_` is computed from the line number. If two lines have the same entry,
    // the older line is forgotten.
    struct Arrival {
        uint64_t line = ~uint64_t(0);
        double time = 0;
    };
    static uint64_t arrival_of(uint64_t line) { return (line * 0x9e3779b97f4a7c15) >> 48; }
    // Lines of the sample only have the first 1 / 2^`sample` of the entries (is_in_sample).
    std::vector<Arrival, model::HugePages<Arrival>> arrivals_;
};

L2Replay::L2Replay(const model::Gpu& gpu, size_t instructions, uint32_t sample)
    : gpu_(gpu),
      exponent_(sample),
      sample_(sample),
      new_lines_(gpu, sample),
      misses_(instructions) {}

L2Replay::~L2Replay() = default;

void L2Replay::handle(const model::BlockSchedule::Slice& slice) {
    if (!models_ && (sample_.reads_again() || new_lines_.is_full())) stop_keeping();
    if (models_) return models_->handle(slice.start, slice.requests);
    for (const L2Request& r : slice.requests) keep(r);
    new_lines_.end_slice(slice.start);
}

// Keeps a request. It is no read of a line that was requested before, so DRAM must answer each
// read.
void L2Replay::keep(const L2Request& r) {
    new_lines_.add(r);
    misses_[r.pc].read += r.kind != Traffic::Kind::write;
    misses_[r.pc].slow += r.kind == Traffic::Kind::read;
}

// Passes the requests that were kept to the models.
void L2Replay::stop_keeping() {
    models_ = std::make_unique<Models>(gpu_, exponent_, misses_);
    std::ranges::fill(misses_, Misses{});  // the models count them again
    new_lines_.take_back([this](double start, std::span<const L2Request> requests) {
        models_->handle(start, requests);
    });
}

model::CacheCounts L2Replay::counts() const {
    return models_ ? sample_.estimate(models_->counts(), models_->merged())
                   : sample_.estimate(new_lines_.counts(), 0);
}

}  // namespace coalesce::analysis
