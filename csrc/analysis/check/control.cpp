// The part of the checker for barriers, fences, warp operations, faults and the end of the kernel.
#include <algorithm>
#include <bit>

#include "analysis/check/state.hpp"
#include "errors.hpp"
#include "sim/program/shuffle.hpp"
#include "sim/run/device_heap.hpp"
#include "sim/run/scheduler.hpp"

namespace coalesce::analysis {

using ptx::Space;
using sim::LaneMask;
using sim::Op;
using sim::Warp;

namespace {

constexpr uint64_t max_faults = 1'000'000;
constexpr uint32_t no_array = UINT32_MAX;

// Splits a message into its first line and the other lines.
std::pair<std::string, std::vector<std::string>> split(const std::string& message) {
    std::vector<std::string> lines;
    for (size_t at = 0; at <= message.size();) {
        const size_t end = std::min(message.find('\n', at), message.size());
        const size_t start = std::min(message.find_first_not_of(' ', at), end);
        lines.push_back(message.substr(start, end - start));
        at = end + 1;
    }
    return {lines.front(), {lines.begin() + 1, lines.end()}};
}

}  // namespace

void CheckObserver::fence(const Warp& w, const Op& op) {
    const CheckedInstruction& in = instructions_[op.pc];
    if (in.traits.proxy_fence) state(w).proxy_fence = state(w).order.now();
    if (in.traits.orders) state(w).order.fence(w.index, w.mask, in.traits.scope);
}

void CheckObserver::synchronized(const Warp& warp, const Op& op) {
    Warp& w = const_cast<Warp&>(warp);
    const CheckedInstruction& in = instructions_[op.pc];
    int last = 5;
    while (op.operand[last] == sim::no_operand) --last;
    const uint32_t* const masks = w.lanes<const uint32_t>(op.operand[last]);
    const LaneMask here = w.current.mask & w.mask;
    const auto report = [&](int lane, const std::string& title, const std::string& detail) {
        bool fresh = false;
        Finding* const f = findings_.group(FindingKind::warp_mask, op.pc, op.pc, no_array, fresh);
        if (!f || !fresh) return;
        f->title = title;
        f->details.push_back(detail);
        f->first = actor("call", w, op.pc, lane);
        return;
    };
    const auto hex = [](LaneMask mask) {
        char text[16];
        std::snprintf(text, sizeof text, "0x%08x", mask);
        return std::string(text);
    };
    sim::for_each_lane(here, [&](int lane) {
        if (!sim::has_lane(masks[lane], lane)) {
            if (!first_fault_) first_fault_ = Fault::illegal_instruction;
            report(lane, std::string(sim::not_in_member_mask),
                   sim::outside_member_mask(lane, masks[lane]));
        }
    });
    if (const LaneMask ended = masks[std::countr_zero(here)] & warp.expected & ~warp.live & ~here)
        report(std::countr_zero(here), "lanes end without a warp operation that waits for them",
               "the member mask " + hex(masks[std::countr_zero(here)]) + " names " +
                   sim::lane_list(ended) +
                   ". A GPU goes on without them, but CUDA does not define what happens");
    if (in.traits.shuffle) {
        const sim::ShuffleMode mode = op.get<sim::ShuffleOperand>().mode;
        const uint32_t* const b = w.lanes<const uint32_t>(op.operand[3]);
        const uint32_t* const c = w.lanes<const uint32_t>(op.operand[4]);
        // __shfl_down_sync(mask, value, offset, width) passes ((32 - width) << 8) | 31 as c.
        constexpr uint32_t valid_c = 0x1f1f;
        sim::for_each_lane(here, [&](int lane) {
            if ((c[lane] & ~valid_c) == 0) return;
            report(lane,
                   "a shuffle has a width of " +
                       std::to_string(sim::warp_size - (int32_t(c[lane]) >> 8)) + " lanes",
                   "a warp has 32 lanes, and the width must be 2, 4, 8, 16 or 32; code that was "
                   "written for 64 lanes must be changed");
        });
        sim::for_each_lane(here, [&](int lane) {
            if (mode == sim::ShuffleMode::index || b[lane] < uint32_t(sim::warp_size)) return;
            bool fresh = false;
            Finding* const f =
                findings_.group(FindingKind::warp_mask, op.pc, op.pc, no_array, fresh);
            if (!f || !fresh) return;
            f->severity = Severity::warning;
            f->title = "a shuffle with an offset of " + std::to_string(b[lane]) +
                       " reads the value of the calling lane";
            f->details.push_back(
                "a warp has 32 lanes, so the offset must be less than 32: a sum by halves begins "
                "with an offset of 16");
            f->first = actor("call", w, op.pc, lane);
        });
        sim::for_each_lane(here, [&](int lane) {
            const int from = sim::shuffle_source(mode, lane, b[lane], c[lane]).lane;
            if (sim::has_lane(w.mask, from) || !sim::has_lane(masks[lane], lane)) return;
            bool fresh = false;
            Finding* const f =
                findings_.group(FindingKind::warp_mask, op.pc, op.pc, no_array, fresh);
            if (!f || !fresh) return;
            f->severity = Severity::warning;
            f->title = "a shuffle reads from a lane that does not execute the shuffle";
            f->details.push_back("lane " + std::to_string(lane) + " reads lane " +
                                 std::to_string(from) + "; only " + sim::lane_list(w.mask) +
                                 " can be read, so the value is undefined");
            f->first = actor("call", w, op.pc, lane);
        });
    }
    if (in.traits.warp_barrier) state(w).order.synchronize(w.index, w.mask);
}

void CheckObserver::arrive(const Warp& warp, const Op& op, uint32_t number) {
    Warp& w = const_cast<Warp&>(warp);
    BlockState& b = state(w);
    if (number == sim::cluster_barrier) {
        ClusterArrivals& c = clusters_[w.block->cluster];
        if (c.complete) c = {};
        const bool relaxed = program_.instructions[op.pc].traits.relaxed;
        c.known = join(c.known, b.order.release(w.index, w.current.mask, relaxed));
        return;
    }
    const int lane = std::countr_zero(w.current.mask);
    const bool waits = op.get<sim::BarrierOperand>().kind != sim::BarrierKind::arrive;
    const bool everyone =
        waits && (op.operand[2] == sim::no_operand ||
                  w.lanes<const uint32_t>(op.operand[2])[lane] == w.block->threads);
    b.order.arrive(w.index, w.current.mask, number, everyone, waits);

    BlockState::Barrier& barrier = b.barriers[number];
    const Actor here = actor("barrier", w, op.pc, lane);
    const bool known = std::any_of(barrier.arrivals.begin(), barrier.arrivals.end(),
                                   [&](const Actor& a) { return a.pc == op.pc; });
    if (!known && everyone) barrier.arrivals.push_back(here);
    if (op.operand[2] != sim::no_operand) barrier.counts = true;
    // If `released_early` is true, the scheduler has released lanes of this warp that waited for
    // others (release_waiting_lanes). So these lanes may arrive at the barrier alone. On a GPU,
    // they would have waited for the others.
    const bool part = w.current.mask != w.live && !w.released_early;
    if (instructions_[op.pc].traits.aligned && part) {
        // The lanes of a warp may reach a barrier one after the other, for example because some
        // lanes of the same branch have returned. This is no mistake.
        const auto known = std::ranges::find_if(barrier.parts, [&](const auto& other) {
            return other.warp == w.index && other.here.pc == op.pc;
        });
        if (known == barrier.parts.end())
            barrier.parts.push_back({w.index, w.current.mask, here});
        else
            known->lanes |= w.current.mask;
    }
}

void CheckObserver::complete(const sim::Block& block, uint32_t number) {
    BlockState& b = *static_cast<BlockState*>(block.observed);
    if (number == sim::cluster_barrier) {
        ClusterArrivals& c = clusters_[block.cluster];
        c.complete = true;
        b.order.add_knowledge(c.known);
        return;
    }
    b.order.complete(number);
    BlockState::Barrier& barrier = b.barriers[number];
    bool fresh = false;
    const auto diverged = std::find_if(
        barrier.parts.begin(), barrier.parts.end(),
        [&](const auto& part) { return (block.warps[part.warp].live & ~part.lanes) != 0; });
    const bool divergent = diverged != barrier.parts.end();
    if (divergent) {
        const uint32_t pc = diverged->here.pc;
        Finding* const f = findings_.group(FindingKind::barrier, pc, pc, no_array, fresh);
        if (f && fresh) {
            f->title = "a barrier is reached by only some lanes of a warp";
            f->details.push_back(
                sim::lane_list(block.warps[diverged->warp].live & ~diverged->lanes) +
                " of the warp took a different branch; on a GPU, __syncthreads() in diverged "
                "code may hang, or not wait for all threads");
            f->first = diverged->here;
        }
    } else if (barrier.arrivals.size() > 1) {
        const Actor &one = barrier.arrivals[0], &other = barrier.arrivals[1];
        Finding* const f = findings_.group(FindingKind::barrier, one.pc, other.pc, no_array, fresh);
        if (f && fresh) {
            f->severity = Severity::warning;
            f->title = "threads of one block wait at different barriers";
            f->details.push_back(
                "__syncthreads() in conditional code is defined only if all "
                "threads of the block take the same branch");
            f->first = one;
            f->second = other;
        }
    }
    const uint32_t gone = block.threads - block.threads_left;
    if (gone > 0 && !divergent && !barrier.counts && !barrier.arrivals.empty()) {
        const Actor& here = barrier.arrivals[0];
        const bool missed_barrier = ended_behind(block, here.pc);
        Finding* const f = findings_.group(FindingKind::barrier, here.pc, here.pc, no_array, fresh);
        const std::string threads = std::to_string(gone) +
                                    (gone == 1 ? " thread has" : " threads have") +
                                    " left the kernel";
        if (f && fresh && missed_barrier) {
            f->skipped = true;
            f->title = "a barrier is reached by only some threads of the block";
            f->details.push_back(threads +
                                 " on a path without this barrier; the other threads continue only "
                                 "because a barrier does not wait for threads that have left");
            f->first = here;
        } else if (f && fresh) {
            f->severity = Severity::warning;
            f->title = "a barrier completes after some threads of the block have left the kernel";
            f->details.push_back(
                threads +
                "; GPUs of compute capability 7.0 and later wait only for the "
                "others, but __syncthreads() is defined only if all threads reach it");
            f->first = here;
        }
    }
    barrier = {};
}

bool CheckObserver::ended_behind(const sim::Block& block, uint32_t barrier_pc) {
    const BlockState& b = *static_cast<BlockState*>(block.observed);
    for (uint32_t thread = 0; thread < block.threads; ++thread) {
        const uint32_t warp = thread / sim::warp_size;
        const int lane = int(thread % sim::warp_size);
        const uint32_t last = b.last_op[warp].of(lane);
        if (last == sim::no_op || sim::has_lane(block.warps[warp].live, lane)) continue;
        const auto [known, fresh] = behind_.try_emplace({last, barrier_pc}, false);
        if (fresh) known->second = is_behind(last, barrier_pc);
        if (known->second) return true;
    }
    return false;
}

// Returns true if the op is behind the barrier. This means two things: every thread that passes the
// barrier reaches the op later, and no path leads from the op to a barrier. If a thread has ended
// at such an op while others wait at the barrier, this thread took a path without the barrier. The
// op of an early return is not behind the barrier, because threads that pass the barrier do not
// reach this op.
bool CheckObserver::is_behind(uint32_t op, uint32_t barrier_pc) const {
    const auto successors = [&](uint32_t at, auto&& visit) {
        const Op& o = program_.ops[at];
        switch (o.control) {
            case sim::Control::exit:
            case sim::Control::ret:
                return;
            case sim::Control::branch:
                visit(o.get<sim::Branch>().target);
                if (o.guard != sim::no_operand) visit(at + 1);
                return;
            case sim::Control::branch_table:
                for (const uint32_t target : program_.tables[o.get<sim::BranchTable>().table])
                    visit(target);
                return;
            default:
                visit(at + 1);
        }
    };
    // Returns the ops that can be reached from `from` without passing `without`.
    const auto reached = [&](uint32_t from, uint32_t without) {
        std::vector<bool> seen(program_.ops.size());
        std::vector<uint32_t> open{from};
        while (!open.empty()) {
            const uint32_t at = open.back();
            open.pop_back();
            successors(at, [&](uint32_t next) {
                if (next == without || next >= seen.size() || seen[next]) return;
                seen[next] = true;
                open.push_back(next);
            });
        }
        return seen;
    };
    const auto barrier = std::find_if(program_.ops.begin(), program_.ops.end(), [&](const Op& o) {
        return o.pc == barrier_pc && o.control == sim::Control::barrier;
    });
    if (barrier == program_.ops.end()) return false;
    const uint32_t at = uint32_t(barrier - program_.ops.begin());
    const std::vector<bool> reachable = reached(op, sim::no_op);
    for (size_t i = 0; i < reachable.size(); ++i)
        if (reachable[i] && program_.ops[i].control == sim::Control::barrier) return false;
    const std::vector<bool> reachable_without_op = reached(at, op);
    for (size_t i = 0; i < reachable_without_op.size(); ++i) {
        const sim::Control c = program_.ops[i].control;
        if (reachable_without_op[i] && (c == sim::Control::exit || c == sim::Control::ret))
            return false;
    }
    return true;
}

void CheckObserver::fault(const Warp& w, const Op& op, sim::Access access, Space space, Fault fault,
                          LaneMask lanes, const uint64_t* addresses) {
    using enum FindingKind;
    const int lane = std::countr_zero(lanes);
    const uint64_t address = addresses[lane];
    const bool global = space == Space::global || space == Space::constant;
    const FindingKind kind = fault == Fault::misaligned  ? misaligned
                             : fault == Fault::read_only ? read_only
                             : global && sim::freed_memory(*w.block->memory, address)
                                 ? use_after_free
                                 : out_of_bounds;
    const bool unnoticed = fault == Fault::outside && global && access == sim::Access::load &&
                           sim::is_unnoticed_read(*w.block->memory, address);
    if (!unnoticed && !first_fault_) first_fault_ = fault;
    const sim::Buffer* const nearest = global ? w.block->memory->nearest(address) : nullptr;
    const uint32_t array =
        nearest ? uint32_t(nearest - w.block->memory->buffers().data()) : no_array;
    faults_ += uint64_t(std::popcount(lanes));
    if (faults_ > max_faults) {
        throw LaunchError("stopped after " + std::to_string(max_faults) + " invalid accesses");
    }
    if (space == Space::shared && kind == out_of_bounds && variable_of_[op.pc] >= 0) {
        sim::for_each_lane(
            lanes, [&](int i) { outside_variable(w, op.pc, op.memory().bytes, i, addresses[i]); });
        return;
    }
    // An index outside a member can lead to almost any address. Only if the address is near an
    // array, it is probably that of another access in the same line of the source.
    const bool of_member = space != Space::shared && !sim::is_near_array(*w.block->memory, address);
    if (of_member && kind == out_of_bounds && follows_from_member(op.pc)) return;
    bool fresh = false;
    Finding* const f = findings_.group(kind, op.pc, op.pc, array, fresh);
    if (!f) return;
    f->count += uint64_t(std::popcount(lanes)) - 1;
    if (!fresh) return;
    const sim::FaultText text = sim::describe_fault(w, op, lane, access, space, fault, address);
    f->title = text.message;
    if (!text.detail.empty()) f->details.push_back(text.detail);
    f->bytes = op.memory().bytes;
    f->space = space == Space::shared  ? "shared"
               : space == Space::local ? "local"
               : global                ? "global"
                                       : "";
    f->array = text.array;
    f->offset = text.array.empty() ? int64_t(address) : text.offset;
    if (global) f->address = address;
    f->first = actor(sim::verb(instructions_[op.pc].access), w, op.pc, lane);
}

void CheckObserver::misuse(const Warp& w, const Op& op, int lane, const sim::Misuse& wrong) {
    if (!first_fault_) first_fault_ = wrong.verb.empty() ? Fault::misuse : Fault::outside;
    if (!wrong.array.empty()) return outside_member(w, op, lane, wrong);
    bool fresh = false;
    Finding* const f = findings_.group(FindingKind::heap, op.pc, op.pc, no_array, fresh);
    if (!f || !fresh) return;
    std::tie(f->title, f->details) = split(wrong.message);
    f->first = actor("call", w, op.pc, lane);
}

void CheckObserver::outside_member(const Warp& w, const Op& op, int lane,
                                   const sim::Misuse& wrong) {
    // One line may access the same member several times. These accesses belong to one group.
    const auto& accesses = program_.member_accesses;
    const auto same = std::ranges::find_if(accesses, [&](const sim::MemberAccess& a) {
        return a.array == wrong.array && a.verb == wrong.verb;
    });
    const uint32_t number = (1u << 21) + uint32_t(same - accesses.begin());
    const ptx::SourceLine& line = program_.instructions[op.pc].source;
    member_lines_.emplace(line.file, line.line);
    bool fresh = false;
    Finding* const f = findings_.group(FindingKind::out_of_bounds, op.pc, op.pc, number, fresh);
    if (!f || !fresh) return;
    std::tie(f->title, f->details) = split(wrong.message);
    f->array = wrong.array;
    f->first = actor(wrong.verb, w, op.pc, lane);
}

bool CheckObserver::follows_from_member(uint32_t pc) const {
    const ptx::SourceLine& line = program_.instructions[pc].source;
    return member_lines_.contains({line.file, line.line});
}

void CheckObserver::lost_memory() {
    struct Calls {
        uint64_t count = 0, bytes = 0;
        sim::DeviceHeap::Caller first;
    };
    std::map<uint32_t, Calls> lost;  // calls of malloc(), by instruction
    for (const sim::DeviceHeap::Lost& l : sim::DeviceHeap::get().lost(global_.memory())) {
        Calls& calls = lost[l.caller.pc];
        if (calls.count++ == 0) calls.first = l.caller;
        calls.bytes += l.bytes;
    }
    for (const auto& [pc, calls] : lost) {
        const auto& [thread, block] = std::pair{calls.first.thread, calls.first.block};
        Finding f;
        f.kind = FindingKind::heap;
        f.severity = Severity::warning;
        f.count = calls.count;
        f.title = "memory from malloc() is never freed";
        f.details.push_back(std::to_string(calls.bytes) +
                            " bytes stay allocated, and no array or variable has a pointer to "
                            "them; the heap of a GPU has 8 MiB unless cudaDeviceSetLimit "
                            "changes it");
        f.first = {"call", pc, {thread.x, thread.y, thread.z}, {block.x, block.y, block.z}};
        findings_.add(std::move(f));
    }
}

void CheckObserver::stopped(const LaunchError& error, FindingKind kind) {
    Finding f;
    f.kind = kind;
    f.count = 1;
    std::tie(f.title, f.details) = split(error.what());
    if (const auto* const fault = dynamic_cast<const KernelFault*>(&error)) {
        if (!first_fault_) {
            first_fault_ = fault->fault;
            called_ = fault->handle;
        }
        f.address = fault->handle;
    }
    findings_.add(std::move(f));
}

}  // namespace coalesce::analysis
