// A warp: 32 lanes, their registers, and their paths.
//
// METHOD
// Lanes that execute together form a path. When they diverge at a branch, each side becomes a path.
// A join stores which lanes reconverge, and where (at the branch's immediate post-dominator). A
// path that reaches the place of its join ends, and its lanes wait there. When all pending lanes
// have arrived, one path continues with all of them. A join no longer waits for lanes that exit.
//
// Any path of a warp may run next. So a path that spins on a lock cannot prevent the path that
// holds it from running. This is the independent thread scheduling of compute capability 7.0 and
// later.
//
// A call is a join, too. Its place is the instruction after the call, and `ret` reaches it. Frames
// are on a stack of registers. Two paths at the same depth share the same bytes, but have different
// lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "sim/lane_strides.hpp"
#include "sim/lanes.hpp"
#include "sim/launch.hpp"
#include "sim/program.hpp"
#include "sim/tensor_map.hpp"

namespace coalesce::sim {

struct Block;

struct Frame {
    uint32_t function = 0;
    uint32_t registers = 0;  // byte offset into Warp::registers
    uint32_t local = 0;      // byte offset into each lane's local memory
    uint32_t depth = 0;
};

enum class Wait : uint8_t { none, barrier, lanes, cluster };

struct Path {
    uint32_t pc = 0;  // op
    LaneMask mask = 0;
    int32_t join = -1;
    Frame frame;
    Wait wait = Wait::none;
    uint8_t barrier = 0;
    LaneMask members = 0;  // Wait::lanes: the lanes that must reconverge
};

struct Join {
    uint32_t pc = 0;
    LaneMask pending = 0;
    LaneMask arrived = 0;
    int32_t parent = -1;
    Frame frame;
    bool call = false;    // reached by ret or BSYNC, not by arriving at pc
    int8_t barrier = -1;  // machine code: B0 to B15
    LaneMask kept = 0;    // machine code: lanes whose function has saved the barrier
};

// A pending cp.async of one warp instruction. It is performed when a thread waits for it, so that
// the effect of a missing wait is visible.
struct AsyncCopy {
    uint32_t pc;
    uint8_t bytes;
    LaneMask mask;
    std::byte* destination[warp_size];
    const std::byte* source[warp_size];
    uint8_t source_bytes[warp_size];  // the remaining bytes are filled with zeros
};

// A pending cp.async.bulk of one thread to shared memory. It is performed when a thread waits for
// the mbarrier that counts its bytes, so that the effect of a missing wait is visible.
struct BulkCopy {
    uint32_t pc;
    uint32_t warp;
    uint32_t lane;
    uint32_t bytes;
    uint32_t barrier;         // address of the mbarrier in shared memory
    uint32_t destination;     // in shared memory
    const std::byte* source;  // contiguous bytes; null: what a tensor map found
    uint32_t box = 0;         // then, its number in Block::boxes
};

// What a product of a warpgroup reads in shared memory, kept for checks until the product is waited
// for.
struct ProductReads {
    const Op* op;
    std::vector<uint64_t> places;  // of 16 bytes each
};

struct Warp {
    // Fields that handlers use in every instruction.
    std::byte* bank[2] = {nullptr, nullptr};  // registers of the current frame; constants
    LaneMask mask = 0;                        // lanes for which the current instruction executes
    LaneMask live = 0;                        // lanes that have not exited
    LaneMask carry = 0;                       // the CC.CF flag
    uint32_t index = 0;                       // in the block
    Block* block = nullptr;

    // The running path, and the other paths.
    Path current;
    bool running = false;
    // Lanes that have arrived at the barrier of the cluster, and those of them that have not yet
    // waited there.
    LaneMask at_cluster = 0, pending_cluster = 0;
    bool unbound = false;  // lanes have continued without others with which they should reconverge
    std::vector<Path> paths;
    std::vector<Join> joins;
    std::vector<int32_t> free_joins;

    std::vector<std::byte> registers;
    std::vector<std::byte> local;       // [lane][Program::local_bytes]
    std::vector<AsyncCopy> async_open;  // not yet committed
    std::vector<std::vector<AsyncCopy>> async_groups;
    std::vector<ProductReads> reads_open;  // not yet committed
    std::vector<std::vector<ProductReads>> read_groups;

    LaneStrides strides;

    alignas(64) uint64_t address[warp_size];  // temporary memory of memory instructions

    template <class T>
    [[nodiscard]] T* lanes(Locator at) {
        return reinterpret_cast<T*>(bank[at & 1] + (at >> 1));
    }
    [[nodiscard]] LaneMask& predicate(Locator at) { return *lanes<LaneMask>(at); }
    [[nodiscard]] bool done() const { return live == 0; }
};

// The barriers of a block: those that code names (bar.sync 0 to 15), the one that observers know as
// the cluster's, and one for each warpgroup (wgmma.wait_group).
inline constexpr uint32_t named_barriers = 16, cluster_barrier = named_barriers;
inline constexpr uint32_t first_warpgroup_barrier = cluster_barrier + 1;
inline constexpr uint32_t barrier_count = first_warpgroup_barrier + 8;

struct Barrier {
    uint32_t arrived = 0;     // threads
    uint32_t expected = 0;    // 0: no thread waits
    uint32_t true_count = 0;  // bar.red: threads whose predicate is true
    uint32_t contributors = 0;
};

struct Announcements;

struct Block;

// Blocks that run in turns on one host thread, and can access each other's shared memory.
struct Cluster {
    std::vector<Block*> blocks;  // by rank
};

struct Block {
    const Program* program = nullptr;
    const Launch* launch = nullptr;
    AddressSpace* memory = nullptr;
    const Announcements* announce = nullptr;  // the interface to the observer; see observer.hpp
    void* observer = nullptr;
    void* observed = nullptr;  // data of the observer for this block
    const std::byte* constants = nullptr;
    const std::vector<std::byte>* banks = nullptr;  // machine code: MachineConstants::bank
    Dim3 index;
    uint64_t linear = 0;
    Cluster* cluster = nullptr;  // null if the launch has no clusters
    uint32_t rank = 0;           // in its cluster
    // Machine code: the upper byte of the addresses of the block's own shared memory.
    uint32_t shared_tag = 0;
    bool ended = false;
    uint32_t threads = 0;
    uint32_t warp_count = 0;
    std::byte* shared = nullptr;  // an aligned address in shared_storage
    std::vector<std::byte> shared_storage;
    uint32_t shared_bytes = 0;
    uint16_t* hints = nullptr;             // a hint for AddressSpace for each instruction
    const uint32_t* thread_index[3] = {};  // threadIdx.{x,y,z} by linear thread, padded to warps
    std::vector<Warp> warps;
    Barrier barriers[barrier_count];
    std::vector<BulkCopy> bulk_copies;  // copies that have not arrived
    std::map<uint32_t, TensorBox> boxes;
    uint32_t next_box = 0;
    // For a block that waits for others: GridState::work at its last run, and the number of runs
    // since then before which no other block had done anything.
    uint64_t seen_work = 0;
    uint32_t fruitless_turns = 0;
};

}  // namespace coalesce::sim
