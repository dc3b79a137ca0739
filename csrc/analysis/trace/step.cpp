// This file is compiled for the host's baseline instruction set only. A step executes one
// instruction of the kernel. It spends most of its time on other work than this instruction, so
// faster host instructions would not help.
#include "analysis/trace/step.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "analysis/launch.hpp"
#include "errors.hpp"
#include "sim/run/device_print.hpp"
#include "sim/run/worker.hpp"

namespace coalesce::analysis {

using sim::LaneMask;
using sim::Op;
using sim::Warp;

namespace {

// After this many instructions in a row, another warp runs. Otherwise a thread that waits in a loop
// could prevent the thread for which it waits from running.
constexpr uint64_t max_in_a_row = 1 << 12;

}  // namespace

// Stepper::Impl has members of the following classes, so they are not in the unnamed namespace.

class StepObserver {
  public:
    static constexpr sim::Hooks hooks =
        sim::Hook::access | sim::Hook::async_complete | sim::Hook::complete;

    uint64_t barriers = 0;
    std::vector<bool> shared_written;
    // For each warp: the written bytes of its lanes' local memory, or empty if there are none. The
    // indices are those of Warp::local.
    std::vector<std::vector<bool>> local_written;
    Trace trace;
    size_t most_events = 0;

    void prepare(const sim::Program& program, const sim::Block& block) {
        instructions_ = program.instructions.size();
        memory_steps_.assign(block.warp_count, 0);
        executions_.assign(block.warp_count * instructions_, 0);
        shared_written.assign(block.shared_bytes, false);
        local_written.assign(block.warp_count, {});
    }

    void access(const Warp& w, const sim::MemoryEvent& e) {
        const bool to_shared = e.space == ptx::Space::shared;
        if (to_shared && !e.of && e.access != sim::Access::load &&
            e.access != sim::Access::async_copy)
            sim::for_each_lane(e.mask, [&](int lane) { written(e.address(lane), e.bytes); });
        if (e.space == ptx::Space::local && e.access != sim::Access::load)
            sim::for_each_lane(
                e.mask, [&](int lane) { set_local(w, lane, e.address(lane), e.bytes, true); });
        const uint32_t step = memory_steps_[w.index]++;
        uint32_t& executions = executions_[w.index * instructions_ + e.pc];
        const bool second = e.access == sim::Access::async_copy && to_shared && executions > 0;
        const uint32_t execution = second ? executions - 1 : executions++;
        if (trace.events.size() >= most_events) {
            ++trace.omitted;
            return;
        }
        trace.events.push_back(trace_event(w, e));
        trace.events.back().step = step;
        trace.events.back().execution = execution;
    }

    void async_complete(const Warp& w, const sim::AsyncCopy& copy, LaneMask lanes) {
        sim::for_each_lane(lanes, [&](int lane) {
            written(uint64_t(copy.destination[lane] - w.block->shared), copy.bytes);
        });
    }

    void complete(const sim::Block&, uint32_t) { ++barriers; }

    // Says whether bytes of a lane's local memory were written.
    void set_local(const Warp& w, int lane, uint64_t first, uint64_t bytes, bool value) {
        std::vector<bool>& all = local_written[w.index];
        if (all.empty() && !value) return;
        all.resize(w.local.size());
        const uint64_t size = w.local.size() / sim::warp_size;
        for (uint64_t i = first; i < std::min(first + bytes, size); ++i)
            all[uint64_t(lane) * size + i] = value;
    }

  private:
    void written(uint64_t first, uint64_t bytes) {
        for (uint64_t i = first; i < std::min<uint64_t>(first + bytes, shared_written.size()); ++i)
            shared_written[i] = true;
    }

    size_t instructions_ = 0;
    std::vector<uint32_t> memory_steps_;  // memory events of each warp
    std::vector<uint32_t> executions_;    // executions, by warp and instruction
};

// A worker whose steps the caller controls.
class OneBlock : public sim::Worker<StepObserver> {
  public:
    OneBlock(const sim::Program& program, const sim::GridRun& launch, sim::AddressSpace& memory,
             StepObserver& observer, sim::GridState& grid, uint64_t number)
        : Worker(program, launch, memory, observer, grid), block(shared_) {
        sim::start(block, number);
        observer.prepare(program, block);
    }

    // Executes the next op of the running path of the warp.
    void execute(Warp& w) { runner_.execute_one(w); }

    // Returns true if, since the last call of this function, a warp has executed a loop that only
    // reads memory.
    bool has_spun() { return std::exchange(runner_.spun, false); }

    sim::Block block;
};

// Runs the blocks for which the stepped block may wait. In a cooperative launch, these are all
// other blocks. Otherwise they are the other blocks of its cluster.
class OtherBlocks : public sim::Worker<sim::NoObserver> {
  public:
    OtherBlocks(const sim::Program& program, const sim::GridRun& launch, sim::AddressSpace& memory,
                sim::GridState& grid, sim::Block& stepped)
        : Worker(program, launch, memory, no_observer_, grid) {
        const uint64_t size = launch.cluster.count();
        for (uint64_t n = 0; n < launch.grid.count(); n += size) {
            bool wanted = launch.cooperative;
            for (uint64_t rank = 0; rank < size; ++rank)
                wanted = wanted || launch.block_at(n + rank) == stepped.linear;
            if (wanted) add(n, stepped);
        }
    }

    // Runs each block until it ends or waits for others. Returns false if none could run.
    bool run() {
        ++grid_.work;  // the stepped block may have written memory in the meantime
        has_run_ = false;
        for (const auto& block : blocks_)
            if (!block->ended) static_cast<void>(run_block(*block));
        return has_run_;
    }

  private:
    void add(uint64_t first, sim::Block& stepped) {
        clusters_.push_back(std::make_unique<sim::Cluster>());
        for (uint32_t rank = 0; rank < launch_.cluster.count(); ++rank) {
            const uint64_t number = launch_.block_at(first + rank);
            sim::Block* block = &stepped;
            if (number != stepped.linear) {
                blocks_.push_back(std::make_unique<sim::Block>(shared_));
                block = blocks_.back().get();
                sim::start(*block, number);
            }
            block->rank = rank;
            block->cluster = launch_.has_clusters ? clusters_.back().get() : nullptr;
            clusters_.back()->blocks.push_back(block);
        }
    }

    sim::NoObserver no_observer_;
    std::vector<std::unique_ptr<sim::Block>> blocks_;
    std::vector<std::unique_ptr<sim::Cluster>> clusters_;
};

struct Stepper::Impl {
    using Outcome = Stepper::Outcome;
    const sim::Program& program;
    const sim::RegisterMap& registers;
    const sim::GridRun launch;
    StepObserver observer;
    sim::GridState grid;
    sim::Printed output;
    std::unique_ptr<OneBlock> worker;
    std::unique_ptr<OtherBlocks> others;
    uint32_t current = 0;  // the warp that runs
    uint64_t steps = 0;
    uint64_t in_a_row = 0;  // instructions of `current` without a change of warp
    // For each warp: true if run_to() has already stopped at the warp's current position.
    std::vector<bool> reported;
    uint32_t stalled = 0;  // consecutive slices in which no warp had to wait
    // For each warp and each frame (function and position): the lanes that have written each
    // register.
    std::vector<std::map<std::pair<uint32_t, uint32_t>, std::vector<LaneMask>>> known;

    Impl(const sim::Program& p, const sim::RegisterMap& r, sim::GridRun l,
         sim::AddressSpace& memory, uint64_t number)
        : program(p), registers(r), launch([&] {
              l.print = [this](const std::string& text) { output.add(text); };
              return std::move(l);
          }()) {
        grid.instructions_left = INT64_MAX;
        prepare_memory(launch, memory);
        worker = std::make_unique<OneBlock>(program, launch, memory, observer, grid, number);
        if (launch.cooperative || launch.has_clusters)
            others = std::make_unique<OtherBlocks>(program, launch, memory, grid, block());
        known.resize(block().warp_count);
        reported.resize(block().warp_count);
        if (program.instructions.empty()) {  // there is nothing to stop at
            for (uint32_t n = 0; n < block().warp_count; ++n)
                while (ready(n)) worker->execute(warp(n));
        }
    }

    sim::Block& block() { return worker->block; }
    Warp& warp(uint32_t n) { return block().warps.at(n); }

    // Returns true if some lanes of the warp can execute an instruction. These lanes become the
    // running path of the warp: the lanes that execute the next instruction together.
    bool ready(uint32_t n) {
        Warp& w = warp(n);
        return w.running || sim::next_path(w);
    }

    bool all_ended() {
        return std::all_of(block().warps.begin(), block().warps.end(),
                           [](const Warp& w) { return w.done(); });
    }

    // Returns the warp that runs next. Throws if no remaining warp can run.
    uint32_t next_warp() {
        if (in_a_row >= max_in_a_row) {
            in_a_row = 0;
            Warp& w = warp(current);
            if (w.running) sim::rotate(w);
            if (++stalled > uint32_t(sim::max_stalled_slices)) sim::release_waiting_lanes(w);
            current = (current + 1) % block().warp_count;
        }
        do {
            for (uint32_t n = 0; n < block().warp_count; ++n) {
                const uint32_t next = (current + n) % block().warp_count;
                if (!ready(next)) continue;
                if (next != current) in_a_row = 0;
                current = next;
                return next;
            }
        } while ((others && others->run()) || sim::release_awaited_lanes(block()));
        sim::throw_deadlock(block());
    }

    std::vector<LaneMask>& known_of(uint32_t n, const sim::Frame& f) {
        auto& lanes = known[n][{f.function, f.registers}];
        lanes.resize(registers[f.function].size());
        return lanes;
    }

    // Returns the lanes that execute an op: those of the path that its guard does not exclude.
    static LaneMask executing(Warp& w, const Op& op) {
        if (op.guard == sim::no_operand) return w.current.mask;
        const LaneMask p = w.predicate(op.guard);
        return w.current.mask & (op.guard_negated ? ~p : p);
    }

    Executed execute(uint32_t n) {
        Warp& w = warp(n);
        Executed result{n, 0, 0};
        LaneMask writes = 0;
        // True if a PTX instruction was executed. A point of reconvergence is also an op, but it
        // has no PTX instruction and does not count.
        bool executed_one = false;
        sim::Frame frame = w.current.frame;
        while (w.running) {
            const Op& op = program.ops[w.current.pc];
            if (executed_one && op.starts) break;
            if (op.starts) {
                executed_one = true;
                frame = w.current.frame;
                result.pc = op.pc;
                result.mask = w.current.mask;
                writes = executing(w, op);
            }
            worker->execute(w);
            if (w.running && w.current.frame.depth > frame.depth) {
                // At a call, the registers of the called function hold no values yet for these
                // lanes. So these lanes have not written the registers.
                for (LaneMask& lanes : known_of(n, w.current.frame)) lanes &= ~w.current.mask;
                const uint32_t bytes = program.functions[w.current.frame.function].local_bytes;
                sim::for_each_lane(w.current.mask, [&](int lane) {
                    observer.set_local(w, lane, w.current.frame.local, bytes, false);
                });
            }
            if (!w.running && !executed_one && !sim::next_path(w)) break;
        }
        if (worker->has_spun() && others) static_cast<void>(others->run());
        if (!executed_one) return result;
        std::vector<LaneMask>& lanes = known_of(n, frame);
        for (const uint32_t written : program.data_flow[result.pc].writes) lanes[written] |= writes;
        ++steps;
        ++in_a_row;
        if (!w.running && !sim::next_path(w)) stalled = 0;
        if (launch.instruction_limit && steps >= launch.instruction_limit && !all_ended()) {
            throw InstructionLimit(program.kernel + ": stopped after the limit of " +
                                   std::to_string(launch.instruction_limit) +
                                   " warp instructions. To allow more, pass a larger "
                                   "`instruction_limit` to coalesce.Kernel");
        }
        return result;
    }

    // Runs a warp until it leaves these instructions.
    Outcome run_off(uint32_t n, const Until& until, uint64_t most) {
        while (most-- > 0) {
            if (position(n).state != Position::State::ready)
                return all_ended() ? Outcome::ended : Outcome::reached;
            current = n;
            (void)execute(n);
            const Position next = position(n);
            if (next.state == Position::State::ready && !until.instructions[next.pc])
                return Outcome::reached;
        }
        return Outcome::paused;
    }

    // Runs all warps in turn until one arrives at one of the instructions, or a barrier opens.
    Outcome run_to(const Until& until, uint64_t most) {
        const uint64_t barriers = observer.barriers;
        while (most-- > 0) {
            if (all_ended()) return Outcome::ended;
            const uint32_t n = next_warp();
            const bool watched = !until.instructions.empty() && (!until.warp || *until.warp == n);
            if (watched && !reported[n] && until.instructions[position(n).pc]) {
                reported[n] = true;
                return Outcome::reached;
            }
            const Executed done = execute(n);
            if (until.barrier && observer.barriers > barriers) return Outcome::reached;
            if (!watched) continue;
            // The warp may be reported again if it comes from another instruction, or in a loop.
            const Position next = position(n);
            if (!until.instructions[done.pc] || next.pc <= done.pc) reported[n] = false;
        }
        return Outcome::paused;
    }

    // Returns the frame of the function in which a warp has this position.
    sim::Frame frame_at(const Warp& w, const Position& at) const {
        sim::Frame frame = w.current.frame;
        if (!w.running) {
            for (const sim::Path& p : w.paths) {
                if (program.ops[p.pc].pc == at.pc && p.mask == at.mask) frame = p.frame;
            }
        }
        return frame;
    }

    Position position(uint32_t n) {
        Warp& w = warp(n);
        Position p;
        const auto at = [&](const sim::Path& path) {
            p.pc = program.ops[path.pc].pc;
            p.mask = path.mask;
        };
        if (w.done()) {
            p.state = Position::State::ended;
        } else if (ready(n)) {
            // The next operation may be a point of reconvergence, which is no instruction of the
            // PTX. Show the instruction after it.
            sim::Path path = w.current;
            while (program.ops[path.pc].control == sim::Control::join &&
                   path.pc + 1 < program.ops.size())
                ++path.pc;
            at(path);
        } else {
            p.state = Position::State::at_lanes;
            for (const sim::Path& path : w.paths) {
                const bool barrier =
                    path.wait == sim::Wait::barrier || path.wait == sim::Wait::cluster;
                if (!barrier && p.mask) continue;
                at(path);
                p.state = barrier ? Position::State::at_barrier : Position::State::at_lanes;
                if (barrier) break;
            }
        }
        return p;
    }
};

Stepper::Stepper(const sim::Program& program, const sim::RegisterMap& registers,
                 sim::GridRun launch, sim::AddressSpace& memory, uint64_t block, size_t most_events)
    : impl_(std::make_unique<Impl>(program, registers, std::move(launch), memory, block)) {
    impl_->observer.most_events = most_events;
}

Stepper::~Stepper() = default;

uint32_t Stepper::warps() const { return impl_->block().warp_count; }
bool Stepper::ended() const { return impl_->all_ended(); }
uint64_t Stepper::barriers() const { return impl_->observer.barriers; }
uint64_t Stepper::steps() const { return impl_->steps; }
Position Stepper::position(uint32_t warp) { return impl_->position(warp); }

uint32_t Stepper::warp() const {
    for (uint32_t n = 0; n < warps(); ++n) {
        const uint32_t next = (impl_->current + n) % warps();
        if (impl_->ready(next)) return next;
    }
    return impl_->current;
}

std::optional<Executed> Stepper::step(std::optional<uint32_t> warp) {
    if (impl_->all_ended()) return std::nullopt;
    if (!warp) return impl_->execute(impl_->next_warp());
    if (!impl_->ready(*warp)) {
        (void)impl_->next_warp();  // throws if the block can never continue
        return std::nullopt;
    }
    if (*warp != impl_->current) impl_->in_a_row = 0;
    impl_->current = *warp;
    return impl_->execute(*warp);
}

Stepper::Outcome Stepper::run(const Until& until, uint64_t most) {
    return until.off_lines ? impl_->run_off(*until.off_lines, until, most)
                           : impl_->run_to(until, most);
}

std::vector<Stepper::Register> Stepper::registers(uint32_t warp) {
    std::vector<Register> result;
    Warp& w = impl_->warp(warp);
    const Position at = impl_->position(warp);
    if (at.state == Position::State::ended) return result;
    const sim::Frame frame = impl_->frame_at(w, at);
    const sim::FunctionRegisters& f = impl_->registers[frame.function];
    const std::vector<LaneMask>& known = impl_->known_of(warp, frame);
    for (uint32_t r = 0; r < f.size(); ++r) {
        const sim::RegisterPlace& place = f[r];
        const LaneMask lanes = known[r] & at.mask;
        if (!lanes || place.slot == sim::no_operand) continue;
        result.push_back({&place, lanes, w.registers.data() + frame.registers + (place.slot >> 1),
                          at.pc > place.first && at.pc <= place.last});
    }
    return result;
}

Stepper::Locals Stepper::local(uint32_t warp, size_t index) {
    const Warp& w = impl_->warp(warp);
    const Position at = impl_->position(warp);
    if (at.state == Position::State::ended) return {};
    const sim::Frame frame = impl_->frame_at(w, at);
    const sim::FunctionInfo& function = impl_->program.functions[frame.function];
    if (index >= function.locals.size()) return {};
    const auto [offset, bytes] = function.locals[index];
    const size_t stride = w.local.size() / sim::warp_size;
    const std::vector<bool>& written = impl_->observer.local_written[warp];
    Locals result{std::vector<std::byte>(sim::warp_size * bytes),
                  std::vector<bool>(sim::warp_size * bytes)};
    sim::for_each_lane(at.mask, [&](int lane) {
        for (uint32_t i = 0; i < bytes; ++i) {
            const size_t from = size_t(lane) * stride + frame.local + offset + i;
            result.bytes[size_t(lane) * bytes + i] = w.local.at(from);
            if (!written.empty()) result.written[size_t(lane) * bytes + i] = written[from];
        }
    });
    return result;
}

const std::byte* Stepper::shared() const { return impl_->block().shared; }

const std::vector<bool>& Stepper::shared_written() const { return impl_->observer.shared_written; }

Trace Stepper::take_events() { return std::exchange(impl_->observer.trace, {}); }

std::string Stepper::take_output() { return impl_->output.take(); }

}  // namespace coalesce::analysis
