// The copy engine (TMA): bulk copies and copies of boxes. Their operands are in uniform registers.
//
// If several threads start copies, the assembler makes a loop. Each iteration elects one thread,
// copies the operands of this thread to uniform registers, and starts its copy:
//
// .L_x_0:
//   @P0 ELECT P1, URZ, PT
//   @P1 R2UR UR5, R8
//   @P1 PLOP3.LUT P0, PT, P1, PT, PT, 0x8, 0x0   (P0 = false in the elected thread)
//   UBLKCP.S.G [UR8], [UR6], UR5
//   @P0 BRA.U.ANY `(.L_x_0)
//
// So an instruction starts one copy, whichever lanes are active.
#include "sass/lifter.hpp"
#include "sim/program/tensor_map.hpp"

namespace coalesce::sass {

using Kind = Operand::Kind;

namespace {

Operand uniform_register(int32_t number) {
    Operand o;
    o.kind = Kind::reg;
    o.uniform = true;
    o.number = number;
    return o;
}

}  // namespace

// Returns the number of the first uniform register of an operand such as [UR4].
int32_t Lifter::uniform_group(const Operand& o) const {
    if (o.kind != Kind::address || o.base >= 0 || o.uniform_base < 0 || o.offset != 0)
        unsupported("the operand " + std::string(o.text));
    return o.uniform_base;
}

// Returns uniform register `number`, which is an address in shared memory.
Locator Lifter::uniform_word(int32_t number) { return raw(uniform_register(number)); }

// Handles operands from `n` on. Only a cache policy, desc[UR8], may be left. It has no effect on
// the simulator.
void Lifter::expect_policy_at_most(const Instruction& in, size_t n) const {
    if (n >= in.operands.size()) return;
    const std::string_view text = operand(in, n).text;
    if (in.operands.size() > n + 1 || !text.starts_with("desc[UR") || !text.ends_with(']'))
        unsupported("the operand " + std::string(text));
}

void Lifter::emit_once(Op op) {
    uniform_ = false;  // one_lane() replaces whole_warp()
    op.inner = op.run;
    op.run = engine_.ops->machine(MachineOp::one_lane);
    emit(op);
}

// UBLKCP.S.G [UR8], [UR6], UR5 copies from global to shared memory. UBLKCP.G.S [UR6], [UR8], UR5
// copies from shared to global memory. UR6 and UR7 are the global address, UR8 is the shared
// address, and the lower half of UR5 is the size in units of 16 bytes. UR9 is the address of the
// mbarrier.
void Lifter::bulk_copy(const Instruction& in) {
    only(in, {"S", "G"});
    if (in.modifiers.size() != 2 || in.modifiers[0] == in.modifiers[1]) unsupported();
    const bool to_global = in.modifiers[0] == "G";
    const int32_t global = uniform_group(operand(in, to_global ? 0 : 1));
    const int32_t shared = uniform_group(operand(in, to_global ? 1 : 0));
    const Operand& size = operand(in, 2);
    if (!is_register(size) || !size.uniform) unsupported();
    expect_policy_at_most(in, 3);
    Op op;
    sim::BulkCopyOperand& copy = op.set(sim::BulkCopyOperand{});
    copy.global.bytes = 16;
    copy.global.form = sim::AddressForm::pair;
    op.operand[5] = raw(uniform_register(global), 2);
    copy.narrow_shared = copy.narrow_barrier = true;
    copy.shared_offset = -int32_t(program_.reserved_shared);
    op.operand[0] = uniform_word(shared);
    op.operand[1] = scratch();
    uniform_ = true;  // these operations must be for all lanes
    as_ptx_to_scratch(OpCode::bfe, {"u32"}, {op.operand[1], raw(size), constant(0), constant(16)});
    as_ptx_to_scratch(OpCode::shl, {"b32"}, {op.operand[1], op.operand[1], constant(4)});
    if (!to_global) {
        op.operand[2] = uniform_word(shared + 1);
        op.operand[3] = constant(0 - program_.reserved_shared);
    }
    describe(ptx::Space::global, to_global ? sim::Access::store : sim::Access::async_copy,
             copy.global.bytes);
    op.run = to_global ? engine_.memory.bulk_copy_to_global : engine_.memory.bulk_copy_to_shared;
    emit_once(op);
}

// UTMALDG.2D [UR8], [UR4] copies a box to shared memory. UR4 and UR5 are the address of the tensor
// map, UR8 is the shared address, UR9 the address of the mbarrier, and UR10 and UR11 are the
// coordinates. UTMALDG.2D.MULTICAST [UR8], [UR4], UR6 copies the box to several blocks of the
// cluster: the upper half of UR6 has one bit for each block. UTMASTG.2D [UR8], [UR4] copies a box
// to global memory; UR9 and UR10 are the coordinates.
void Lifter::box_copy(const Instruction& in) {
    only(in, {"1D", "2D", "3D", "4D", "5D", "MULTICAST"});
    const bool to_global = in.opcode == "UTMASTG", multicast = in.has("MULTICAST");
    if (in.modifiers.size() != (multicast ? 2 : 1) || (multicast && to_global)) unsupported();
    sim::TensorCopy copy;
    copy.rank = uint32_t(in.modifiers[0][0] - '0');
    if (in.modifiers[0] == "MULTICAST") unsupported();
    const int32_t shared = uniform_group(operand(in, 0)), map = uniform_group(operand(in, 1));
    copy.shared = uniform_word(shared);
    copy.shared_offset = copy.barrier_offset = -int32_t(program_.reserved_shared);
    copy.narrow_shared = copy.narrow_barrier = true;
    if (!to_global) copy.barrier = uniform_word(shared + 1);
    for (uint32_t d = 0; d < copy.rank; ++d)
        copy.coordinate[d] = uniform_word(shared + (to_global ? 1 : 2) + int32_t(d));
    if (multicast) {
        const Operand& blocks = operand(in, 2);
        if (!is_register(blocks) || !blocks.uniform) unsupported();
        const Locator upper = scratch();
        copy.blocks = scratch();
        as_ptx_to_scratch(OpCode::shr, {"u32"}, {upper, raw(blocks), constant(16)});
        Op cut;
        cut.run = engine_.ops->resize(ptx::Type::u32, 2);
        cut.operand[0] = copy.blocks;
        cut.operand[1] = upper;
        append(cut);
    }
    expect_policy_at_most(in, multicast ? 3 : 2);
    Op op;
    sim::TensorCopyOperand& operand = op.set(sim::TensorCopyOperand{});
    operand.memory.bytes = to_global ? 2 : 4;
    operand.memory.form = sim::AddressForm::pair;
    op.operand[5] = raw(uniform_register(map), 2);
    operand.index = uint32_t(program_.tensor_copies.size());
    program_.tensor_copies.push_back(copy);
    describe(ptx::Space::global, to_global ? sim::Access::store : sim::Access::async_copy,
             operand.memory.bytes);
    op.run = to_global ? engine_.memory.box_to_global : engine_.memory.box_to_shared;
    emit_once(op);
}

// Translates instructions that have no effect on the simulator. UTMACMDFLUSH ends a group of copies
// to global memory, which the simulator performs at once. UTMACCTL.PF [UR4] prefetches a tensor
// map, and UTMACCTL.IV removes it from the cache. UBLKPF.L2 [UR6], UR12 and UTMAPF.L2.2D [UR14],
// [UR10] prefetch data into L2.
void Lifter::copy_control(const Instruction& in) {
    if (in.opcode == "UTMACCTL") {
        only(in, {"PF", "IV"});
        if (in.modifiers.size() != 1) unsupported();
        static_cast<void>(uniform_group(operand(in, 0)));
    } else if (in.opcode == "UBLKPF") {
        only(in, {"L2"});
        static_cast<void>(uniform_group(operand(in, 0)));
        if (!is_register(operand(in, 1))) unsupported();
        expect_policy_at_most(in, 2);
    } else if (in.opcode == "UTMAPF") {
        only(in, {"L2", "1D", "2D", "3D", "4D", "5D"});
        static_cast<void>(uniform_group(operand(in, 0)));
        static_cast<void>(uniform_group(operand(in, 1)));
        expect_policy_at_most(in, 2);
    } else {
        only(in, {});
    }
    Op op;
    op.run = engine_.ops->machine(MachineOp::nothing);
    uniform_ = false;
    append(op);
}

}  // namespace coalesce::sass
