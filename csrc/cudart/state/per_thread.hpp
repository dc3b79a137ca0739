// Objects of which each host thread has its own.
#pragma once

#include <pthread.h>

namespace coalesce::cudart {

// A T for each host thread. Unlike a thread_local T, it still exists while the destructors of the
// program's thread_local objects run. These destructors may call CUDA.
template <class T>
class PerThread {
  public:
    PerThread() {
        pthread_key_create(&key_, [](void* object) { delete static_cast<T*>(object); });
    }
    [[nodiscard]] T& get() const {
        auto* object = static_cast<T*>(pthread_getspecific(key_));
        if (!object) pthread_setspecific(key_, object = new T);
        return *object;
    }

  private:
    pthread_key_t key_{};
};

}  // namespace coalesce::cudart
