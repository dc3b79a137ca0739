// What the files of the checker share: the state of a block under check, and the place of an
// access.
#pragma once

#include "analysis/check.hpp"

namespace coalesce::analysis {

struct CheckObserver::BlockState {
    BlockOrder order;
    SharedShadow shared;
    // Bytes of .local variables that were not written yet: [warp][lane][offset].
    std::vector<uint8_t> unwritten;
    // Of barriers under way: where the first and another path reached it, and whether in divergent
    // code.
    struct Barrier {
        std::vector<Actor> arrivals;  // the first at each instruction
        bool counts = false;          // is one of a given number of threads
        // Parts of warps; the other lanes may yet leave the kernel.
        struct Part {
            uint32_t warp;
            sim::LaneMask lanes;
            Actor here;
        };
        std::vector<Part> parts;
    };
    std::array<Barrier, 16> barriers;
    // Of each thread the op before the last that it left the kernel by, or no_op.
    std::vector<uint32_t> last_op;
};

struct CheckObserver::Place {
    const sim::Warp& warp;
    const sim::MemoryEvent& event;
    const CheckedInstruction& instruction;
    BlockState& block;
    SharedShadow* memory = &block.shared;  // of the block whose shared memory it is
    bool shared = false;
    bool* undefined = nullptr;  // of global memory: a bool for each of its bytes, if there is one
    uint32_t lane = 0;
    uint32_t buffer = 0;   // of global memory
    uint64_t granule = 0;  // its number in the buffer or in shared memory
    uint64_t offset = 0;   // its first byte, from there
    uint64_t end = 0;      // one past its last byte that is accessed
    Stamp me = {};
    [[nodiscard]] bool ordered(const Stamp& then, uint32_t lane_then) const {
        return block.order.ordered(then, lane_then, me.warp, lane);
    }
};

inline CheckObserver::BlockState& CheckObserver::state(const sim::Warp& w) {
    return *static_cast<BlockState*>(w.block->observed);
}

}  // namespace coalesce::analysis
