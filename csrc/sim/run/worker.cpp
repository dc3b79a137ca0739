#include "sim/run/worker.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "errors.hpp"
#include "round_up.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::sim {

WorkerBase::WorkerBase(const Program& program, const GridRun& launch, AddressSpace& memory,
                       GridState& grid)
    : program_(program), launch_(launch), grid_(grid) {
    shared_.program = &program;
    shared_.launch = &launch;
    shared_.memory = &memory;
    shared_.constants = program.constants.data();
    if (program.machine) {
        machine_ = machine_constants(program, launch);
        shared_.constants = machine_.constants.data();
        shared_.banks = machine_.bank;
    }
    hints_.resize(program.instructions.size());
    shared_.hints = hints_.data();
    latest_loads_.resize(program.instructions.size());
    shared_.latest_loads = latest_loads_.data();
    shared_.rows = &rows_;
    index_threads(shared_, launch.block, thread_index_);
    // The blocks that the GPU holds at the same time may wait for each other. Each worker gets the
    // same share of them.
    const uint32_t workers = worker_count(launch);
    const uint64_t size = launch.cluster.count(), groups = launch.block_count() / size;
    const uint64_t held =
        launch.cooperative ? groups : std::min(groups, blocks_at_once(launch) / size);
    max_waiting_ = std::max<uint64_t>(1, round_up(held, workers) / workers);
    one_worker_ = workers == 1;
    takes_turns_ = std::ranges::any_of(program.instructions, [](const InstructionInfo& in) {
        const bool in_global = in.space == ptx::Space::global || in.space == ptx::Space::generic;
        const bool reads = in.access == Access::atomic || in.access == Access::load;
        return in_global && in.traits.strong && reads;
    });
}

void WorkerBase::run() {
    try {
        const uint64_t groups = launch_.block_count() / launch_.cluster.count();
        std::deque<std::unique_ptr<Group>> waiting;
        std::unique_ptr<Group> spare;
        while (!grid_.stop) {
            grid_.after_slice();
            std::unique_ptr<Group> group;
            const bool may_start = waiting.size() < max_waiting_ || grid_.lacks_threads;
            const uint64_t next = may_start ? grid_.next_group++ : groups;
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
        if (!grid_.stop) return;
        for (const auto& group : waiting)
            for (const auto& block : group->blocks)
                if (!block->ended) record_place(*block, grid_);
    } catch (const Stopped&) {
    } catch (...) {
        grid_.fail(std::current_exception());
    }
}

void WorkerBase::start_group(Group& group, uint64_t number) {
    const uint64_t size = launch_.cluster.count();
    rows_.host = nullptr;
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
    started(group);
}

bool WorkerBase::run_group(Group& group) {
    for (;;) {
        bool ended = true, waits = true;
        const Block* waiting_block = nullptr;
        for (const auto& block : group.blocks) {
            if (block->ended) continue;
            has_run_ = false;
            const RunEnd ran = run_block(*block);
            waits = waits && (ran == RunEnd::polls_memory || !has_run_);
            if (ran == RunEnd::waits_for_others && !has_run_) waiting_block = block.get();
            ended = ended && ran == RunEnd::block_ended;
            if (ran == RunEnd::polls_memory && group.blocks.size() == 1) return false;
        }
        if (ended) return true;
        if (!waits) continue;
        const bool watches = std::any_of(
            group.blocks.begin(), group.blocks.end(),
            [&](const auto& block) { return !block->ended && block->turns_without_progress > 0; });
        if (!watches && waiting_block) throw_deadlock(*waiting_block);
        return false;
    }
}

bool WorkerBase::waits_for_cluster(const Block& block) {
    return std::any_of(block.warps.begin(), block.warps.end(), [](const Warp& w) {
        return std::any_of(w.paths.begin(), w.paths.end(),
                           [](const Path& p) { return p.wait == Wait::cluster; });
    });
}

WorkerBase::RunEnd WorkerBase::let_others_run(Block& block) {
    const uint64_t work = grid_.work.load(std::memory_order_relaxed);
    if (block.seen_work != work) {
        block.seen_work = work;
        block.turns_without_progress = 0;
        idle_turns_ = 0;
    }
    // If no block makes progress, lanes that wait for other lanes of their warp continue without
    // these. Before that, each path of the block's warps must have had a turn. If there are several
    // host threads, the block gets more turns, because another thread may still make progress.
    const uint64_t most = one_worker_ ? 0 : max_turns_without_progress / waiting_groups_;
    if (++block.turns_without_progress > std::max<uint64_t>(most, 2 * warp_size)) {
        block.turns_without_progress = 1;
        for (Warp& w : block.warps)
            if (!w.done()) release_waiting_lanes(w);
    }
    // Yields the processor to other processes, but only after all waiting blocks had a turn.
    if (++idle_turns_ > waiting_groups_ && !one_worker_) {
        idle_turns_ = 0;
        std::this_thread::yield();
    }
    return RunEnd::polls_memory;
}

void WorkerBase::wait_at_grid_barrier(const Block& block, const Op* reader,
                                      uint32_t polling_warps) {
    const int bit = bit_of_grid_barrier();
    if (!reader || polling_warps != 1 || bit != bit_before_) return;
    const auto known = at_grid_barrier_.find(&block);
    if (known == at_grid_barrier_.end() || known->second != bit) {
        leave_grid_barrier(block);
        at_grid_barrier_.emplace(&block, bit);
        ++grid_.at_grid_barrier[bit];
    }
    const uint64_t ended = grid_.finished_blocks;
    if (grid_.at_grid_barrier[bit] + ended < launch_.block_count()) return;
    // Other workers may have run blocks since this function read the bit. Then the last missing
    // block may have reached grid.sync(), and some blocks may even have ended after it. In this
    // case, the bit has changed, and this block continues, too.
    if (bit_of_grid_barrier() != bit) return;
    throw KernelFault(Fault::deadlock,
                      "grid.sync() would wait forever: " + std::to_string(ended) +
                          (ended == 1 ? " block has" : " blocks have") +
                          " ended without calling grid.sync(). Every block of the grid must call "
                          "grid.sync()\n  " +
                          where(program_, *reader) + "\n  " + thread_name(block.warps[0], 0));
}

int WorkerBase::bit_of_grid_barrier() {
    uint16_t hint = 0;
    const Buffer* const workspace =
        shared_.memory->find(grid_workspace, 2 * sizeof(uint32_t), hint);
    return int(std::atomic_ref(reinterpret_cast<uint32_t*>(workspace->host)[1]).load() >> 31);
}

void WorkerBase::leave_grid_barrier(const Block& block) {
    const auto known = at_grid_barrier_.find(&block);
    if (known == at_grid_barrier_.end()) return;
    --grid_.at_grid_barrier[known->second];
    at_grid_barrier_.erase(known);
}

void run_workers(const GridRun& launch, GridState& grid,
                 const std::function<void(uint32_t)>& work) {
    using Clock = std::chrono::steady_clock;
    // Starting a thread costs about 0.1 ms, so threads do not speed up small grids. The blocks of a
    // cooperative launch wait for each other, so they need all threads.
    constexpr auto alone = std::chrono::milliseconds(1), pause = std::chrono::milliseconds(50);
    grid.instructions_left = int64_t(std::min<uint64_t>(launch.instruction_limit, INT64_MAX));
    const uint64_t groups = launch.block_count() / launch.cluster.count();
    std::vector<std::thread> threads;
    const auto start_threads = [&] {
        const uint32_t workers = worker_count(launch);
        threads.reserve(workers);
        for (uint32_t n = 1; n < workers && grid.next_group < groups; ++n) {
            const auto run = [&grid, &work, n] {
                try {
                    work(n);
                } catch (...) {
                    grid.fail(std::current_exception());
                }
                const std::lock_guard lock(grid.mutex);
                if (--grid.running == 0) grid.done.notify_all();
            };
            const std::lock_guard lock(grid.mutex);
            try {
                threads.emplace_back(run);
                ++grid.running;
            } catch (const std::system_error&) {
                grid.lacks_threads = true;  // The grid runs with fewer threads.
                return;
            }
        }
    };
    std::exception_ptr interrupt;  // the exception that poll() has thrown
    // If no running block has done more than wait for others at this many calls of poll(), some 10
    // seconds, the blocks that have not started will never start. (In a launch of its first blocks
    // only, all that fit have started.)
    constexpr int most_idle = 200;
    int idle = 0;
    uint64_t work_before = 0;
    bool stuck = false;
    const auto poll = [&] {
        const uint64_t work = grid.work + grid.waits_for_host;
        idle = std::exchange(work_before, work) == work ? idle + 1 : 0;
        const bool are_left =
            grid.next_group < groups || launch.block_count() < launch.grid.count();
        if (idle > most_idle && are_left && !grid.stop.exchange(true)) stuck = true;
        if (!launch.poll || grid.stop) return;
        try {
            launch.poll(grid.finished_blocks);
        } catch (...) {
            interrupt = std::current_exception();
            grid.fail(interrupt);
        }
    };
    const auto start = Clock::now();
    auto polled = start;
    bool started = false;
    grid.launching = std::this_thread::get_id();
    grid.attend = [&] {
        const auto now = Clock::now();
        if (!started && (launch.cooperative || now - start > alone)) {
            started = true;
            start_threads();
        }
        if (now - polled > pause) {
            polled = now;
            poll();
        }
    };
    try {
        work(0);
    } catch (...) {
        grid.fail(std::current_exception());
    }
    for (std::unique_lock lock(grid.mutex);
         !grid.done.wait_for(lock, pause, [&] { return grid.running == 0; });) {
        lock.unlock();
        poll();
        lock.lock();
    }
    for (std::thread& t : threads) t.join();
    if (interrupt && grid.error == interrupt && launch.stopped && !grid.stopped_at.empty())
        launch.stopped(grid.stopped_at);
    if (grid.error) std::rethrow_exception(grid.error);
    if (stuck) throw_stuck(launch, grid.stopped_at);
}

}  // namespace coalesce::sim
