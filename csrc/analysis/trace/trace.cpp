#include "analysis/trace/trace.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "sim/program/launch.hpp"

namespace coalesce::analysis {

TraceEvent trace_event(const sim::Warp& warp, const sim::MemoryEvent& e) {
    TraceEvent t;
    t.block = warp.block->linear;
    t.warp = warp.index;
    t.pc = e.pc;
    t.space = e.space;
    t.access = e.access;
    t.bytes = e.bytes;
    t.mask = e.mask;
    sim::for_each_lane(e.mask, [&](int lane) { t.addresses[lane] = e.address(lane); });
    return t;
}

Recording Recording::of_exemplars(uint32_t count, const sim::GridRun& launch) {
    const auto ends_and_middle = [](uint64_t n) {
        std::vector<uint64_t> chosen{0, n / 2, n - 1};
        chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
        return chosen;
    };
    Recording r;
    r.exemplars = count;
    r.blocks.emplace();
    r.warps.emplace();
    if (launch.block_count() == 0) return r;
    for (const uint64_t n : ends_and_middle(launch.block_count()))
        r.blocks->push_back(launch.block_at(n));
    for (const uint64_t n :
         ends_and_middle((launch.block.count() + sim::warp_size - 1) / sim::warp_size))
        r.warps->push_back(uint32_t(n));
    r.exemplars_per_warp =
        std::max<uint32_t>(1, count / uint32_t(r.blocks->size() * r.warps->size()));
    return r;
}

BlockTrace::BlockTrace(Recorder& recorder, const sim::Block& block, bool keeps)
    : recorder_(recorder),
      instructions_(recorder.wanted_.size()),
      most_(recorder.recording_.exemplars ? recorder.recording_.exemplars_per_warp : all),
      keeps_(keeps),
      wants_(block.warp_count),
      steps_(block.warp_count),
      executions_(block.warp_count * instructions_) {
    const auto& warps = recorder.recording_.warps;
    for (uint32_t n = 0; n < block.warp_count; ++n)
        wants_[n] = !warps || std::find(warps->begin(), warps->end(), n) != warps->end();
}

void BlockTrace::keep(const sim::Warp& warp, const sim::MemoryEvent& e, uint32_t step,
                      uint32_t execution) {
    if (!recorder_.wanted_[e.pc]) return;
    const Recording& wanted = recorder_.recording_;
    if (!keeps_ || events_.size() >= wanted.limit) {
        ++omitted_;
        return;
    }
    events_.push_back(trace_event(warp, e));
    events_.back().step = step;
    events_.back().execution = execution;
    if (wanted.sink && events_.size() >= wanted.batch) recorder_.stream(std::move(events_));
}

Recorder::Recorder(Recording recording, const sim::Program& program)
    : recording_([&] {
          if (recording.blocks) std::sort(recording.blocks->begin(), recording.blocks->end());
          return std::move(recording);
      }()),
      wanted_(program.instructions.size(), true) {
    if (!recording_.lines) return;
    for (size_t pc = 0; pc < wanted_.size(); ++pc) {
        const ptx::SourceLine& at = program.instructions[pc].source;
        wanted_[pc] = at.file == program.source_file &&
                      std::find(recording_.lines->begin(), recording_.lines->end(), at.line) !=
                          recording_.lines->end();
    }
}

BlockTrace* Recorder::begin(const sim::Block& block) {
    const auto& blocks = recording_.blocks;
    if (blocks && !std::binary_search(blocks->begin(), blocks->end(), block.linear)) return nullptr;
    const std::lock_guard lock(mutex_);
    const bool full =
        kept_events_ >= recording_.limit && !kept_.empty() && block.linear > kept_.rbegin()->first;
    auto& trace = running_[block.linear];
    trace = std::make_unique<BlockTrace>(*this, block, !full);
    return trace.get();
}

void Recorder::end(uint64_t block) {
    const std::lock_guard lock(mutex_);
    const auto entry = running_.find(block);
    BlockTrace& trace = *entry->second;
    omitted_ += trace.omitted_;
    if (recording_.sink) {
        pending_.insert(pending_.end(), trace.events_.begin(), trace.events_.end());
        while (pending_.size() >= recording_.batch) {
            const auto end = pending_.begin() + ptrdiff_t(recording_.batch);
            recording_.sink({pending_.begin(), end});
            pending_.erase(pending_.begin(), end);
        }
    } else if (!trace.events_.empty()) {
        kept_events_ += trace.events_.size();
        kept_.emplace(block, std::move(trace.events_));
        drop_beyond_limit();
    }
    running_.erase(entry);
}

// Called when a running block has filled a batch. Passes the batch to the sink.
void Recorder::stream(TraceEvents&& events) {
    const std::lock_guard lock(mutex_);
    recording_.sink(std::move(events));
    events.clear();
}

void Recorder::drop_beyond_limit() {
    while (kept_events_ > recording_.limit) {
        TraceEvents& last = kept_.rbegin()->second;
        const uint64_t excess = kept_events_ - recording_.limit;
        if (excess < last.size()) {
            last.resize(last.size() - excess);
            omitted_ += excess;
            kept_events_ -= excess;
            return;
        }
        omitted_ += last.size();
        kept_events_ -= last.size();
        kept_.erase(std::prev(kept_.end()));
    }
}

void FirstEventObserver::keep(const sim::Warp& w, const sim::MemoryEvent& e) {
    seen_[e.pc] = true;
    TraceEvent& first = events_[e.pc] = trace_event(w, e);
    first.step = TraceEvent::unknown_step;
}

void Recorder::add_firsts(const std::map<uint32_t, TraceEvent>& by_instruction) {
    for (const auto& [pc, event] : by_instruction) {
        const auto [known, is_new] = firsts_.emplace(pc, event);
        if (!is_new && event.block < known->second.block) known->second = event;
    }
}

Trace Recorder::finish() {
    Trace trace;
    trace.omitted = omitted_;
    if (recording_.sink) {
        if (!pending_.empty()) recording_.sink(std::move(pending_));
        return trace;
    }
    std::vector<const TraceEvent*> order;
    order.reserve(kept_events_ + firsts_.size());
    std::vector<bool> has_event(wanted_.size());
    for (const auto& [block, events] : kept_) {
        for (const TraceEvent& e : events) {
            has_event[e.pc] = true;
            order.push_back(&e);
        }
    }
    for (const auto& [pc, event] : firsts_) {
        if (!has_event[pc]) order.push_back(&event);
    }
    std::stable_sort(order.begin(), order.end(), [](const TraceEvent* a, const TraceEvent* b) {
        return std::tie(a->block, a->warp, a->step) < std::tie(b->block, b->warp, b->step);
    });
    trace.events.reserve(order.size());
    for (const TraceEvent* event : order) trace.events.push_back(*event);
    if (recording_.exemplars) thin_out(trace);
    return trace;
}

// Keeps only the first exemplars of each instruction.
void Recorder::thin_out(Trace& trace) const {
    std::vector<uint32_t> count(wanted_.size());
    std::erase_if(trace.events,
                  [&](const TraceEvent& e) { return ++count[e.pc] > recording_.exemplars; });
}

}  // namespace coalesce::analysis
