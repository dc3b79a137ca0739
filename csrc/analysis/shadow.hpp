// Shadow memory: for each granule of memory, who wrote it last and who has read it since.
//
// METHOD
// A granule is as long as the shortest access of the kernel to its space (1 to 16 bytes, a power of
// two), so that an access covers whole granules and neighbours that different threads write never
// share one. Its cell keeps the last plain write and two reads, of different blocks if there are
// such, else of different warps: a write that races with any of the reads then races with one of
// the two (unless flags order it after exactly those). Atomics and volatile accesses are rare and
// lie in a table beside, with what the writers of such a location have made visible (order.hpp).
//
// A cell has 36 bytes. Cells of global memory are made where it is touched, 1024 at a time, so the
// shadow of an array of 4-byte elements takes up to nine times its bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "analysis/order.hpp"
#include "sim/address_space.hpp"

namespace coalesce::analysis {

struct Cell {
    Stamp write;  // extra: Flag
    Stamp read[2];
    enum Flag : uint8_t { has_strong = 1, initialised = 2, copying = 4 };
    [[nodiscard]] bool is(Flag flag) const { return write.extra & flag; }
    void mark(Flag flag) { write.extra |= flag; }
};
static_assert(sizeof(Cell) == 36);

// The last strong access to a location and, where nothing orders it before that one, an earlier
// one by another thread; best one of another block. A reader that updates the location itself must
// not hide what others did.
struct Recent {
    Stamp last, other;
    // `ordered`: whether an access happens before the new one.
    template <class Ordered>
    void keep(const Stamp& now, Ordered&& ordered) {
        if (other.time && ordered(other)) other = {};
        const bool own = last.block == now.block && last.warp == now.warp && last.lane == now.lane;
        if (last.time && !own && !ordered(last) && (!other.time || last.block != now.block))
            other = last;
        last = now;
    }
};

// What is kept of a location that atomics, volatile or otherwise strong accesses touch.
struct Location {
    Recent write, read;
    bool atomic_write = false;  // the last write was an atomic
    bool block_scope = false;   // it was of block scope
    Published published;
};

// The cells of one block's shared memory; those of an earlier block count as untouched.
class SharedShadow {
  public:
    // `is_shared`: other blocks of the cluster may write there, too.
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

    // The buffer that holds an address, by its number in memory.buffers().
    [[nodiscard]] uint32_t buffer_of(uint64_t address) const;
    [[nodiscard]] Cell& cell(uint32_t buffer, uint64_t granule) {
        if (buffer >= pages_.size()) add_buffers();
        Page& page = pages_[buffer][granule / page_cells];
        if (!page) page = std::make_unique<Cell[]>(page_cells);
        return page[granule % page_cells];
    }
    [[nodiscard]] Location& location(uint32_t buffer, uint64_t granule) {
        return locations_[memory_.buffers()[buffer].address + (granule << granule_bits_)];
    }
    [[nodiscard]] const sim::AddressSpace& memory() const { return memory_; }

  private:
    void add_buffers();  // those that came since: memory of malloc

    static constexpr uint64_t page_cells = 1024;
    using Page = std::unique_ptr<Cell[]>;

    const sim::AddressSpace& memory_;
    uint32_t granule_bits_;
    std::vector<std::vector<Page>> pages_;
    std::unordered_map<uint64_t, Location> locations_;
};

}  // namespace coalesce::analysis
