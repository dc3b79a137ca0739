#include "sass/schedule.hpp"

namespace coalesce::sass {

using sim::OpCode;

sim::Schedule schedule_of(const Instruction& in) {
    const uint64_t bits = in.encoding >> (105 - 64);
    sim::Schedule s;
    s.cycles = bits & 0xf;
    s.result = (bits >> 5) & 7;
    s.operands = (bits >> 8) & 7;
    s.awaits = (bits >> 11) & 0x3f;
    if (in.code == OpCode::BRA)
        for (const Operand& o : in.operands)
            if (o.kind == Operand::Kind::label) s.target = o.target;
    const bool leaves = in.code == OpCode::BRA || in.code == OpCode::EXIT || in.code == OpCode::RET;
    // A branch is conditional if it has one more operand than its target: in "BRA.U UP0,
    // `(.L_x_0)", UP0 is the condition. RET has such an operand, too, but it is not a condition.
    const bool always =
        in.code == OpCode::RET || in.operands.size() == (in.code == OpCode::BRA ? 1u : 0u);
    s.ends = leaves && always && in.guard.text.empty();
    return s;
}

}  // namespace coalesce::sass
