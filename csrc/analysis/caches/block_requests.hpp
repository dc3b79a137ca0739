// Records the requests of one block, for the replay of the caches.
//
// METHOD
// CacheObserver (cache_replay.hpp) passes each access of a running block to add(). When the block
// has ended, L1Replay (l1_replay.hpp) replays the requests.
//
// Most blocks of a grid make the same requests as an earlier block, but in another part of each
// array. Therefore addresses are recorded relative to the first line that the block accesses in the
// same array. If the relative requests of two blocks are equal, one replay of L1 serves both.
//
// EXAMPLE
// A block first loads 32 floats from address 70000 on, and then 32 floats from address 70128 on.
// The first line begins at 69888. So the relative addresses are 112 and 240 (and, in the record,
// the middle of a region is added). A block that loads from 74096 and from 74224 on has the same
// relative addresses, because its first line begins at 73984.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/block_schedule.hpp"
#include "model/caches/tag_sets.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::analysis {

struct L1Result;      // l1_replay.hpp
struct ReplayMemory;  // l1_replay.hpp

// The properties of an instruction that the replay needs.
struct CacheSite {
    // The effect on the caches. bypassing_load means a load that bypasses L1.
    enum class Effect : uint8_t { load, bypassing_load, store, atomic };
    Effect effect;
    uint8_t bytes;     // the bytes that each lane accesses
    bool local;        // accesses local memory
    bool adds_floats;  // an atomic that adds floating-point numbers
};

// Relative addresses. Each array that a block accesses has a region of relative addresses. The
// regions are numbered in the order of the first accesses. The middle of a region is the start of
// the line that the block accesses first. Region 0 is for local memory.
inline constexpr uint32_t region_bits = model::line_region_bits + 7;
static_assert(model::line_bytes == 1 << 7);
inline constexpr uint64_t middle_of_region = uint64_t{1} << (region_bits - 1);

// The form of a regular request. If it is not `other`, L1 needs one cycle for each line.
enum class RequestForm : uint8_t {
    other,
    one_address,    // the same address for all lanes
    line_per_lane,  // the stride is a multiple of the size of a line
    whole_lines,    // neighbouring lanes use neighbouring addresses, and the lines are complete
};

[[nodiscard]] inline RequestForm form_of(uint64_t first, int32_t stride, uint32_t bytes) {
    constexpr auto line_bytes = int32_t{model::line_bytes};
    if (stride == 0) return RequestForm::one_address;
    if (stride % line_bytes == 0) return RequestForm::line_per_lane;
    const bool whole = stride == int32_t(bytes) && first % model::line_bytes == 0 &&
                       bytes * sim::warp_size >= model::line_bytes;
    return whole ? RequestForm::whole_lines : RequestForm::other;
}

// A recorded memory instruction of one warp, or a pause.
struct MemoryRequest {
    // For a regular request (a constant stride): the relative address of lane 0. For a scattered
    // request: the index of its first address in RecordedBlock::addresses. For a pause (see
    // `pause`): the number of cycles.
    uint64_t first;
    // For a regular request: the distance in bytes between the addresses of neighbouring lanes.
    // For a scattered request: its lane mask.
    int32_t stride;
    uint32_t pc : 29;
    uint32_t form : 2;  // a RequestForm
    uint32_t scattered : 1;

    bool operator==(const MemoryRequest&) const = default;

    // The value of `pc` for a pause. A pause is the time that accesses to shared memory take.
    static constexpr uint32_t pause = (1u << 29) - 1;
};

// The requests of a block, with relative addresses.
struct RecordedBlock {
    // The result of the replay depends on the block number modulo `variants` (L1Replay).
    static constexpr uint32_t variants = 8;

    explicit RecordedBlock(uint32_t warps) : requests(warps) {}
    void clear();
    // The number of requests of all warps.
    [[nodiscard]] size_t size() const;
    [[nodiscard]] bool has_same_requests(const RecordedBlock& other) const;

    std::vector<std::vector<MemoryRequest>> requests;  // by warp
    std::vector<uint64_t> addresses;                   // relative addresses of scattered requests
    bool is_kept = false;                              // other blocks are compared with this one
    // The results of the replay, by variant; null if there is none yet. CacheReplay protects them
    // with its lock.
    std::array<std::shared_ptr<const L1Result>, variants> results;
};

// Remembers how many L1 cycles a request with a constant stride takes. Requests take equally long
// if they have the same stride, the same number of lanes, the same number of bytes per lane, and
// the same lower bits in the first address.
//
// A loop that walks through an array makes requests whose first addresses differ by one element.
// The entries of such requests are neighbours, so even long loops use few lines of the host's
// cache. For example, 500 iterations over floats use 500 neighbouring entries, which are 8 kB.
class CyclesByStride {
  public:
    uint32_t of(uint64_t first, int32_t stride, uint32_t lanes, uint32_t bytes) {
        const uint64_t place = first % period;
        const uint64_t key = place | uint64_t{uint32_t(stride)} << 32;
        const uint32_t size = lanes << 8 | bytes;
        Entry& entry = entries_[(place / 4 + uint32_t(stride) * 0x9e3779b1u + size) % count];
        if (entry.key != key || entry.size != size) [[unlikely]]
            entry = {key, size, compute(first, stride, lanes, bytes)};
        return entry.cycles;
    }

  private:
    // The number of cycles depends on the tag sets of the lines, and therefore on the lower bits of
    // the line numbers.
    static constexpr uint64_t period = uint64_t{model::line_bytes} << model::tag_bits;
    static constexpr size_t count = 1 << 14;
    struct Entry {
        uint64_t key = 0;
        uint32_t size = 0;  // no request has this size, because each accesses at least one byte
        uint32_t cycles = 0;
    };
    static uint32_t compute(uint64_t first, int32_t stride, uint32_t lanes, uint32_t bytes);
    std::vector<Entry> entries_{count};
};

// The requests of a block that runs.
class BlockRequests {
  public:
    // `l1_bytes` is the size of the block's share of L1.
    BlockRequests(const std::vector<CacheSite>& sites, uint32_t warps, uint32_t l1_bytes);
    ~BlockRequests();

    // Prepares for the next block.
    void start();

    // Adds an access. For an access to shared memory, only the number of wavefronts is kept.
    void add(const sim::Warp& warp, const sim::MemoryEvent& e, uint32_t wavefronts) {
        OfWarp& own = warps_[warp.index];
        own.wavefronts += wavefronts;
        if (e.space == ptx::Space::shared) return;
        own.add_repeated_wavefronts(warp);
        if (e.shape == sim::Shape::scattered ||
            !add_regular(own, e.pc, sim::lane_stride(e), e.first))
            add(own, *warp.block, e);
    }
    // Adds an access to words in global memory by a full warp (sim::Hook::repeated).
    void add(const sim::Warp& warp, const sim::Op& op, sim::Access access, int64_t stride,
             uint64_t first) {
        OfWarp& own = warps_[warp.index];
        own.add_repeated_wavefronts(warp);
        if (!add_regular(own, op.pc, stride, first))
            add(own, *warp.block,
                sim::event_of_words(op, ptx::Space::global, access, stride, first));
    }
    // Adds to the number of operations that the warp executed.
    void execute(const sim::Warp& warp, uint32_t operations) {
        warps_[warp.index].operations += operations;
    }

    // The requests of the block.
    [[nodiscard]] const std::shared_ptr<RecordedBlock>& get() const { return own_; }
    // For each region of relative addresses: the difference between an address and the relative
    // address. Region 0 (local memory) has the difference 0.
    [[nodiscard]] const std::vector<uint64_t>& origins() const { return origins_; }
    // L1 cycles by instruction, only of requests whose cycles depend on the addresses: those whose
    // form is `other`, and those with scattered addresses.
    [[nodiscard]] const std::vector<uint64_t>& cycles() const { return cycles_; }
    // operations() returns the number of executed operations of all warps together.
    // max_operations() returns the largest number of operations of one warp.
    [[nodiscard]] uint64_t operations() const;
    [[nodiscard]] uint64_t max_operations() const;
    // Memory for the replay of this block. The replay of the next block reuses it.
    [[nodiscard]] ReplayMemory& memory() { return *memory_; }

  private:
    struct OfWarp {
        std::vector<MemoryRequest>* requests = nullptr;
        uint64_t wavefronts = 0;           // wavefronts of shared memory since the last request
        uint64_t repeated_wavefronts = 0;  // those of the warp that have been added to `wavefronts`
        uint64_t operations = 0;

        // Adds the wavefronts of accesses that were not announced.
        void add_repeated_wavefronts(const sim::Warp& warp) {
            wavefronts += warp.repeated_wavefronts - repeated_wavefronts;
            repeated_wavefronts = warp.repeated_wavefronts;
        }
        void record(MemoryRequest r) {
            if (wavefronts) requests->push_back({wavefronts, 0, MemoryRequest::pause, 0, 0});
            wavefronts = 0;
            requests->push_back(r);
        }
    };
    // The array that an instruction accessed last, and the difference between an address in this
    // array and the relative address.
    struct Origin {
        uint64_t begin = 0, bytes = 0, difference = 0;
        [[nodiscard]] bool has(uint64_t address) const { return address - begin < bytes; }
    };

    // Records an access with a constant stride. This is a short way for the most frequent accesses:
    // the instruction accesses the same array as before. For all others it returns false.
    bool add_regular(OfWarp& own, uint32_t pc, int64_t stride, uint64_t first) {
        const uint64_t last = first + uint64_t(stride) * (sim::warp_size - 1);
        const Origin& origin = origin_of_[pc];
        if (stride != int32_t(stride) || !origin.has(first) || !origin.has(last)) return false;
        add_regular(own, pc, int32_t(stride), first, first - origin.difference);
        return true;
    }
    // Requests are passed by value, in registers. If they were passed by reference, the host would
    // have to wait until the members, which are stored one by one, can be loaded together.
    void add_regular(OfWarp& own, uint32_t pc, int32_t stride, uint64_t first, uint64_t relative) {
        const RequestForm form = form_of(relative, stride, sites_[pc].bytes);
        if (form == RequestForm::other) add_cycles(pc, stride, first);
        own.record({relative, stride, pc, uint32_t(form), 0});
    }
    void add(OfWarp& own, const sim::Block& block, const sim::MemoryEvent& e);
    void add_scattered(OfWarp& own, const sim::Block& block, const sim::MemoryEvent& e);
    // Adds the L1 cycles of a regular request whose form is `other`. `first` is the address of its
    // first lane. If a request needs the same banks in each of its lines, each cycle can serve only
    // one line. The replay counts the cycles of these requests.
    void add_cycles(uint32_t pc, int32_t stride, uint64_t first) {
        const CacheSite& site = sites_[pc];
        if (!site.local)
            cycles_[pc] += cycles_by_stride_.of(first, stride, sim::warp_size, site.bytes);
    }
    void add_cycles(const sim::MemoryEvent& e);
    [[nodiscard]] uint64_t relative(const sim::Block& block, const sim::MemoryEvent& e,
                                    uint64_t address);
    [[nodiscard]] Origin origin_of(const sim::Block& block, const sim::MemoryEvent& e,
                                   uint64_t address);

    const std::vector<CacheSite>& sites_;
    std::vector<OfWarp> warps_;
    std::shared_ptr<RecordedBlock> own_;
    std::vector<uint64_t> origins_;
    std::vector<uint64_t> arrays_;   // for each region: the address of its array
    std::vector<Origin> origin_of_;  // by instruction
    std::vector<uint64_t> cycles_;
    CyclesByStride cycles_by_stride_;
    std::unique_ptr<ReplayMemory> memory_;
};

}  // namespace coalesce::analysis
