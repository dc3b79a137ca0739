// Types that the files of the checker share: the state of a checked block, and the place of an
// access.
#pragma once

#include "analysis/check/check.hpp"

namespace coalesce::analysis {

// The state of one block that runs.
struct CheckObserver::BlockState {
    BlockOrder order;
    SharedShadow shared;
    // For each byte of .local variables: true while the byte has not been written. The indices are
    // [warp][lane][offset].
    std::vector<uint8_t> unwritten;
    // Uninitialized bytes of local memory that lanes have loaded and will copy, for each load of a
    // warp: which of the loaded bytes, the address, and the lanes for which they may be padding.
    struct Copies {
        sim::LaneMask padding = 0;
        std::array<uint16_t, sim::warp_size> bytes{};
        std::array<uint64_t, sim::warp_size> address{};
    };
    std::map<std::pair<uint32_t, uint32_t>, Copies> copies;  // by warp and instruction
    // The tracked registers of each warp.
    std::vector<UnwrittenRegisters::State> registers;
    // A barrier at which threads wait.
    struct Barrier {
        // for each barrier instruction at which threads wait: the first arrival
        std::vector<Actor> arrivals;
        bool counts = false;  // the barrier waits for a given number of threads
        // A part of a warp: lanes that have arrived at the barrier while other lanes of the warp
        // have not. The other lanes may still arrive later, or leave the kernel.
        struct Part {
            uint32_t warp;
            sim::LaneMask lanes;
            Actor here;
        };
        std::vector<Part> parts;
    };
    std::array<Barrier, sim::barrier_count> barriers;
    // The time at which a thread of the block last executed fence.proxy.async.
    uint32_t proxy_fence = 0;
    // For each thread of a warp, the op that it executed last, other than its exit: `op` for the
    // threads in `lanes`.
    struct LastOp {
        sim::LaneMask lanes = 0;
        uint32_t op = sim::no_op;
        std::array<uint32_t, sim::warp_size> of_others{};
        void store() {
            sim::for_each_lane(lanes, [&](int lane) { of_others[size_t(lane)] = op; });
        }
        [[nodiscard]] uint32_t of(int lane) const {
            return sim::has_lane(lanes, lane) ? op : of_others[size_t(lane)];
        }
        LastOp() { of_others.fill(sim::no_op); }
    };
    std::vector<LastOp> last_op;  // for each warp
};

// The access that is being checked, and the granule (shadow.hpp) that it accesses.
struct CheckObserver::Place {
    const sim::Warp& warp;
    const sim::MemoryEvent& event;
    const CheckedInstruction& instruction;
    BlockState& block;
    // The shadow memory of the shared memory that is accessed. In a cluster, this may be the shared
    // memory of another block.
    SharedShadow* memory = &block.shared;
    bool shared = false;
    // For global memory, an array with one bool per byte, which is true if the byte is
    // uninitialized. It starts at `offset`. The pointer is null if all bytes are initialized.
    bool* undefined = nullptr;
    uint32_t lane = 0;
    // Another lane that reads the same granule, as in Stamp::extra. Otherwise the same as `lane`.
    uint32_t other = 0;
    uint32_t buffer = 0;   // number of the buffer, for global memory
    uint64_t granule = 0;  // number of the granule in the buffer or in shared memory
    // The offset of the first accessed byte in the buffer or in shared memory.
    uint64_t offset = 0;
    uint64_t end = 0;  // offset one past the last accessed byte of the granule
    Stamp me = {};
    [[nodiscard]] bool ordered(const Stamp& then, uint32_t lane_then) const {
        return block.order.ordered(then, lane_then, me.warp, lane);
    }
    // The lanes of an access that the cell of this granule keeps.
    [[nodiscard]] uint32_t lane_of(const Stamp& s) const { return s.lane_at(granule % Row::size); }
    [[nodiscard]] uint32_t extra_of(const Stamp& s) const {
        return s.extra_at(granule % Row::size);
    }
};

// Granules of a row that a warp accesses. The lane of granule i is `lane` + (i >> `shift`).
struct CheckObserver::Piece {
    uint64_t row = 0;
    sim::LaneMask granules = 0;
    uint32_t lane = 0, shift = 0;
};

inline CheckObserver::BlockState& CheckObserver::state(const sim::Warp& w) {
    return *static_cast<BlockState*>(w.block->observed);
}

}  // namespace coalesce::analysis
