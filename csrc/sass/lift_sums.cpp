// Joins the two instructions of a 64-bit sum, so that one operation computes the sum.
//
// METHOD
// Machine code adds 64-bit numbers, usually addresses, in two instructions. The first adds the
// lower words and sets a predicate to the carry. The second adds the upper words and the carry:
//    IADD3 R4, P0, R2, UR4, RZ
//    LDG.E R9, [R2.64]
//    IADD3.X R5, R3, UR5, RZ, P0, !PT
// One of the two operations is replaced by an operation that computes both words and the carry. The
// other one then does nothing, but is still counted. So one of the words is computed earlier or
// later than before. This is right only if the instructions in between do not use that word (or the
// carry, if it is computed later) and do not write the terms, and if no branch leads to a place
// behind the first instruction. Loops often contain such sums, and one operation is faster than
// two.
#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "sass/lifter.hpp"
#include "sass/register_use.hpp"

namespace coalesce::sass {

using Kind = Operand::Kind;

namespace {

// The second instruction of a sum is searched among so many instructions after the first. Compiled
// kernels rarely have more than four instructions in between.
constexpr uint32_t longest_distance = 8;

// Returns true for instructions that may stand between the two: those whose results are known for
// certain, and after which no other lanes run.
bool may_stand_between(const Instruction& in) {
    using enum OpCode;
    if (is_guarded(in) || in.code == P2R || in.code == R2P) return false;
    const sim::Pipe pipe = sim::operation(in.code).pipe;
    return pipe == sim::Pipe::alu || pipe == sim::Pipe::fp32 || pipe == sim::Pipe::fp64 ||
           std::ranges::count(std::initializer_list<OpCode>{IMAD, MOV, UIADD3, UIMAD, ULEA, UMOV,
                                                            LD, LDG, LDS, LDL, ST, STG, STS, STL},
                              in.code);
}

// Returns the instructions to which control may go from elsewhere. Returns false if they are not
// known.
bool find_targets(const Code& code, std::set<uint32_t>& targets) {
    for (const Instruction& in : code.instructions) {
        using enum OpCode;
        const bool calls_register =
            in.code == CALL && !in.operands.empty() && in.operands[0].kind == Kind::reg;
        if (in.code == BRX || in.code == BRXU || (calls_register && !in.has("ABS"))) return false;
        for (const Operand& o : in.operands)
            if (o.kind == Kind::label) targets.insert(o.target);
    }
    for (const auto& [name, entry] : code.functions) targets.insert(entry);
    return true;
}

}  // namespace

// Returns the op of an instruction that only adds two words and perhaps a carry. Returns null for
// all other instructions.
const Op* Lifter::sum_of_words(uint32_t instruction) const {
    const uint32_t at = op_of_[instruction];
    const Op& op = program_.ops[at];
    const bool adds = op_of_[instruction + 1] == at + 1 && op.guard == no_operand &&
                      op.run == engine_.ops->machine(MachineOp::add_carry) &&
                      !op.get<sim::CarryOperand>().inverted;
    return adds ? &op : nullptr;
}

// If the instruction `lower` adds the lower words of a 64-bit sum, finds the instruction that adds
// the upper words. Returns nothing if there is none, or if the two cannot be joined.
std::optional<Lifter::SumOfPairs> Lifter::sum_of_pairs(uint32_t lower,
                                                       const std::set<uint32_t>& targets) const {
    const std::vector<Instruction>& all = code_.instructions;
    const Op* const low = sum_of_words(lower);
    if (!low || low->operand[4] == no_operand || low->operand[5] != no_operand) return {};
    const uint32_t end = std::min(uint32_t(all.size()), lower + 1 + longest_distance);
    uint32_t upper = lower + 1;
    const Op* high = nullptr;
    for (; upper < end && !targets.contains(upper); ++upper) {
        high = sum_of_words(upper);
        if (high && high->operand[5] == low->operand[4]) break;
        high = nullptr;
        if (!may_stand_between(all[upper])) return {};
    }
    if (!high || high->operand[4] != no_operand) return {};
    const Values low_results = written_by(all[lower]), high_results = written_by(all[upper]);
    Values low_word, low_terms, high_sources;
    set(low_word, all[lower].operands[0], 1);
    for (const Operand& o : std::span(all[lower].operands).subspan(2)) set(low_terms, o, 1);
    for (const Operand& o : std::span(all[upper].operands).subspan(1)) set(high_sources, o, 1);
    if ((low_word & (high_sources | high_results)).any()) return {};
    bool early = true, late = true;  // if all can be computed at the place of `lower`, or `upper`
    for (uint32_t i = lower + 1; i < upper; ++i) {
        const Values written = written_by(all[i]);
        early = early && (written & (high_sources | high_results)).none() &&
                !reads(all[i], high_results);
        late = late && (written & (low_terms | low_results)).none() && !reads(all[i], low_results);
    }
    if (!early && !late) return {};
    return SumOfPairs{upper, early ? lower : upper};
}

void Lifter::join_sums() {
    std::set<uint32_t> targets;
    if (!find_targets(code_, targets)) return;
    Op nothing = machine_op(MachineOp::nothing, {}, {});
    for (uint32_t lower = 0; lower < code_.instructions.size(); ++lower) {
        const auto found = sum_of_pairs(lower, targets);
        if (!found) continue;
        Op& low = program_.ops[op_of_[lower]];
        Op& high = program_.ops[op_of_[found->upper]];
        Op sum = machine_op(MachineOp::add_wide,
                            {low.operand[0], low.operand[1], low.operand[2], high.operand[1],
                             low.operand[4], high.operand[2]},
                            sim::WideSum{.upper = high.operand[0]});
        for (Op* const op : {&low, &high}) {
            const bool here = op == &program_.ops[op_of_[found->place]];
            Op& now = here ? sum : nothing;
            op->run = now.run;
            op->payload() = now.payload();
            std::ranges::copy(now.operand, op->operand);
        }
        for (Registers& r : written_)
            if (r.pc == lower || r.pc == found->upper) r.pc = found->place;
    }
}

// If one term of a sum is an address, and the other has the same value in all lanes, the result has
// the same stride as the address (sim/warp/lane_strides.hpp). For such a sum, sets the families of
// the address and of the result. The address becomes the first term.
void Lifter::find_family_of_sum(Op& op) const {
    auto& sum = op.get<sim::WideSum>();
    const int32_t d = general_register(op.operand[0]);
    if (d < 0 || general_register(sum.upper) != d + 1) return;
    const auto family_at = [&](int32_t first) {
        const auto known = std::ranges::find_if(
            families_, [&](const Registers& r) { return r.first == first && r.count == 2; });
        return known == families_.end() ? sim::AddressFamilies::none
                                        : uint8_t(known - families_.begin());
    };
    for (int term = 0; term < 2; ++term) {
        std::swap(op.operand[1], op.operand[2]);
        for (int upper_term = 0; upper_term < 2; ++upper_term) {
            std::swap(op.operand[3], op.operand[5]);
            const int32_t a = general_register(op.operand[1]);
            if (a < 0 || general_register(op.operand[3]) != a + 1 || !is_uniform(op.operand[2]) ||
                !is_uniform(op.operand[5]))
                continue;
            const uint8_t from = family_at(a), to = family_at(d);
            if (from == sim::AddressFamilies::none || to == sim::AddressFamilies::none) return;
            sum.from = from;
            sum.to = to;
            return;
        }
    }
}

// Returns the number of the general register at this place, or -1 if another operand is there.
int32_t Lifter::general_register(Locator at) const {
    const bool is_constant = at & 1;
    return is_constant || at >> 1 >= uniforms_ ? -1
                                               : int32_t(((at >> 1) - general_) / register_bytes);
}

// Returns true for constants and uniform registers: they have the same value in all lanes.
bool Lifter::is_uniform(Locator at) const {
    const bool is_constant = at & 1;
    return is_constant || (at >> 1 >= uniforms_ && at >> 1 < predicates_);
}

}  // namespace coalesce::sass
