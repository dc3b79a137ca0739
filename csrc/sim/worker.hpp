// Runs the blocks of a grid, and reports events to an observer whose type is known at compile time.
//
// METHOD
// A worker is a host thread that runs blocks. Each worker gets the number of its next block (or
// cluster of blocks) from a counter that all workers share. The warps of a block run in turn, each
// for a slice, a limited number of operations (warp_runner.hpp). If no path of a block can run,
// this is a deadlock, which is an error. If all warps of a block only read memory until another
// block changes it (spins.cpp), the worker runs another block in the meantime.
//
// The launching thread waits, and calls Launch::poll regularly. So the user can interrupt the run:
// then the thread sets a flag, which the workers test once in each slice.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "sim/engine.hpp"
#include "sim/warp_runner.hpp"

namespace coalesce::sim {

// The running blocks may wait for each other, and only read memory meanwhile. Their turns are
// counted as long as no block does anything else. After this number of turns, lanes that wait for
// reconvergence continue without the lanes for which they wait.
inline constexpr uint64_t most_fruitless_turns = 1 << 16;

template <Observer O>
class Worker {
  public:
    Worker(const Program& program, const Launch& launch, AddressSpace& memory, O& observer,
           GridState& grid)
        : runner_(program, launch, observer, grid),
          program_(program),
          launch_(launch),
          grid_(grid),
          observer_(observer) {
        shared_.program = &program;
        shared_.launch = &launch;
        shared_.memory = &memory;
        shared_.observer = &observer;
        shared_.announce = &announcements_to<O>;
        shared_.constants = program.constants.data();
        if (program.machine) {
            machine_ = machine_constants(program, launch);
            shared_.constants = machine_.constants.data();
            shared_.banks = machine_.bank;
        }
        hints_.resize(program.instructions.size());
        shared_.hints = hints_.data();
        const uint32_t threads = uint32_t(launch.block.count());
        index_threads(shared_, launch.block, thread_index_);
        // The blocks that the GPU holds at the same time may wait for each other.
        const uint64_t resident = uint64_t{launch.gpu.multiprocessors} *
                                  std::max(1u, launch.gpu.resident_threads / threads);
        most_waiting_ =
            launch.cooperative
                ? UINT64_MAX
                : std::max<uint64_t>(1, resident / worker_count(launch) / launch.cluster.count());
        one_worker_ = worker_count(launch) == 1;
    }

    void run() {
        try {
            const uint64_t groups = launch_.block_count() / launch_.cluster.count();
            std::deque<std::unique_ptr<Group>> waiting;
            std::unique_ptr<Group> spare;
            while (!grid_.stop) {
                std::unique_ptr<Group> group;
                const uint64_t next = waiting.size() < most_waiting_ ? grid_.next_group++ : groups;
                if (next < groups) {
                    group = spare ? std::move(spare) : std::make_unique<Group>();
                    start_group(*group, next);
                } else if (!waiting.empty()) {
                    group = std::move(waiting.front());
                    waiting.pop_front();
                } else {
                    break;
                }
                if (run_group(*group)) {
                    grid_.finished_blocks += group->blocks.size();
                    spare = std::move(group);
                } else {
                    waiting.push_back(std::move(group));
                }
                waiting_groups_ = waiting.size() + 1;
            }
        } catch (const Stopped&) {
        } catch (...) {
            grid_.fail(std::current_exception());
        }
    }

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

    void start_group(Group& group, uint64_t number) {
        const uint64_t size = launch_.cluster.count();
        for (uint32_t rank = 0; rank < size; ++rank) {
            if (group.blocks.size() <= rank) {
                group.blocks.push_back(std::make_unique<Block>(shared_));
                group.cluster.blocks.push_back(group.blocks.back().get());
            }
            Block& block = *group.blocks[rank];
            if (launch_.has_clusters) {
                block.cluster = &group.cluster;
                block.rank = rank;
                block.shared_tag = program_.conventions.own_tag(rank) << 24;
            }
            start(block, launch_.block_at(number * size + rank));
        }
        if constexpr (hears(Hook::start)) {
            for (const auto& block : group.blocks) observer_.start(*block);
        }
    }

    // Runs the blocks of a group (one block, or the blocks of a cluster). Returns true when they
    // have ended. Returns false if they cannot continue before another group has done something.
    bool run_group(Group& group) {
        for (;;) {
            bool ended = true, waits = true;
            const Block* stuck = nullptr;
            for (const auto& block : group.blocks) {
                if (block->ended) continue;
                has_run_ = false;
                const Ran ran = run_block(*block);
                waits = waits && (ran == Ran::until_it_watches || !has_run_);
                if (ran == Ran::until_it_waits && !has_run_) stuck = block.get();
                ended = ended && ran == Ran::to_its_end;
                if (ran == Ran::until_it_watches && group.blocks.size() == 1) return false;
            }
            if (ended) return true;
            if (!waits) continue;
            const bool watches = std::any_of(
                group.blocks.begin(), group.blocks.end(),
                [&](const auto& block) { return !block->ended && block->fruitless_turns > 0; });
            if (!watches && stuck) throw_deadlock(*stuck);
            return false;
        }
    }

    // Runs the block until it ends or waits for other blocks.
    Ran run_block(Block& block) {
        runner_.stalled_slices = 0;
        for (;;) {
            // The flag is tested here, too, because warps that wait for each other may never use a
            // whole slice.
            if (grid_.stop) throw Stopped{};
            bool progress = false, done = true, spins = true;
            runner_.watching_warps = 0;
            if (launch_.cooperative) bit_before_ = bit_of_grid_barrier();
            for (Warp& w : block.warps) {
                if (w.done()) continue;
                done = false;
                if (next_path(w)) {
                    progress = true;
                    runner_.run(w);
                    spins = spins && runner_.spun;
                }
            }
            if (!spins || done) leave_grid_barrier(block);
            if (!spins || done) grid_.work.fetch_add(1, std::memory_order_relaxed);
            if (done) {
                block.ended = true;
                if constexpr (hears(Hook::finish)) observer_.finish(block);
                return Ran::to_its_end;
            }
            has_run_ = has_run_ || progress;
            if (!progress) {
                if (!waits_for_cluster(block)) throw_deadlock(block);
                block.fruitless_turns = 0;
                return Ran::until_it_waits;
            }
            if (spins) {
                if (launch_.cooperative) wait_at_grid_barrier(block);
                return set_aside(block);
            }
            if (runner_.stalled_slices > most_stalled_slices) {
                runner_.short_slices = true;
                std::this_thread::yield();
                block.fruitless_turns = 1;
                return Ran::until_it_watches;
            }
        }
    }

    static bool waits_for_cluster(const Block& block) {
        return std::any_of(block.warps.begin(), block.warps.end(), [](const Warp& w) {
            return std::any_of(w.paths.begin(), w.paths.end(),
                               [](const Path& p) { return p.wait == Wait::cluster; });
        });
    }

    // Call this if all warps of the block only read memory in a loop. Then other blocks run next.
    // If no other block does any work either, the reason may be that lanes wait for other lanes of
    // their own warp.
    Ran set_aside(Block& block) {
        const uint64_t work = grid_.work.load(std::memory_order_relaxed);
        if (block.seen_work != work) {
            block.seen_work = work;
            block.fruitless_turns = 0;
            idle_turns_ = 0;
        }
        // Before lanes continue without other lanes for which they wait, each path of the block's
        // warps must have had a turn. If there are several host threads, the block gets more turns,
        // because another thread may still do some work.
        const uint64_t most = one_worker_ ? 0 : most_fruitless_turns / waiting_groups_;
        if (++block.fruitless_turns > std::max<uint64_t>(most, 2 * warp_size)) {
            block.fruitless_turns = 1;
            for (Warp& w : block.warps)
                if (!w.done()) free_waiting_lanes(w);
        }
        // Yields the processor to other processes, but only after all waiting blocks had a turn.
        if (++idle_turns_ > waiting_groups_ && !one_worker_) {
            idle_turns_ = 0;
            std::this_thread::yield();
        }
        return Ran::until_it_watches;
    }

    // Records that the block only waits in grid.sync(), which all blocks must call. Throws
    // LaunchError if every other block also waits there or has ended, because then no block can
    // continue.
    void wait_at_grid_barrier(const Block& block) {
        const int bit = bit_of_grid_barrier();
        if (!runner_.grid_barrier || runner_.watching_warps != 1 || bit != bit_before_) return;
        const auto known = at_grid_barrier_.find(&block);
        if (known == at_grid_barrier_.end() || known->second != bit) {
            leave_grid_barrier(block);
            at_grid_barrier_.emplace(&block, bit);
            ++grid_.at_grid_barrier[bit];
        }
        const uint64_t ended = grid_.finished_blocks;
        if (grid_.at_grid_barrier[bit] + ended < launch_.block_count()) return;
        // After this function read the bit, another worker may have run the last block that had not
        // reached grid.sync(). It may even have run other blocks to their end since. Then the bit
        // has changed, and this block continues, too.
        if (bit_of_grid_barrier() != bit) return;
        throw LaunchError(
            "grid.sync() waits for " + std::to_string(ended) +
            " blocks that have ended without calling it; every block of the grid must call it\n  " +
            where(program_, *runner_.grid_barrier) + "\n  " + thread_name(block.warps[0], 0));
    }

    [[nodiscard]] int bit_of_grid_barrier() {
        uint16_t hint = 0;
        const Buffer* const workspace =
            shared_.memory->find(grid_workspace, 2 * sizeof(uint32_t), hint);
        return int(std::atomic_ref(reinterpret_cast<uint32_t*>(workspace->host)[1]).load() >> 31);
    }

    void leave_grid_barrier(const Block& block) {
        const auto known = at_grid_barrier_.find(&block);
        if (known == at_grid_barrier_.end()) return;
        --grid_.at_grid_barrier[known->second];
        at_grid_barrier_.erase(known);
    }

    static constexpr bool hears(Hook hook) { return O::hooks.has(hook); }

    WarpRunner<O> runner_;
    const Program& program_;
    const Launch& launch_;
    GridState& grid_;
    O& observer_;
    Block shared_;  // the state that all blocks of this worker share
    uint64_t most_waiting_ = 1, waiting_groups_ = 1;
    // The number of consecutive turns in which all running blocks only read memory, while they wait
    // for each other.
    uint64_t idle_turns_ = 0;
    bool has_run_ = false;  // true if run_block() has executed operations
    bool one_worker_ = true;
    int bit_before_ = 0;  // the highest bit of the grid's barrier at the start of this round
    // For each block that waits in grid.sync(): the value of the barrier's highest bit when it
    // began to wait.
    std::map<const Block*, int> at_grid_barrier_;
    MachineConstants machine_;
    std::vector<uint16_t> hints_;
    std::vector<uint32_t> thread_index_[3];
};

// Runs the grid, with one observer for each of worker_count(launch) host threads. The program must
// be decoded for watch_of<O>. Throws the errors of the kernel.
template <Observer O>
void run_grid(const Program& program, const Launch& launch, AddressSpace& memory,
              std::span<O* const> observers) {
    GridState grid;
    grid.instructions_left = int64_t(std::min<uint64_t>(launch.instruction_limit, INT64_MAX));
    const uint32_t workers = worker_count(launch);
    if (workers == 1 && !launch.poll) {  // nothing is polled, so no second thread is needed
        Worker<O>(program, launch, memory, *observers[0], grid).run();
        if (grid.error) std::rethrow_exception(grid.error);
        return;
    }
    grid.running = workers;
    std::vector<std::thread> threads;
    const auto work = [&](uint32_t n) {
        try {
            Worker<O>(program, launch, memory, *observers[n], grid).run();
        } catch (...) {
            grid.fail(std::current_exception());
        }
        const std::lock_guard lock(grid.mutex);
        if (--grid.running == 0) grid.done.notify_all();
    };
    threads.reserve(workers);
    for (uint32_t n = 0; n < workers; ++n) {
        try {
            threads.emplace_back(work, n);
            // The system cannot start another thread. The grid runs with fewer threads.
        } catch (const std::system_error&) {
            const std::lock_guard lock(grid.mutex);
            grid.running -= workers - n;
            if (threads.empty())
                throw LaunchError(
                    "the system cannot start a thread for the simulation: too little memory "
                    "(ulimit -v) "
                    "or too many threads (ulimit -u)");
            break;
        }
    }
    {
        std::unique_lock lock(grid.mutex);
        while (!grid.done.wait_for(lock, std::chrono::milliseconds(50),
                                   [&] { return grid.running == 0; })) {
            if (!launch.poll || grid.stop) continue;
            lock.unlock();
            try {
                launch.poll(grid.finished_blocks);
            } catch (...) {
                grid.fail(std::current_exception());
            }
            lock.lock();
        }
    }
    for (std::thread& t : threads) t.join();
    if (grid.error) std::rethrow_exception(grid.error);
}

// Returns the events that memory instructions must announce for an observer.
template <Observer O>
inline constexpr Watch watch_of = [] {
    if (O::hooks.has(Hook::fault)) return Watch::faults;
    const bool memory =
        O::hooks.has(Hook::access) || O::hooks.has(Hook::landed) || O::hooks.has(Hook::fence);
    return memory ? Watch::accesses : Watch::nothing;
}();

}  // namespace coalesce::sim
