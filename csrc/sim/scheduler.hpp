// Which path of a warp runs, where paths part and meet, and what a block waits for.
//
// These functions run once per branch, call or barrier, not per lane, and are compiled once for all
// instruction sets. warp.hpp describes paths and joins.
#pragma once

#include <optional>

#include "sim/memory.hpp"
#include "sim/warp.hpp"

namespace coalesce::sim {

// block.cpp: a block's start and its barriers.

// threadIdx of each linear thread of a block, padded to whole warps, into `storage`.
void index_threads(Block& block, Dim3 extent, std::vector<uint32_t> (&storage)[3]);

// Readies a block that knows its program and launch to run as number `linear` of the grid.
void start(Block& block, uint64_t linear);

// Lanes have come to the place of a join; if all pending ones have, its path goes on, and settle()
// says that the join is gone.
void arrive(Warp& w, int32_t join, LaneMask lanes);
bool settle(Warp& w, int32_t join);

// convergence.cpp: where lanes of machine code part and meet.
void set_barrier(Warp& w, const Op& op, uint32_t at);
void sync_barrier(Warp& w, const Op& op, uint32_t at);
void break_barrier(Warp& w, const Op& op, uint32_t at);
void keep_barrier(Warp& w, const Op& op, uint32_t at);
void call_outside(Warp& w, const Op& op, uint32_t at);
void jump(Warp& w, const Op& op, uint32_t at);

// Queues a path that stands at its pc: at the place of its own join it has arrived there instead.
void place(Warp& warp, const Path& path);

// Makes `path` the one that runs, with the registers of its frame.
void run_path(Warp& warp, const Path& path);

// Moves the running path to op `pc`; if its join is there, the path ends and may revive another.
void go_to(Warp& warp, uint32_t pc);

// The number of the barrier that a path of these lanes is at.
[[nodiscard]] uint32_t barrier_number(Warp& warp, const Op& op);

// Parts the running path: lanes of `taken` go to `target`, the others to `otherwise`, to meet again
// at `meeting` (no_op: only by leaving the function).
void part(Warp& warp, LaneMask taken, uint32_t target, uint32_t otherwise, uint32_t meeting);

// Lanes of the running path leave the kernel; the path ends.
void leave(Warp& warp);

// Enters function `function` with the whole running path; `after` is the op to return to.
void enter(Warp& warp, const CallSite& site, uint32_t function, uint32_t after);

// The running path returns from its function.
void give_back(Warp& warp);

// Executes brx.idx, an indirect call (which may part the path), a call of a built-in function.
void branch_table(Warp& warp, const Op& op, uint32_t at);
void call_indirect(Warp& warp, const Op& op, uint32_t at);
void call(Warp& warp, const Op& op, uint32_t at);

// Whether groups of lanes that name different members go on by themselves behind the op
// (WARPSYNC.EXCLUSIVE).
[[nodiscard]] inline bool splits_groups(const Op& op) {
    return op.is<WarpSync>() && op.get<WarpSync>().splits;
}

// Brings the lanes of a member mask together. True if they are: warp.mask then holds the lanes that
// execute the op, and the waiting paths that were needed go on behind it by themselves. False if
// the running path now waits.
bool gather(Warp& warp, const Op& op, uint32_t at);
// Ends what gather began.
void release(Warp& warp);

// The running path reaches a barrier. It waits unless it was the last, or only arrives. True if the
// barrier is complete.
bool reach_barrier(Warp& warp, const Op& op, uint32_t at);

// Threads of the block that have not left the kernel. A barrier of all threads awaits only these
// (CUDA C++ Programming Guide, "Independent Thread Scheduling": all non-exited threads).
[[nodiscard]] uint32_t threads_left(const Block& block);

// After leave(): opens a barrier at which only the lanes that left were awaited, and returns its
// number. To be called until there is none.
[[nodiscard]] std::optional<uint32_t> barrier_without_the_gone(Warp& warp);

// cluster.cpp: the barrier of the cluster, for the running path. True if it is complete.
bool arrive_at_cluster(Warp& warp, const Op& op, uint32_t at);
void wait_for_cluster(Warp& warp, const Op& op, uint32_t at);
// After leave(): true if only the lanes that left were awaited.
bool cluster_without_the_gone(Warp& warp);

// Picks another path of the warp that can run; false if there is none.
bool next_path(Warp& warp);

// Lets lanes that wait behind a branch go on without the others, who do not come: what the
// independent thread scheduling of the hardware guarantees to a lane that holds a lock its
// neighbours spin on. True if there were any.
bool free_waiting_lanes(Warp& warp);

// Puts the running path behind the warp's others.
void rotate(Warp& warp);

// The error for a block none of whose paths can run: who waits where, and who is gone.
[[noreturn]] void throw_deadlock(const Block& block);

}  // namespace coalesce::sim
