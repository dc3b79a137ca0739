// Traces. A trace is a list of the memory events of chosen blocks and warps.
//
// METHOD
// When a block that is to be recorded starts, it gets a BlockTrace (in Block::observed). For other
// blocks, this pointer is null, and their events cost nearly no time. The BlockTrace counts the
// events of each warp, and keeps the events that were requested. When the block ends, its events go
// to the Recorder. The Recorder keeps the events of the blocks with the lowest numbers, up to the
// limit, and counts the others. The result does not depend on the number of host threads.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "model/caches/kept_memory.hpp"
#include "sim/warp/observer.hpp"

namespace coalesce::analysis {

// One executed memory instruction of a warp.
struct TraceEvent {
    static constexpr uint32_t unknown_step = UINT32_MAX;
    uint64_t block = 0;      // linear number
    uint32_t warp = 0;       // number in the block
    uint32_t step = 0;       // number of earlier memory events of the warp
    uint32_t execution = 0;  // number of earlier executions of this instruction by the warp
    uint32_t pc = 0;         // number of the instruction
    ptx::Space space = ptx::Space::global;
    sim::Access access = sim::Access::load;
    uint8_t bytes = 0;  // bytes per lane
    sim::LaneMask mask = 0;
    uint64_t addresses[sim::warp_size] = {};  // 0 for inactive lanes
};

// The next launch reuses the memory of large lists.
using TraceEvents = std::vector<TraceEvent, model::KeptPages<TraceEvent>>;

[[nodiscard]] TraceEvent trace_event(const sim::Warp& warp, const sim::MemoryEvent& event);

// The result of a recording: at most Recording::limit events, ordered by block, warp and step.
struct Trace {
    TraceEvents events;
    uint64_t omitted = 0;  // requested events beyond the limit
};

// Which events to keep.
struct Recording {
    std::optional<std::vector<uint64_t>> blocks;  // linear numbers; all blocks if there is no list
    std::optional<std::vector<uint32_t>> warps;   // numbers in the block
    std::optional<std::vector<uint32_t>> lines;   // lines of the kernel's source file
    uint64_t limit = UINT64_MAX;

    // If `exemplars` is not 0, only this number of events per instruction is kept. A warp
    // contributes at most `exemplars_per_warp` of them, spread over its executions. Every
    // instruction that any block executes has at least one event.
    uint32_t exemplars = 0;
    uint32_t exemplars_per_warp = 0;

    // If `sink` is set, events are not kept. They are passed to `sink` in batches of at most
    // `batch`. The events of each block are in the order of execution. The host threads call `sink`
    // one at a time. An exception from `sink` ends the launch.
    std::function<void(TraceEvents&&)> sink;
    size_t batch = 1 << 16;

    // Returns a Recording of nine warps. They are in three blocks: the first, the middle and the
    // last block that the launch runs. In each of these blocks, they are the first, the middle and
    // the last warp.
    [[nodiscard]] static Recording of_exemplars(uint32_t count, const sim::GridRun& launch);
};

class Recorder;

// The events of one block while it runs.
class BlockTrace {
  public:
    BlockTrace(Recorder& recorder, const sim::Block& block, bool keeps);
    // Records an access of a warp whose events are kept.
    void record(const sim::Warp& warp, const sim::MemoryEvent& e) {
        // An asynchronous copy has two events: first the access to global memory, then the access
        // to shared memory. Both get the same number.
        const bool second = e.access == sim::Access::async_copy && e.space == ptx::Space::shared;
        const uint32_t step = steps_[warp.index]++;
        uint32_t& executions = executions_of(warp, e.pc);
        const uint32_t execution = second && executions > 0 ? executions - 1 : executions++;
        if (is_spread(execution)) keep(warp, e, step, execution);
    }
    // Records an access to words in global memory by a full warp (sim::Hook::repeated).
    void record(const sim::Warp& warp, const sim::Op& op, sim::Access access, int64_t stride,
                uint64_t first) {
        const uint32_t step = steps_[warp.index]++;
        const uint32_t execution = executions_of(warp, op.pc)++;
        if (is_spread(execution)) [[unlikely]]
            keep(warp, sim::event_of_words(op, ptx::Space::global, access, stride, first), step,
                 execution);
    }
    // Returns true if events of this warp are kept.
    [[nodiscard]] bool wants(uint32_t warp) const { return wants_[warp]; }

  private:
    friend class Recorder;
    [[nodiscard]] uint32_t& executions_of(const sim::Warp& warp, uint32_t pc) {
        return executions_[warp.index * instructions_ + pc];
    }
    // Returns true if this execution of an instruction is kept. Of a limited number, these are the
    // first four, and then those whose number is a power of two.
    [[nodiscard]] bool is_spread(uint32_t execution) const {
        if (execution < 4) return execution < most_;
        return most_ == all ||
               (std::has_single_bit(execution) && uint32_t(std::bit_width(execution)) + 1 < most_);
    }
    void keep(const sim::Warp& warp, const sim::MemoryEvent& e, uint32_t step, uint32_t execution);

    static constexpr uint32_t all = UINT32_MAX;

    Recorder& recorder_;
    const size_t instructions_;  // number of instructions of the kernel
    const uint32_t most_;        // how many executions of an instruction are kept for each warp
    bool keeps_;                 // false: only counts the omitted events
    uint64_t omitted_ = 0;
    TraceEvents events_;
    std::vector<uint8_t> wants_;        // for each warp: true if its events are kept
    std::vector<uint32_t> steps_;       // number of events of each warp
    std::vector<uint32_t> executions_;  // number of executions, by warp and instruction
};

// Collects the events of a launch. The host threads of the launch share this object.
class Recorder {
  public:
    Recorder(Recording recording, const sim::Program& program);

    // Returns a new BlockTrace for a block that starts, or null if the block is not recorded. end()
    // must be called when the block has ended; it takes the events from the BlockTrace.
    BlockTrace* begin(const sim::Block& block);
    void end(uint64_t block);

    // Adds the first events that a host thread saw, one for each instruction.
    void add_firsts(const std::map<uint32_t, TraceEvent>& by_instruction);

    // Returns the kept events. If there is a sink, passes the last batch to it.
    [[nodiscard]] Trace finish();

  private:
    friend class BlockTrace;
    void stream(TraceEvents&& events);
    void drop_beyond_limit();
    void thin_out(Trace& trace) const;

    const Recording recording_;
    std::vector<bool> wanted_;  // for each instruction: true if its events are kept
    std::mutex mutex_;
    std::map<uint64_t, std::unique_ptr<BlockTrace>> running_;  // blocks that are running
    std::map<uint64_t, TraceEvents> kept_;                     // kept events of each block
    uint64_t kept_events_ = 0, omitted_ = 0;
    std::map<uint32_t, TraceEvent> firsts_;  // the first event of each instruction
    TraceEvents pending_;                    // events that wait for the sink
};

// Passes events to the BlockTrace of each recorded block.
class TraceObserver {
  public:
    static constexpr sim::Hooks hooks =
        sim::Hook::start | sim::Hook::finish | sim::Hook::access | sim::Hook::repeated;

    explicit TraceObserver(Recorder& recorder) : recorder_(recorder) {}

    void start(sim::Block& block) {
        BlockTrace* const trace = recorder_.begin(block);
        block.observed = trace;
        if (!trace) return;
        // Repeated accesses to shared memory would not be announced, not even as `repeated`.
        for (sim::Warp& w : block.warps)
            if (trace->wants(w.index)) w.shared_repetitions = nullptr;
    }
    void finish(const sim::Block& block) {
        if (block.observed) recorder_.end(block.linear);
    }
    void access(const sim::Warp& w, const sim::MemoryEvent& e) {
        if (BlockTrace* const trace = trace_of(w)) [[unlikely]]
            trace->record(w, e);
    }
    void repeated(const sim::Warp& w, const sim::Op& op, sim::Access access, int64_t stride,
                  uint64_t first) {
        if (BlockTrace* const trace = trace_of(w)) [[unlikely]]
            trace->record(w, op, access, stride, first);
    }

  private:
    // Returns null if events of this warp are not kept.
    static BlockTrace* trace_of(const sim::Warp& w) {
        auto* const trace = static_cast<BlockTrace*>(w.block->observed);
        return trace && trace->wants(w.index) ? trace : nullptr;
    }

    Recorder& recorder_;
};
static_assert(sim::Observer<TraceObserver>);

// For each instruction, keeps the first event on this host thread. So there is an example event for
// each instruction, even if no recorded block executes the instruction.
class FirstEventObserver {
  public:
    static constexpr sim::Hooks hooks = sim::Hook::access;

    explicit FirstEventObserver(const sim::Program& program) : seen_(program.instructions.size()) {}

    void access(const sim::Warp& w, const sim::MemoryEvent& e) {
        if (!seen_[e.pc]) [[unlikely]]
            keep(w, e);
    }

    [[nodiscard]] const std::map<uint32_t, TraceEvent>& events() const { return events_; }

  private:
    void keep(const sim::Warp& w, const sim::MemoryEvent& e);

    std::vector<uint8_t> seen_;              // for each instruction: true if it has an event
    std::map<uint32_t, TraceEvent> events_;  // the first event of each instruction
};
static_assert(sim::Observer<FirstEventObserver>);

}  // namespace coalesce::analysis
