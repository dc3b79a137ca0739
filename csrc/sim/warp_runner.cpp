#include "sim/warp_runner.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "errors.hpp"
#include "sim/scheduler.hpp"

namespace coalesce::sim {

namespace {

// Forgets the strides of the address families that a segment has changed (lane_strides.hpp). Call
// this after the segment was executed. An address family is a group of registers whose addresses
// have the same stride.
void note_changes(Warp& w, const Program::FamilyChanges& changes) {
    if (w.mask == all_lanes)
        w.strides.forget(changes.renewed);
    else
        w.strides.give_up(changes.changed);
}

// Returns one number for each operation: how many instructions begin at this operation or after it
// in the same segment. An instruction may have several operations.
std::vector<uint32_t> instructions_to_segment_end(const Program& program) {
    std::vector<uint32_t> result(program.ops.size());
    for (size_t i = result.size(); i-- > 0;) {
        const bool ends = program.segment_end[i] == i + 1;
        result[i] = (program.ops[i].starts ? 1 : 0) + (ends ? 0 : result[i + 1]);
    }
    return result;
}

}  // namespace

WarpRunner::WarpRunner(const Program& program, const Launch& launch, const AnyObserver& observer,
                       GridState& grid)
    : program_(program),
      launch_(launch),
      grid_(grid),
      observer_(observer.object),
      events_(*observer.control) {
    if (launch.instruction_limit) instructions_to_end_ = instructions_to_segment_end(program);
}

void WarpRunner::run(Warp& w) {
    left_ = slice();
    spun = false;
    bool worked = false;
    do {
        run_current(w);
        if (left_ <= 0) {
            end_slice(*w.block);
            const bool waits = spun;
            spun = waits && !worked;
            if (!waits) grid_.work.fetch_add(1, std::memory_order_relaxed);
            if (w.running) {
                rotate(w);
                if (waits) return;
                ++stalled_slices;
                if (spins_ && free_waiting_lanes(w)) stalled_slices = 0;
            }
            return;
        }
        stalled_slices = 0;
        worked = true;
    } while (next_path(w));
    if (launch_.instruction_limit) end_slice(*w.block);
}

bool WarpRunner::free_lanes(Block& block) {
    short_slices = true;
    bool freed = false;
    for (Warp& w : block.warps) freed = (!w.done() && free_waiting_lanes(w)) || freed;
    spins_ = spins_ || freed;
    stalled_slices = 0;
    return freed;
}

inline void WarpRunner::step(Warp& w, const Op& op, uint32_t at) {
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
            if (events_.arrive) events_.arrive(observer_, w, op, cluster_barrier);
            if (arrive_at_cluster(w, op, at)) cluster_opened(w);
            return;
        case Control::cluster_wait:
            w.current.pc = at;
            return wait_for_cluster(w, op, at);
        case Control::yield:
            w.yielded |= w.mask;
            end_turn();
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
        case Control::call_outside:
            return call_outside(w, op, at);
        case Control::jump:
            jump(w, op, at);
            if (!w.running) diverged(w, op);
            return;
    }
}

void WarpRunner::execute_one(Warp& w) {
    left_ = 1;
    w.strides.give_up(~uint64_t{0});  // note_changes() is only called for whole segments
    const uint32_t at = w.current.pc;
    step(w, program_.ops[at], at);
}

void WarpRunner::run_current(Warp& w) {
    const Op* const ops = program_.ops.data();
    const auto* const changes =
        program_.family_changes.empty() ? nullptr : program_.family_changes.data();
    const uint32_t* const instructions =
        instructions_to_end_.empty() ? nullptr : instructions_to_end_.data();
    while (w.running && left_ > 0) {
        const uint32_t first = w.current.pc;
        const uint32_t last = program_.segment_end[first] - 1;
        if (events_.segment) events_.segment(observer_, w, first, w.mask);
        left_ -= int64_t(last - first) + 1;
        if (instructions) instructions_ += instructions[first];
        const Op* op = ops + first;
        const Op* const end = ops + last;
        for (; op != end; op += op->length) op->run(w, *op);
        if (changes) note_changes(w, changes[first]);
        step(w, *end, last);
    }
}

void WarpRunner::synchronize(Warp& w, const Op& op, uint32_t at) {
    const LaneMask before = w.current.mask;
    w.current.pc = at;
    const bool together = gather(w, op, at);
    if (splits_groups(op) && w.current.mask != before) diverged(w, op);
    if (!together) return;
    // The instruction may overwrite its own mask: mask = __ballot_sync(mask, ...).
    if (events_.synchronized) events_.synchronized(observer_, w, op);
    op.run(w, op);
    release(w);
    go_to(w, at + 1);
}

void WarpRunner::barrier(Warp& w, const Op& op, uint32_t at) {
    const uint32_t number = barrier_number(w, op);
    if (events_.arrive) events_.arrive(observer_, w, op, number);
    if (reach_barrier(w, op, at)) opened(*w.block, number);
}

void WarpRunner::branch(Warp& w, const Op& op, uint32_t at) {
    const Branch& to = op.get<Branch>();
    if (op.guard == no_operand) return go_back_or_on(w, op, to);
    const LaneMask p = w.predicate(op.guard);
    const LaneMask taken = w.current.mask & (op.guard_negated ? ~p : p);
    if (taken == w.current.mask) return go_back_or_on(w, op, to);
    if (taken == 0) return go_to(w, at + 1);
    diverged(w, op);
    diverge(w, taken, to.target, at + 1, program_.reconvergence[at]);
}

void WarpRunner::go_back_or_on(Warp& w, const Op& op, const Branch& to) {
    if (to.spins) {
        end_turn();
        spun = true;
        const uint64_t watched = w.address[std::countr_zero(w.current.mask)];
        grid_barrier = watched - grid_workspace < 2 * sizeof(uint32_t) ? &op : nullptr;
        ++watching_warps;
    }
    go_to(w, to.target);
}

int64_t WarpRunner::slice() const {
    const int64_t most = short_slices ? slice_ops >> 6 : slice_ops;
    if (launch_.instruction_limit == 0) return most;
    return std::clamp<int64_t>(grid_.instructions_left + 1, 1, most);
}

void WarpRunner::end_slice(const Block& block) {
    if (grid_.stop) throw Stopped{};
    if (launch_.instruction_limit == 0) return;
    if ((grid_.instructions_left -= std::exchange(instructions_, 0)) < 0) {
        throw LaunchError(program_.kernel + ": stopped after the limit of " +
                          std::to_string(launch_.instruction_limit) +
                          " warp instructions; block (" + std::to_string(block.index.x) + ", " +
                          std::to_string(block.index.y) + ", " + std::to_string(block.index.z) +
                          ") was still running. To allow more, pass a larger instruction_limit "
                          "to coalesce.Kernel");
    }
}

void WarpRunner::cluster_opened(const Warp& w) const {
    if (!events_.complete) return;
    for (const Block* block : w.block->cluster->blocks)
        if (!block->ended) events_.complete(observer_, *block, cluster_barrier);
}

}  // namespace coalesce::sim
