// Executes the machine instructions that say where lanes diverge (take different branches) and
// reconverge (execute together again): BSSY, BSYNC, BREAK and jumps through registers.
//
// METHOD
// In machine code, instructions say where lanes reconverge. They use barriers B0 to B15. BSSY B0
// stores the active lanes in B0. BSYNC B0 makes lanes wait until each stored lane has reached BSYNC
// B0, has exited, or has left the barrier with BREAK.
//
// The scheduler works with paths and joins (warp.hpp). A path is a group of lanes that execute
// together. A join is a place where paths wait for each other. The simulator represents each
// barrier by a join, at which lanes arrive with BSYNC. A path refers to the innermost barrier that
// stores its lanes, and the parents of this join are the outer barriers. A branch splits a path,
// but creates no join. Lanes that used BREAK still refer to the join that they left. Therefore a
// join is freed only when no path refers to it.
//
// WARPSYNC combines paths into one path, also if the paths refer to different joins. It changes no
// join: each lane still belongs to the barriers that store it. So the new path refers to a list of
// the joins. The first BSSY after this creates a join whose parent is the list.
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "sim/run/device_heap.hpp"
#include "sim/run/device_print.hpp"
#include "sim/run/scheduler.hpp"

namespace coalesce::sim {

namespace {

constexpr size_t many_joins = 24;

// Frees the joins and the lists of joins to which no path refers.
void collect_joins(Warp& w) {
    std::vector<bool> used(w.joins.size());
    const auto use = [&](auto&& self, JoinReference at) -> void {
        for (; at.one >= 0 && !used[size_t(at.one)]; at = w.joins[size_t(at.one)].parent)
            used[size_t(at.one)] = true;
        if (at.list < 0 || used[size_t(at.list)]) return;
        used[size_t(at.list)] = true;
        self(self, w.join_lists[size_t(at.list)].first);
        self(self, w.join_lists[size_t(at.list)].rest);
    };
    use(use, w.current.join);
    for (const Path& p : w.paths) use(use, p.join);
    // When the lanes that wait at a join continue, they belong to the parent of the join. So the
    // parent is still in use.
    for (const Join& j : w.joins) {
        if (j.arrived) use(use, j.parent);
    }
    w.free_joins.clear();
    for (size_t j = 0; j < w.joins.size(); ++j) {
        if (!used[j] && w.joins[j].arrived == 0) w.free_joins.push_back(int32_t(j));
    }
}

// Calls visit(j, part) for each innermost barrier j with this number that stores some of the lanes;
// `part` are these lanes. `at` is the innermost join of all the lanes. Returns the lanes that no
// such barrier stores.
template <class Visit>
LaneMask for_each_barrier(Warp& w, int8_t number, JoinReference at, LaneMask lanes, Visit&& visit) {
    while (at.one >= 0 && lanes) {
        const Join join = w.joins[size_t(at.one)];
        const LaneMask part = join.pending & lanes;
        if (join.barrier == number && part) {
            visit(at.one, part);
            lanes &= ~part;
        }
        at = join.parent;
    }
    if (at.list < 0) return lanes;
    const auto& [mask, first, rest] = w.join_lists[size_t(at.list)];
    lanes &= ~mask | for_each_barrier(w, number, first, lanes & mask, visit);
    return for_each_barrier(w, number, rest, lanes, visit);
}

}  // namespace

void merge_path(Warp& w, const Path& other) {
    if (other.join != w.current.join) {
        // No joins are collected here, because `other` is not among the paths of the warp.
        std::vector<std::pair<JoinReference, LaneMask>> references;
        // Adds the joins to which these lanes refer.
        const auto add = [&](auto&& self, JoinReference at, LaneMask lanes) -> void {
            if (!lanes) return;
            if (at.list >= 0) {
                const auto& [mask, first, rest] = w.join_lists[size_t(at.list)];
                self(self, first, lanes & mask);
                return self(self, rest, lanes & ~mask);
            }
            for (auto& [known, its] : references)
                if (known == at) return void(its |= lanes);
            references.emplace_back(at, lanes);
        };
        add(add, w.current.join, w.current.mask);
        add(add, other.join, other.mask);
        JoinReference list;
        for (const auto& [join, lanes] : references) {
            const int32_t at = new_join(w, {}).one;  // only its index is used
            w.join_lists.resize(w.joins.size());
            w.join_lists[size_t(at)] = {lanes, join, list};
            list = {.list = at};
        }
        w.current.join = references.size() == 1 ? references[0].first : list;
    }
    w.current.mask |= other.mask;
}

void set_barrier(Warp& w, const Op& op, uint32_t at) {
    const LaneMask lanes = w.current.mask;
    const auto& barrier = op.get<ReconvergenceBarrier>();
    // The parent of the new join is the innermost barrier that still applies to these lanes. Other
    // barriers are skipped: the lanes have left them with BREAK, or have set the same barrier
    // earlier and never executed BSYNC.
    JoinReference parent = w.current.join;
    while (parent.one >= 0) {
        const Join& join = w.joins[size_t(parent.one)];
        const bool again =
            join.barrier == barrier.number && !(join.pending & ~lanes) && !(join.kept & lanes);
        if ((join.pending & lanes) && !again) break;
        parent = join.parent;
    }
    Join join;
    join.pc = barrier.target;
    join.pending = lanes;
    join.parent = parent;
    join.frame = w.current.frame;
    join.explicit_only = true;
    join.barrier = barrier.number;
    w.current.join = parent;
    if (w.free_joins.empty() && w.joins.size() >= many_joins) collect_joins(w);
    w.current.join = new_join(w, join);
    go_to(w, at + 1);
}

void sync_barrier(Warp& w, const Op& op, uint32_t at) {
    const LaneMask lanes = w.current.mask;
    const int8_t number = op.get<ReconvergenceBarrier>().number;
    const JoinReference innermost = w.current.join;
    w.yielded &= ~lanes;
    if (innermost.one >= 0) {
        Join& join = w.joins[size_t(innermost.one)];
        if (join.barrier == number && join.pending == lanes && join.arrived == 0) {
            // All lanes for which the join waits are active at this instruction. So they need not
            // wait: they continue as if they had never diverged.
            join.pending = 0;
            w.current.join = join.parent;
            return go_to(w, at + 1);
        }
    }
    const Path path = w.current;
    w.running = false;
    const LaneMask rest =
        for_each_barrier(w, number, innermost, lanes, [&](int32_t j, LaneMask part) {
            w.joins[size_t(j)].pc = at + 1;
            arrive(w, j, part);
        });
    if (!rest) return;
    w.running = true;
    w.current = path;
    w.current.mask = w.mask = rest;
    go_to(w, at + 1);
}

void break_barrier(Warp& w, const Op& op, uint32_t at) {
    LaneMask lanes = w.current.mask;
    if (op.guard != no_operand) {
        const LaneMask p = w.predicate(op.guard);
        lanes &= op.guard_negated ? ~p : p;
        if (w.guarded_lanes && op.starts_guarded)
            w.guarded_lanes[op.pc] += uint32_t(std::popcount(lanes));
    }
    for_each_barrier(w, op.get<ReconvergenceBarrier>().number, w.current.join, lanes,
                     [&](int32_t j, LaneMask part) {
                         w.joins[size_t(j)].pending &= ~part;
                         if (w.joins[size_t(j)].pending) release_if_complete(w, j);
                     });
    go_to(w, at + 1);
}

void keep_barrier(Warp& w, const Op& op, uint32_t at) {
    const bool keeps = op.control == Control::keep_barrier;
    for_each_barrier(w, op.get<ReconvergenceBarrier>().number, w.current.join, w.current.mask,
                     [&](int32_t j, LaneMask part) {
                         LaneMask& kept = w.joins[size_t(j)].kept;
                         kept = keeps ? kept | part : kept & ~part;
                     });
    go_to(w, at + 1);
}

// Calls a function that is not in the cubin, such as malloc. Operand 0 of the op is the register
// R4. The arguments are in the registers from R4 on. A 64-bit argument is in a pair of registers,
// of which the first has an even number. The result is stored to R4.
void call_outside(Warp& w, const Op& op, uint32_t at) {
    uint32_t* const r4 = w.lanes<uint32_t>(op.operand[0]);
    const auto pair = [&](int lane, int number) {
        const uint32_t* const low = r4 + (number - 4) * warp_size;
        return low[lane] | uint64_t{low[warp_size + lane]} << 32;
    };
    const int first = std::countr_zero(w.current.mask);
    const uint32_t* const to = w.lanes<const uint32_t>(op.operand[1]);
    const auto builtin = w.block->program->machine->outside.find(to[first]);
    if (builtin == w.block->program->machine->outside.end())
        throw_no_function(w, op, to[first] == 0);
    if (builtin->second == CallSite::Builtin::assertfail)
        throw_assertion(w, op, pair(first, 4), pair(first, 10));
    for_each_lane(w.current.mask, [&](int lane) {
        if (builtin->second == CallSite::Builtin::malloc) {
            const uint64_t address = device_malloc(w, op, lane, pair(lane, 4));
            r4[lane] = uint32_t(address);
            r4[warp_size + lane] = uint32_t(address >> 32);
        } else if (builtin->second == CallSite::Builtin::free) {
            device_free(w, op, lane, pair(lane, 4));
        } else {
            r4[lane] = uint32_t(device_printf(w, lane, pair(lane, 4), pair(lane, 6)));
        }
    });
    go_to(w, at + 1);
}

void jump(Warp& w, const Op& op, uint32_t at) {
    const Program& program = *w.block->program;
    const uint32_t* to = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t first = to[std::countr_zero(w.current.mask)];
    LaneMask same = 0;
    for_each_lane(w.current.mask, [&](int i) { same |= LaneMask(to[i] == first) << i; });
    const auto& by = op.get<Jump>();
    const uint32_t offset = first + by.offset;
    const uint64_t number = offset / 16;
    // The assembler's table of functions has the entry 1 for the null pointer.
    if (by.to_function && !program.machine->functions.contains(offset))
        throw_no_function(w, op, offset <= 1);
    if (offset % 16 != 0 || number >= program.machine->op_of.size())
        throw KernelFault(
            Fault::no_function,
            "the kernel jumps to an address outside its code\n  " + where(program, op));
    const uint32_t target = program.machine->op_of[number];
    if (same == w.current.mask) return go_to(w, target);
    diverge(w, same, target, at, no_op);
}

}  // namespace coalesce::sim
