// Shadow memory: stores which threads accessed memory last. Memory is divided into small pieces,
// called granules. For each granule, shadow memory has the last write, and two of the reads after
// it.
//
// METHOD
// A granule is as large as the shortest access of the kernel to the memory space: 1 to 16 bytes, a
// power of two. Each access therefore covers whole granules, and a granule never contains two
// elements that different threads write.
//
// The cell of a granule keeps the last plain write and two reads. The two reads are by different
// blocks if possible, otherwise by different warps, otherwise by different instructions. A write
// that races with any read then also races with one of these two. There is one exception: the
// threads may communicate by flags that order the write after exactly these two reads. Atomics and
// volatile accesses are rare. They are in a separate table, together with the accesses that the
// writers of the location made visible (order.hpp).
//
// A cell has 36 bytes. Cells of global memory are allocated on first use, 1024 at a time. The
// shadow memory of an array with 4-byte elements is up to nine times as large as the array.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/check/order.hpp"
#include "sim/memory/address_space.hpp"

namespace coalesce::analysis {

// The accesses that shadow memory keeps for one granule.
struct Cell {
    Stamp write;  // the member `extra` holds a set of Flag
    Stamp read[2];
    enum Flag : uint8_t { has_strong = 1, initialised = 2, copying = 4 };
    [[nodiscard]] bool is(Flag flag) const { return write.extra & flag; }
    void mark(Flag flag) { write.extra |= flag; }
};
static_assert(sizeof(Cell) == 36);

// Two strong accesses to a location. `last` is the last one. `other` is an earlier access by
// another thread (preferably of another block) that is not ordered before the last one. So a thread
// that reads and then updates the location does not hide the accesses of other threads.
struct Recent {
    Stamp last, other;
    // Replaces the last access by `now`. ordered(access) returns true if the access happens before
    // `now`.
    template <class Ordered>
    void keep(const Stamp& now, Ordered&& ordered) {
        if (other.time && ordered(other)) other = {};
        const bool own = last.block == now.block && last.warp == now.warp && last.lane == now.lane;
        if (last.time && !own && !ordered(last) && (!other.time || last.block != now.block))
            other = last;
        last = now;
    }
};

// The state of a location that is accessed by atomics, volatile or other strong accesses.
struct Location {
    Recent write, read;
    bool atomic_write = false;  // the last write was an atomic
    bool block_scope = false;   // the last write had block scope
    Published published;
};

// Which bytes of global memory a kernel accessed, as sorted ranges [first, second) of addresses.
// Bytes that were written are not listed as read.
struct Touched {
    using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
    Ranges read, written;
    // Strong accesses do not race with each other. They are atomics, volatile accesses and similar.
    // The host may read a flag to learn that the kernel has reached a point: `flags` are bytes that
    // the kernel wrote last with a volatile or another strong store.
    Ranges strongly_read, atomics, flags;
    bool operator==(const Touched&) const = default;
};

// The cells of one block's shared memory. A host thread uses the same cells for one block after
// another. Cells with accesses of an earlier block count as empty.
class SharedShadow {
  public:
    // `is_shared` is true if other blocks of the cluster may write to this memory, too.
    void start(uint32_t block, uint64_t bytes, uint32_t granule_bits, bool is_shared);
    [[nodiscard]] Cell& cell(uint64_t granule) {
        Cell& c = cells_[granule];
        if (!is_shared_ && c.write.block != block_) {
            c = {};
            c.write.block = block_;
        }
        return c;
    }
    [[nodiscard]] Location& location(uint64_t granule) { return locations_[granule]; }

  private:
    uint32_t block_ = 0;
    bool is_shared_ = false;
    std::vector<Cell> cells_;
    std::unordered_map<uint64_t, Location> locations_;
};

// The cells of global memory, by buffer.
class GlobalShadow {
  public:
    GlobalShadow(const sim::AddressSpace& memory, uint32_t granule_bits);

    // Returns the index in memory.buffers() of the buffer that contains an address.
    [[nodiscard]] uint32_t buffer_of(uint64_t address) const;
    [[nodiscard]] Cell& cell(uint32_t buffer, uint64_t granule) {
        if (buffer >= pages_.size()) add_buffers();
        Page& page = pages_[buffer][granule / page_cells];
        if (!page) page = std::make_unique<Cell[]>(page_cells);
        return page[granule % page_cells];
    }
    // Returns null if the granule and those near it were never accessed.
    [[nodiscard]] const Cell* find(uint32_t buffer, uint64_t granule) const {
        if (buffer >= pages_.size()) return nullptr;
        const Page& page = pages_[buffer][granule / page_cells];
        return page ? &page[granule % page_cells] : nullptr;
    }
    [[nodiscard]] Location& location(uint32_t buffer, uint64_t granule) {
        return locations_[memory_.buffers()[buffer].address + (granule << granule_bits_)];
    }
    [[nodiscard]] const sim::AddressSpace& memory() const { return memory_; }
    // The accesses of all threads so far. Bytes that were written are not listed as read.
    [[nodiscard]] Touched touched() const;

  private:
    void add_buffers();  // adds the buffers that malloc() has created

    static constexpr uint64_t page_cells = 1024;
    using Page = std::unique_ptr<Cell[]>;

    const sim::AddressSpace& memory_;
    uint32_t granule_bits_;
    std::vector<std::vector<Page>> pages_;
    std::unordered_map<uint64_t, Location> locations_;
};

}  // namespace coalesce::analysis
