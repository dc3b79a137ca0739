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
// 32 neighbouring granules are a row. A warp usually accesses whole rows, lane i the granule i of
// the row. Then the cells of the row differ only in their lanes, and the row stores one cell for
// all of them (Stamp::shift). So one test suffices for all lanes, and the shadow memory is smaller
// than the memory. A row stores up to six different cells. If there are more, it stores 32. Rows
// of global memory are allocated on first use, 32 at a time.
//
// Nearly all reads change nothing, because two warps (or, in global memory, two blocks) have read
// the granules before. Granules of shared memory and rows of global memory are then marked as
// settled, and reads by other warps or blocks only test the mark.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/check/order.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/warp/memory.hpp"

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

// The cells of 32 neighbouring granules. Granules with equal cells share one cell.
class Row {
  public:
    static constexpr uint32_t size = 32;

    [[nodiscard]] uint32_t cells() const { return count_; }
    // Returns the number of the cell that a granule has.
    [[nodiscard]] uint32_t number_at(uint32_t granule) const {
        if (count_ > most) return granule;
        uint32_t n = 0;
        while (!sim::has_lane(granules_[n], int(granule))) ++n;
        return n;
    }
    // Returns the granules that have the cell with this number.
    [[nodiscard]] sim::LaneMask granules(uint32_t n) const {
        return count_ > most ? 1u << n : granules_[n];
    }
    [[nodiscard]] const Cell& cell(uint32_t n) const {
        return count_ > most ? others_[n] : n == 0 ? first_ : others_[n - 1];
    }
    [[nodiscard]] Cell& cell(uint32_t n) {
        settled_[0] = 0;
        return const_cast<Cell&>(static_cast<const Row&>(*this).cell(n));
    }
    // Marks the row as settled if nothing was written to it, and two blocks have read each granule
    // and are in its cell. Then reads by other blocks change nothing. The mark ends with the next
    // change.
    void settle();
    [[nodiscard]] bool is_settled(uint32_t block) const {
        return settled_[0] && settled_[0] != block && settled_[1] != block;
    }
    [[nodiscard]] const Cell& at(uint32_t granule) const { return cell(number_at(granule)); }
    // Gives the granule a cell of its own, which can be changed.
    [[nodiscard]] Cell& own(uint32_t granule);
    // Gives each granule a cell of its own. These can be changed.
    [[nodiscard]] Cell* apart() {
        settled_[0] = 0;
        if (count_ <= most) split();
        return others_.get();
    }
    [[nodiscard]] bool is_apart() const { return count_ > most; }
    // Gives these granules this cell.
    void assign(sim::LaneMask granules, const Cell& cell);
    // Replaces each cell by changed(cell). same(a, b) must return true if the results for two cells
    // are equal. Then granules with equal cells share one cell again.
    template <class Same, class F>
    void change_all(Same&& same, F&& changed) {
        const Cell* kept[most];
        sim::LaneMask masks[most] = {};
        uint32_t found = 0, at = 0;
        for (uint32_t n = 0; n < count_ && at < most; ++n) {
            const Cell& c = cell(n);
            if (n == 0 || !same(*kept[at], c)) {
                at = 0;
                while (at < found && !same(*kept[at], c)) ++at;
                if (at == most) break;
                if (at == found) kept[found++] = &c;
            }
            masks[at] |= granules(n);
        }
        if (at == most) {
            for (uint32_t n = 0; n < count_; ++n) cell(n) = changed(cell(n));
            return;
        }
        Cell cells[most];
        for (uint32_t n = 0; n < found; ++n) cells[n] = changed(*kept[n]);
        if (found > 1) reserve(most - 1);
        count_ = uint8_t(found);
        for (uint32_t n = 0; n < found; ++n) cell(n) = cells[n];
        std::copy_n(masks, most, granules_);
    }

    // The granules whose cells satisfy the test.
    template <class F>
    [[nodiscard]] sim::LaneMask where(F&& test) const {
        sim::LaneMask found = 0;
        for (uint32_t n = 0; n < count_; ++n)
            if (test(cell(n))) found |= granules(n);
        return found;
    }

  private:
    static constexpr uint32_t most = 6;  // different cells of a row with shared cells
    void reserve(uint32_t cells);
    void split();  // gives each granule a cell of its own
    static bool equal(const Cell& a, const Cell& b) {
        const auto x = std::bit_cast<Words>(a), y = std::bit_cast<Words>(b);
        uint32_t different = 0;
        for (size_t i = 0; i < x.size(); ++i) different |= x[i] ^ y[i];
        return different == 0;
    }
    using Words = std::array<uint32_t, sizeof(Cell) / sizeof(uint32_t)>;

    uint32_t settled_[2] = {};  // the two blocks, or 0
    sim::LaneMask granules_[most] = {sim::all_lanes};
    Cell first_;
    // The number of cells: up to `most`, or 32. Then all of them are in `others_`.
    uint8_t count_ = 1;
    uint8_t reserved_ = 0;  // the size of `others_`
    std::unique_ptr<Cell[]> others_;
};

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
    // Each write was an atomic of a thread that had executed a fence. Then who is ordered after the
    // last write is ordered after the others, too: each atomic has read what the previous one
    // wrote.
    bool released = false;
    Published published;
};

// Which bytes of global memory a kernel accessed, as sorted ranges [first, second) of addresses.
// Bytes that were written are not listed as read.
struct Touched {
    using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
    Ranges read, written;
    Ranges updated;  // bytes that a thread wrote last in code such as x[i] += 1
    // Strong accesses do not race with each other. They are atomics, volatile accesses and similar.
    // The host may read a flag to learn that the kernel has reached a point: `flags` are bytes that
    // the kernel wrote last with a volatile or another strong store.
    Ranges strongly_read, atomics, flags;
    bool operator==(const Touched&) const = default;
};

// The cells of one block's shared memory. A host thread uses the same rows for one block after
// another. Rows with accesses of an earlier block count as empty.
class SharedShadow {
  public:
    // `is_shared` is true if other blocks of the cluster may write to this memory, too.
    // `needs_writes` is true if more must be known about a write than that it was before a barrier.
    void start(uint32_t block, uint64_t bytes, uint32_t granule_bits, bool is_shared,
               bool needs_writes);
    // Returns the row with this number for an access at the time `now`. `floor` is the time of the
    // last barrier.
    [[nodiscard]] Row& row(uint64_t number, uint32_t floor, uint32_t now) {
        BlockRow& r = rows_[number];
        start_epoch(floor);
        if (!is_shared_) {
            if (r.block != block_) {
                r.row.assign(sim::all_lanes, {});
                r.block = block_;
            } else if (r.latest <= floor && r.latest > 0) {
                forget_order(r);
            }
        }
        r.latest = now;
        return r.row;
    }
    [[nodiscard]] bool is_shared() const { return is_shared_; }
    // Returns the row for an access at the time `now`, without the changes after a barrier. Only if
    // no other block may access it.
    [[nodiscard]] Row& row_of_block(uint64_t number, uint32_t now) {
        BlockRow& r = rows_[number];
        if (r.block != block_) {
            r.row.assign(sim::all_lanes, {});
            r.block = block_;
        }
        r.latest = now;
        return r.row;
    }
    // Returns the cell of a granule.
    [[nodiscard]] Cell cell(uint64_t granule) const {
        const BlockRow& r = rows_[granule / Row::size];
        return is_shared_ || r.block == block_ ? r.row.at(granule % Row::size) : Cell{};
    }
    // Most reads of shared memory change nothing: two warps have read the granule since the last
    // barrier, and are in its cell. These are settled granules; see is_settled().
    void settle(uint64_t granule, uint32_t warp_a, uint32_t warp_b) {
        if (!is_shared_) settled_[granule] = tag() | 1u << warp_a | 1u << warp_b;
    }
    void unsettle(uint64_t granule) { settled_[granule] = 0; }
    // Returns true if all lanes read settled granules, and their warp is in none of the cells. Then
    // nothing can be wrong, and the cells stay the same. `floor` is the time of the last barrier.
    [[nodiscard]] bool is_settled(const sim::MemoryEvent& e, uint32_t warp, uint32_t floor);
    [[nodiscard]] Location& location(uint64_t granule) {
        uint32_t& number = location_at_[granule];
        if (number == 0) {
            with_location_.push_back(granule);
            number = uint32_t(with_location_.size());
            if (locations_.size() < number) locations_.emplace_back();
            locations_[number - 1] = {};
        }
        return locations_[number - 1];
    }

  private:
    struct BlockRow {
        Row row;
        uint32_t block = 0;   // the number of the block that accessed the row
        uint32_t latest = 0;  // the time of the last access
    };
    // All accesses to the row were before the last barrier, and are ordered before all that follow.
    // It does not matter any more which threads made them.
    void forget_order(BlockRow& r) const;

    void start_epoch(uint32_t floor) {
        if (floor == floor_) return;
        floor_ = floor;
        ++epoch_;
    }
    [[nodiscard]] uint64_t tag() const { return uint64_t{epoch_} << 32; }

    uint32_t block_ = 0, granule_bits_ = 0;
    bool is_shared_ = false, needs_writes_ = false;
    // `epoch_` changes with the block, and with the time of the last barrier, `floor_`.
    static constexpr uint32_t max_epoch = UINT32_MAX / 2;  // when a block starts
    uint32_t epoch_ = 0, floor_ = 0;
    // For each granule: the epoch in which it was settled, and in the low 32 bits the two warps.
    std::vector<uint64_t> settled_;
    std::vector<BlockRow> rows_;
    std::vector<uint32_t> location_at_;    // for each granule: 1 + an index into locations_, or 0
    std::vector<uint64_t> with_location_;  // the granules that have a location
    std::vector<Location> locations_;
};

// The cells of global memory, by buffer.
class GlobalShadow {
  public:
    GlobalShadow(const sim::AddressSpace& memory, uint32_t granule_bits);

    // Returns the index in memory.buffers() of the buffer that contains an address.
    [[nodiscard]] uint32_t buffer_of(uint64_t address) const;
    [[nodiscard]] Row& row(uint32_t buffer, uint64_t number) {
        if (buffer >= pages_.size()) add_buffers();
        Page& page = pages_[buffer][number / page_rows];
        if (!page) page = std::make_unique<Row[]>(page_rows);
        return page[number % page_rows];
    }
    // Returns null if the row and those near it were never accessed.
    [[nodiscard]] const Row* find(uint32_t buffer, uint64_t number) const {
        if (buffer >= pages_.size()) return nullptr;
        const Page& page = pages_[buffer][number / page_rows];
        return page ? &page[number % page_rows] : nullptr;
    }
    // Returns the cell of a granule.
    [[nodiscard]] Cell cell(uint32_t buffer, uint64_t granule) const {
        const Row* const row = find(buffer, granule / Row::size);
        return row ? row->at(granule % Row::size) : Cell{};
    }
    [[nodiscard]] Location& location(uint32_t buffer, uint64_t granule) {
        return locations_[memory_.buffers()[buffer].address + (granule << granule_bits_)];
    }
    [[nodiscard]] const sim::AddressSpace& memory() const { return memory_; }
    // The accesses of all threads so far. Bytes that were written are not listed as read.
    // updates(pc) returns true if a store belongs to code such as x[i] += 1.
    [[nodiscard]] Touched touched(const std::function<bool(uint32_t)>& updates) const;

  private:
    void add_buffers();  // adds the buffers that malloc() has created

    static constexpr uint64_t page_rows = 32;
    using Page = std::unique_ptr<Row[]>;

    const sim::AddressSpace& memory_;
    uint32_t granule_bits_;
    std::vector<std::vector<Page>> pages_;
    std::unordered_map<uint64_t, Location> locations_;
};

}  // namespace coalesce::analysis
