// Locks that are unlocked in the child process after a fork.
//
// The child has a copy of the whole memory of the process, but only one thread: the one that called
// fork(). If another thread held a lock during the fork, this lock would stay locked in the child
// for ever. Therefore the child replaces each of these locks by a new one, which is unlocked. The
// data that such a lock protects must be valid in the child even if the other thread was in the
// middle of a change.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

namespace coalesce {

namespace fork {

// An object that the child process creates again. All such objects form a list.
class RecreatedAfterFork {
  public:
    RecreatedAfterFork(const RecreatedAfterFork&) = delete;
    RecreatedAfterFork& operator=(const RecreatedAfterFork&) = delete;

  protected:
    RecreatedAfterFork();
    ~RecreatedAfterFork();
    virtual void recreate() = 0;  // called in the child, which has one thread

  private:
    friend struct Registry;
    RecreatedAfterFork *previous_ = nullptr, *next_ = nullptr;
};

struct Registry {
    std::mutex mutex;
    RecreatedAfterFork* first = nullptr;
    std::atomic<uint64_t> forks{0};  // number of forks from the first process to this one

    static Registry& get() {
        static auto* const registry = [] {
            auto* made = new Registry;
            pthread_atfork([] { get().mutex.lock(); }, [] { get().mutex.unlock(); },
                           [] { get().start_child(); });
            return made;
        }();
        return *registry;
    }

  private:
    void start_child() {
        ++forks;
        for (RecreatedAfterFork* r = first; r; r = r->next_) r->recreate();
        mutex.unlock();
    }
};

inline RecreatedAfterFork::RecreatedAfterFork() {
    Registry& registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    next_ = registry.first;
    if (next_) next_->previous_ = this;
    registry.first = this;
}

inline RecreatedAfterFork::~RecreatedAfterFork() {
    Registry& registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    (previous_ ? previous_->next_ : registry.first) = next_;
    if (next_) next_->previous_ = previous_;
}

// Returns the number of forks between the process that loaded this library and the calling process.
inline uint64_t count() { return Registry::get().forks; }

}  // namespace fork

// A std::mutex or std::timed_mutex that is unlocked in a child process.
template <class Mutex>
class ForkSafe final : fork::RecreatedAfterFork {
  public:
    ForkSafe() = default;
    ~ForkSafe() = default;
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }
    bool try_lock() { return mutex_.try_lock(); }
    template <class Duration>
    bool try_lock_for(const Duration& duration) {
        return mutex_.try_lock_for(duration);
    }
    [[nodiscard]] const Mutex* operator->() const { return &mutex_; }

  private:
    // The thread that held the old mutex does not exist.
    void recreate() override { new (&mutex_) Mutex; }
    Mutex mutex_;
};

}  // namespace coalesce
