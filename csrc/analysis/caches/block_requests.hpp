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

#include "analysis/caches/strides.hpp"
#include "model/block_schedule.hpp"
#include "model/caches/tag_sets.hpp"
#include "model/lane_run.hpp"
#include "model/request_lines.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::model {
class AtomicUnits;
}  // namespace coalesce::model

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
inline constexpr uint64_t middle_of_region = uint64_t{1} << (model::region_bits - 1);
static_assert(middle_of_region % model::line_bytes == 0);

// The relative addresses of a warp's local memory begin at `local_of_warp` times its number in the
// block.
inline constexpr uint64_t local_of_warp = uint64_t{1} << 26;

// A recorded memory instruction of one warp, or a pause.
struct MemoryRequest {
    enum Kind : uint32_t {
        // Dense or apart: neighbouring lanes whose addresses have a constant stride.
        dense,  // the lanes touch all sectors of a range of addresses: the stride is 0 to 32 bytes
        apart,  // each lane accesses a line of its own: the stride is at least a line
        lines,  // any other request
        pause,  // the time that accesses to shared memory take
    };
    // Dense or apart: the relative address of the first lane. Lines: the index of the first one in
    // RecordedBlock::lines. Pause: the number of cycles.
    uint64_t first;
    // Dense or apart: the distance in bytes between the addresses of neighbouring lanes. Lines:
    // their number.
    int32_t stride;
    uint32_t pc : 25;
    uint32_t last_lane : 5;  // dense or apart: the number of lanes minus 1
    uint32_t kind : 2;
};

// A line of a recorded request.
struct RecordedLine {
    uint64_t line : 56;
    uint64_t sectors : 4, whole : 4;  // as in LineAccess
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
    std::vector<RecordedLine> lines;                   // relative lines of requests of this kind
    bool is_kept = false;                              // other blocks are compared with this one
    // The results of the replay, by variant; null if there is none yet. CacheReplay protects them
    // with its lock.
    std::array<std::shared_ptr<const L1Result>, variants> results;
};

// Remembers how many L1 cycles a request with a constant stride takes. If a request needs the same
// banks in each of its lines, each cycle can serve only one line. Requests take equally long
// if they have the same stride, the same number of lanes, the same number of bytes per lane, and
// the same lower bits in the first address.
//
// A loop that walks through an array makes requests whose first addresses differ by one element.
// The entries of such requests are neighbours, so even long loops use few lines of the host's
// cache. For example, 500 iterations over floats use 500 neighbouring entries, which are 8 kB.
class CyclesByStride {
  public:
    uint32_t of(uint64_t first, int32_t stride, uint32_t lanes, uint32_t bytes) {
        // Short ways for the most frequent requests. All lanes of a request use the same bank, or
        // each bank is used as often as any other.
        if (stride == 0) return 1;
        if (stride % int32_t{model::line_bytes} == 0) return lanes;
        const uint32_t size_of_all = lanes * bytes;
        if (stride == int32_t(bytes) && (first | size_of_all) % model::line_bytes == 0)
            return size_of_all / model::line_bytes;
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
    // If `atomics` is not null, all atomics are added to it.
    BlockRequests(const std::vector<CacheSite>& sites, uint32_t warps, uint32_t l1_bytes,
                  model::AtomicUnits* atomics = nullptr);
    ~BlockRequests();

    // Prepares for the next block.
    void start();

    // Adds an access. For an access to shared memory, only the number of wavefronts is kept. `run`
    // is run_of() the access. `lines` has its lines, or is null if they are not known yet.
    void add(const sim::Warp& warp, const sim::MemoryEvent& e, uint32_t wavefronts,
             const model::LaneRun& run, const model::RequestLines* lines = nullptr) {
        OfWarp& own = warps_[warp.index];
        own.wavefronts += wavefronts;
        if (e.space == ptx::Space::shared) return;
        own.add_repeated_wavefronts(warp);
        if (!run || !add_regular(own, e.pc, run.stride, run.first, run.lanes))
            add(own, warp, e, run, lines);
    }
    // Adds an access to words in global memory by a full warp (sim::Hook::repeated).
    void add(const sim::Warp& warp, const sim::Op& op, sim::Access access, int64_t stride,
             uint64_t first) {
        OfWarp& own = warps_[warp.index];
        own.add_repeated_wavefronts(warp);
        if (!add_regular(own, op.pc, stride, first, sim::warp_size))
            add(own, warp, sim::event_of_words(op, ptx::Space::global, access, stride, first),
                {first, stride, sim::warp_size, 0}, nullptr);
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
    // L1 cycles by instruction.
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
            if (wavefronts) requests->push_back({wavefronts, 0, 0, 0, MemoryRequest::pause});
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

    // Records a dense or apart access. This is a short way for the most frequent accesses: the
    // instruction accesses the same array as before. For all others it returns false.
    bool add_regular(OfWarp& own, uint32_t pc, int64_t stride, uint64_t first, uint32_t lanes) {
        const CacheSite site = sites_[pc];
        const uint64_t last = first + uint64_t(stride) * (lanes - 1);
        const Origin& origin = origin_of_[pc];
        const bool dense = is_dense(stride);
        if (!(dense || is_apart(stride)) || stride != int32_t(stride) || site.local ||
            site.effect == CacheSite::Effect::atomic || !origin.has(first) || !origin.has(last))
            return false;
        cycles_[pc] += cycles_by_stride_.of(first, int32_t(stride), lanes, site.bytes);
        own.record({first - origin.difference, int32_t(stride), pc, lanes - 1,
                    dense ? MemoryRequest::dense : MemoryRequest::apart});
        return true;
    }
    void add(OfWarp& own, const sim::Warp& warp, const sim::MemoryEvent& e,
             const model::LaneRun& run, const model::RequestLines* lines);
    void collect_local(const sim::Warp& warp, const sim::MemoryEvent& e);
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
    model::RequestLines lines_;  // of the current access, if nobody else has collected them
    model::AtomicUnits* const atomics_;
    std::unique_ptr<ReplayMemory> memory_;
};

}  // namespace coalesce::analysis
