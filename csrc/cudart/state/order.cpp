#include "cudart/state/order.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"
#include "round_up.hpp"

namespace coalesce::cudart {

namespace {

using analysis::Touched;
using Ranges = Touched::Ranges;

constexpr size_t max_pending = 4096;

// Returns the first byte that both have, or 0 if there is none.
uint64_t common(const Ranges& a, const Ranges& b) {
    auto x = a.begin(), y = b.begin();
    while (x != a.end() && y != b.end()) {
        if (x->first < y->second && y->first < x->second) return std::max(x->first, y->first);
        (x->second < y->second ? x : y)++;
    }
    return 0;
}

bool contains(const Ranges& ranges, uint64_t address) {
    const auto after =
        std::upper_bound(ranges.begin(), ranges.end(), std::pair{address, UINT64_MAX});
    return after != ranges.begin() && std::prev(after)->second > address;
}

// Adds ranges to sorted ranges.
void unite(Ranges& all, const Ranges& more) {
    if (more.empty()) return;
    all.insert(all.end(), more.begin(), more.end());
    std::sort(all.begin(), all.end());
    size_t count = 0;
    for (const auto& r : all) {
        if (count && r.first <= all[count - 1].second)
            all[count - 1].second = std::max(all[count - 1].second, r.second);
        else
            all[count++] = r;
    }
    all.resize(count);
}

// Returns the pages of these bytes to which the host has access. The pages at the start and at the
// end of registered memory are left out, because they may hold other data, too.
Ranges pages_of(const Ranges& ranges) {
    Ranges pages;
    for (const auto& [address, a] : runtime().memory.all()) {
        if (!a.readable_by_host()) continue;
        const bool shared = a.kind == Kind::registered;
        const uint64_t start = shared ? round_up(address, page) : address / page * page;
        const uint64_t stop = shared ? a.end() / page * page : round_up(a.end(), page);
        auto r = std::lower_bound(ranges.begin(), ranges.end(), std::pair{address, uint64_t{0}});
        for (; r != ranges.end() && r->first < a.end(); ++r) {
            const uint64_t first = std::max(start, r->first / page * page),
                           end = std::min(stop, round_up(r->second, page));
            if (first >= end) continue;
            if (!pages.empty() && first <= pages.back().second)
                pages.back().second = std::max(pages.back().second, end);
            else
                pages.emplace_back(first, end);
        }
    }
    return pages;
}

// An access that conflicts with another one.
struct Conflict {
    uint64_t address = 0;
    const char *earlier = "", *later = "";  // "read" or "write"
};

Conflict conflict_of(const Touched& earlier, const Touched& later) {
    struct Kind {
        Ranges Touched::* ranges;
        bool writes, strong;
    };
    constexpr Kind kinds[] = {{&Touched::written, true, false},
                              {&Touched::read, false, false},
                              {&Touched::atomics, true, true},
                              {&Touched::flags, true, true},
                              {&Touched::strongly_read, false, true}};
    for (const Kind& a : kinds)
        for (const Kind& b : kinds) {
            if (!(a.writes || b.writes) || (a.strong && b.strong)) continue;
            if (const uint64_t address = common(earlier.*a.ranges, later.*b.ranges))
                return {address, a.writes ? "write" : "read", b.writes ? "writes" : "reads"};
        }
    return {};
}

// Returns "byte 4 of the 256 bytes of cudaMalloc() number 1".
std::string place_at(uint64_t address) {
    const Allocation* const a = runtime().memory.find(address);
    return a ? "byte " + std::to_string(address - a->address) + " of " + a->described()
             : "memory that was freed";
}

std::string described(const Operation& o) {
    return o.what + runtime().place_of(o.caller) + " in " + o.stream_name;
}

bool is_non_blocking(const StreamRecord& s) { return s.flags & 1; }

// Reports that nothing orders an operation after an earlier one, if they conflict. Then continues
// as if the missing call were there, so that it is reported once.
void compare(const Operation& earlier, Operation& o) {
    if (o.before.covers(earlier.stream, earlier.number)) return;
    const Conflict c = conflict_of(earlier.touched, o.touched);
    if (!c.address) return;
    const bool same_thread = pthread_equal(earlier.thread, o.thread);
    runtime().report.add_mistake(
        "missing order",
        described(o) + " " + c.later + " " + place_at(c.address) + ", which " + described(earlier) +
            " may still " + c.earlier +
            ": no call orders them. Call cudaEventRecord() after the earlier operation and "
            "cudaStreamWaitEvent() before the later one, or use one stream" +
            (same_thread ? ""
                         : ". Two host threads issued them: if one waits for its stream, the other "
                           "must also wait for this thread, as by join() or a mutex"),
        o.caller);
    o.before.join(earlier.before);
    o.before.set(earlier.stream, earlier.number);
}

}  // namespace

Clock Order::start_of(const StreamRecord& s) const {
    Clock clock = s.end;
    clock.join(host_);
    clock.join(learned_);
    clock.join(separated_);
    // Work in the default stream waits for earlier work in all other streams, and the reverse.
    // Streams that were created as non-blocking are an exception.
    if (s.legacy)
        clock.join(blocking_);
    else if (!is_non_blocking(s))
        clock.join(default_);
    return clock;
}

Clock Order::end_of(const StreamRecord& s) const {
    Clock clock = s.end;
    if (s.legacy) clock.join(blocking_);
    return clock;
}

void Order::set_end(StreamRecord& s, Clock end) {
    s.end = std::move(end);
    if (s.legacy)
        default_ = s.end;
    else if (!is_non_blocking(s))
        blocking_.join(s.end);
}

void Order::issue(StreamRecord& s, Operation o) {
    Runtime& rt = runtime();
    o.before = start_of(s);
    o.stream = s.timeline;
    o.thread = pthread_self();
    o.number = ++s.operations;
    if (rt.settings.check) {
        o.stream_name = s.name();
        o.caller = work_from();
        // The last operation first: the earlier ones are often ordered before it.
        for (auto earlier = pending_.rbegin(); earlier != pending_.rend(); ++earlier)
            compare(*earlier, o);
    }
    Clock end = o.before;
    end.set(o.stream, o.number);
    set_end(s, std::move(end));
    all_.set(o.stream, o.number);
    if (!rt.settings.check) return;
    // An earlier operation that accesses the same bytes in the same stream need not be kept: what
    // is not ordered after it is not ordered after this operation either.
    std::erase_if(pending_, [&](const Operation& p) {
        return p.stream == o.stream && p.touched == o.touched;
    });
    if (pending_.size() >= max_pending) pending_.erase(pending_.begin());
    add_pages(o);
    pending_.push_back(std::move(o));
}

void Order::record(StreamRecord& s, EventRecord& event) {
    set_end(s, start_of(s));
    event.ended = s.end;
    event.number = ++events_;
    event.asked = false;
}

void Order::wait(StreamRecord& s, const Clock& ended) {
    Clock clock = start_of(s), kept;
    // Branches that host_learns() has forgotten must not return.
    for (const auto& [stream, number] : ended.all())
        if (all_.covers(stream, number)) kept.set(stream, number);
    clock.join(kept);
    set_end(s, std::move(clock));
}

void Order::host_waits(const StreamRecord& s) { host_learns(end_of(s)); }
void Order::host_waits(const EventRecord& event) { host_learns(event.ended); }

void Order::host_learns(const Clock& clock) {
    if (several_threads())
        learned_.join(clock);
    else
        publish(clock);
}

void Order::publish(const Clock& learned) {
    host_.join(learned);
    if (std::erase_if(pending_,
                      [&](const Operation& o) { return host_.covers(o.stream, o.number); }))
        update_pages();
    // A branch of a graph has no operations but those of one launch. So it is forgotten when they
    // have ended.
    constexpr size_t many = 64;
    if (all_.all().size() < many) return;
    std::vector<uint64_t> ended;
    for (const auto& [stream, number] : all_.all())
        if (stream >= first_branch && host_.covers(stream, number)) ended.push_back(stream);
    const auto forget = [&](Clock& c) {
        for (const uint64_t stream : ended) c.forget(stream);
    };
    for (Clock* const c : {&host_, &learned_, &all_, &separated_, &default_, &blocking_})
        forget(*c);
    runtime().streams.each([&](StreamRecord& s) { forget(s.end); });
}

bool Order::host_knows(const Clock& clock) const {
    const auto& all = clock.all();
    return std::all_of(all.begin(), all.end(), [&](const auto& last) {
        const auto& [stream, number] = last;
        return host_.covers(stream, number) || learned_.covers(stream, number) ||
               !all_.covers(stream, number);
    });
}
bool Order::host_knows(const StreamRecord& s) const { return host_knows(end_of(s)); }
bool Order::host_knows(const EventRecord& event) const { return host_knows(event.ended); }

void Order::guard(bool guarded) {
    if (guarded == guarded_ || (guarded && written_pages_.empty() && read_pages_.empty())) return;
    guarded ? protect() : unprotect();
    guarded_ = guarded;
}

void Order::protect() const {
    for (const auto& [first, end] : read_pages_)
        mprotect(reinterpret_cast<void*>(first), end - first, PROT_READ);
    for (const auto& [first, end] : written_pages_)
        mprotect(reinterpret_cast<void*>(first), end - first, PROT_NONE);
}

void Order::unprotect() {
    for (const Ranges* const pages : {&read_pages_, &written_pages_})
        for (const auto& [first, end] : *pages)
            mprotect(reinterpret_cast<void*>(first), end - first, PROT_READ | PROT_WRITE);
    open_.clear();
}

void Order::add_pages(const Operation& o) {
    if (o.seen_by_host) return;
    for (const Ranges* const ranges : {&o.touched.written, &o.touched.atomics, &o.touched.flags})
        unite(written_pages_, pages_of(*ranges));
    unite(read_pages_, pages_of(o.touched.read));
    for (const Ranges* const pages : {&written_pages_, &read_pages_})
        for (const auto& [first, end] : *pages)
            if (!in_arena(first)) guards_registered_ = true;
}

void Order::update_pages() {
    if (guarded_) unprotect();
    written_pages_.clear();
    read_pages_.clear();
    for (const Operation& o : pending_) add_pages(o);
    if (guarded_) protect();
}

bool Order::may_guard(uint64_t address) { return in_arena(address) || guards_registered_; }

bool Order::host_accesses(uint64_t address, bool writes, void* code) {
    const bool may_be_written = contains(written_pages_, address);
    if (!guarded_ || !(may_be_written || contains(read_pages_, address))) return false;
    writes = writes || !may_be_written;  // the host may read such a page
    const auto is_flag = [&](const Operation& o) {
        return !writes && contains(o.touched.flags, address);
    };
    const auto flag = std::find_if(pending_.begin(), pending_.end(), is_flag);
    if (flag != pending_.end()) {
        Clock clock = flag->before;
        clock.set(flag->stream, flag->number);
        publish(clock);
    }
    bool found = false;
    for (Operation& o : pending_) {
        const Touched& t = o.touched;
        const bool written = contains(t.written, address) || contains(t.atomics, address);
        if (o.seen_by_host || !(written || (writes && contains(t.read, address)))) continue;
        o.seen_by_host = found = true;
        runtime().report.add_mistake(
            "missing wait",
            std::string("the host ") + (writes ? "writes to " : "reads ") + place_at(address) +
                ", which " + described(o) + " may still " + (written ? "write" : "read") +
                ": the host did not wait for this stream. Call cudaStreamSynchronize() or "
                "cudaDeviceSynchronize() first",
            code);
    }
    if (found) update_pages();
    open_.push_back(address / page * page);
    mprotect(reinterpret_cast<void*>(open_.back()), page, PROT_READ | PROT_WRITE);
    return true;
}

void Order::close_pages() {
    for (const uint64_t start : open_) {
        const bool written = contains(written_pages_, start);
        if (written || contains(read_pages_, start))
            mprotect(reinterpret_cast<void*>(start), page, written ? PROT_NONE : PROT_READ);
    }
    open_.clear();
}

}  // namespace coalesce::cudart
