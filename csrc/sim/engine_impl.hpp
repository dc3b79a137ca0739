// The engine itself: runs a grid of warps with an observer of a type known when this is compiled.
//
// METHOD
// Host threads take blocks from a counter. A block's warps run in turn, each until all its paths
// wait or its time slice ends; a block in which nobody can go on is a deadlock and an error.
// Straight runs of operations are executed without any test; at their end the scheduler looks at
// one operation (branch, call, barrier, ...). The thread that launched waits and polls, so that an
// interrupt of the user reaches the workers, who look at a flag once a slice.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "sim/engine.hpp"
#include "sim/memory_ops.hpp"
#include "sim/scheduler.hpp"

namespace coalesce::sim::COALESCE_ISA {

inline constexpr int64_t slice_ops = 1 << 16;
// Slices of a block in a row in which no path ended or waited, after which lanes that wait behind a
// branch may go on (free_waiting_lanes).
inline constexpr int most_stalled_slices = 32;

// What the workers of a launch share.
struct GridState {
    std::atomic<uint64_t> next_block{0};
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

// Thrown inside a worker to unwind it when another one has failed.
struct Stopped {};

template <class Observer>
class Worker {
  public:
    Worker(const Program& program, const Launch& launch, AddressSpace& memory, void* observer,
           GridState& grid)
        : program_(program),
          launch_(launch),
          grid_(grid),
          observer_(*static_cast<Observer*>(observer)) {
        block_.program = &program;
        block_.launch = &launch;
        block_.memory = &memory;
        block_.observer = observer;
        block_.threads = uint32_t(launch.block.count());
        block_.warp_count = (block_.threads + warp_size - 1) / warp_size;
        block_.shared_bytes = program.shared_bytes + launch.shared_bytes;
        shared_.resize(block_.shared_bytes + 64);
        block_.shared =
            shared_.data() + (64 - reinterpret_cast<uintptr_t>(shared_.data()) % 64) % 64;
        hints_.resize(program.instructions.size());
        block_.hints = hints_.data();
        for (int axis = 0; axis < 3; ++axis)
            thread_index_[axis].resize(size_t(block_.warp_count) * warp_size);
        for (uint32_t t = 0; t < block_.warp_count * warp_size; ++t) {
            thread_index_[0][t] = t % launch.block.x;
            thread_index_[1][t] = t / launch.block.x % launch.block.y;
            thread_index_[2][t] = t / launch.block.x / launch.block.y;
        }
        for (int axis = 0; axis < 3; ++axis) block_.thread_index[axis] = thread_index_[axis].data();
        block_.warps.resize(block_.warp_count);
        for (uint32_t i = 0; i < block_.warp_count; ++i) {
            Warp& w = block_.warps[i];
            w.index = i;
            w.block = &block_;
            w.registers.resize(program.functions[0].register_bytes + 64);
            w.local.assign(size_t(program.local_bytes) * warp_size, std::byte{0xff});
        }
    }

    void run() {
        try {
            const uint64_t blocks = launch_.grid.count();
            for (uint64_t b = grid_.next_block++; b < blocks && !grid_.stop; b = grid_.next_block++)
                run_block(b);
        } catch (const Stopped&) {
        } catch (...) {
            grid_.fail(std::current_exception());
        }
    }

  private:
    void run_block(uint64_t linear) {
        block_.linear = linear;
        block_.index = {uint32_t(linear % launch_.grid.x),
                        uint32_t(linear / launch_.grid.x % launch_.grid.y),
                        uint32_t(linear / launch_.grid.x / launch_.grid.y)};
        // Shared memory is not cleared on a GPU; NaNs show up where it is read before it is
        // written.
        std::fill_n(block_.shared, block_.shared_bytes, std::byte{0xff});
        std::fill(std::begin(block_.barriers), std::end(block_.barriers), Barrier{});
        for (Warp& w : block_.warps) {
            const uint32_t threads =
                std::min<uint32_t>(warp_size, block_.threads - w.index * warp_size);
            w.live = threads == warp_size ? all_lanes : (1u << threads) - 1;
            w.paths.clear();
            w.joins.clear();
            w.free_joins.clear();
            w.async_open.clear();
            w.async_groups.clear();
            w.running = false;
            Path path;
            path.pc = program_.functions[0].entry;
            path.mask = w.live;
            w.paths.push_back(path);
        }
        for (;;) {
            bool progress = false, done = true;
            for (Warp& w : block_.warps) {
                if (w.done()) continue;
                done = false;
                if (next_path(w)) {
                    progress = true;
                    run_warp(w);
                }
            }
            if (done) return;
            if (!progress) throw_deadlock(block_);
        }
    }

    // Runs paths of the warp until none can run or the slice is over.
    void run_warp(Warp& w) {
        left_ = slice();
        do {
            run_current(w);
            if (left_ <= 0) {
                end_slice();
                if (w.running) {
                    rotate(w);
                    if (spins_ || ++stalled_slices_ > most_stalled_slices) {
                        spins_ = free_waiting_lanes(w) || spins_;
                        stalled_slices_ = 0;
                    }
                }
                return;
            }
            stalled_slices_ = 0;
        } while (next_path(w));
    }

    void run_current(Warp& w) {
        const Op* const ops = program_.ops.data();
        while (w.running && left_ > 0) {
            const uint32_t first = w.current.pc;
            const uint32_t last = program_.segment_end[first] - 1;
            observer_.segment(w, first, w.mask);
            left_ -= int64_t(last - first) + 1;
            const Op* op = ops + first;
            const Op* const end = ops + last;
            for (; op != end; ++op) op->run(w, *op);
            step(w, *end, last);
        }
    }

    // Executes the operation that ends a segment.
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
                w.current.pc = at;
                if (gather(w, op, at)) {
                    op.run(w, op);
                    release(w);
                    go_to(w, at + 1);
                }
                return;
            case Control::branch_table:
                return branch_table(w, op, at);
            case Control::call:
                w.current.pc = at;
                return call(w, op, at);
            case Control::call_indirect:
                w.current.pc = at;
                return call_indirect(w, op, at);
            case Control::ret:
                return give_back(w);
            case Control::exit:
                return leave(w);
            case Control::barrier:
                w.current.pc = at;
                return reach_barrier(w, op, at);
            case Control::yield:
                left_ = 0;
                return go_to(w, at + 1);
        }
    }

    void branch(Warp& w, const Op& op, uint32_t at) {
        if (op.guard == no_operand) return go_to(w, op.target);
        const LaneMask p = w.predicate(op.guard);
        const LaneMask taken = w.current.mask & (op.guard_negated ? ~p : p);
        if (taken == w.current.mask) return go_to(w, op.target);
        if (taken == 0) return go_to(w, at + 1);
        part(w, taken, op.target, at + 1, program_.reconvergence[at]);
    }

    [[nodiscard]] int64_t slice() const { return spins_ ? slice_ops >> 6 : slice_ops; }

    void end_slice() {
        if (grid_.stop) throw Stopped{};
        if (launch_.instruction_limit == 0) return;
        if ((grid_.instructions_left -= slice() - left_) < 0) {
            throw LaunchError(program_.kernel + ": stopped after the limit of " +
                              std::to_string(launch_.instruction_limit) +
                              " warp instructions; block (" + std::to_string(block_.index.x) +
                              ", " + std::to_string(block_.index.y) + ", " +
                              std::to_string(block_.index.z) + ") was still running");
        }
    }

    const Program& program_;
    const Launch& launch_;
    GridState& grid_;
    Observer& observer_;
    Block block_;
    int64_t left_ = 0;
    int stalled_slices_ = 0;
    bool spins_ = false;  // lanes of this kernel were seen to wait for each other
    std::vector<std::byte> shared_;
    std::vector<uint16_t> hints_;
    std::vector<uint32_t> thread_index_[3];
};

template <class Observer>
void run_grid(const Program& program, const Launch& launch, AddressSpace& memory,
              void* const* observers) {
    GridState grid;
    grid.instructions_left = int64_t(launch.instruction_limit);
    const uint32_t workers = worker_count(launch);
    grid.running = workers;
    std::vector<std::thread> threads;
    const auto work = [&](uint32_t n) {
        try {
            Worker<Observer>(program, launch, memory, observers[n], grid).run();
        } catch (...) {
            grid.fail(std::current_exception());
        }
        const std::lock_guard lock(grid.mutex);
        if (--grid.running == 0) grid.done.notify_all();
    };
    for (uint32_t n = 0; n < workers; ++n) threads.emplace_back(work, n);
    {
        std::unique_lock lock(grid.mutex);
        while (!grid.done.wait_for(lock, std::chrono::milliseconds(50),
                                   [&] { return grid.running == 0; })) {
            if (!launch.poll || grid.stop) continue;
            lock.unlock();
            try {
                launch.poll();
            } catch (...) {
                grid.fail(std::current_exception());
            }
            lock.lock();
        }
    }
    for (std::thread& t : threads) t.join();
    if (grid.error) std::rethrow_exception(grid.error);
}

template <class Observer>
const Engine& make_engine() {
    static const Engine engine{&op_table(), memory_handlers<Observer>(), &run_grid<Observer>};
    return engine;
}

}  // namespace coalesce::sim::COALESCE_ISA
