// Types that the files of the checker share: the state of a checked block, and the place of an
// access.
#pragma once

#include "analysis/check.hpp"

namespace coalesce::analysis {

struct CheckObserver::BlockState {
    BlockOrder order;
    SharedShadow shared;
    // Whether each byte of .local variables is still unwritten: [warp][lane][offset].
    std::vector<uint8_t> unwritten;
    // Barriers that threads wait at: where each path reached the barrier, and whether in divergent
    // code.
    struct Barrier {
        std::vector<Actor> arrivals;  // the first arrival at each instruction
        bool counts = false;          // the barrier is for a given number of threads
        // Parts of warps that arrived. Their other lanes may still leave the kernel.
        struct Part {
            uint32_t warp;
            sim::LaneMask lanes;
            Actor here;
        };
        std::vector<Part> parts;
    };
    std::array<Barrier, sim::barrier_count> barriers;
    // When a thread of the block last executed fence.proxy.async.
    uint32_t proxy_fence = 0;
    // For each thread, the op before the exit by which it ended, or no_op.
    std::vector<uint32_t> last_op;
};

struct CheckObserver::Place {
    const sim::Warp& warp;
    const sim::MemoryEvent& event;
    const CheckedInstruction& instruction;
    BlockState& block;
    SharedShadow* memory = &block.shared;  // of the block that owns the shared memory
    bool shared = false;
    // For global memory: one bool for each byte, or null if all are initialized.
    bool* undefined = nullptr;
    uint32_t lane = 0;
    uint32_t buffer = 0;   // for global memory
    uint64_t granule = 0;  // number of the granule in the buffer or in shared memory
    uint64_t offset = 0;   // the first accessed byte, from the same start
    uint64_t end = 0;      // one past the last accessed byte of the granule
    Stamp me = {};
    [[nodiscard]] bool ordered(const Stamp& then, uint32_t lane_then) const {
        return block.order.ordered(then, lane_then, me.warp, lane);
    }
};

inline CheckObserver::BlockState& CheckObserver::state(const sim::Warp& w) {
    return *static_cast<BlockState*>(w.block->observed);
}

}  // namespace coalesce::analysis
