// Runs the blocks of a grid, and reports events to an observer whose type is known at compile time.
//
// METHOD
// A worker is a host thread that runs blocks. Each worker gets the number of its next block (or
// cluster of blocks) from a counter that all workers share. The warps of a block run in turn. Each
// turn is a slice: a limited number of operations (warp_runner.hpp). If no path of a block can run,
// this is a deadlock, which is an error. If all warps of a block only read memory until another
// block changes it (spins.cpp), the worker runs another block in the meantime. If blocks may
// communicate, a block that does not end also lets other blocks run after many operations.
//
// The launching thread is the first worker. If the grid has not ended after a short time, this
// thread starts the other workers. Between slices, it calls GridRun::poll regularly, so that the
// user can interrupt the run. After an interrupt, it sets a flag. The workers test the flag once in
// each slice, and stop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "sim/run/warp_runner.hpp"
#include "sim/warp/engine.hpp"

namespace coalesce::sim {

// A turn of a block ends without progress if all its warps only read memory in a loop. A block
// counts such turns, until any block does something else. When the count reaches this number, the
// blocks may be waiting for lanes that wait for reconvergence. Such lanes then continue without the
// lanes for which they wait.
inline constexpr uint64_t max_turns_without_progress = 1 << 16;
// The number of operations after which a block lets other blocks run, if the kernel communicates
// between blocks. It may be waiting for them in a way that spins.cpp does not find. In its first
// turn, and in every 16th, the number is larger than max_stalled_slices allows, so that waiting
// lanes continue before. The turns in between are short, so that blocks that wait do not take long.
constexpr int64_t turn_ops(uint32_t full_turns) {
    constexpr int64_t most = 2 * max_stalled_slices * slice_ops;
    return full_turns % 16 == 0 ? most : most / 64;
}

// The parts of a worker that do not depend on its observer.
class WorkerBase {
  public:
    virtual ~WorkerBase() = default;
    WorkerBase(const WorkerBase&) = delete;
    WorkerBase& operator=(const WorkerBase&) = delete;
    // Runs blocks until none is left, or until a worker has failed.
    void run();

  protected:
    // One block, or all blocks of a cluster.
    struct Group {
        std::vector<std::unique_ptr<Block>> blocks;
        Cluster cluster;
    };
    // The reason why run_block() returned.
    enum class RunEnd : uint8_t {
        block_ended,
        polls_memory,      // the block only reads memory that other blocks write
        waits_for_others,  // the block waits for other blocks of its cluster
    };

    WorkerBase(const Program& program, const GridRun& launch, AddressSpace& memory,
               GridState& grid);
    // Runs the block until it ends or waits for other blocks.
    virtual RunEnd run_block(Block& block) = 0;
    // Announces that the blocks start.
    virtual void started(const Group& group) = 0;

    static bool waits_for_cluster(const Block& block);
    // Call this if all warps of the block only read memory in a loop. Then other blocks run next.
    // If no other block does any work either, lanes may be waiting for other lanes of their own
    // warp. After some turns, these lanes continue without the others (release_waiting_lanes).
    RunEnd let_others_run(Block& block);
    // Call this if all warps of the block wait. `polling_warps` is the number of its warps that
    // only read memory in a loop. `reader` is the branch of such a loop that reads the barrier of
    // the grid, or null. Finds out whether the block waits in grid.sync(), which all blocks must
    // call, and records this. Throws LaunchError if every other block also waits there or has
    // ended, because then no block can continue.
    void wait_at_grid_barrier(const Block& block, const Op* reader, uint32_t polling_warps);
    void leave_grid_barrier(const Block& block);
    [[nodiscard]] int bit_of_grid_barrier();

    const Program& program_;
    const GridRun& launch_;
    GridState& grid_;
    Block shared_;              // the state that all blocks of this worker share
    uint64_t max_waiting_ = 1;  // groups that may wait while this worker starts another one
    uint64_t waiting_groups_ = 1;
    // The number of consecutive turns in which the running blocks only read memory, because they
    // wait for each other.
    uint64_t idle_turns_ = 0;
    bool has_run_ = false;  // true if run_block() has executed operations
    bool one_worker_ = true;
    bool takes_turns_ = false;  // blocks may communicate; see turn_ops()
    int bit_before_ = 0;        // the highest bit of the grid's barrier at the start of this round
    // For each block that waits in grid.sync(): the value of the barrier's highest bit when it
    // began to wait.
    std::map<const Block*, int> at_grid_barrier_;
    MachineConstants machine_;
    std::vector<uint16_t> hints_;
    std::vector<LatestLoad> latest_loads_;
    RowWords rows_;
    std::vector<uint32_t> thread_index_[3];

  private:
    void start_group(Group& group, uint64_t number);
    // Runs the blocks of a group (one block, or the blocks of a cluster). Returns true when they
    // have ended. Returns false if they cannot continue before another group has done something.
    bool run_group(Group& group);
};

template <Observer O>
class Worker : public WorkerBase {
  public:
    Worker(const Program& program, const GridRun& launch, AddressSpace& memory, O& observer,
           GridState& grid)
        : WorkerBase(program, launch, memory, grid),
          observer_(observer),
          runner_(program, launch, observer, grid) {
        shared_.observer = &observer;
        shared_.announce = &announcements_to<O>;
    }

  protected:
    RunEnd run_block(Block& block) final {
        runner_.stalled_slices = 0;
        runner_.executed = 0;
        for (;;) {
            grid_.after_slice();
            // The flag is tested when a slice ends. But warps that wait for each other may never
            // use a whole slice. Therefore the flag is tested here, too.
            if (grid_.stop) {
                record_place(block, grid_);
                throw Stopped{};
            }
            bool progress = false, done = true, spins = true;
            runner_.polling_warps = 0;
            if (launch_.cooperative) bit_before_ = bit_of_grid_barrier();
            for (Warp& w : block.warps) {
                if (w.done()) continue;
                done = false;
                if (w.running || next_path(w)) {
                    progress = true;
                    runner_.run(w);
                    spins = spins && runner_.spun;
                }
            }
            if (!spins || done) {
                leave_grid_barrier(block);
                grid_.work.fetch_add(1, std::memory_order_relaxed);
                block.turns_without_progress = 0;
            }
            if (done) {
                block.ended = true;
                if constexpr (listens_to(Hook::finish)) observer_.finish(block);
                return RunEnd::block_ended;
            }
            has_run_ = has_run_ || progress;
            if (!progress) {
                if (release_awaited_lanes(block)) continue;
                if (!waits_for_cluster(block)) throw_deadlock(block);
                block.turns_without_progress = 0;
                return RunEnd::waits_for_others;
            }
            if (spins) {
                if (launch_.cooperative)
                    wait_at_grid_barrier(block, runner_.grid_barrier, runner_.polling_warps);
                return let_others_run(block);
            }
            const bool stalls = runner_.stalled_slices > max_stalled_slices;
            if (stalls && runner_.release_lanes_of_block(block)) continue;
            const bool has_had_turn = takes_turns_ && runner_.executed > turn_ops(block.full_turns);
            block.full_turns += has_had_turn;
            if (stalls || has_had_turn) {
                std::this_thread::yield();
                block.turns_without_progress = 1;
                return RunEnd::polls_memory;
            }
        }
    }

    void started(const Group& group) final {
        if constexpr (listens_to(Hook::start)) {
            for (const auto& block : group.blocks) observer_.start(*block);
        }
    }

    static constexpr bool listens_to(Hook hook) { return O::hooks.has(hook); }

    O& observer_;
    WarpRunner<O> runner_;
};

// Calls work(0) in the calling thread. If there is still work after a short time, also calls
// work(n) for the other numbers n below worker_count(launch), each in a new host thread. Calls
// GridRun::poll until all calls have returned. Throws the errors of the kernel.
void run_workers(const GridRun& launch, GridState& grid, const std::function<void(uint32_t)>& work);

// Runs the grid, with one observer for each of worker_count(launch) host threads. The program must
// be decoded for watch_of<O>. Throws the errors of the kernel.
template <Observer O>
void run_grid(const Program& program, const GridRun& launch, AddressSpace& memory,
              std::span<O* const> observers) {
    GridState grid;
    run_workers(launch, grid,
                [&](uint32_t n) { Worker<O>(program, launch, memory, *observers[n], grid).run(); });
}

// Returns the events that memory instructions must announce for an observer.
template <Observer O>
inline constexpr Watch watch_of = [] {
    if (O::hooks.has(Hook::fault)) return Watch::faults;
    const bool memory = O::hooks.has(Hook::access) || O::hooks.has(Hook::async_complete) ||
                        O::hooks.has(Hook::fence) || O::hooks.has(Hook::copied);
    return memory ? Watch::accesses : Watch::nothing;
}();

}  // namespace coalesce::sim
