// Locks that a fork leaves open in the child.
//
// A fork copies the memory of a process and only the thread that asked for it. A lock that another
// thread held at that moment would stay locked in the child for ever: whoever held it is not there.
// So the child makes each of these locks anew. Whatever such a lock guards must still mean
// something in the child when its holder stopped half-way.
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
    std::atomic<uint64_t> forks{0};  // from the first process to this one

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

// How many forks lie between the process that loaded this library and the one that asks.
inline uint64_t count() { return Registry::get().forks; }

}  // namespace fork

// A std::mutex or std::timed_mutex that is open in a child process.
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
    void remake() override { new (&mutex_) Mutex; }  // the old one's holder is gone
    Mutex mutex_;
};

}  // namespace coalesce
