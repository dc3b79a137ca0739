// Control flow: basic blocks and points of reconvergence.
//
// METHOD
// A block ends at a branch, a return, an exit, a barrier or a call, and before a label that is a
// target. Lanes that diverge at a branch reconverge at its immediate post-dominator. This is the
// first block that is on all paths from the branch to the end of the function (Cooper, Harvey,
// Kennedy, "A Simple, Fast Dominance Algorithm", on the reversed graph with a virtual exit). A
// guarded `ret` or `exit` is a branch to the virtual exit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ptx/module.hpp"
#include "sim/ptx_analysis/traits.hpp"

namespace coalesce::sim {

inline constexpr uint32_t no_block = UINT32_MAX;

struct BasicBlock {
    uint32_t first = 0;                // the index of its first instruction in Function::body
    uint32_t last = 0;                 // One past its last instruction. Blocks are never empty.
    std::vector<uint32_t> successors;  // the virtual exit is not in this list
    // The block may go to the virtual exit: by ret, exit or trap, or at the end of the body.
    bool leaves = false;
    // The immediate post-dominator. no_block stands for the virtual exit.
    uint32_t reconvergence = no_block;
};

struct ControlFlow {
    std::vector<BasicBlock> blocks;  // in the order of the PTX text
    std::vector<uint32_t> block_of;  // the block of each instruction
};

// Returns the basic blocks of a function. `traits` has an entry for each instruction of its body.
// Throws PtxError for a branch whose target is not a label of the function.
[[nodiscard]] ControlFlow control_flow(const ptx::Function& function,
                                       std::span<const Traits> traits);

// Sets `reconvergence` of all blocks from their successors.
void find_reconvergence(std::vector<BasicBlock>& blocks);

}  // namespace coalesce::sim
