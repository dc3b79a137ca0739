#include "sass/schedule.hpp"

namespace coalesce::sass {

sim::Schedule schedule_of(const Instruction& in) {
    const uint64_t bits = in.encoding >> (105 - 64);
    sim::Schedule s;
    s.cycles = bits & 0xf;
    s.result = (bits >> 5) & 7;
    s.operands = (bits >> 8) & 7;
    s.awaits = (bits >> 11) & 0x3f;
    if (in.opcode == "BRA")
        for (const Operand& o : in.operands)
            if (o.kind == Operand::Kind::label) s.target = o.target;
    const bool leaves = in.opcode == "BRA" || in.opcode == "EXIT" || in.opcode == "RET";
    // A branch is conditional if it has one more operand than its target: in "BRA.U UP0,
    // `(.L_x_0)", UP0 is the condition. RET has such an operand, too, but it is not a condition.
    const bool always = in.opcode == "RET" || in.operands.size() == (in.opcode == "BRA");
    s.ends = leaves && always && in.guard.text.empty();
    return s;
}

}  // namespace coalesce::sass
