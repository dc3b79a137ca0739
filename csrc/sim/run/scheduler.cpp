#include "sim/run/scheduler.hpp"

#include <algorithm>
#include <cstring>

#include "errors.hpp"
#include "sim/run/device_heap.hpp"
#include "sim/run/device_print.hpp"
#include "sim/run/outside_member.hpp"

namespace coalesce::sim {

namespace {

constexpr uint32_t max_call_depth = 10000;

}  // namespace

JoinReference new_join(Warp& w, const Join& join) {
    if (w.free_joins.empty()) {
        w.joins.push_back(join);
        return {int32_t(w.joins.size()) - 1};
    }
    const int32_t at = w.free_joins.back();
    w.free_joins.pop_back();
    w.joins[size_t(at)] = join;
    return {at};
}

// Tests whether all lanes for which a join waits have arrived. If so, they continue together as one
// path, the join is removed, and the function returns true.
bool release_if_complete(Warp& w, int32_t at) {
    const Join join = w.joins[size_t(at)];
    if (join.arrived != join.pending) return false;
    // In machine code, paths may still refer to a join that they left (convergence.cpp).
    if (!w.block->program->conventions.explicit_reconvergence) w.free_joins.push_back(at);
    w.joins[size_t(at)].pending = w.joins[size_t(at)].arrived = 0;
    if (join.arrived) place(w, {join.pc, join.arrived, join.parent, join.frame});
    return true;
}

void arrive(Warp& w, int32_t at, LaneMask lanes) {
    w.joins[size_t(at)].arrived |= lanes;
    release_if_complete(w, at);
}

namespace {

// The lanes of the running path diverge now. Returns the join (a place where lanes wait for each
// other) at which they reconverge, at op `reconvergence`. If lanes leave a loop in different
// iterations, all of them get the same join.
JoinReference join_at(Warp& w, uint32_t reconvergence) {
    const JoinReference current = w.current.join;
    if (reconvergence == no_op) return current;
    if (current.one >= 0) {
        const Join& join = w.joins[size_t(current.one)];
        if (!join.explicit_only && join.pc == reconvergence) return current;
    }
    return new_join(w, {reconvergence, w.current.mask, 0, current, w.current.frame, false});
}

// Returns the position of the registers for a called function. If another path is in the same
// function at the same depth of calls, both paths use the same frame. They do not disturb each
// other, because each path has its own lanes of every register. Frames of different functions have
// different layouts, so they must not overlap.
uint32_t place_frame(const Warp& w, uint32_t function, uint32_t lowest) {
    const Program& program = *w.block->program;
    const uint32_t depth = w.current.frame.depth + 1;
    const auto end = [&](const Frame& f) {
        return f.registers + program.functions[f.function].register_bytes;
    };
    const auto for_each_frame = [&](auto&& visit) {
        for (const Path& p : w.paths) visit(p.frame);
        for (const Join& j : w.joins) {
            if (j.pending) visit(j.frame);
        }
    };
    uint32_t at = no_op;
    for_each_frame([&](const Frame& f) {
        if (f.function == function && f.depth == depth && f.registers >= lowest) at = f.registers;
    });
    if (at != no_op) return at;
    at = lowest;
    const uint32_t bytes = program.functions[function].register_bytes;
    for (bool moved = true; moved;) {
        moved = false;
        for_each_frame([&](const Frame& f) {
            if (f.registers >= at + bytes || at >= end(f)) return;
            at = end(f);
            moved = true;
        });
    }
    return at;
}

std::byte* local_memory(Warp& w, int lane, uint32_t offset) {
    return w.local.data() + size_t(lane) * w.block->program->local_bytes + offset;
}

template <class T>
T read_local(Warp& w, int lane, uint32_t offset) {
    T value;
    std::memcpy(&value, local_memory(w, lane, w.current.frame.local + offset), sizeof value);
    return value;
}

void call_builtin(Warp& w, const CallSite& site, const Op& op) {
    using enum CallSite::Builtin;
    const auto argument = [&](int lane, size_t n) {
        return read_local<uint64_t>(w, lane, site.arguments.at(n).caller);
    };
    if (site.builtin == assertfail) {
        const int lane = std::countr_zero(w.current.mask);
        throw_assertion(w, op, argument(lane, 0), argument(lane, 3));
    }
    for_each_lane(w.current.mask, [&](int lane) {
        uint64_t result = 0;
        if (site.builtin == malloc)
            result = device_malloc(w, op, lane, argument(lane, 0));
        else if (site.builtin == free)
            device_free(w, op, lane, argument(lane, 0));
        else if (site.builtin == outside_member)
            report_outside_member(w, op, lane, [&](size_t n) { return argument(lane, n); });
        else
            result = uint32_t(device_printf(w, lane, argument(lane, 0), argument(lane, 1)));
        for (const CallSite::Copy& r : site.results)
            std::memcpy(local_memory(w, lane, w.current.frame.local + r.caller), &result, r.bytes);
    });
}

}  // namespace

void place(Warp& w, const Path& path) {
    if (path.join.one >= 0) {
        const Join& join = w.joins[size_t(path.join.one)];
        if (!join.explicit_only && join.pc == path.pc) return arrive(w, path.join.one, path.mask);
    }
    // If lanes that come from different branches reach the same op, they continue together. In
    // machine code they do not: there, only BSYNC makes lanes reconverge.
    for (Path& p : w.paths) {
        if (w.block->program->conventions.explicit_reconvergence) break;
        if (p.pc == path.pc && p.join == path.join && p.wait == Wait::none &&
            p.frame.registers == path.frame.registers && p.frame.function == path.frame.function) {
            p.mask |= path.mask;
            return;
        }
    }
    w.paths.push_back(path);
}

void run_path(Warp& w, const Path& path) {
    w.current = path;
    w.running = true;
    w.overdue = false;
    w.mask = path.mask;
    const Program& program = *w.block->program;
    const size_t needed =
        path.frame.registers + program.functions[path.frame.function].register_bytes;
    if (w.registers.size() < needed) {
        unpoison(w.registers.data(), w.registers.size());
        w.registers.resize(std::max(needed, w.registers.size() * 2));
    }
    w.bank[0] = w.registers.data() + path.frame.registers;
    const FunctionInfo& function = program.functions[path.frame.function];
    unpoison(w.bank[0], function.register_bytes);
    poison(w.bank[0], function.red_zones);
    w.bank[1] = const_cast<std::byte*>(w.block->constants);
}

void go_to(Warp& w, uint32_t pc) {
    w.current.pc = pc;
    if (w.current.join.one < 0) return;
    const Join& join = w.joins[size_t(w.current.join.one)];
    if (join.explicit_only || join.pc != pc) return;
    w.running = false;
    arrive(w, w.current.join.one, w.current.mask);
}

void diverge(Warp& w, LaneMask taken, uint32_t target, uint32_t otherwise, uint32_t reconvergence) {
    Path path = w.current;
    path.join = join_at(w, reconvergence);
    w.running = false;
    Path other = path;
    other.mask = taken;
    other.pc = target;
    path.mask &= ~taken;
    path.pc = otherwise;
    place(w, other);
    place(w, path);
}

namespace {

// Removes these lanes, which exit, from all joins that wait for them. `at` is their innermost join.
void stop_waiting_for(Warp& w, JoinReference at, LaneMask lanes) {
    while (at.one >= 0) {
        Join& join = w.joins[size_t(at.one)];
        join.pending &= ~lanes;
        at = join.parent;
    }
    if (at.list < 0) return;
    stop_waiting_for(w, w.join_lists[size_t(at.list)].first, lanes);
    stop_waiting_for(w, w.join_lists[size_t(at.list)].rest, lanes);
}

// Lanes have left the kernel. Other lanes may wait for them at the innermost join `at`. Then they
// can continue now. If no lanes wait at a join, the join is removed. Then the next outer join is
// tested in the same way.
void release_outer_joins(Warp& w, JoinReference at) {
    while (at.one >= 0) {
        const Join join = w.joins[size_t(at.one)];
        if (!release_if_complete(w, at.one) || join.arrived) return;
        at = join.parent;
    }
    if (at.list < 0) return;
    release_outer_joins(w, w.join_lists[size_t(at.list)].rest);
    release_outer_joins(w, w.join_lists[size_t(at.list)].first);
}

}  // namespace

void leave(Warp& w) {
    const LaneMask lanes = w.current.mask;
    w.block->threads_left -= uint32_t(std::popcount(w.live & lanes));
    w.live &= ~lanes;
    w.running = false;
    // The lanes of this path exit. Other lanes may wait for them. These other lanes must now
    // determine again for which lanes they wait.
    for (Path& p : w.paths) {
        if (p.wait != Wait::lanes || !(p.members & lanes)) continue;
        p.wait = Wait::none;
    }
    stop_waiting_for(w, w.current.join, lanes);
    release_outer_joins(w, w.current.join);
}

void enter(Warp& w, const CallSite& site, uint32_t function, uint32_t after) {
    const Program& program = *w.block->program;
    const Path caller = w.current;
    const FunctionInfo& from = program.functions[caller.frame.function];
    const FunctionInfo& to = program.functions[function];
    Path path = caller;
    path.join = new_join(w, {after, caller.mask, 0, caller.join, caller.frame, true});
    path.pc = to.entry;
    path.frame = {function, place_frame(w, function, caller.frame.registers + from.register_bytes),
                  caller.frame.local + from.local_bytes, caller.frame.depth + 1};
    if (path.frame.local + to.local_bytes > program.local_bytes ||
        path.frame.depth > max_call_depth) {
        throw KernelFault(Fault::stack_overflow,
                          "stack overflow: too many calls are nested. The call of " + to.name +
                              " is at depth " + std::to_string(path.frame.depth) +
                              "; the stack of a thread has " + std::to_string(program.local_bytes) +
                              " bytes" + larger_stack + "\n  " +
                              where(program, program.ops[caller.pc]));
    }
    for_each_lane(caller.mask, [&](int lane) {
        for (const CallSite::Copy& a : site.arguments) {
            std::memcpy(local_memory(w, lane, path.frame.local + a.callee),
                        local_memory(w, lane, caller.frame.local + a.caller), a.bytes);
        }
    });
    run_path(w, path);
}

void return_from_function(Warp& w) {
    const int32_t at = w.current.join.one;
    const Join& join = w.joins[size_t(at)];
    const Program& program = *w.block->program;
    // The call is the op before the return address.
    const CallSite& site = program.calls[program.ops[join.pc - 1].get<Call>().site];
    for_each_lane(w.current.mask, [&](int lane) {
        for (const CallSite::Copy& r : site.results) {
            std::memcpy(local_memory(w, lane, join.frame.local + r.caller),
                        local_memory(w, lane, w.current.frame.local + r.callee), r.bytes);
        }
    });
    w.running = false;
    arrive(w, at, w.current.mask);
}

void call(Warp& w, const Op& op, uint32_t at) {
    const CallSite& site = w.block->program->calls[op.get<Call>().site];
    if (site.builtin == CallSite::Builtin::none) return enter(w, site, site.function, at + 1);
    call_builtin(w, site, op);
    go_to(w, at + 1);
}

void call_indirect(Warp& w, const Op& op, uint32_t at) {
    const uint64_t* address = w.lanes<const uint64_t>(op.operand[1]);
    const uint64_t first = address[std::countr_zero(w.current.mask)];
    LaneMask same = 0;
    for_each_lane(w.current.mask, [&](int i) { same |= LaneMask(address[i] == first) << i; });
    if (same != w.current.mask) {
        // The lanes call different functions. The lanes that call the first function continue now.
        // The other lanes execute this op again later. After their calls, all of these lanes
        // reconverge.
        const JoinReference join = join_at(w, at + 1);
        Path others = w.current;
        others.join = join;
        others.pc = at;
        others.mask &= ~same;
        w.paths.push_back(others);
        w.current.join = join;
        w.current.mask = w.mask = same;
    }
    const Program& program = *w.block->program;
    const auto callee = program.function_of_address.find(first);
    if (callee == program.function_of_address.end()) throw_no_function(w, op, first == 0);
    const CallSite& site = program.calls[op.get<Call>().site];
    const FunctionInfo& function = program.functions[callee->second];
    if (site.argument_bytes != function.argument_bytes)
        throw KernelFault(Fault::misuse,
                          "the kernel calls the function " + function.name +
                              " through a pointer of the wrong type: arguments and results have " +
                              std::to_string(site.argument_bytes) + " bytes in the call, but " +
                              std::to_string(function.argument_bytes) +
                              " bytes in the function\n  " + where(program, op) + "\n  " +
                              thread_name(w, std::countr_zero(w.current.mask)));
    enter(w, site, callee->second, at + 1);
}

void branch_table(Warp& w, const Op& op, uint32_t at) {
    const Program& program = *w.block->program;
    const std::vector<uint32_t>& table = program.tables[op.get<BranchTable>().table];
    const uint32_t* index = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t first = index[std::countr_zero(w.current.mask)];
    LaneMask same = 0;
    for_each_lane(w.current.mask, [&](int i) { same |= LaneMask(index[i] == first) << i; });
    if (first >= table.size())
        throw KernelFault(Fault::misuse,
                          "a switch statement jumps to branch " + std::to_string(first) +
                              ", but the compiled code has only branches 0 to " +
                              std::to_string(table.size() - 1) + "\n  " + where(program, op));
    if (same == w.current.mask) return go_to(w, table[first]);
    diverge(w, same, table[first], at, program.reconvergence[at]);
}

namespace {

// Returns true if all other lanes of the warp have left the kernel or are about to leave it. Then
// the machine code lets them leave first, and the running path is the whole warp.
bool is_whole_warp(const Warp& w) {
    const std::vector<Op>& ops = w.block->program->ops;
    const auto leaves = [&](uint32_t pc, const Frame& frame) {
        const Control c = ops[pc].control;
        return ops[pc].guard == no_operand &&
               (c == Control::exit || (c == Control::ret && frame.depth == 0));
    };
    LaneMask others = w.live & ~w.current.mask;
    for (const Join& join : w.joins)
        if (leaves(join.pc, join.frame)) others &= ~join.arrived;
    for (const Path& path : w.paths)
        if (path.wait == Wait::none && leaves(path.pc, path.frame)) others &= ~path.mask;
    return !others;
}

}  // namespace

std::string outside_member_mask(int lane, LaneMask named) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08x", named);
    return "lane " + std::to_string(lane) + " passes the mask " + text;
}

bool reconverge_members(Warp& w, const Op& op, uint32_t at, bool reports_outside) {
    LaneMask here = w.current.mask, calling = here;
    const bool whole = is_whole_warp(w);
    if (op.guard != no_operand) {
        const LaneMask p = w.predicate(op.guard);
        here &= op.guard_negated ? ~p : p;
        if (!here) return true;
        calling = here;
        if (op.is<WarpSync>()) here = w.current.mask;  // the whole path waits, as at barriers
    }
    // The member mask is the last operand of the op.
    int last = 5;
    while (op.operand[last] == no_operand) --last;
    const uint32_t* masks = w.lanes<const uint32_t>(op.operand[last]);
    const uint32_t named = masks[std::countr_zero(here)];
    LaneMask same = 0;
    for_each_lane(here, [&](int i) { same |= LaneMask(masks[i] == named) << i; });
    if (same != here) {
        // The lanes have different member masks. They form several groups, such as the tiles of a
        // warp, and each group executes the op separately. After WARPSYNC.EXCLUSIVE, each group
        // continues separately until the next BSYNC.
        const bool splits = splits_groups(op);
        const JoinReference join = splits ? w.current.join : join_at(w, at + 1);
        Path others = w.current;
        others.join = join;
        others.pc = at;
        others.mask &= ~same;
        w.paths.push_back(others);
        w.current.join = join;
        w.current.mask = w.mask = here = same;
    }
    if (const LaneMask outside = here & calling & ~named; outside && !whole && !reports_outside) {
        const int lane = std::countr_zero(outside);
        throw_misuse(w, op, lane,
                     std::string(not_in_member_mask) + "\n  " + outside_member_mask(lane, named),
                     {}, Fault::illegal_instruction);
    }
    const LaneMask members = named & w.live;
    w.expected &= ~here;
    if (!(members & ~here)) return true;

    LaneMask together = here;
    for (const Path& p : w.paths) {
        // Groups with other member masks may wait, too.
        if (p.wait != Wait::lanes || p.members != members) continue;
        const bool same = p.pc == at && p.frame.registers == w.current.frame.registers;
        if (same || are_together(op, w.block->program->ops[p.pc])) together |= p.mask;
    }
    if (members & ~together) {
        Path waiting = w.current;
        waiting.wait = Wait::lanes;
        waiting.members = members;
        waiting.pc = at;
        w.paths.push_back(waiting);
        w.running = false;
        return false;
    }
    w.mask = together;
    return true;
}

void split_members(Warp& w) {
    if (w.mask != w.current.mask) {
        const LaneMask together = w.mask;
        std::vector<Path> moved;
        std::erase_if(w.paths, [&](const Path& p) {
            if (p.wait != Wait::lanes || (p.mask & ~together)) return false;
            moved.push_back(p);
            return true;
        });
        const Op& op = w.block->program->ops[w.current.pc];
        const bool has_section = op.is<WarpSync>() && op.get<WarpSync>().section;
        for (Path& p : moved) {
            p.wait = Wait::none;
            if (w.block->program->conventions.explicit_reconvergence && p.pc == w.current.pc) {
                merge_path(w, p);  // WARPSYNC makes these lanes reconverge
                continue;
            }
            if (has_section) {
                w.current.mask |= p.mask;
                p.pc -= w.current.pc;
                w.guests.push_back(p);
                continue;
            }
            ++p.pc;
            place(w, p);
        }
        w.mask = w.current.mask;
    }
}

void end_section(Warp& w, uint32_t at) {
    std::erase_if(w.guests, [&](Path guest) {
        if (guest.mask & ~w.current.mask) return false;  // a guest of another path
        w.current.mask &= ~guest.mask;
        guest.pc += at + 1;
        place(w, guest);
        return true;
    });
    w.mask = w.current.mask;
    go_to(w, at + 1);
}

bool next_path(Warp& w) {
    for (size_t i = w.paths.size(); i-- > 0;) {
        if (w.paths[i].wait != Wait::none) continue;
        const Path path = w.paths[i];
        w.paths.erase(w.paths.begin() + ptrdiff_t(i));
        run_path(w, path);
        return true;
    }
    return false;
}

namespace {

// The lanes that wait at a join continue without the lanes that have not arrived. This is done for
// the first join for which `accepts` returns true. Returns true if there is such a join.
template <class Accepts>
bool release_join(Warp& w, Accepts&& accepts) {
    for (size_t j = 0; j < w.joins.size(); ++j) {
        Join& join = w.joins[j];
        const bool free =
            std::find(w.free_joins.begin(), w.free_joins.end(), int32_t(j)) != w.free_joins.end();
        if (free || join.arrived == 0 || join.arrived == join.pending || !accepts(join)) continue;
        const Path path{join.pc, join.arrived, join.parent, join.frame};
        join.pending &= ~join.arrived;
        join.arrived = 0;
        w.released_early = true;
        place(w, path);
        return true;
    }
    return false;
}

}  // namespace

bool release_waiting_lanes(Warp& w) {
    if (!w.block->program->conventions.explicit_reconvergence)
        return release_join(w, [](const Join&) { return true; });
    return release_join(
        w, [&](const Join& join) { return !(join.pending & ~join.arrived & ~w.yielded); });
}

bool release_awaited_lanes(Block& block) {
    bool freed = false;
    for (uint32_t i = 0; i < block.warp_count; ++i) {
        Warp& w = block.warps[i];
        LaneMask named = 0, expected = 0;
        for (const Path& p : w.paths) {
            if (p.wait != Wait::lanes) continue;
            named |= p.members;
            const Op& op = block.program->ops[p.pc];
            // Threads may leave the kernel instead of waiting at a barrier of the block.
            if (!op.is<WarpSync>() || !op.get<WarpSync>().before_barrier) expected |= p.members;
        }
        const bool here = release_join(w, [&](const Join& join) {
            w.expected |= join.arrived & expected;
            return (join.arrived & named) != 0;
        });
        freed = freed || here;
    }
    if (freed) return true;
    for (uint32_t i = 0; i < block.warp_count; ++i) {
        Warp& w = block.warps[i];
        LaneMask at_barrier = 0;
        for (const Path& p : w.paths) {
            if (p.wait == Wait::barrier) at_barrier |= p.mask;
        }
        const bool here = release_join(
            w, [&](const Join& join) { return !(join.pending & ~join.arrived & ~at_barrier); });
        freed = freed || here;
    }
    return freed;
}

void rotate(Warp& w) {
    w.paths.insert(w.paths.begin(), w.current);
    w.running = false;
}

}  // namespace coalesce::sim
