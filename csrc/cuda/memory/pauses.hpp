// How a thread waits for the GPU or for other threads: it polls, with pauses in between.
//
//     Pause pause;
//     PeriodicCall call_waiting(waiting);
//     while (driver.stream_query(stream) == not_ready) {
//         pause();
//         call_waiting();
//     }
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "cuda/memory/transfers.hpp"

namespace coalesce::cuda {

// The pauses of a thread that has nothing to do. In the first millisecond it only yields. Later the
// pauses become longer, up to 1 ms.
class Pause {
  public:
    void reset() { idle_ = false; }
    void operator()() {
        if (!idle_) {
            idle_ = true;
            since_ = Clock::now();
        }
        const auto passed = Clock::now() - since_;
        if (passed < std::chrono::milliseconds(1))
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(
                std::min<Clock::duration>(passed / 50, std::chrono::milliseconds(1)));
    }

  private:
    using Clock = std::chrono::steady_clock;
    bool idle_ = false;
    Clock::time_point since_;
};

// Calls `waiting` about every 100 ms, if this object is called at least that often.
class PeriodicCall {
  public:
    explicit PeriodicCall(const Waiting& waiting) : waiting_(waiting) {}
    void operator()() {
        if (!waiting_ || Clock::now() - last_ < std::chrono::milliseconds(100)) return;
        waiting_();
        last_ = Clock::now();
    }

  private:
    using Clock = std::chrono::steady_clock;
    const Waiting& waiting_;
    Clock::time_point last_ = Clock::now();
};

}  // namespace coalesce::cuda
