// Decides which lanes of a warp run next. Lanes that execute together form a path. The scheduler
// splits a path when its lanes diverge, combines paths when they reconverge, and lets threads wait
// at barriers.
//
// The handlers of instructions are compiled once for each instruction set of the host, because they
// have loops over all lanes. The functions of the scheduler run only at branches, calls, barriers
// and similar instructions. So they are compiled only once. warp.hpp describes paths and joins.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/warp/grid_state.hpp"
#include "sim/warp/memory.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::sim {

// index_threads() and start() are in block.cpp. They prepare a block.

// Computes the threadIdx of every thread of a block, in the order of the linear thread number.
// `storage` receives three arrays: the x, y and z coordinates, padded to whole warps.
void index_threads(Block& block, Dim3 extent, std::vector<uint32_t> (&storage)[3]);

// Prepares a block to run as number `linear` of the grid. Its program and launch must be set.
void start(Block& block, uint64_t linear);

// Returns the number of blocks that the GPU can hold at once. Only these blocks may wait for each
// other.
[[nodiscard]] uint64_t blocks_at_once(const GridRun& launch);

// Call arrive() when lanes have reached a join (a place where lanes wait for each other). If these
// were the last lanes for which the join waits, all of them continue together, and the join is
// removed. release_if_complete() tests this, and returns true if the join was removed.
void arrive(Warp& w, int32_t join, LaneMask lanes);
bool release_if_complete(Warp& w, int32_t join);

// Stores a join, and returns a reference to it.
JoinReference new_join(Warp& warp, const Join& join);

// The following functions are in convergence.cpp. They execute the machine instructions by which
// lanes diverge and reconverge, such as BSSY and BSYNC.
void set_barrier(Warp& w, const Op& op, uint32_t at);
void sync_barrier(Warp& w, const Op& op, uint32_t at);
void break_barrier(Warp& w, const Op& op, uint32_t at);
void keep_barrier(Warp& w, const Op& op, uint32_t at);
void end_section(Warp& w, uint32_t at);
void call_outside(Warp& w, const Op& op, uint32_t at);
void jump(Warp& w, const Op& op, uint32_t at);
// The lanes of `other` become part of the running path. Both paths are at the same op.
void merge_path(Warp& w, const Path& other);

// Adds a path (lanes that execute together) to the warp's queue. But if the path is already at the
// place of its join (where it must wait for other lanes), it arrives at the join instead.
void place(Warp& warp, const Path& path);

// Makes `path` the running path, with the registers of its frame.
void run_path(Warp& warp, const Path& path);

// Lets the running path continue at op `pc`. If the join of the path is there, the path ends, and
// its lanes wait at the join. Another path may then run.
void go_to(Warp& warp, uint32_t pc);

// Returns the lanes of the running path that execute a barrier of the block. In machine code, the
// instruction may be guarded, but this is no branch: if the guard is true in any lane, the whole
// path waits.
[[nodiscard]] LaneMask barrier_lanes(Warp& warp, const Op& op);

// Returns the number of the barrier that these lanes have reached.
[[nodiscard]] uint32_t barrier_number(Warp& warp, const Op& op);

// Splits the running path. The lanes of `taken` go to `target`, the others to `otherwise`. They
// reconverge at `reconvergence`. If `reconvergence` is no_op, they reconverge only when they leave
// the function.
void diverge(Warp& warp, LaneMask taken, uint32_t target, uint32_t otherwise,
             uint32_t reconvergence);

// Lets the lanes of the running path leave the kernel, and ends the path.
void leave(Warp& warp);

// Calls `function` for all lanes of the running path. `after` is the op to which the path returns.
void enter(Warp& warp, const CallSite& site, uint32_t function, uint32_t after);

// Lets the running path return from its function.
void return_from_function(Warp& warp);

// These three functions execute brx.idx, an indirect call and a direct call. Lanes may diverge at
// an indirect call.
void branch_table(Warp& warp, const Op& op, uint32_t at);
void call_indirect(Warp& warp, const Op& op, uint32_t at);
void call(Warp& warp, const Op& op, uint32_t at);

// Returns true if groups of lanes with different member masks continue separately after the op
// (WARPSYNC.EXCLUSIVE).
[[nodiscard]] inline bool splits_groups(const Op& op) {
    return op.is<WarpSync>() && op.get<WarpSync>().splits;
}

// Makes all lanes of the op's member mask execute the op together. If some of these lanes have not
// arrived yet, the running path must wait, and the function returns false. Otherwise it returns
// true, and warp.mask has the lanes that execute the op. The lanes may come from several paths.
// After the op, these paths continue separately.
//
// If the lanes of the warp have diverged, and a lane is not in its own mask, the kernel ends,
// unless `reports_outside` says that the observer reports this. An H200 does so at a
// WARPSYNC. Where lanes cannot diverge, its machine code does not look at masks. For several
// shuffles in a row, it may only test whether all lanes of the mask are there (BRA.DIV).
bool reconverge_members(Warp& warp, const Op& op, uint32_t at, bool reports_outside);
// The message about such a lane, and its second line.
inline constexpr std::string_view not_in_member_mask =
    "the member mask of a warp operation does not include the calling lane";
[[nodiscard]] std::string outside_member_mask(int lane, LaneMask named);
// Executes an op for which reconverge_members() returned true (exchange.cpp).
void run_together(Warp& warp, const Op& op, uint32_t at);
// Returns true if lanes that wait at the ops `a` and `b`, with the same member mask, execute them
// together: both are the same instruction with the same modifiers.
[[nodiscard]] bool are_together(const Op& a, const Op& b);
// Call this after an op for which reconverge_members() returned true. Lets the paths from which the
// lanes came continue separately.
void split_members(Warp& warp);

// Call this when the running path (lanes that execute together) reaches a barrier of the block. Its
// lanes then wait, except in two cases. They are the last lanes for which the barrier waits, or the
// instruction does not wait (bar.arrive). Returns true if all threads have arrived.
bool reach_barrier(Warp& warp, const Op& op, uint32_t at);

// Opens a barrier of the block that waited only for the lanes that left, and returns its number.
// Returns nothing if there is no such barrier. After leave(), call this function repeatedly until
// it returns nothing.
[[nodiscard]] std::optional<uint32_t> barrier_open_after_exit(Warp& warp);

// Execute barrier.cluster.arrive and barrier.cluster.wait for the running path (cluster.cpp).
// arrive_at_cluster() returns true if the barrier of the cluster is now complete.
bool arrive_at_cluster(Warp& warp, const Op& op, uint32_t at);
void wait_for_cluster(Warp& warp, const Op& op, uint32_t at);
// Call this after leave(). Returns true if the barrier of the cluster waited only for the lanes
// that left.
bool cluster_complete_after_exit(Warp& warp);

// Chooses another path of the warp that can run. Returns false if there is none.
bool next_path(Warp& warp);

// Lets lanes that wait at a join continue without other lanes that do not arrive. The independent
// thread scheduling of the hardware guarantees that such lanes continue. For example, a lane that
// holds a lock must continue while its neighbours spin on the lock. In machine code, the
// lanes that do not arrive must have executed YIELD, which the assembler adds to such loops.
// Returns true if there were waiting lanes to free.
bool release_waiting_lanes(Warp& warp);

// Call this if no path of the block can run. Lanes may wait at a warp synchronisation for lanes of
// their warp that wait at a join. Lets these lanes continue, because they may reach the
// synchronisation later. If they leave the kernel instead, the waiting lanes continue, and a check
// reports it, unless the synchronisation belongs to a barrier of the block, which threads may miss.
// If there are no such lanes, lanes may wait at a join for lanes that wait at a barrier of the
// block. These lanes continue, too. The reason: the assembler (ptxas) assumes that all lanes of a
// warp reach a barrier together. So it does not let lanes wait for lanes that reach a barrier.
// Returns true if any lanes continue.
bool release_awaited_lanes(Block& block);

// Moves the running path behind the warp's other paths.
void rotate(Warp& warp);

// Throws the error for a block in which no path can run. The message says which threads wait where,
// and which threads have left.
[[noreturn]] void throw_deadlock(const Block& block);

// Throws the error for a launch that has executed more instructions than its limit allows. The
// message says where the warp is.
[[noreturn]] void throw_limit(const Warp& warp);
// Throws LaunchError for blocks that wait for others that cannot start. `place` is the place of
// one.
[[noreturn]] void throw_stuck(const GridRun& launch, const std::string& place);

// Records where the first warp that has not ended is, unless a place is recorded already. Call this
// if grid.stop is set.
void record_place(const Block& block, GridState& grid);

}  // namespace coalesce::sim
