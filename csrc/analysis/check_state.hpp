// Types that the files of the checker share: the state of a checked block, and the place of an
// access.
#pragma once

#include "analysis/check.hpp"

namespace coalesce::analysis {

struct CheckObserver::BlockState {
    BlockOrder order;
    SharedShadow shared;
    // For each byte of .local variables, whether it is still unwritten. The order is
    // [warp][lane][offset].
    std::vector<uint8_t> unwritten;
    // A barrier at which threads wait.
    struct Barrier {
        std::vector<Actor> arrivals;  // the first arrival at each instruction that waits here
        bool counts = false;          // the barrier waits for a given number of threads
        // Lanes of a warp that have arrived at the barrier while other lanes of the warp have not.
        // The other lanes may still arrive, or leave the kernel.
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
    // For each thread that has ended, the op before its exit; for all others, no_op.
    std::vector<uint32_t> last_op;
};

struct CheckObserver::Place {
    const sim::Warp& warp;
    const sim::MemoryEvent& event;
    const CheckedInstruction& instruction;
    BlockState& block;
    // The shadow memory of the shared memory that is accessed. In a cluster, it may be another
    // block's.
    SharedShadow* memory = &block.shared;
    bool shared = false;
    // For global memory, one bool per byte, true if the byte is uninitialized. Null if all bytes
    // are initialized.
    bool* undefined = nullptr;
    uint32_t lane = 0;
    uint32_t buffer = 0;   // number of the buffer, for global memory
    uint64_t granule = 0;  // number of the granule in the buffer or in shared memory
    // The offset of the first accessed byte in the buffer or in shared memory.
    uint64_t offset = 0;
    uint64_t end = 0;  // offset one past the last accessed byte of the granule
    Stamp me = {};
    [[nodiscard]] bool ordered(const Stamp& then, uint32_t lane_then) const {
        return block.order.ordered(then, lane_then, me.warp, lane);
    }
};

inline CheckObserver::BlockState& CheckObserver::state(const sim::Warp& w) {
    return *static_cast<BlockState*>(w.block->observed);
}

}  // namespace coalesce::analysis
