// A few threads that work for one caller at a time. Transfers (transfers.hpp) use them to copy
// between host arrays and pinned memory.
//
// run() lends all workers to its caller until it returns. If another thread calls run() meanwhile,
// this thread waits. Between two calls, the workers sleep.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace coalesce::cuda {

class Workers {
  public:
    explicit Workers(unsigned count);
    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    [[nodiscard]] unsigned count() const { return static_cast<unsigned>(threads_.size()); }

    // Runs `task` on each worker and `lead` on the calling thread. Waking a worker may take
    // milliseconds on a busy machine. Therefore, when `lead` has ended, run() waits only for the
    // workers that have begun the task. Workers that have not woken up yet do not run the task.
    // `task` must not throw. If `lead` throws, it must first make the tasks end. The caller gets
    // the exception.
    void run(const std::function<void()>& task, const std::function<void()>& lead);

    // Returns the usual number of workers: half of the number of processors, but at least 1 and at
    // most 8. With this number, the workers copy faster than a PCIe link transfers, and some
    // processors are left for other threads.
    [[nodiscard]] static unsigned usual_count();

  private:
    void loop();

    std::mutex busy_;   // one caller at a time
    std::mutex mutex_;  // protects the following members
    std::condition_variable start_, finish_;
    const std::function<void()>* task_ = nullptr;
    uint64_t round_ = 0;
    unsigned running_ = 0;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace coalesce::cuda
