// Memory for large tables that each launch needs again, such as those of the models.
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

// Allocates the memory of tables, and keeps freed memory.
class KeptMemory {
  public:
    struct Piece {
        size_t bytes;
        bool huge;  // aligned to 2 MB, and with huge pages if the system has them
        bool operator==(const Piece&) const = default;
    };
    static constexpr size_t huge_page = size_t{2} << 20;

    // Returns memory for the piece. `bytes` of a huge piece is a multiple of `huge_page`.
    static void* allocate(Piece piece) {
        if (void* const kept = take(piece)) return kept;
        void* const memory =
            piece.huge ? std::aligned_alloc(huge_page, piece.bytes) : std::malloc(piece.bytes);
        if (!memory) throw std::bad_alloc();
#if defined(__linux__)
        if (piece.huge) madvise(memory, piece.bytes, MADV_HUGEPAGE);
#endif
        return memory;
    }
    static void free(void* memory, Piece piece) {
        if (is_kept(piece))
            put(new (memory) Piece(piece));  // the first bytes describe the piece
        else
            std::free(memory);
    }

  private:
    static bool is_kept(Piece piece) {
        constexpr size_t least = size_t{64} << 10, most = size_t{8} << 20;
        return piece.bytes >= least && piece.bytes <= most;
    }
    // Returns a kept piece like this, or null.
    static void* take(Piece wanted) {
        if (!is_kept(wanted)) return nullptr;
        for (auto& slot : slots_) {
            void* const memory = slot.exchange(nullptr);
            if (!memory) continue;
            if (*static_cast<Piece*>(memory) == wanted) return memory;
            put(memory);
        }
        return nullptr;
    }
    static void put(void* memory) {
        for (auto& slot : slots_) {
            void* empty = nullptr;
            if (slot.compare_exchange_strong(empty, memory)) return;
        }
        std::free(memory);
    }
    static inline std::array<std::atomic<void*>, 12> slots_{};
};

// An allocator for std::vector. The elements have no initial values, except those that their
// constructors set.
template <class T, bool huge = false>
struct KeptPages {
    using value_type = T;
    template <class U>
    struct rebind {
        using other = KeptPages<U, huge>;
    };
    KeptPages() = default;
    template <class U>
    KeptPages(const KeptPages<U, huge>&) {}

    T* allocate(size_t count) { return static_cast<T*>(KeptMemory::allocate(piece(count))); }
    void deallocate(T* memory, size_t count) { KeptMemory::free(memory, piece(count)); }
    template <class U, class... Arguments>
    void construct(U* element, Arguments&&... arguments) {
        if constexpr (sizeof...(arguments) == 0)
            ::new (static_cast<void*>(element)) U;
        else
            ::new (static_cast<void*>(element)) U(std::forward<Arguments>(arguments)...);
    }
    friend bool operator==(KeptPages, KeptPages) { return true; }

  private:
    // Large sizes are rounded, so that more pieces have the same size.
    static KeptMemory::Piece piece(size_t count) {
        constexpr size_t unit = huge ? KeptMemory::huge_page : size_t{64} << 10;
        const size_t bytes = count * sizeof(T);
        return {huge || bytes >= unit ? (bytes + unit - 1) / unit * unit : bytes, huge};
    }
};

// The same for tables that are read at random places.
template <class T>
using HugePages = KeptPages<T, true>;

}  // namespace coalesce::model
