#include "sass/waits.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "sass/register_use.hpp"
#include "sim/ptx_analysis/control_flow.hpp"
#include "sim/ptx_analysis/opcode.hpp"

namespace coalesce::sass {

namespace {

using Kind = Operand::Kind;
using sim::OpCode;
namespace trait = sim::trait;

// The largest number of instructions of a loop that waits for a value that another thread writes.
constexpr uint32_t longest_wait = 64;

// Returns true for a test whose result differs from run to run.
bool tests(const sim::Traits& in) { return in.tests_mbarrier || in.requests_registers; }

// Returns true for a read of a value that another thread may change meanwhile. Such a read is a
// strong load, an atomic that adds zero, or an atomic that takes a lock. (For ATOMS.CAST, see
// analysis/counts/contention.hpp.)
bool polls(const Instruction& in) {
    if (in.code == OpCode::LDG || in.code == OpCode::LD) return in.has("STRONG");
    const bool atomic =
        has_trait(in, trait::atomic) && !has_trait(in, trait::mbarrier | trait::no_result);
    if (!atomic || in.has("CAST") || in.operands.size() < 2) return false;
    if (in.has("CAS") || in.has("EXCH")) {
        const Operand& old = in.operands[in.operands[0].kind == Kind::predicate ? 1 : 0];
        return old.kind == Kind::reg && old.number >= 0;
    }
    const Operand& last = in.operands.back();
    return (in.has("ADD") || in.has("OR")) && last.kind == Kind::reg && last.number < 0;
}

// Returns true for a store, of any memory space.
bool writes_memory(const Instruction& in) {
    using enum OpCode;
    return in.code == ST || in.code == STG || in.code == STS || in.code == STL || in.code == STSM;
}

// Finds the loads with which a thread waits for a value in shared memory, if the PTX line of the
// loads is not known. Only a volatile load stays in a short loop that does not change its address,
// if the loop has no store, atomic, barrier or call.
std::vector<bool> repeated_loads(const Code& code) {
    const std::vector<Instruction>& all = code.instructions;
    std::vector<bool> repeated(all.size(), false);
    const auto hides_a_load = [](const Instruction& in) {
        using enum OpCode;
        return writes_memory(in) || has_trait(in, trait::atomic | trait::block_barrier) ||
               in.code == LDGSTS || in.code == CALL || in.code == RET;
    };
    for (size_t last = 0; last < all.size(); ++last) {
        if (all[last].code != OpCode::BRA || all[last].operands.empty()) continue;
        const Operand& label = all[last].operands.back();
        if (label.kind != Kind::label || label.target > last || last - label.target >= longest_wait)
            continue;
        const std::span loop(all.begin() + label.target, all.begin() + ptrdiff_t(last) + 1);
        if (std::ranges::any_of(loop, hides_a_load)) continue;
        for (size_t at = label.target; at <= last; ++at) {
            const Instruction& in = all[at];
            if (in.code != OpCode::LDS && in.code != OpCode::LD) continue;
            if (in.operands.size() < 2) continue;
            repeated[at] =
                repeated[at] || std::ranges::none_of(loop, [&](const Instruction& other) {
                    return is_any(in, in.operands[1], written_by(other), 1);
                });
        }
    }
    return repeated;
}

using Accesses = std::vector<std::pair<uint32_t, uint32_t>>;

// The flow of values through one kernel: which registers and predicates depend on a test.
class Flow {
  public:
    // With `follows_memory`, values are also followed through shared and local memory.
    Flow(const Code& code, std::vector<bool> tests, bool follows_memory)
        : code_(code),
          tests_(std::move(tests)),
          follows_memory_(follows_memory),
          size_(uint32_t(code.instructions.size())),
          before_(size_),
          depends_(size_) {
        knows_targets_ = link();
    }

    // False if there are jumps whose targets are not known. Then nothing else may be called.
    [[nodiscard]] bool knows_targets() const { return knows_targets_; }

    // Follows the values through all instructions until nothing changes. Returns true if anything
    // changed.
    bool follow() {
        bool changed = false;
        while (pass()) changed = true;
        return changed;
    }

    // Says that it depends on a test whether these instructions are executed. Returns true if this
    // was not known.
    bool add_dependent(const std::vector<bool>& these) {
        bool changed = false;
        for (uint32_t i = 0; i < size_; ++i) {
            if (!these[i] || depends_[i]) continue;
            depends_[i] = true;
            changed = true;
        }
        return changed;
    }

    // Returns the branches that depend on a test.
    [[nodiscard]] std::vector<uint32_t> branches() const {
        std::vector<uint32_t> branches;
        for (uint32_t i = 0; i < size_; ++i) {
            const bool is_branch = blocks_[i].successors.size() + blocks_[i].leaves >= 2;
            if (is_branch && reads(code_.instructions[i], before_[i])) branches.push_back(i);
        }
        return branches;
    }

    // Returns the instructions between a branch and the point where its sides meet.
    [[nodiscard]] std::vector<bool> sides(uint32_t branch) const {
        std::vector<uint32_t> left(blocks_[branch].successors);
        std::vector<bool> seen(size_, false);
        while (!left.empty()) {
            const uint32_t at = left.back();
            left.pop_back();
            if (at == blocks_[branch].reconvergence || seen[at]) continue;
            seen[at] = true;
            left.insert(left.end(), blocks_[at].successors.begin(), blocks_[at].successors.end());
        }
        return seen;
    }

    // Returns the instructions between a branch and the point where its sides meet from which
    // control may come back to the branch. Returns none if this is no loop that waits: such a loop
    // is short and contains a test.
    [[nodiscard]] std::vector<bool> waiting_loop(uint32_t branch) const {
        const std::vector<bool> seen = sides(branch);
        std::vector<bool> loop(size_, false);
        loop[branch] = seen[branch];
        for (bool changed = true; changed;) {
            changed = false;
            for (uint32_t at = size_; at-- > 0;) {  // most instructions lead to the next one
                if (!seen[at] || loop[at]) continue;
                loop[at] = leads_to(at, loop);
                changed = changed || loop[at];
            }
        }
        uint32_t count = 0;
        bool waits = false;
        for (uint32_t at = 0; at < size_; ++at) {
            count += loop[at];
            waits = waits || (loop[at] && tests_[at]);
        }
        if (!waits || count > longest_wait) loop.assign(size_, false);
        return loop;
    }

    [[nodiscard]] bool leads_to(uint32_t i, const std::vector<bool>& these) const {
        return std::ranges::any_of(blocks_[i].successors,
                                   [&](uint32_t next) { return these[next]; });
    }

    // Returns true if the guard or the address of an access depends on a test. The data that it
    // stores do not matter.
    [[nodiscard]] bool address_or_guard_depends(uint32_t i) const {
        const Instruction& in = code_.instructions[i];
        const Values& values = before_[i];
        if (in.guard.kind == Kind::predicate && is_any(in, in.guard, values, 1)) return true;
        return std::ranges::any_of(in.operands, [&](const Operand& o) {
            return !is_value(o) && is_any(in, o, values, 1);
        });
    }

  private:
    // Finds the instructions that can follow each instruction, and where the sides of a branch
    // meet.
    bool link() {
        std::vector<uint32_t> after_calls;
        for (uint32_t i = 0; i < size_; ++i) {
            const Instruction& in = code_.instructions[i];
            if (in.code == OpCode::CALL && i + 1 < size_) after_calls.push_back(i + 1);
        }
        blocks_.resize(size_);
        for (uint32_t i = 0; i < size_; ++i) {
            const Instruction& in = code_.instructions[i];
            sim::BasicBlock& block = blocks_[i];
            block.first = i, block.last = i + 1;
            const auto go = [&](uint32_t to) {
                if (to >= size_)
                    block.leaves = true;
                else if (std::ranges::find(block.successors, to) == block.successors.end())
                    block.successors.push_back(to);
            };
            const Operand* label = nullptr;
            for (const Operand& o : in.operands)
                if (o.kind == Kind::label) label = &o;
            bool continues = true;
            if (in.code == OpCode::BRX || in.code == OpCode::BRXU) return false;
            if (in.code == OpCode::CALL && !in.operands.empty() &&
                in.operands[0].kind == Kind::reg && !in.has("ABS"))
                return false;
            if ((in.code == OpCode::BRA || in.code == OpCode::CALL) && label) go(label->target);
            if (in.code == OpCode::BRA) continues = is_guarded(in) || in.operands.size() > 1;
            if (in.code == OpCode::RET) {
                for (const uint32_t to : after_calls) go(to);
                continues = is_guarded(in);
            }
            if (in.code == OpCode::EXIT) {
                block.leaves = true;
                continues = is_guarded(in) || !in.operands.empty();
            }
            if (continues) go(i + 1);
        }
        sim::find_reconvergence(blocks_);
        return true;
    }

    // Returns true for the ELECT of a loop in which the lanes start copies one by one
    // (lift_bulk.cpp):
    //    @P0 ELECT P1, URZ, PT ... @P0 BRA.U.ANY `(to the ELECT)
    // In the first iteration, the guard is true in all active lanes. So the earlier value of P1 is
    // lost, although the instruction has a guard.
    [[nodiscard]] bool elects_each(uint32_t i) const {
        constexpr uint32_t longest = 16;
        const Instruction& in = code_.instructions[i];
        if (in.code != OpCode::ELECT) return false;
        for (uint32_t at = i + 1; at < std::min(size_, i + longest); ++at) {
            const Instruction& branch = code_.instructions[at];
            if (branch.code != OpCode::BRA || !branch.has("ANY")) continue;
            const bool same = branch.guard.kind == in.guard.kind &&
                              branch.guard.number == in.guard.number &&
                              branch.guard.negated == in.guard.negated;
            return same && std::ranges::any_of(branch.operands, [&](const Operand& o) {
                       return o.kind == Kind::label && o.target == i;
                   });
        }
        return false;
    }

    // Returns the values after an instruction.
    [[nodiscard]] Values after(uint32_t i) {
        const Instruction& in = code_.instructions[i];
        Values values = before_[i];
        const Results results = results_of(in);
        const bool spreads = depends_[i] || tests_[i] || reads(in, values) || loads_dependent(in);
        if (spreads && follows_memory_ && stores(in))
            (in.code == OpCode::STL ? local_ : shared_) = true;
        if (spreads && in.code == OpCode::BAR) voted_ = true;
        if (spreads && in.code == OpCode::R2P) values |= written_by(in);
        for (size_t n = 0; n < std::min(results.possible, in.operands.size()); ++n) {
            const bool overwrites = n < results.certain && (!is_guarded(in) || elects_each(i));
            if (spreads || overwrites)
                set(values, in.operands[n], spreads ? width_of(in, true) : least_width_of(in),
                    spreads);
        }
        return values;
    }

    // Returns true for a store to local or shared memory, or an atomic that may update shared
    // memory.
    static bool stores(const Instruction& in) {
        using enum OpCode;
        return (writes_memory(in) && in.code != STG) || in.code == ATOMS || in.code == ATOM;
    }

    // Returns true for a read of memory, or of the result of BAR.RED, that depends on a test.
    [[nodiscard]] bool loads_dependent(const Instruction& in) const {
        using enum OpCode;
        if (in.code == LDL) return local_;
        if (in.code == B2R) return voted_;
        return shared_ && (in.code == LDS || in.code == LDSM || in.code == LD || in.code == ATOMS ||
                           in.code == ATOM);
    }

    // Follows all instructions once. Returns true if anything changed.
    bool pass() {
        bool changed = false;
        const bool shared = shared_, local = local_, voted = voted_;
        std::vector<bool> waiting(size_, true);
        std::vector<uint32_t> left;
        for (uint32_t i = size_; i-- > 0;) left.push_back(i);
        while (!left.empty()) {
            const uint32_t i = left.back();
            left.pop_back();
            waiting[i] = false;
            const Values values = after(i);
            for (const uint32_t next : blocks_[i].successors) {
                const Values all = before_[next] | values;
                if (all == before_[next]) continue;
                before_[next] = all;
                changed = true;
                if (!waiting[next]) left.push_back(next);
                waiting[next] = true;
            }
        }
        return changed || shared != shared_ || local != local_ || voted != voted_;
    }

    const Code& code_;
    std::vector<bool> tests_;  // whether the result of an instruction differs from run to run
    bool follows_memory_;
    uint32_t size_;
    bool knows_targets_ = false;
    std::vector<sim::BasicBlock> blocks_;  // one for each instruction
    std::vector<Values> before_;           // the values before each instruction
    std::vector<bool> depends_;            // whether the instruction is executed depends on a test
    // Whether shared memory, local memory or the result of BAR.RED depends on a test.
    bool shared_ = false, local_ = false, voted_ = false;
};

// Finds the accesses that depend on the results of tests, through registers, memory and branches.
Accesses after_tests(const Code& code, const std::function<bool(uint32_t)>& accesses,
                     std::vector<bool> tests) {
    Accesses pairs;
    const auto size = uint32_t(code.instructions.size());
    Flow flow(code, std::move(tests), true);
    if (!flow.knows_targets()) {
        for (uint32_t i = 0; i < size; ++i)
            if (accesses(i)) pairs.emplace_back(i, i);
        return pairs;
    }
    for (bool changed = true; changed;) {
        changed = flow.follow();
        for (const uint32_t branch : flow.branches())
            changed = flow.add_dependent(flow.sides(branch)) || changed;
    }
    for (const uint32_t branch : flow.branches()) {
        const std::vector<bool> sides = flow.sides(branch);
        for (uint32_t i = 0; i < size; ++i)
            if (sides[i] && accesses(i)) pairs.emplace_back(i, branch);
    }
    for (uint32_t i = 0; i < size; ++i)
        if (accesses(i) && flow.address_or_guard_depends(i)) pairs.emplace_back(i, i);
    return pairs;
}

// Finds the accesses in loops that wait for a value that another thread writes. The number of
// iterations of such a loop depends on these reads.
Accesses in_waiting_loops(const Code& code, const std::function<bool(uint32_t)>& accesses,
                          const std::vector<bool>& reads) {
    Accesses pairs;
    const auto size = uint32_t(code.instructions.size());
    Flow flow(code, reads, false);
    if (!flow.knows_targets()) return pairs;
    flow.follow();
    for (const uint32_t branch : flow.branches()) {
        const std::vector<bool> loop = flow.waiting_loop(branch);
        // The first test may be before the loop. If it succeeds, this run of the kernel does not
        // enter the loop, but another run may.
        std::vector<uint32_t> entries{branch};
        for (uint32_t i = 0; i < size; ++i)
            if (!loop[i] && flow.leads_to(i, loop)) entries.push_back(i);
        for (uint32_t i = 0; i < size; ++i) {
            if (!loop[i] || !accesses(i)) continue;
            for (const uint32_t entry : entries) pairs.emplace_back(i, entry);
        }
    }
    return pairs;
}

}  // namespace

Accesses accesses_after_waits(const Code& code, std::span<const sim::InstructionInfo> infos,
                              const std::function<bool(uint32_t)>& accesses,
                              const std::vector<bool>& volatile_loads) {
    // The ends of groups of copies are in metrics of the copy engine.
    const std::function<bool(uint32_t)> measured = [&](uint32_t i) {
        return accesses(i) || infos[i].traits.ends_bulk_group;
    };
    std::vector<bool> tested(code.instructions.size()), polled = repeated_loads(code);
    for (size_t i = 0; i < tested.size(); ++i) {
        tested[i] = tests(infos[i].traits);
        const Instruction& in = code.instructions[i];
        const bool loads = in.code == OpCode::LDS || in.code == OpCode::LD;
        polled[i] = polled[i] || polls(in) || (loads && volatile_loads[i]);
    }
    Accesses pairs;
    const auto any = [](const std::vector<bool>& these) {
        return std::ranges::find(these, true) != these.end();
    };
    if (any(tested)) pairs = after_tests(code, measured, std::move(tested));
    if (any(polled)) {
        const Accesses more = in_waiting_loops(code, measured, polled);
        pairs.insert(pairs.end(), more.begin(), more.end());
    }
    return pairs;
}

}  // namespace coalesce::sass
