// Locks that are unlocked in the child process after a fork.
//
// The child has a copy of the whole memory of the process, but only one thread: the one that called
// fork(). If another thread held a lock during the fork, this lock would stay locked in the child
// for ever. Therefore the child creates each of these locks anew. The data that such a lock
// protects must be valid in the child even if the other thread was in the middle of a change.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

namespace coalesce {

namespace fork {

class Remade {
  public:
    Remade(const Remade&) = delete;
    Remade& operator=(const Remade&) = delete;

  protected:
    Remade();
    ~Remade();
    virtual void remake() = 0;  // called in the child, which has one thread

  private:
    friend struct Registry;
    Remade *before_ = nullptr, *after_ = nullptr;
};

struct Registry {
    std::mutex mutex;
    Remade* first = nullptr;
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
        for (Remade* r = first; r; r = r->after_) r->remake();
        mutex.unlock();
    }
};

inline Remade::Remade() {
    Registry& registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    after_ = registry.first;
    if (after_) after_->before_ = this;
    registry.first = this;
}

inline Remade::~Remade() {
    Registry& registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    (before_ ? before_->after_ : registry.first) = after_;
    if (after_) after_->before_ = before_;
}

// Returns the number of forks between the process that loaded this library and the calling process.
inline uint64_t count() { return Registry::get().forks; }

}  // namespace fork

// A std::mutex or std::timed_mutex that is unlocked in a child process.
template <class Mutex>
class ForkSafe final : fork::Remade {
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

  private:
    // The thread that held the old mutex does not exist.
    void remake() override { new (&mutex_) Mutex; }
    Mutex mutex_;
};

}  // namespace coalesce
