// Traces: the memory events of chosen blocks and warps, kept.
//
// METHOD
// A block to be recorded gets a BlockTrace when it starts (Block::observed), so that all others pay
// a test of a pointer. It numbers the events of each warp and keeps those that are wanted. When the
// block ends they go to the Recorder, which keeps the events of the lowest-numbered blocks up to
// the limit and counts what it leaves out: what is kept does not depend on the number of host
// threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "sim/observer.hpp"

namespace coalesce::analysis {

struct TraceEvent {
    static constexpr uint32_t unknown_step = UINT32_MAX;
    uint64_t block = 0;      // linear
    uint32_t warp = 0;       // of the block
    uint32_t step = 0;       // the warp's memory events before this one
    uint32_t execution = 0;  // the warp's executions of this instruction before this one
    uint32_t pc = 0;         // instruction
    ptx::Space space = ptx::Space::global;
    sim::Access access = sim::Access::load;
    uint8_t bytes = 0;  // of a lane's access
    sim::LaneMask mask = 0;
    uint64_t addresses[sim::warp_size] = {};  // 0 for lanes that do not access
};

[[nodiscard]] TraceEvent trace_event(const sim::Warp& warp, const sim::MemoryEvent& event);

// Of at most `limit` events, in the order of their blocks, warps and steps.
struct Trace {
    std::vector<TraceEvent> events;
    uint64_t omitted = 0;  // wanted, but over the limit
};

// Which events to keep.
struct Recording {
    std::optional<std::vector<uint64_t>> blocks;  // linear numbers; all if there is no list
    std::optional<std::vector<uint32_t>> warps;   // of a block
    std::optional<std::vector<uint32_t>> lines;   // of the kernel's source file
    uint64_t limit = UINT64_MAX;

    // Exemplars: so many events of each instruction, of them so many of each warp, spread over its
    // executions, and at least one of each instruction that any block executes. 0: all events.
    uint32_t exemplars = 0;
    uint32_t exemplars_a_warp = 0;

    // Instead of keeping events: receives them in batches of at most so many, in each block's order
    // of execution. Called by the host threads, one at a time; may throw to end the launch.
    std::function<void(std::vector<TraceEvent>&&)> sink;
    size_t batch = 1 << 16;

    // Exemplars of the first, the middle and the last warp of the first, the middle and the last
    // block that the launch runs.
    [[nodiscard]] static Recording of_exemplars(uint32_t count, const sim::Launch& launch);
};

class Recorder;

// The events of one block while it runs.
class BlockTrace {
  public:
    BlockTrace(Recorder& recorder, const sim::Block& block, bool keeps);
    void record(const sim::Warp& warp, const sim::MemoryEvent& event);

  private:
    friend class Recorder;
    [[nodiscard]] bool is_spread(uint32_t execution) const;

    Recorder& recorder_;
    bool keeps_;  // false: only counts what is left out
    uint64_t omitted_ = 0;
    std::vector<TraceEvent> events_;
    std::vector<uint8_t> wants_;        // by warp
    std::vector<uint32_t> steps_;       // by warp
    std::vector<uint32_t> executions_;  // by warp and instruction
};

// One a launch, shared by its host threads.
class Recorder {
  public:
    Recorder(Recording recording, const sim::Program& program);

    // What to keep of a block, or null; end() takes its events.
    BlockTrace* begin(const sim::Block& block);
    void end(uint64_t block);

    // The first event that a host thread saw of each instruction.
    void add_firsts(const std::map<uint32_t, TraceEvent>& by_instruction);

    // What was kept; hands the last batch to the sink.
    [[nodiscard]] Trace finish();

  private:
    friend class BlockTrace;
    void stream(std::vector<TraceEvent>&& events);
    void drop_beyond_limit();
    void thin_out(Trace& trace) const;

    const Recording recording_;
    std::vector<bool> wanted_;  // instructions
    std::mutex mutex_;
    std::map<uint64_t, std::unique_ptr<BlockTrace>> running_;  // by block
    std::map<uint64_t, std::vector<TraceEvent>> kept_;         // by block
    uint64_t kept_events_ = 0, omitted_ = 0;
    std::map<uint32_t, TraceEvent> firsts_;  // by instruction
    std::vector<TraceEvent> pending_;        // for the sink
};

// Records the events of blocks that the recorder wants.
class TraceObserver {
  public:
    static constexpr sim::Hooks hooks = sim::Hook::start | sim::Hook::finish | sim::Hook::access;

    explicit TraceObserver(Recorder& recorder) : recorder_(recorder) {}

    void start(sim::Block& block) { block.observed = recorder_.begin(block); }
    void finish(const sim::Block& block) {
        if (block.observed) recorder_.end(block.linear);
    }
    void access(const sim::Warp& w, const sim::MemoryEvent& e) {
        if (w.block->observed) [[unlikely]]
            static_cast<BlockTrace*>(w.block->observed)->record(w, e);
    }

  private:
    Recorder& recorder_;
};
static_assert(sim::Observer<TraceObserver>);

// Keeps the first event of each instruction that a host thread sees, so that exemplars have one of
// each, whichever blocks execute it.
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

    std::vector<uint8_t> seen_;              // by instruction
    std::map<uint32_t, TraceEvent> events_;  // by instruction
};
static_assert(sim::Observer<FirstEventObserver>);

}  // namespace coalesce::analysis
