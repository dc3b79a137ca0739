#include "sim/decode/waiting_reads.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>

#include "sim/ptx_analysis/data_flow.hpp"

namespace coalesce::sim {

namespace {

// The largest number of instructions of a loop that waits.
constexpr uint32_t longest_loop = 256;

bool may_wait(const ptx::Instruction& in, const Traits& traits) {
    for (const char* other :
         {"shared", "shared::cta", "shared::cluster", "local", "param", "const"})
        if (in.has(other)) return false;
    if (traits.code == OpCode::ld) return traits.strong;
    if (traits.code != OpCode::atom) return false;
    if (traits.form == AtomicForm::compare_and_swap || traits.form == AtomicForm::exchange)
        return true;
    for (const char* once : {"and", "or", "min", "max"})
        if (in.has(once)) return true;
    const ptx::Operand& last = in.operands.back();
    return last.kind == ptx::Operand::Kind::integer && last.bits == 0;
}

class WaitingReads {
  public:
    WaitingReads(const ptx::Function& function, std::span<const Traits> traits,
                 const ControlFlow& flow)
        : function_(function),
          traits_(traits),
          blocks_(flow.blocks),
          waits_(function.body.size()),
          before_(flow.blocks.size()) {
        for (uint32_t i = 0; i < function.body.size(); ++i)
            data_flow_.push_back(data_flow(function.body[i], traits[i]));
        for (uint32_t b = 0; b < blocks_.size(); ++b)
            for (const uint32_t next : blocks_[b].successors) before_[next].push_back(b);
    }

    std::vector<bool> find() {
        for (uint32_t end = 0; end < blocks_.size(); ++end)
            for (const uint32_t start : blocks_[end].successors)
                if (start <= end) find_in_loop(start, end);
        return std::move(waits_);
    }

  private:
    using Registers = std::set<uint32_t>;

    void find_in_loop(uint32_t start, uint32_t end) {
        const std::set<uint32_t> loop = blocks_between(start, end);
        uint32_t length = 0;
        for (const uint32_t b : loop) length += blocks_[b].last - blocks_[b].first;
        if (length > longest_loop) return;
        const Registers varying = varying_registers(loop);
        for (const uint32_t b : loop) {
            for (uint32_t i = blocks_[b].first; i < blocks_[b].last; ++i) {
                if (!may_wait(function_.body[i], traits_[i]) || !decides(i, loop)) continue;
                if (std::ranges::any_of(data_flow_[i].address,
                                        [&](uint32_t r) { return varying.contains(r); }))
                    continue;
                waits_[i] = true;
                mark_first_reads(start, loop);
            }
        }
    }

    // Returns the blocks of the loop that a branch from `end` back to `start` closes.
    [[nodiscard]] std::set<uint32_t> blocks_between(uint32_t start, uint32_t end) const {
        const auto reached = [&](uint32_t from, uint32_t stop, auto&& next) {
            std::set<uint32_t> seen{from};
            std::vector<uint32_t> left{from};
            while (!left.empty()) {
                const uint32_t at = left.back();
                left.pop_back();
                if (at == stop) continue;
                for (const uint32_t b : next(at))
                    if (seen.insert(b).second) left.push_back(b);
            }
            return seen;
        };
        const auto after = reached(start, end, [&](uint32_t b) { return blocks_[b].successors; });
        const auto before = reached(end, start, [&](uint32_t b) { return before_[b]; });
        std::set<uint32_t> both;
        std::ranges::set_intersection(after, before, std::inserter(both, both.end()));
        return both;
    }

    // Returns the registers whose values may differ between two iterations: not those that are
    // computed from registers that the loop does not change.
    [[nodiscard]] Registers varying_registers(const std::set<uint32_t>& loop) const {
        Registers varying, written_once;
        bool stores = false;
        for_each(loop, [&](uint32_t i) {
            stores = stores || traits_[i].code == OpCode::call ||
                     (traits_[i].code == OpCode::st && function_.body[i].has("local"));
            for (const uint32_t r : data_flow_[i].writes)
                if (!written_once.insert(r).second) varying.insert(r);
        });
        // First, all registers that the loop writes count as varying.
        const Registers again = std::exchange(varying, written_once);
        for (bool changed = true; changed;) {
            changed = false;
            for_each(loop, [&](uint32_t i) {
                const bool repeats =
                    operation(traits_[i].code).has(trait::pure) || (!stores && reads_own_memory(i));
                if (!repeats) return;
                if (std::ranges::any_of(data_flow_[i].reads,
                                        [&](uint32_t r) { return varying.contains(r); }))
                    return;
                for (const uint32_t r : data_flow_[i].writes)
                    if (!again.contains(r)) changed = varying.erase(r) || changed;
            });
        }
        return varying;
    }

    // Returns true for a load of a value that no other thread can change.
    [[nodiscard]] bool reads_own_memory(uint32_t i) const {
        const ptx::Instruction& in = function_.body[i];
        return traits_[i].code == OpCode::ld &&
               (in.has("local") || in.has("param") || in.has("const"));
    }

    // Returns true if the value that an instruction reads decides whether the loop ends.
    [[nodiscard]] bool decides(uint32_t read, const std::set<uint32_t>& loop) const {
        const Registers values = values_of(read, loop);
        return std::ranges::any_of(loop, [&](uint32_t b) {
            const bool leaves =
                blocks_[b].leaves || std::ranges::any_of(blocks_[b].successors, [&](uint32_t next) {
                    return !loop.contains(next);
                });
            return leaves && uses(blocks_[b].last - 1, values);
        });
    }

    // Returns the registers that are computed in these blocks from the result of a read.
    [[nodiscard]] Registers values_of(uint32_t read, const std::set<uint32_t>& blocks) const {
        Registers values(data_flow_[read].writes.begin(), data_flow_[read].writes.end());
        for (bool changed = true; changed;) {
            changed = false;
            for_each(blocks, [&](uint32_t i) {
                if (!uses(i, values)) return;
                for (const uint32_t r : data_flow_[i].writes)
                    changed = values.insert(r).second || changed;
            });
        }
        return values;
    }

    // A compiler may execute the first iterations before the loop.
    void mark_first_reads(uint32_t start, const std::set<uint32_t>& loop) {
        std::set<uint32_t> seen = loop;
        std::vector<uint32_t> left{start};
        while (!left.empty()) {
            const uint32_t at = left.back();
            left.pop_back();
            for (const uint32_t b : before_[at]) {
                if (!seen.insert(b).second) continue;
                bool waits = blocks_[b].successors.size() == 1;
                for (uint32_t i = blocks_[b].first; i < blocks_[b].last; ++i) {
                    if (!may_wait(function_.body[i], traits_[i]) ||
                        !uses(blocks_[b].last - 1, values_of(i, {b})))
                        continue;
                    waits_[i] = waits = true;
                }
                if (waits) left.push_back(b);
            }
        }
    }

    [[nodiscard]] bool uses(uint32_t i, const Registers& values) const {
        return std::ranges::any_of(data_flow_[i].reads,
                                   [&](uint32_t r) { return values.contains(r); });
    }

    template <class F>
    void for_each(const std::set<uint32_t>& blocks, F&& f) const {
        for (const uint32_t b : blocks)
            for (uint32_t i = blocks_[b].first; i < blocks_[b].last; ++i) f(i);
    }

    const ptx::Function& function_;
    std::span<const Traits> traits_;
    const std::vector<BasicBlock>& blocks_;
    std::vector<bool> waits_;
    std::vector<std::vector<uint32_t>> before_;  // the blocks that lead to each block
    std::vector<DataFlow> data_flow_;
};

}  // namespace

std::vector<bool> waiting_reads(const ptx::Function& function, std::span<const Traits> traits,
                                const ControlFlow& flow) {
    bool any = false;
    for (uint32_t i = 0; i < function.body.size(); ++i)
        any = any || may_wait(function.body[i], traits[i]);
    if (!any) return std::vector<bool>(function.body.size());
    return WaitingReads(function, traits, flow).find();
}

}  // namespace coalesce::sim
