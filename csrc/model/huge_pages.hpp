// Memory for large tables that are read at random places, such as the modelled L2.
//
// METHOD
// The host translates addresses in pages. A table of several megabytes has more pages of 4 KB than
// the host can keep translations for. Therefore many lookups would have to wait for a translation.
// The memory here is aligned to 2 MB, and Linux is asked to use pages of this size. If the system
// has no such pages, the memory has ordinary pages.
//
// The system must fill new pages with zeros, and this takes long. So freed memory is kept for the
// next table of the same size, for up to four tables. There is no lock, because a fork could leave
// it locked.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace coalesce::model {

// Freed memory of tables. The first bytes of each piece hold its size.
class KeptMemory {
  public:
    // Returns a kept piece of this size, or null.
    static void* take(size_t bytes) {
        for (auto& slot : slots_) {
            void* const memory = slot.exchange(nullptr);
            if (!memory) continue;
            if (*static_cast<size_t*>(memory) == bytes) return memory;
            put_back(memory);
        }
        return nullptr;
    }
    static void put(void* memory, size_t bytes) { put_back(new (memory) size_t(bytes)); }

  private:
    static void put_back(void* memory) {
        for (auto& slot : slots_) {
            void* empty = nullptr;
            if (slot.compare_exchange_strong(empty, memory)) return;
        }
        std::free(memory);
    }
    static inline std::array<std::atomic<void*>, 4> slots_{};
};

// An allocator for std::vector.
template <class T>
struct HugePages {
    using value_type = T;
    HugePages() = default;
    template <class U>
    HugePages(const HugePages<U>&) {}

    T* allocate(size_t count) {
        const size_t bytes = bytes_of(count);
        if (void* const kept = KeptMemory::take(bytes)) return static_cast<T*>(kept);
        void* const memory = std::aligned_alloc(page, bytes);
        if (!memory) throw std::bad_alloc();
#if defined(__linux__)
        madvise(memory, bytes, MADV_HUGEPAGE);
#endif
        return static_cast<T*>(memory);
    }
    void deallocate(T* memory, size_t count) { KeptMemory::put(memory, bytes_of(count)); }
    friend bool operator==(HugePages, HugePages) { return true; }

  private:
    static constexpr size_t page = size_t{2} << 20;
    static size_t bytes_of(size_t count) { return (count * sizeof(T) + page - 1) / page * page; }
};

}  // namespace coalesce::model
