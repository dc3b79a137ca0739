// Runs one warp of a block: executes its operations, and lets the scheduler choose the path that
// runs next.
//
// METHOD
// A segment is a sequence of operations up to the next branch, call, barrier or similar operation.
// Its operations are executed one after the other without any test. Only the last one needs the
// scheduler. A warp runs until all its paths wait or its slice ends. A slice is a limited number of
// operations.
//
// After its slice, a path of machine code may not be interrupted everywhere. The paths of a warp
// share the uniform registers. So another path could overwrite a uniform register that this path
// still needs. The assembler knows at which instructions other lanes may run: YIELD, NANOSLEEP, and
// the instructions at which lanes diverge or wait. For example, a loop without YIELD may count its
// iterations in a uniform register, even if only some lanes execute the loop. But the assembler
// adds YIELD to each loop that may wait for other lanes. Therefore the path runs until it executes
// one of these instructions.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "sim/jit/compiled.hpp"
#include "sim/program/launch.hpp"
#include "sim/run/scheduler.hpp"
#include "sim/warp/grid_state.hpp"
#include "sim/warp/observer.hpp"

namespace coalesce::sim {

inline constexpr int64_t slice_ops = 1 << 16;
// A slice is stalled if no path of the warp ended or began to wait during this slice. After this
// many consecutive stalled slices of a block, lanes that wait for reconvergence continue without
// the lanes for which they wait (release_waiting_lanes).
inline constexpr int max_stalled_slices = 32;

template <Observer O>
class WarpRunner {
  public:
    WarpRunner(const Program& program, const GridRun& launch, O& observer, GridState& grid)
        : program_(program),
          launch_(launch),
          grid_(grid),
          observer_(observer),
          compiled_(program, kernel_of(observer)) {
        if (launch.instruction_limit) instructions_to_end_ = instructions_to_segment_end(program);
    }

    // Runs paths of the warp until none can run, or the slice ends.
    void run(Warp& w) {
        give_slice();
        spun = yielded_ = false;
        bool worked = path_ended_ = false;
        do {
            run_current(w);
            if (path_ended_) {
                stalled_slices = 0;
                worked = true;
            }
            if (left_ <= 0 && !w.overdue && !may_interrupt(w)) {
                // The path gets another slice, which ends at the first YIELD.
                end_slice(w);
                w.overdue = worked = true;
                give_slice();
                run_current(w);
                use_up_slice();
                if (!w.running) stalled_slices = 0;
            }
            if (left_ <= 0) {
                end_slice(w);
                const bool waits = spun;
                // A loop that polls memory may also have a nanosleep.
                const bool sleeps = yielded_ && w.block->turns_without_progress > 0;
                spun = (waits || sleeps) && !worked;
                if (!waits && !spun) grid_.work.fetch_add(1, std::memory_order_relaxed);
                if (w.running) {
                    // Otherwise this path is also the first to run in the warp's next slice.
                    if (waits || may_interrupt(w)) rotate(w);
                    if (waits) return;
                    ++stalled_slices;
                    if (spins_ && release_waiting_lanes(w)) stalled_slices = 0;
                }
                return;
            }
            stalled_slices = 0;
            worked = true;
        } while (next_path(w));
        use_up_slice();
        if (launch_.instruction_limit) end_slice(w);
    }

    // Call this after max_stalled_slices. Lanes that wait for reconvergence continue, in all warps
    // of the block: any of them may have the lock for which the others wait. Returns true if there
    // were such lanes.
    bool release_lanes_of_block(Block& block) {
        short_slices = true;
        bool freed = false;
        for (Warp& w : block.warps) freed = (!w.done() && release_waiting_lanes(w)) || freed;
        spins_ = spins_ || freed;
        stalled_slices = 0;
        return freed;
    }

    // Executes the next operation of the running path of the warp.
    void execute_one(Warp& w) {
        left_ = 1;
        w.strides.give_up(~uint64_t{0});  // note_changes() is only called for whole segments
        const uint32_t at = w.current.pc;
        step(w, program_.ops[at], at);
    }

    static constexpr bool listens_to(Hook hook) { return O::hooks.has(hook); }
    static constexpr bool may_be_compiled = std::same_as<O, CompiledRun>;

    // The worker reads and resets the following members.
    bool spun = false;  // the last warp that ran ended its slice in a loop that only reads memory
    bool short_slices = false;  // lanes or blocks of this kernel have waited for each other
    int stalled_slices = 0;     // consecutive stalled slices of the running block
    int64_t executed = 0;       // operations, since the worker has reset this number
    // The number of warps of the block that only read memory during their last slice.
    uint32_t polling_warps = 0;
    // A waiting loop only reads memory until another thread changes it. If the waiting loop that
    // was executed last reads the barrier of the grid, this is the branch of the loop. Otherwise
    // null.
    const Op* grid_barrier = nullptr;

  private:
    void run_current(Warp& w) {
        const Op* const ops = program_.ops.data();
        const auto* const changes =
            program_.family_changes.empty() ? nullptr : program_.family_changes.data();
        const uint32_t* const instructions =
            instructions_to_end_.empty() ? nullptr : instructions_to_end_.data();
        while (w.running && left_ > 0) {
            if constexpr (may_be_compiled) {
                if (compiled_.available()) {
                    path_ended_ = compiled_.run(w, left_) || path_ended_;
                    if (!w.running || left_ <= 0) break;
                }
            }
            const uint32_t first = w.current.pc;
            const uint32_t last = program_.segment_end[first] - 1;
            if constexpr (listens_to(Hook::segment)) observer_.segment(w, first, w.mask);
            left_ -= int64_t(last - first) + 1;
            if (instructions) instructions_ += instructions[first];
            const Op* op = ops + first;
            const Op* const end = ops + last;
            for (; op != end; op += op->length) op->run(w, *op);
            if (changes) note_changes(w, changes[first]);
            step(w, *end, last);
        }
    }

    static const CompiledKernel* kernel_of(const O& observer) {
        if constexpr (may_be_compiled) return observer.kernel;
        return nullptr;
    }

    // Forgets the strides of the address families that a segment has changed (lane_strides.hpp).
    // Call this after the segment was executed. An address family is a group of registers whose
    // addresses have the same stride.
    static void note_changes(Warp& w, const Program::FamilyChanges& changes) {
        if (w.mask == all_lanes)
            w.strides.forget(changes.renewed);
        else
            w.strides.give_up(changes.changed);
    }

    // Executes the operation at the end of a segment.
    void step(Warp& w, const Op& op, uint32_t at) {
        switch (op.control) {
            case Control::none:
                op.run(w, op);
                [[fallthrough]];
            case Control::join:
                return go_to(w, at + 1);
            case Control::branch:
                return branch(w, op, at);
            case Control::synchronize:
                return synchronize(w, op, at);
            case Control::branch_table:
                return branch_table(w, op, at);
            case Control::call:
                w.current.pc = at;
                call(w, op, at);
                return entered(w);
            case Control::call_indirect:
                w.current.pc = at;
                call_indirect(w, op, at);
                return entered(w);
            case Control::ret:
                return return_from_function(w);
            case Control::exit:
                leave(w);
                if (w.block->cluster && cluster_complete_after_exit(w)) cluster_opened(w);
                while (const auto number = barrier_open_after_exit(w)) opened(*w.block, *number);
                return;
            case Control::barrier:
                w.current.pc = at;
                return barrier(w, op, at);
            case Control::cluster_arrive:
                w.current.pc = at;
                if constexpr (listens_to(Hook::arrive)) observer_.arrive(w, op, cluster_barrier);
                if (arrive_at_cluster(w, op, at)) cluster_opened(w);
                return;
            case Control::cluster_wait:
                w.current.pc = at;
                return wait_for_cluster(w, op, at);
            case Control::yield:
                w.yielded |= w.mask;
                yielded_ = true;
                use_up_slice();
                return go_to(w, at + 1);
            case Control::may_yield:
                w.yielded |= w.mask;
                if (w.overdue) {
                    yielded_ = true;
                    use_up_slice();
                }
                return go_to(w, at + 1);
            case Control::set_barrier:
                return set_barrier(w, op, at);
            case Control::sync_barrier:
                return sync_barrier(w, op, at);
            case Control::break_barrier:
                return break_barrier(w, op, at);
            case Control::keep_barrier:
            case Control::restore_barrier:
                return keep_barrier(w, op, at);
            case Control::end_section:
                return end_section(w, at);
            case Control::call_outside:
                return call_outside(w, op, at);
            case Control::jump:
                jump(w, op, at);
                if (!w.running) diverged(w, op);
                return;
        }
    }

    void synchronize(Warp& w, const Op& op, uint32_t at) {
        const LaneMask before = w.current.mask;
        w.current.pc = at;
        const bool together = reconverge_members(w, op, at, listens_to(Hook::synchronized));
        if (splits_groups(op) && w.current.mask != before) diverged(w, op);
        if (!together) return;
        // The instruction may overwrite its own mask: mask = __ballot_sync(mask, ...).
        if constexpr (listens_to(Hook::synchronized)) observer_.synchronized(w, op);
        run_together(w, op, at);
        split_members(w);
        go_to(w, at + 1);
    }

    void barrier(Warp& w, const Op& op, uint32_t at) {
        if (!barrier_lanes(w, op)) return go_to(w, at + 1);
        const uint32_t number = barrier_number(w, op);
        if constexpr (listens_to(Hook::arrive)) observer_.arrive(w, op, number);
        if (reach_barrier(w, op, at)) opened(*w.block, number);
    }

    void entered(Warp& w) {
        if constexpr (listens_to(Hook::call)) observer_.call(w);
    }
    void opened(Block& block, uint32_t barrier) {
        if constexpr (listens_to(Hook::complete)) observer_.complete(block, barrier);
    }
    void cluster_opened(const Warp& w) {
        if constexpr (listens_to(Hook::complete)) {
            for (const Block* block : w.block->cluster->blocks)
                if (!block->ended) observer_.complete(*block, cluster_barrier);
        }
    }
    void diverged(Warp& w, const Op& op) {
        if constexpr (listens_to(Hook::diverged)) observer_.diverged(w, op);
    }

    void branch(Warp& w, const Op& op, uint32_t at) {
        const Branch& to = op.get<Branch>();
        if (op.guard == no_operand) return take_branch(w, op, to);
        const LaneMask p = w.predicate(op.guard);
        const LaneMask taken = w.current.mask & (op.guard_negated ? ~p : p);
        if constexpr (listens_to(Hook::segment)) {
            if (w.guarded_lanes && op.starts_guarded) count_guarded(w, op, taken);
        }
        if (taken == w.current.mask) return take_branch(w, op, to);
        if (taken == 0) return go_to(w, at + 1);
        diverged(w, op);
        diverge(w, taken, to.target, at + 1, program_.reconvergence[at]);
    }

    // Counts the lanes in which the condition of a branch is true, or the guard of the instruction
    // that the branch skips. If the condition depends on other lanes, operand 0 is the guard.
    static void count_guarded(Warp& w, const Op& op, LaneMask taken) {
        LaneMask on = op.skips_guarded() ? w.current.mask & ~taken : taken;
        if (op.operand[0] != no_operand) on = w.current.mask & w.predicate(op.operand[0]);
        w.guarded_lanes[op.pc] += uint32_t(std::popcount(on));
    }

    void take_branch(Warp& w, const Op& op, const Branch& to) {
        if (to.spins) {
            use_up_slice();
            spun = true;
            const uint64_t watched = w.address[std::countr_zero(w.current.mask)];
            if (host_may_write(*w.block->memory, watched) || watches_host(*w.block->memory, op, to))
                ++grid_.waits_for_host;
            grid_barrier = watched - grid_workspace < 2 * sizeof(uint32_t) ? &op : nullptr;
            ++polling_warps;
        }
        go_to(w, to.target);
    }

    // Returns true if the host may write to this address while the kernel runs. Then the memory has
    // the same address in kernels and on the host.
    static bool host_may_write(const AddressSpace& memory, uint64_t address) {
        uint16_t hint = 0;
        const Buffer* const buffer = memory.find(address, 1, hint);
        return buffer && reinterpret_cast<uintptr_t>(buffer->host) == buffer->address;
    }

    // Returns true for a loop with several reads, if the kernel may read memory of the host. Only
    // the address of the last read is known, so one of the others may be in this memory.
    [[nodiscard]] bool watches_host(const AddressSpace& memory, const Op& branch,
                                    const Branch& to) const {
        const auto is_read = [&](const Op& op) {
            const InstructionInfo& in = program_.instructions[op.pc];
            return op.starts && in.traits.strong && in.space != ptx::Space::shared;
        };
        const Op* const begin = &program_.ops[to.target];
        if (std::count_if(begin, &branch, is_read) < 2) return false;
        return std::ranges::any_of(memory.buffers(), [](const Buffer& b) {
            return reinterpret_cast<uintptr_t>(b.host) == b.address;
        });
    }

    // Returns true if the slice has ended at an op after which another path of the warp may run.
    [[nodiscard]] bool may_interrupt(const Warp& w) const {
        return !w.running || yielded_ || spun || !program_.conventions.explicit_reconvergence;
    }

    // Begins a slice, and ends it.
    void give_slice() { executed += left_ = slice(); }
    void use_up_slice() { executed -= std::exchange(left_, 0); }

    // Returns the number of operations in a slice. If the launch has an instruction limit, a slice
    // must not execute many instructions more than the limit allows. Each instruction has at least
    // one operation. So the slice then has at most one operation more than the number of
    // instructions that the limit still allows.
    [[nodiscard]] int64_t slice() const {
        const int64_t most = short_slices ? slice_ops >> 6 : slice_ops;
        if (launch_.instruction_limit == 0) return most;
        return std::clamp<int64_t>(grid_.instructions_left + 1, 1, most);
    }

    void end_slice(const Warp& w) {
        grid_.after_slice();
        if (grid_.stop) {
            record_place(*w.block, grid_);
            throw Stopped{};
        }
        if (launch_.instruction_limit == 0) return;
        if ((grid_.instructions_left -= std::exchange(instructions_, 0)) < 0) throw_limit(w);
    }

    // Returns one number for each operation: how many instructions begin at this operation or after
    // it in the same segment. An instruction may have several operations.
    static std::vector<uint32_t> instructions_to_segment_end(const Program& program) {
        std::vector<uint32_t> result(program.ops.size());
        for (size_t i = result.size(); i-- > 0;) {
            const bool ends = program.segment_end[i] == i + 1;
            result[i] = (program.ops[i].starts ? 1 : 0) + (ends ? 0 : result[i + 1]);
        }
        return result;
    }

    const Program& program_;
    const GridRun& launch_;
    GridState& grid_;
    O& observer_;
    int64_t left_ = 0;  // how many operations of the current slice remain
    // If the launch has an instruction limit: the instructions that were executed in this slice.
    int64_t instructions_ = 0;
    std::vector<uint32_t> instructions_to_end_;  // see above; empty if there is no limit
    bool spins_ = false;    // lanes of this kernel have waited for other lanes of their warp
    bool yielded_ = false;  // the warp that runs has ended its slice with YIELD or NANOSLEEP
    CompiledRunner compiled_;
    bool path_ended_ = false;  // compiled code has ended a path in this slice
};

}  // namespace coalesce::sim
