#include "cuda/memory/workers.hpp"

#include <algorithm>
#include <exception>

namespace coalesce::cuda {

Workers::Workers(unsigned count) {
    threads_.reserve(count);
    for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this] { loop(); });
}

Workers::~Workers() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    start_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

unsigned Workers::usual_count() {
    return std::clamp(std::thread::hardware_concurrency() / 2, 1u, 8u);
}

void Workers::run(const std::function<void()>& task, const std::function<void()>& lead) {
    const std::lock_guard one_caller(busy_);
    {
        const std::lock_guard lock(mutex_);
        task_ = &task;
        ++round_;
    }
    start_.notify_all();
    std::exception_ptr failure;
    try {
        lead();
    } catch (...) {
        failure = std::current_exception();
    }
    std::unique_lock lock(mutex_);
    task_ = nullptr;
    finish_.wait(lock, [this] { return running_ == 0; });
    if (failure) std::rethrow_exception(failure);
}

void Workers::loop() {
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
        start_.wait(lock, [&] { return stop_ || round_ != seen; });
        if (stop_) return;
        seen = round_;
        if (task_ == nullptr) continue;
        ++running_;
        const std::function<void()>& task = *task_;
        lock.unlock();
        task();
        lock.lock();
        if (--running_ == 0) finish_.notify_one();
    }
}

}  // namespace coalesce::cuda
