// Runs the blocks of a grid, and reports events to an observer whose type is known at compile time.
//
// METHOD
// A worker is a host thread that runs blocks. Each worker gets the number of its next block (or
// cluster of blocks) from a counter that all workers share. The warps of a block run in turn. Each
// warp runs until all its paths wait or its time slice ends. If no path of a block can run, this is
// a deadlock, which is an error. If all warps of a block only read memory until another block
// changes it (spins.cpp), the worker runs another block in the meantime.
//
// A segment is a sequence of operations up to the next branch, call, barrier or similar operation.
// Its operations are executed one after the other without any test. Only the last one needs the
// scheduler. The launching thread waits, and calls Launch::poll regularly. So the user can
// interrupt the run: then the thread sets a flag, which the workers test once in each slice.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
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
#include "sim/launch.hpp"
#include "sim/observer.hpp"
#include "sim/scheduler.hpp"

namespace coalesce::sim {

inline constexpr int64_t slice_ops = 1 << 16;
// A warp runs for a slice, which is a limited number of operations. Then another warp runs. A slice
// is stalled if no path of the warp ended or began to wait during this slice. After this many
// consecutive stalled slices of a block, lanes that wait for reconvergence continue without the
// others (free_waiting_lanes).
inline constexpr int most_stalled_slices = 32;
// For the case that all running blocks only read memory, because they wait for each other: the
// number of turns of such blocks after which lanes that wait for reconvergence continue without the
// others. Only turns in which no block did anything else are counted.
inline constexpr uint64_t most_fruitless_turns = 1 << 16;

// The state that the workers of a launch share.
struct GridState {
    std::atomic<uint64_t> next_group{0};  // the next block or cluster to run
    std::atomic<uint64_t> finished_blocks{0};
    std::atomic<uint64_t> work{0};  // incremented whenever a block has done more than wait
    // How many blocks wait in grid.sync(). Such a block waits until the highest bit of the grid's
    // barrier changes. The index of the array is the value of this bit while the blocks wait.
    std::atomic<uint64_t> at_grid_barrier[2]{};
    std::atomic<int64_t> instructions_left{0};
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::condition_variable done;
    uint32_t running = 0;
    std::exception_ptr error;

    void fail(std::exception_ptr e) {
        const std::lock_guard lock(mutex);
        if (!error) error = e;
        stop = true;
    }
};

// An exception that ends a worker after another worker has failed.
struct Stopped {};

template <Observer O>
class Worker {
  public:
    Worker(const Program& program, const Launch& launch, AddressSpace& memory, O& observer,
           GridState& grid)
        : program_(program), launch_(launch), grid_(grid), observer_(observer) {
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
        stalled_slices_ = 0;
        for (;;) {
            // The flag is tested here, too, because warps that wait for each other may never use a
            // whole slice.
            if (grid_.stop) throw Stopped{};
            bool progress = false, done = true, spins = true;
            watching_warps_ = 0;
            if (launch_.cooperative) bit_before_ = bit_of_grid_barrier();
            for (Warp& w : block.warps) {
                if (w.done()) continue;
                done = false;
                if (next_path(w)) {
                    progress = true;
                    run_warp(w);
                    spins = spins && spun_;
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
            if (stalled_slices_ > most_stalled_slices) {
                short_slices_ = true;
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
        // Before lanes are freed, each path of the block's warps must have had a turn. If there are
        // several host threads, the block gets more turns, because another thread may still do some
        // work.
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
        if (!grid_barrier_ || watching_warps_ != 1 || bit != bit_before_) return;
        const auto known = at_grid_barrier_.find(&block);
        if (known == at_grid_barrier_.end() || known->second != bit) {
            leave_grid_barrier(block);
            at_grid_barrier_.emplace(&block, bit);
            ++grid_.at_grid_barrier[bit];
        }
        const uint64_t ended = grid_.finished_blocks;
        if (grid_.at_grid_barrier[bit] + ended < launch_.block_count()) return;
        throw LaunchError("grid.sync() waits for " + std::to_string(ended) +
                          " blocks that have ended without it; every block of the grid has to "
                          "call it\n  " +
                          where(program_, *grid_barrier_) + "\n  " +
                          thread_name(block.warps[0], 0));
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

    // Runs paths of the warp until none can run, or the slice ends.
    void run_warp(Warp& w) {
        left_ = slice_ = slice();
        spun_ = false;
        bool worked = false;
        do {
            run_current(w);
            if (left_ <= 0) {
                end_slice(*w.block);
                const bool waits = spun_;
                spun_ = waits && !worked;
                if (!waits) grid_.work.fetch_add(1, std::memory_order_relaxed);
                if (w.running) {
                    rotate(w);
                    if (waits) return;
                    ++stalled_slices_;
                    if ((spins_ || stalled_slices_ > most_stalled_slices) &&
                        free_waiting_lanes(w)) {
                        spins_ = short_slices_ = true;
                        stalled_slices_ = 0;
                    }
                }
                return;
            }
            stalled_slices_ = 0;
            worked = true;
        } while (next_path(w));
        if (launch_.instruction_limit) end_slice(*w.block);
    }

    void run_current(Warp& w) {
        const Op* const ops = program_.ops.data();
        const auto* const changes =
            program_.family_changes.empty() ? nullptr : program_.family_changes.data();
        while (w.running && left_ > 0) {
            const uint32_t first = w.current.pc;
            const uint32_t last = program_.segment_end[first] - 1;
            if constexpr (hears(Hook::segment)) observer_.segment(w, first, w.mask);
            left_ -= int64_t(last - first) + 1;
            const Op* op = ops + first;
            const Op* const end = ops + last;
            for (; op != end; op += op->length) op->run(w, *op);
            if (changes) note_changes(w, changes[first]);
            step(w, *end, last);
        }
    }

    // Call this after a segment was executed. Forgets the strides of the address families that the
    // segment has changed (lane_strides.hpp).
    static void note_changes(Warp& w, const Program::FamilyChanges& changes) {
        if (w.mask == all_lanes)
            w.strides.forget(changes.renewed);
        else
            w.strides.give_up(changes.changed);
    }

    // Executes the operation at the end of a segment.
    void step(Warp& w, const Op& op, uint32_t at) {
        switch (op.control) {
            case Control::none:
                op.run(w, op);
                [[fallthrough]];
            case Control::join:
                return go_to(w, at + 1);
            case Control::branch:
                return branch(w, op, at);
            case Control::synchronize:
                return synchronize(w, op, at);
            case Control::branch_table:
                return branch_table(w, op, at);
            case Control::call:
                w.current.pc = at;
                call(w, op, at);
                return entered(w);
            case Control::call_indirect:
                w.current.pc = at;
                call_indirect(w, op, at);
                return entered(w);
            case Control::ret:
                return return_from_function(w);
            case Control::exit:
                leave(w);
                if (w.block->cluster && cluster_complete_after_exit(w)) cluster_opened(w);
                while (const auto number = barrier_open_after_exit(w)) opened(*w.block, *number);
                return;
            case Control::barrier:
                w.current.pc = at;
                return barrier(w, op, at);
            case Control::cluster_arrive:
                w.current.pc = at;
                if constexpr (hears(Hook::arrive)) observer_.arrive(w, op, cluster_barrier);
                if (arrive_at_cluster(w, op, at)) cluster_opened(w);
                return;
            case Control::cluster_wait:
                w.current.pc = at;
                return wait_for_cluster(w, op, at);
            case Control::yield:
                end_turn();
                return go_to(w, at + 1);
            case Control::set_barrier:
                return set_barrier(w, op, at);
            case Control::sync_barrier:
                return sync_barrier(w, op, at);
            case Control::break_barrier:
                return break_barrier(w, op, at);
            case Control::keep_barrier:
            case Control::restore_barrier:
                return keep_barrier(w, op, at);
            case Control::call_outside:
                return call_outside(w, op, at);
            case Control::jump:
                jump(w, op, at);
                if (!w.running) diverged(w, op);
                return;
        }
    }

    void synchronize(Warp& w, const Op& op, uint32_t at) {
        const LaneMask before = w.current.mask;
        w.current.pc = at;
        const bool together = gather(w, op, at);
        if (splits_groups(op) && w.current.mask != before) diverged(w, op);
        if (!together) return;
        // The instruction may overwrite its own mask: mask = __ballot_sync(mask, ...).
        if constexpr (hears(Hook::synchronized)) observer_.synchronized(w, op);
        op.run(w, op);
        release(w);
        go_to(w, at + 1);
    }

    void barrier(Warp& w, const Op& op, uint32_t at) {
        const uint32_t number = barrier_number(w, op);
        if constexpr (hears(Hook::arrive)) observer_.arrive(w, op, number);
        if (reach_barrier(w, op, at)) opened(*w.block, number);
    }

    void entered(Warp& w) {
        if constexpr (hears(Hook::call)) observer_.call(w);
    }
    void opened(Block& block, uint32_t barrier) {
        if constexpr (hears(Hook::complete)) observer_.complete(block, barrier);
    }
    void cluster_opened(const Warp& w) {
        if constexpr (hears(Hook::complete)) {
            for (const Block* block : w.block->cluster->blocks)
                if (!block->ended) observer_.complete(*block, cluster_barrier);
        }
    }
    void diverged(Warp& w, const Op& op) {
        if constexpr (hears(Hook::diverged)) observer_.diverged(w, op);
    }
    static constexpr bool hears(Hook hook) { return O::hooks.has(hook); }

    void branch(Warp& w, const Op& op, uint32_t at) {
        const Branch& to = op.get<Branch>();
        if (op.guard == no_operand) return go_back_or_on(w, op, to);
        const LaneMask p = w.predicate(op.guard);
        const LaneMask taken = w.current.mask & (op.guard_negated ? ~p : p);
        if (taken == w.current.mask) return go_back_or_on(w, op, to);
        if (taken == 0) return go_to(w, at + 1);
        diverged(w, op);
        diverge(w, taken, to.target, at + 1, program_.reconvergence[at]);
    }

    void go_back_or_on(Warp& w, const Op& op, const Branch& to) {
        if (to.spins) {
            end_turn();
            spun_ = true;
            const uint64_t watched = w.address[std::countr_zero(w.current.mask)];
            grid_barrier_ = watched - grid_workspace < 2 * sizeof(uint32_t) ? &op : nullptr;
            ++watching_warps_;
        }
        go_to(w, to.target);
    }

    // Ends the current slice.
    void end_turn() {
        slice_ -= left_;
        left_ = 0;
    }

    // Returns the number of operations in a slice. With an instruction limit, it is at most the
    // number that remains.
    [[nodiscard]] int64_t slice() const {
        const int64_t most = short_slices_ ? slice_ops >> 6 : slice_ops;
        if (launch_.instruction_limit == 0) return most;
        return std::clamp<int64_t>(grid_.instructions_left + 1, 1, most);
    }

    void end_slice(const Block& block) {
        if (grid_.stop) throw Stopped{};
        if (launch_.instruction_limit == 0) return;
        if ((grid_.instructions_left -= slice_ - left_) < 0) {
            throw LaunchError(program_.kernel + ": stopped after the limit of " +
                              std::to_string(launch_.instruction_limit) +
                              " warp instructions; block (" + std::to_string(block.index.x) + ", " +
                              std::to_string(block.index.y) + ", " + std::to_string(block.index.z) +
                              ") was still running");
        }
    }

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
    // The next two members are for the running block. `grid_barrier_` is the branch of the last
    // loop that only reads memory, if the loop reads the barrier of the grid; otherwise it is null.
    // `watching_warps_` counts the warps that only read memory in their last turn.
    const Op* grid_barrier_ = nullptr;
    uint32_t watching_warps_ = 0;
    int bit_before_ = 0;  // the highest bit of the grid's barrier at the start of this round
    // For each block that waits in grid.sync(): the value of the barrier's highest bit when it
    // began to wait.
    std::map<const Block*, int> at_grid_barrier_;
    // `slice_` is the number of operations in the current slice. `left_` is the number that remain.
    int64_t slice_ = 0, left_ = 0;
    int stalled_slices_ = 0;
    bool spun_ = false;   // the last warp that ran ended its slice in a loop that only reads memory
    bool spins_ = false;  // lanes of this kernel have waited for other lanes of their warp
    bool short_slices_ = false;  // lanes or blocks of this kernel have waited for each other
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
