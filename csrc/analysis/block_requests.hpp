// Records the requests of one block, for the replay of the caches.
//
// CacheObserver (cache_replay.hpp) passes each access of a running block to add(). When the block
// has ended, L1Replay (l1_replay.hpp) replays the requests. Then clear() prepares the object for
// another block.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/memory.hpp"

namespace coalesce::analysis {

struct ReplayMemory;  // l1_replay.hpp

// The requests of one block.
class BlockRequests {
  public:
    // `l1_bytes` is the size of the block's share of L1.
    BlockRequests(uint32_t warps, uint32_t l1_bytes);
    ~BlockRequests();
    // Records an access. For an access to shared memory, only the number of wavefronts is kept.
    void add(const sim::Warp& warp, const sim::MemoryEvent& e, uint32_t wavefronts) {
        OfWarp& own = warps_[warp.index];
        own.wavefronts += wavefronts;
        if (e.space != ptx::Space::shared) add(own, e);
    }
    // Adds to the number of operations that the warp executed.
    void execute(const sim::Warp& warp, uint32_t operations) {
        warps_[warp.index].operations += operations;
    }
    // operations() returns the number of executed operations of all warps together.
    // most_operations() returns the largest number of operations of one warp.
    [[nodiscard]] uint64_t operations() const;
    [[nodiscard]] uint64_t most_operations() const;
    // Forgets the requests, so that the memory can be used for another block.
    void clear();

  private:
    friend class L1Replay;
    // The form of a regular request. It selects the code that replays the request. The form is
    // determined when the request is recorded, because then the host predicts the branches well: a
    // warp often repeats a sequence of forms. In the replay, the requests of different warps are
    // mixed, so the host would often predict these branches wrongly.
    enum class Form : uint8_t {
        other,
        one_address,    // the same address for all lanes
        line_per_lane,  // the stride is a multiple of the size of a line
        whole_lines,    // neighbouring lanes use neighbouring addresses, and the lines are complete
    };
    struct MemoryRequest {
        // For a regular request (a constant stride): the address of lane 0. For a scattered
        // request: the index of its first address in `addresses_`. For a pause (see `pause`): the
        // number of cycles.
        uint64_t first;
        // For a regular request: the distance in bytes between the addresses of neighbouring lanes.
        // For a scattered request: its lane mask.
        int32_t stride;
        uint32_t pc : 29;
        uint32_t form : 2;  // a Form
        uint32_t scattered : 1;
    };
    // The value of `pc` for a pause. A pause is the time that accesses to shared memory take.
    static constexpr uint32_t pause = (1u << 29) - 1;
    struct OfWarp {
        std::vector<MemoryRequest> requests;
        uint64_t wavefronts = 0;  // wavefronts of shared memory since the last request
        uint64_t operations = 0;
    };
    void add(OfWarp& own, const sim::MemoryEvent& e);
    static Form form_of(uint64_t first, int32_t stride, uint32_t bytes);

    std::vector<OfWarp> warps_;
    std::vector<uint64_t> addresses_;
    // Memory for the replay of this block. The replay of the next block reuses it.
    std::unique_ptr<ReplayMemory> memory_;
};

}  // namespace coalesce::analysis
