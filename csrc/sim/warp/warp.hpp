// A warp: 32 lanes, their registers, and their paths.
//
// METHOD
// Lanes that execute together form a path. When they diverge at a branch, each side of the branch
// becomes a path of its own. A join is a place where paths wait for each other, so that their lanes
// reconverge. It stores which lanes reconverge, and at which instruction. In PTX, this instruction
// is the branch's immediate post-dominator: the first instruction that both sides reach in any
// case. A path that reaches the place of its join ends, and its lanes wait there. When all lanes
// for which the join waits have arrived, one path continues with all of them. A join does not wait
// for lanes that exit.
//
// Joins are nested: a path refers to its innermost join, and each join refers to the next outer
// join. Usually, all lanes of a path have the same innermost join. But in machine code, WARPSYNC
// also combines paths whose innermost joins are different. Then the path refers to a list, which
// says which lanes have which innermost join.
//
// Any path of a warp may run next. So a path that waits for a lock in a loop cannot prevent the
// path that holds the lock from running. This is the independent thread scheduling of compute
// capability 7.0 and later.
//
// A call also creates a join. The place of this join is the instruction after the call, and lanes
// arrive at it when they execute `ret`. The registers of called functions are on a stack. Two paths
// at the same depth of calls use the same bytes of this stack. They do not disturb each other,
// because they have different lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "round_up.hpp"
#include "sim/memory/lanes.hpp"
#include "sim/program/launch.hpp"
#include "sim/program/program.hpp"
#include "sim/program/tensor_map.hpp"
#include "sim/warp/lane_strides.hpp"
#include "sim/warp/next_load.hpp"

namespace coalesce::sim {

struct Block;

// The place of a function's registers and local memory.
struct Frame {
    uint32_t function = 0;
    uint32_t registers = 0;  // a byte offset into Warp::registers
    uint32_t local = 0;      // a byte offset into each lane's local memory
    uint32_t depth = 0;      // the number of calls that have not returned
};

// What a path waits for.
enum class Wait : uint8_t { none, barrier, lanes, cluster };

// Says to which join lanes refer: to the same join, to different joins (see METHOD), or to none. If
// they refer to none, both members are -1.
struct JoinReference {
    int32_t one = -1;   // for the same join: an index into Warp::joins
    int32_t list = -1;  // for different joins: an index into Warp::join_lists
    bool operator==(const JoinReference&) const = default;
};

// A list of joins: the lanes of `mask` refer to `first`, which is not a list. Other lanes refer to
// `rest`, which is a list. If there are no other lanes, `rest` is none.
struct JoinList {
    LaneMask mask = 0;
    JoinReference first, rest;
};

// Lanes that execute together (see METHOD).
struct Path {
    uint32_t pc = 0;  // the number of an op
    LaneMask mask = 0;
    JoinReference join;  // the innermost join, or the innermost joins of different lanes
    Frame frame;
    Wait wait = Wait::none;
    uint8_t barrier = 0;   // for Wait::barrier: the number of the barrier
    LaneMask members = 0;  // for Wait::lanes: the lanes that must reconverge
};

// A place where paths wait for each other, so that their lanes reconverge (see METHOD).
struct Join {
    uint32_t pc = 0;       // the op at which the lanes reconverge
    LaneMask pending = 0;  // the lanes for which the join waits, including those in `arrived`
    LaneMask arrived = 0;  // the lanes that wait here
    JoinReference parent;  // the next outer join, or the next outer joins of different lanes
    Frame frame;
    // True if only the instructions ret and BSYNC let lanes arrive at this join. Otherwise lanes
    // also arrive when they reach pc.
    bool explicit_only = false;
    int8_t barrier = -1;  // for machine code: the number of the barrier, B0 to B15
    // for machine code: the lanes whose running function has saved its caller's barrier (BMOV)
    LaneMask kept = 0;
};

// A pending cp.async of one warp instruction. The copy is performed when a thread waits for it. So
// a missing wait has a visible effect: the thread reads the old data.
struct AsyncCopy {
    uint32_t pc;
    uint8_t bytes;
    LaneMask mask;
    std::byte* destination[warp_size];
    const std::byte* source[warp_size];
    // The number of bytes that each lane reads. The remaining bytes are filled with zeros.
    uint8_t source_bytes[warp_size];
};

// A pending cp.async.bulk of one thread to shared memory. The copy is performed when a thread waits
// for the mbarrier that counts its bytes. So a missing wait has a visible effect: the thread reads
// the old data.
struct BulkCopy {
    uint32_t pc;
    uint32_t warp;
    uint32_t lane;
    uint32_t bytes;
    uint32_t barrier;      // the address of the mbarrier in shared memory
    uint32_t destination;  // an address in shared memory
    // The host address of the contiguous source bytes. It is null if the copy uses a tensor map.
    const std::byte* source;
    uint32_t box = 0;  // for a copy with a tensor map: the key in Block::boxes
};

// The reads of shared memory by one matrix product of a warpgroup. In a run with a checker, they
// are stored until a thread waits for the product.
struct ProductReads {
    const Op* op;
    std::vector<uint64_t> places;  // the addresses of the parts of 16 bytes that are read
};

struct Repetition;

// The state of one warp.
struct Warp {
    // The following fields come first, because the handler of every instruction uses them. bank[0]
    // points to the registers of the current frame, and bank[1] to the constants.
    std::byte* bank[2] = {nullptr, nullptr};
    LaneMask mask = 0;   // the lanes that execute the current instruction
    LaneMask live = 0;   // the lanes that have not exited
    LaneMask carry = 0;  // the CC.CF flag of each lane
    uint32_t index = 0;  // the number of the warp in its block
    Block* block = nullptr;
    // For each instruction that accesses global or shared memory: an access that need not be
    // announced again (repetition.hpp). Null if every access must be announced.
    const Repetition *global_repetitions = nullptr, *shared_repetitions = nullptr;
    // The wavefronts of all accesses to shared memory that were not announced for this reason.
    uint64_t repeated_wavefronts = 0;
    // For each instruction with a guard: the lanes in which the guard was true, summed over the
    // executions. Null if an observer does not count them.
    uint64_t* guarded_lanes = nullptr;

    // `current` is the running path. `paths` are the other paths.
    Path current;
    bool running = false;
    // For the barrier of the cluster, at which a thread first arrives and later waits. `at_cluster`
    // has the lanes that have arrived. `pending_cluster` has the lanes that have arrived, but have
    // not executed the wait yet.
    LaneMask at_cluster = 0, pending_cluster = 0;
    // True if lanes of this warp have continued without other lanes with which they should have
    // reconverged (release_waiting_lanes).
    bool released_early = false;
    // Lanes that continued because other lanes wait for them at a warp synchronisation
    // (release_awaited_lanes). If they leave the kernel instead, a check reports it.
    LaneMask expected = 0;
    // For machine code: lanes that waited at a barrier of the block together with other lanes of
    // their path, although their guard was false (barrier_lanes). If they have returned early in
    // the source, they execute no other barrier.
    LaneMask skipped = 0;
    LaneMask yielded = 0;  // for machine code: the lanes that executed YIELD after their last BSYNC
    // For machine code: true if the running path has used up its slice. Other paths run when it
    // executes YIELD (warp_runner.hpp).
    bool overdue = false;
    std::vector<Path> paths;
    // For machine code: paths whose lanes execute a section of WARPSYNC.COLLECTIVE together with
    // the lanes of another path, at the place of that path. `pc` is the difference between their
    // own place and that place.
    std::vector<Path> guests;
    // An index that is in use belongs either to a join or to a list of joins. `free_joins` has the
    // indices that are not in use.
    std::vector<Join> joins;
    std::vector<JoinList> join_lists;
    std::vector<int32_t> free_joins;

    std::vector<std::byte> registers;
    std::vector<std::byte> local;       // the indices are [lane][Program::local_bytes]
    std::vector<AsyncCopy> async_open;  // copies that are not committed to a group yet
    std::vector<std::vector<AsyncCopy>> async_groups;
    std::vector<ProductReads> reads_open;  // reads of products that are not committed yet
    std::vector<std::vector<ProductReads>> read_groups;

    LaneStrides strides;

    alignas(64) uint64_t address[warp_size];  // the addresses of the current memory instruction
    // The results of an operation that only some lanes execute, before they are stored.
    alignas(64) std::byte results[warp_size * sizeof(uint64_t)];

    template <class T>
    [[nodiscard]] T* lanes(Locator at) {
        return reinterpret_cast<T*>(bank[at & 1] + (at >> 1));
    }
    [[nodiscard]] LaneMask& predicate(Locator at) { return *lanes<LaneMask>(at); }
    [[nodiscard]] bool done() const { return live == 0; }
};

// The numbers of the barriers of a block. Kernels use the barriers 0 to 15 (bar.sync). Observers
// get number 16 for the barrier of the cluster. The numbers from 17 on are the barriers of the
// warpgroups (wgmma.wait_group).
inline constexpr uint32_t named_barriers = 16, cluster_barrier = named_barriers;
inline constexpr uint32_t first_warpgroup_barrier = cluster_barrier + 1;
inline constexpr uint32_t barrier_count = first_warpgroup_barrier + 8;

// A barrier of a block at which threads wait.
struct Barrier {
    uint32_t arrived = 0;     // the number of threads that have arrived
    uint32_t expected = 0;    // The number of threads to wait for. 0 means that no thread waits.
    uint32_t true_count = 0;  // for bar.red: the number of threads whose predicate is true
    uint32_t contributors = 0;
};

struct Announcements;

struct Block;

// The blocks of a cluster, which can access each other's shared memory. One host thread runs them
// in turn.
struct Cluster {
    std::vector<Block*> blocks;  // the index is the rank
};

// Returns where the system's part of shared memory is that the kernel accesses
// (Program::system_shared_bytes), from the start of the kernel's own shared memory.
inline uint32_t system_shared_offset(const Program& program, const GridRun& launch) {
    return round_up(program.shared_bytes + launch.shared_bytes, 16);
}

// Read-only words that lanes with a large stride load: each lane loads from a row of its own. A
// loop along the rows loads neighbouring words next. So a few words of each row are read together,
// and kept for the next loads. Otherwise each load would read 32 lines of the host's cache again.
struct RowWords {
    static constexpr uint32_t of_row = 16;
    const std::byte* host = nullptr;  // the first of these words of lane 0; null if there are none
    int64_t stride = 0;               // the distance in bytes between neighbouring lanes
    bool kept = false;                // false: only the first of the loads has been executed
    alignas(64) uint32_t words[of_row][warp_size];
};

// The state of one block.
struct Block {
    const Program* program = nullptr;
    const GridRun* launch = nullptr;
    AddressSpace* memory = nullptr;
    const Announcements* announce = nullptr;  // the interface to the observer; see observer.hpp
    void* observer = nullptr;
    void* observed = nullptr;  // the observer's data for this block
    const std::byte* constants = nullptr;
    const std::vector<std::byte>* banks = nullptr;  // for machine code: MachineConstants::bank
    Dim3 index;
    uint64_t linear = 0;
    Cluster* cluster = nullptr;  // null if the launch has no clusters
    uint32_t rank = 0;           // the rank of the block in its cluster
    // For machine code: the upper byte of the addresses of the block's own shared memory.
    uint32_t shared_tag = 0;
    bool ended = false;
    uint32_t threads = 0;
    // The threads that have not left the kernel. A barrier for all threads of a block waits only
    // for these threads (CUDA C++ Programming Guide, "Independent Thread Scheduling": all
    // non-exited threads).
    uint32_t threads_left = 0;
    uint32_t warp_count = 0;
    std::byte* shared = nullptr;  // an aligned address in shared_storage
    std::vector<std::byte> shared_storage;
    uint32_t shared_bytes = 0;  // includes Program::system_shared_bytes
    // for each instruction: the index of the buffer that AddressSpace::find() tries first
    uint16_t* hints = nullptr;
    LatestLoad* latest_loads = nullptr;  // for each instruction
    RowWords* rows = nullptr;            // words that the worker keeps for the block that it runs
    // threadIdx.{x,y,z} of each linear thread. The arrays are padded to whole warps.
    const uint32_t* thread_index[3] = {};
    std::vector<Warp> warps;
    Barrier barriers[barrier_count];
    uint32_t used_barriers = 0;  // the barriers at which threads have arrived, a bit for each
    static_assert(barrier_count <= 32);
    std::vector<BulkCopy> bulk_copies;  // bulk copies that have not been performed yet
    std::map<uint32_t, TensorBox> boxes;
    uint32_t next_box = 0;
    // For a block that waits for other blocks. `seen_work` is the value of GridState::work when the
    // block ran last. `turns_without_progress` counts how often the block has run since another
    // block last did some work.
    uint64_t seen_work = 0;
    uint32_t turns_without_progress = 0;
    uint32_t full_turns = 0;  // how often a turn of the block has ended after many operations
};

}  // namespace coalesce::sim
