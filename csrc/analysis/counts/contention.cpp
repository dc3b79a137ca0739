#include "analysis/counts/contention.hpp"

namespace coalesce::analysis {

ContentionObserver::ContentionObserver(const sim::Program& program)
    : contended_(program.instructions.size()) {
    for (const sim::InstructionInfo& info : program.instructions)
        spins_.push_back(info.traits.form == sim::AtomicForm::spinning);
}

void ContentionObserver::finish(const sim::Block& block) {
    if (!swapping_.empty())
        swapping_.erase(swapping_.lower_bound({&block, 0}),
                        swapping_.upper_bound({&block, UINT64_MAX}));
}

void ContentionObserver::contend(const sim::Warp& w, const sim::MemoryEvent& e) {
    // In the simulator, all bits of uninitialized memory are 1. As a float, these bits are a NaN,
    // and an addition to a NaN returns the same NaN. Suppose that a lane's compare-and-swap
    // compares the memory with a value of only 1 bits, and also stores a value of only 1 bits. Then
    // the lane probably uses uninitialized memory. If several lanes do so, the instruction counts
    // as contended.
    auto& registers = const_cast<sim::Warp&>(w);
    const uint32_t* const expected = registers.lanes<const uint32_t>(e.op->operand[1]);
    const uint32_t* const value = registers.lanes<const uint32_t>(e.op->operand[2]);
    const int words = e.bytes / 4;
    bool others = false;
    int unchanged = 0;
    sim::for_each_lane(e.mask, [&](int lane) {
        const auto [warp, fresh] = swapping_.try_emplace({w.block, e.address(lane)}, &w);
        bool unwritten = true;
        for (int n = lane; n < words * sim::warp_size; n += sim::warp_size)
            unwritten &= expected[n] == ~0u && value[n] == ~0u;
        unchanged += unwritten;
        others |= warp->second != &w;
    });
    contended_[e.pc] += others || unchanged > 1;
}

void ContentionObserver::add_to(Counts& counts) const {
    counts.instructions.resize(contended_.size());
    for (size_t i = 0; i < contended_.size(); ++i)
        counts.instructions[i].contended += contended_[i];
}

}  // namespace coalesce::analysis
