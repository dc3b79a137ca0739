// Memory for the large tables of the models, which each launch needs again.
//
// METHOD
// The system must fill new pages with zeros, and this takes long. The C library gives the pages of
// large freed memory back to the system. So the memory of these tables is kept for the next table
// of the same size: up to 12 pieces of at most 8 MB. There is no lock, because a fork could leave
// it locked.
//
// Some tables are read at random places, such as the modelled L2. The host translates addresses in
// pages. A table of several megabytes has more pages of 4 KB than the host can keep translations
// for. Therefore many lookups would have to wait for a translation. The memory of these tables is
// aligned to 2 MB, and Linux is asked to use pages of this size (HugePages). If the system has no
// such pages, the memory has ordinary pages.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace coalesce::model {

// Freed memory of tables.
class KeptMemory {
  public:
    struct Piece {
        size_t bytes;
        bool huge;  // aligned to 2 MB, and with huge pages if the system has them
        bool operator==(const Piece&) const = default;
    };
    // Returns a kept piece like this, or null.
    static void* take(Piece wanted) {
        for (auto& slot : slots_) {
            void* const memory = slot.exchange(nullptr);
            if (!memory) continue;
            if (*static_cast<Piece*>(memory) == wanted) return memory;
            put_back(memory);
        }
        return nullptr;
    }
    static void put(void* memory, Piece piece) {
        if (piece.bytes > most)
            std::free(memory);
        else
            put_back(new (memory) Piece(piece));  // the first bytes describe the piece
    }

  private:
    static constexpr size_t most = size_t{8} << 20;

    static void put_back(void* memory) {
        for (auto& slot : slots_) {
            void* empty = nullptr;
            if (slot.compare_exchange_strong(empty, memory)) return;
        }
        std::free(memory);
    }
    static inline std::array<std::atomic<void*>, 12> slots_{};
};

// An allocator for std::vector. Small vectors use ordinary memory.
template <class T>
struct KeptPages {
    using value_type = T;
    KeptPages() = default;
    template <class U>
    KeptPages(const KeptPages<U>&) {}

    T* allocate(size_t count) {
        const size_t bytes = bytes_of(count);
        void* memory = bytes < small ? nullptr : KeptMemory::take({bytes, false});
        if (!memory) memory = std::malloc(bytes);
        if (!memory) throw std::bad_alloc();
        return static_cast<T*>(memory);
    }
    void deallocate(T* memory, size_t count) {
        const size_t bytes = bytes_of(count);
        if (bytes < small)
            std::free(memory);
        else
            KeptMemory::put(memory, {bytes, false});
    }
    friend bool operator==(KeptPages, KeptPages) { return true; }

  private:
    static constexpr size_t small = size_t{64} << 10;
    // Large sizes are rounded, so that more pieces have the same size.
    static size_t bytes_of(size_t count) {
        const size_t bytes = count * sizeof(T);
        return bytes < small ? bytes : (bytes + small - 1) / small * small;
    }
};

// An allocator for std::vector. The elements have no initial values, except those that their
// constructors set.
template <class T>
struct HugePages {
    using value_type = T;
    HugePages() = default;
    template <class U>
    HugePages(const HugePages<U>&) {}

    T* allocate(size_t count) {
        const size_t bytes = bytes_of(count);
        if (void* const kept = KeptMemory::take({bytes, true})) return static_cast<T*>(kept);
        void* const memory = std::aligned_alloc(page, bytes);
        if (!memory) throw std::bad_alloc();
#if defined(__linux__)
        madvise(memory, bytes, MADV_HUGEPAGE);
#endif
        return static_cast<T*>(memory);
    }
    template <class U, class... Arguments>
    void construct(U* element, Arguments&&... arguments) {
        if constexpr (sizeof...(arguments) == 0)
            ::new (static_cast<void*>(element)) U;
        else
            ::new (static_cast<void*>(element)) U(std::forward<Arguments>(arguments)...);
    }
    void deallocate(T* memory, size_t count) { KeptMemory::put(memory, {bytes_of(count), true}); }
    friend bool operator==(HugePages, HugePages) { return true; }

  private:
    static constexpr size_t page = size_t{2} << 20;
    static size_t bytes_of(size_t count) { return (count * sizeof(T) + page - 1) / page * page; }
};

}  // namespace coalesce::model
