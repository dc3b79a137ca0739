// Runs the blocks of a grid, and reports events to an observer.
//
// METHOD
// A worker is a host thread that runs blocks. Each worker gets the number of its next block (or
// cluster of blocks) from a counter that all workers share. The warps of a block run in turn. Each
// turn is a slice: a limited number of operations (warp_runner.hpp). If no path of a block can run,
// this is a deadlock, which is an error. If all warps of a block only read memory until another
// block changes it (spins.cpp), the worker runs another block in the meantime.
//
// The launching thread waits for the workers, and calls Launch::poll regularly, so that the user
// can interrupt the run. After an interrupt, this thread sets a flag. The workers test the flag
// once in each slice, and stop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "sim/engine.hpp"
#include "sim/warp_runner.hpp"

namespace coalesce::sim {

// Blocks that wait for each other only read memory. Their turns are counted until a block does
// something else. When the count reaches this number, the blocks may be waiting for lanes that wait
// for reconvergence. Such lanes then continue without the lanes for which they wait.
inline constexpr uint64_t most_fruitless_turns = 1 << 16;

class Worker {
  public:
    Worker(const Program& program, const Launch& launch, AddressSpace& memory,
           const AnyObserver& observer, GridState& grid);
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    // Runs blocks until none is left, or until a worker has failed.
    void run();

  protected:
    // One block, or all blocks of a cluster.
    struct Group {
        std::vector<std::unique_ptr<Block>> blocks;
        Cluster cluster;
    };
    enum class Ran : uint8_t {
        to_its_end,
        until_it_watches,  // the block only reads memory that other blocks write
        until_it_waits,    // the block waits for other blocks of its cluster
    };

    // Runs the block until it ends or waits for other blocks.
    Ran run_block(Block& block);

    static bool waits_for_cluster(const Block& block);
    // Call this if all warps of the block only read memory in a loop. Then other blocks run next.
    // If no other block does any work either, lanes may be waiting for other lanes of their own
    // warp. After some turns, these lanes continue without the others (free_waiting_lanes).
    Ran set_aside(Block& block);
    // Call this if all warps of the block wait. `watching_warps` is the number of its warps that
    // only read memory in a loop. `reader` is the branch of such a loop that reads the barrier of
    // the grid, or null. Finds out whether the block waits in grid.sync(), which all blocks must
    // call, and records this. Throws LaunchError if every other block also waits there or has
    // ended, because then no block can continue.
    void wait_at_grid_barrier(const Block& block, const Op* reader, uint32_t watching_warps);
    void leave_grid_barrier(const Block& block);
    [[nodiscard]] int bit_of_grid_barrier();

    const Program& program_;
    const Launch& launch_;
    GridState& grid_;
    WarpRunner runner_;
    Block shared_;  // the state that all blocks of this worker share
    uint64_t most_waiting_ = 1, waiting_groups_ = 1;
    // The number of consecutive turns in which the running blocks only read memory, because they
    // wait for each other.
    uint64_t idle_turns_ = 0;
    bool has_run_ = false;  // true if run_block() has executed operations
    bool one_worker_ = true;
    int bit_before_ = 0;  // the highest bit of the grid's barrier at the start of this round
    // For each block that waits in grid.sync(): the value of the barrier's highest bit when it
    // began to wait.
    std::map<const Block*, int> at_grid_barrier_;
    MachineConstants machine_;
    std::vector<uint16_t> hints_;
    RowWords rows_;
    std::vector<uint32_t> thread_index_[3];

  private:
    void start_group(Group& group, uint64_t number);
    // Runs the blocks of a group (one block, or the blocks of a cluster). Returns true when they
    // have ended. Returns false if they cannot continue before another group has done something.
    bool run_group(Group& group);

    AnyObserver observer_;
};

// Runs the grid, with one observer for each of worker_count(launch) host threads. The calling
// thread calls Launch::poll regularly. Throws the errors of the kernel.
void run_grid(const Program& program, const Launch& launch, AddressSpace& memory,
              std::span<const AnyObserver> observers);

// The same for observers of one type. The program must be decoded for watch_of<O>.
template <Observer O>
void run_grid(const Program& program, const Launch& launch, AddressSpace& memory,
              std::span<O* const> observers) {
    std::vector<AnyObserver> any;
    for (O* const observer : observers) any.emplace_back(*observer);
    run_grid(program, launch, memory, std::span<const AnyObserver>(any));
}

// Returns the events that memory instructions must announce for an observer.
template <Observer O>
inline constexpr Watch watch_of = [] {
    if (O::hooks.has(Hook::fault)) return Watch::faults;
    const bool memory = O::hooks.has(Hook::access) || O::hooks.has(Hook::landed) ||
                        O::hooks.has(Hook::fence) || O::hooks.has(Hook::copied);
    return memory ? Watch::accesses : Watch::nothing;
}();

}  // namespace coalesce::sim
