// Basic blocks and immediate post-dominators.
#include "sim/ptx_analysis/control_flow.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "errors.hpp"

namespace coalesce::sim {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Operand;

bool leaves_function(const Traits& t) { return operation(t.code).has(trait::leaves); }

bool is_branch(const Traits& t) { return operation(t.code).has(trait::branch); }

// Barriers end a block even if the warp only arrives there.
bool is_barrier(const Traits& t) {
    return operation(t.code).has(trait::block_barrier) || t.code == OpCode::barrier_cluster;
}

bool ends_block(const Traits& t) {
    return is_branch(t) || leaves_function(t) || t.code == OpCode::call || is_barrier(t);
}

[[noreturn]] void fail(const Instruction& instruction, const std::string& message) {
    const ptx::Position at = instruction.position;
    throw PtxError("line " + std::to_string(at.line) + ", column " + std::to_string(at.column) +
                       ": " + message + "\n  " + std::string(instruction.text),
                   at.line, at.column);
}

// Returns the possible targets of a branch, as indices into the body. An index that equals the size
// of the body stands for the end of the body.
std::vector<uint32_t> targets_of(const Function& function, const Instruction& instruction,
                                 OpCode code) {
    const auto check = [&](uint32_t target) {
        if (target > function.body.size()) fail(instruction, "the label is not in this function");
        return target;
    };
    if (code == OpCode::bra) {
        if (instruction.operands.empty() || instruction.operands[0].kind != Operand::Kind::label) {
            fail(instruction, "the target of 'bra' is not a label of the function");
        }
        return {check(instruction.operands[0].target)};
    }
    const auto list = instruction.operands.size() < 2
                          ? function.branch_targets.end()
                          : function.branch_targets.find(instruction.operands[1].name);
    if (list == function.branch_targets.end()) {
        fail(instruction, "'brx.idx' needs a register and the name of a .branchtargets list");
    }
    for (uint32_t target : list->second) check(target);
    return list->second;
}

// METHOD
// Marks the instructions at which blocks start. Each range between two starts is a block.
void find_blocks(const Function& function, std::span<const Traits> traits, ControlFlow& flow) {
    const auto size = static_cast<uint32_t>(function.body.size());
    std::vector<bool> starts(size + 1, false);
    starts[0] = true;
    for (uint32_t i = 0; i < size; ++i) {
        if (!ends_block(traits[i])) continue;
        starts[i + 1] = true;
        if (!is_branch(traits[i])) continue;
        for (uint32_t target : targets_of(function, function.body[i], traits[i].code))
            starts[target] = true;
    }
    flow.block_of.resize(size);
    for (uint32_t i = 0; i < size; ++i) {
        if (starts[i]) {
            flow.blocks.emplace_back();
            flow.blocks.back().first = i;
        }
        flow.blocks.back().last = i + 1;
        flow.block_of[i] = static_cast<uint32_t>(flow.blocks.size() - 1);
    }
}

void link_blocks(const Function& function, std::span<const Traits> traits, ControlFlow& flow) {
    const auto size = static_cast<uint32_t>(function.body.size());
    // Ensures that each successor is listed only once.
    std::vector<uint32_t> listed_by(flow.blocks.size(), no_block);
    for (uint32_t b = 0; b < flow.blocks.size(); ++b) {
        BasicBlock& block = flow.blocks[b];
        const Instruction& last = function.body[block.last - 1];
        const Traits& t = traits[block.last - 1];
        const auto go = [&](uint32_t target) {
            if (target == size) {
                block.leaves = true;
                return;
            }
            const uint32_t successor = flow.block_of[target];
            if (listed_by[successor] == b) return;
            listed_by[successor] = b;
            block.successors.push_back(successor);
        };
        if (last.guard >= 0 || !(is_branch(t) || leaves_function(t))) go(block.last);
        if (leaves_function(t)) block.leaves = true;
        if (!is_branch(t)) continue;
        for (uint32_t target : targets_of(function, last, t.code)) go(target);
    }
}

// METHOD
// This is the algorithm of Cooper, Harvey and Kennedy for dominators (control_flow.hpp). It is
// applied to the reversed graph, in which each edge points from a block to the blocks before it. A
// virtual exit block is the root of this graph. Blocks are numbered in post-order of a traversal
// from the root. The parent of a block is its immediate post-dominator. It always has a higher
// number than the block.
class PostDominators {
  public:
    explicit PostDominators(std::vector<BasicBlock>& blocks)
        : blocks_(blocks), exit_(static_cast<uint32_t>(blocks.size())), predecessors_(exit_ + 1) {
        for (uint32_t b = 0; b < exit_; ++b) {
            for (uint32_t successor : blocks[b].successors) predecessors_[successor].push_back(b);
            if (blocks[b].leaves) predecessors_[exit_].push_back(b);
        }
    }

    void find() {
        number_blocks();
        std::vector<uint32_t> parent(exit_ + 1, none);
        parent[exit_] = exit_;
        for (bool changed = true; changed;) {
            changed = false;
            for (auto b = order_.rbegin() + 1; b != order_.rend(); ++b) {
                uint32_t meet = blocks_[*b].leaves ? exit_ : none;
                for (uint32_t successor : blocks_[*b].successors) {
                    if (parent[successor] == none) continue;
                    meet = meet == none ? successor : common_ancestor(parent, meet, successor);
                }
                if (parent[*b] == meet) continue;
                parent[*b] = meet;
                changed = true;
            }
        }
        for (uint32_t b = 0; b < exit_; ++b) {
            blocks_[b].reconvergence = parent[b] == exit_ ? no_block : parent[b];
        }
    }

  private:
    static constexpr uint32_t none = no_block;  // the block has no path to the exit

    void number_blocks() {
        number_.assign(exit_ + 1, none);
        std::vector<bool> seen(exit_ + 1, false);
        std::vector<std::pair<uint32_t, size_t>> stack{{exit_, 0}};
        seen[exit_] = true;
        while (!stack.empty()) {
            auto& [block, next] = stack.back();
            if (next < predecessors_[block].size()) {
                const uint32_t predecessor = predecessors_[block][next++];
                if (seen[predecessor]) continue;
                seen[predecessor] = true;
                stack.emplace_back(predecessor, 0);
            } else {
                number_[block] = static_cast<uint32_t>(order_.size());
                order_.push_back(block);
                stack.pop_back();
            }
        }
    }

    uint32_t common_ancestor(const std::vector<uint32_t>& parent, uint32_t a, uint32_t b) const {
        while (a != b) {
            while (number_[a] < number_[b]) a = parent[a];
            while (number_[b] < number_[a]) b = parent[b];
        }
        return a;
    }

    std::vector<BasicBlock>& blocks_;
    uint32_t exit_;
    std::vector<std::vector<uint32_t>> predecessors_;
    std::vector<uint32_t> number_;  // for each block: its index in order_
    std::vector<uint32_t> order_;   // The blocks in post-order. The exit is last.
};

}  // namespace

ControlFlow control_flow(const Function& function, std::span<const Traits> traits) {
    ControlFlow flow;
    if (function.body.empty()) return flow;
    find_blocks(function, traits, flow);
    link_blocks(function, traits, flow);
    find_reconvergence(flow.blocks);
    return flow;
}

void find_reconvergence(std::vector<BasicBlock>& blocks) { PostDominators(blocks).find(); }

}  // namespace coalesce::sim
