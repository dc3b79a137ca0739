// The state that the workers of a launch share. A worker is a host thread that runs blocks
// (worker.hpp).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace coalesce::sim {

struct GridState {
    std::atomic<uint64_t> next_group{0};  // the next block or cluster to run
    std::atomic<uint64_t> finished_blocks{0};
    std::atomic<uint64_t> work{0};  // incremented whenever a block has done more than wait
    // Incremented whenever a warp has read memory that the host may change, to wait for the host.
    std::atomic<uint64_t> waits_for_host{0};
    // The number of blocks that wait in grid.sync(). A block waits there until the highest bit of
    // the grid's barrier changes. Element [b] counts the blocks that wait while this bit is b.
    std::atomic<uint64_t> at_grid_barrier[2]{};
    std::atomic<int64_t> instructions_left{0};
    std::atomic<bool> stop{false};
    std::atomic<bool> lacks_threads{false};  // the system could not start all threads
    std::mutex mutex;
    std::condition_variable done;  // notified when `running` becomes 0
    uint32_t running = 0;          // the started threads that have not ended; see run_workers()
    std::exception_ptr error;
    // The launching thread is a worker, too, and calls attend() regularly (run_workers).
    std::thread::id launching;
    std::function<void()> attend;
    std::string stopped_at;  // the place at which a warp was stopped; see record_place()

    // Workers call this at least after each slice of a warp.
    void after_slice() const {
        if (std::this_thread::get_id() == launching) attend();
    }
    void fail(std::exception_ptr e) {
        const std::lock_guard lock(mutex);
        if (!error) error = e;
        stop = true;
    }
};

// An exception that ends a worker after another worker has failed.
struct Stopped {};

}  // namespace coalesce::sim
