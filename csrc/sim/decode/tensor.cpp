// Decodes copies through tensor maps (cp.async.bulk.tensor).
#include "errors.hpp"
#include "sim/decode/decode.hpp"
#include "sim/program/tensor_map.hpp"

namespace coalesce::sim {

using ptx::Operand;
using ptx::Space;
using ptx::Type;

namespace {

// Returns the number of dimensions of the copy, such as 2 for the modifier .2d. Returns 0 if there
// is no modifier for the dimensions.
uint32_t take_dimensions(Modifiers& m) {
    uint32_t rank = 1;
    for (const Modifier word : std::initializer_list<Modifier>{"1d", "2d", "3d", "4d", "5d"}) {
        if (m.take(word)) return rank;
        ++rank;
    }
    return 0;
}

}  // namespace

// Decodes these two forms:
// cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
//     [%r1], [%rd1, {%r2, %r3}], [%r4]{, ctaMask}{, cachePolicy};
// cp.async.bulk.tensor.2d.global.shared::cta.bulk_group
//     [%rd1, {%r2, %r3}], [%r1]{, cachePolicy};
bool Decoder::decode_tensor_copy(const ptx::Instruction& in) {
    if (opcode_ != OpCode::bulk_tensor) return false;
    Modifiers m(in);
    for (const Modifier word : std::initializer_list<Modifier>{"async", "bulk", "tensor", "tile"})
        m.take(word);
    const uint32_t rank = take_dimensions(m);
    const bool hinted = m.take("L2::cache_hint"), multicast = m.take("multicast::cluster");
    const bool to_global = m.take("bulk_group");
    const bool named = to_global ? m.take("global") && m.take("shared::cta")
                                 : (m.take("shared::cluster") || m.take("shared::cta")) &&
                                       m.take("global") && m.take("mbarrier::complete_tx::bytes");
    if (rank == 0 || !named || !m.empty() || (to_global && multicast)) return false;
    require_architecture(90);
    const size_t expected =
        size_t{2} + (to_global ? 0 : 1) + (multicast ? 1 : 0) + (hinted ? 1 : 0);
    if (in.operands.size() < expected) malformed("operands are missing");
    if (in.operands.size() > expected) malformed("it has too many operands");

    TensorCopy copy;
    copy.rank = rank;
    const Operand& source_of_box = in.operands[to_global ? 0 : 1];
    if (source_of_box.elements.size() != 1 ||
        source_of_box.elements[0].kind != Operand::Kind::vector)
        malformed("a tensor map and the coordinates of a box, [map, {...}], are missing");
    const std::vector<Operand>& coordinates = source_of_box.elements[0].elements;
    if (coordinates.size() != copy.rank)
        malformed("it names " + std::to_string(coordinates.size()) + " coordinates, not " +
                  std::to_string(copy.rank));
    for (uint32_t d = 0; d < copy.rank; ++d) copy.coordinate[d] = source(coordinates[d], Type::s32);
    const Op in_shared = shared_end(in.operands[to_global ? 1 : 0]);
    copy.shared = in_shared.operand[5];
    copy.shared_offset = int32_t(in_shared.memory().offset);
    copy.narrow_shared = in_shared.memory().form == AddressForm::narrow;
    if (!to_global) {
        const Op barrier = shared_end(in.operands[2]);
        copy.barrier = barrier.operand[5];
        copy.barrier_offset = int32_t(barrier.memory().offset);
        copy.narrow_barrier = barrier.memory().form == AddressForm::narrow;
    }
    if (multicast) copy.blocks = source(in.operands[3], Type::u16);

    Op op;
    TensorCopyOperand& operand = op.set(TensorCopyOperand{});
    Operand map = source_of_box;
    map.elements.clear();
    set_address(op, map, Space::generic);
    // A checker remembers accesses for small pieces of memory, called granules. Their size is the
    // number of bytes of the shortest access (granule_bits() in analysis/check/check.cpp). The
    // number of bytes here is small, because a box may begin and end at any element. The size of an
    // element is not known yet: it is in the tensor map, which is read at run time.
    operand.memory.bytes = to_global ? 2 : 4;
    operand.index = uint32_t(program_.tensor_copies.size());
    program_.tensor_copies.push_back(copy);
    describe(Space::global, to_global ? Access::store : Access::async_copy, operand.memory.bytes);
    op.run = to_global ? engine_.memory.box_to_global : engine_.memory.box_to_shared;
    emit(in, op);
    return true;
}

}  // namespace coalesce::sim
