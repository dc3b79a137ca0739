// Decodes copies through tensor maps (cp.async.bulk.tensor), and changes of tensor maps.
#include <algorithm>

#include "errors.hpp"
#include "sim/decode/decode.hpp"
#include "sim/program/map_field.hpp"
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
    if (opcode_ == OpCode::tensormap_replace) return decode_tensor_map(in);
    if (opcode_ == OpCode::tensormap_copy) return decode_map_copy(in);
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

// Decodes these two forms:
// tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%rd1], 1, %r1;
// tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
//     [%rd1], [%r1], 128;
bool Decoder::decode_tensor_map(const ptx::Instruction& in) {
    const std::vector<std::string_view>& words = in.modifiers;
    const bool spaced = words.size() == 6;
    if (words.size() < 5 || words.size() > 6 || words[0] != "replace" || words[1] != "tile" ||
        words[words.size() - 2] != "b1024")
        return false;
    const Space space = !spaced                     ? Space::generic
                        : words[3] == "global"      ? Space::global
                        : words[3] == "shared::cta" ? Space::shared
                                                    : Space::reg;
    const std::string_view named = words.back();
    if (space == Space::reg || (named != "b32" && named != "b64")) return false;
    require_architecture(90);
    const bool numbered = in.operands.size() == 3;
    if (in.operands.size() < 2 || in.operands.size() > 3) malformed("it needs 2 or 3 operands");
    if (numbered && in.operands[1].kind != Operand::Kind::integer)
        malformed("the number of the dimension must be a constant");
    const auto field = map_field(words[2], numbered ? in.operands[1].bits : 0);
    if (!field || (field->bytes == 8) != (named == "b64")) return false;
    const Type type = field->bytes == 8 ? Type::b64 : Type::b32;
    Op op;
    op.set(MemoryOperand{}).bytes = uint8_t(field->bytes);
    describe(space, Access::store, field->bytes);
    Operand place = in.operands[0];
    place.offset += field->offset;
    set_address(op, place, space);
    op.mover = engine_.ops->store(type, set_values(op, in.operands.back(), type, 1, false), 1);
    if (!op.mover || op.memory().frame_relative) return false;
    const size_t row = space == Space::global ? 0 : space == Space::shared ? 1 : 4;
    op.run = engine_.memory.access[row][1];
    emit(in, op);
    return true;
}

bool Decoder::decode_map_copy(const ptx::Instruction& in) {
    const std::vector<std::string_view> form{"cp_fenceproxy", "global", "shared::cta",
                                             "tensormap::generic", "release"};
    if (in.modifiers.size() != form.size() + 3 ||
        !std::equal(form.begin(), form.end(), in.modifiers.begin()))
        return false;
    require_architecture(90);
    if (in.operands.size() != 3) malformed("it needs 3 operands");
    Op op;
    BulkCopyOperand& copy = op.set(BulkCopyOperand{});
    set_address(op, in.operands[0], Space::global);
    const Op in_shared = shared_end(in.operands[1]);
    op.operand[0] = in_shared.operand[5];
    copy.shared_offset = int32_t(in_shared.memory().offset);
    copy.narrow_shared = in_shared.memory().form == AddressForm::narrow;
    op.operand[1] = source(in.operands[2], Type::u32);
    op.operand[2] = op.operand[1];  // all lanes make one copy together
    copy.global.bytes = 16;
    describe(Space::global, Access::store, copy.global.bytes);
    op.run = engine_.memory.bulk_copy_to_global;
    emit(in, op);
    return true;
}

}  // namespace coalesce::sim
