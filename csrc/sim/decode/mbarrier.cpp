// Decodes the instructions on mbarriers, and the bulk copies (cp.async.bulk), whose bytes an
// mbarrier counts.
#include "sim/decode/decode.hpp"

#include <string_view>

#include "errors.hpp"
#include "sim/program/mbarrier.hpp"

namespace coalesce::sim {

using ptx::Operand;
using ptx::Space;
using ptx::Type;

namespace {

// Removes from the list the modifiers that are part of the operation's spelling in ops.inc, such as
// `init` in mbarrier.init.
void take_spelled(Modifiers& m, OpCode code) {
    std::string_view rest = operation(code).spelling;
    for (size_t dot; (dot = rest.find('.')) != std::string_view::npos;) {
        rest.remove_prefix(dot + 1);
        m.take(Modifier::named(rest.substr(0, rest.find('.'))));
    }
}

// Ignores the modifiers for memory order and scope, such as .release and .cta. All arrivals are
// treated as .release and all waits as .acquire, for the whole cluster.
void drop_order(Modifiers& m) {
    for (const Modifier word : {Modifier("release"), Modifier("acquire"), Modifier("relaxed"),
                                Modifier("cta"), Modifier("cluster")})
        m.take(word);
}

}  // namespace

bool Decoder::decode_mbarrier(const ptx::Instruction& in) {
    switch (opcode_) {
        case OpCode::cp_async_arrive:
        case OpCode::mbarrier_init:
        case OpCode::mbarrier_inval:
        case OpCode::mbarrier_arrive:
        case OpCode::mbarrier_arrive_drop:
        case OpCode::mbarrier_expect_tx:
        case OpCode::mbarrier_complete_tx:
            return decode_mbarrier_update(in);
        case OpCode::mbarrier_test_wait:
        case OpCode::mbarrier_try_wait:
            return decode_mbarrier_wait(in);
        case OpCode::bulk_to_cluster:
        case OpCode::bulk_to_shared:
        case OpCode::bulk_to_global:
            return decode_bulk_copy(in);
        default:
            return false;
    }
}

bool Decoder::decode_mbarrier_update(const ptx::Instruction& in) {
    const auto kind_of = [this](bool expects) {
        switch (opcode_) {
            case OpCode::mbarrier_init:
                return MbarrierUpdate::init;
            case OpCode::mbarrier_inval:
                return MbarrierUpdate::inval;
            case OpCode::mbarrier_arrive_drop:
                return expects ? MbarrierUpdate::arrive_drop_expect : MbarrierUpdate::arrive_drop;
            case OpCode::mbarrier_expect_tx:
                return MbarrierUpdate::expect;
            case OpCode::mbarrier_complete_tx:
                return MbarrierUpdate::complete;
            default:
                return expects ? MbarrierUpdate::arrive_expect : MbarrierUpdate::arrive;
        }
    };
    const bool copies = opcode_ == OpCode::cp_async_arrive;
    const bool arrives =
        opcode_ == OpCode::mbarrier_arrive || opcode_ == OpCode::mbarrier_arrive_drop;
    Modifiers m(in);
    take_spelled(m, opcode_);
    const bool expects = arrives && m.take("expect_tx");
    const bool as_expected = copies && m.take("noinc");
    const bool incomplete = arrives && m.take("noComplete");
    drop_order(m);
    const bool is_shared = m.take("shared") || m.take("shared::cta") || m.take("shared::cluster");
    if (m.take_type() != Type::b64 || !m.empty()) return false;

    Op op;
    MbarrierOperand& mbarrier = op.set(MbarrierOperand{});
    mbarrier.memory.bytes = sizeof(uint64_t);
    MbarrierUpdate kind = kind_of(expects);
    if (copies && !as_expected) kind = MbarrierUpdate::arrive_more;
    const size_t first = arrives ? 1 : 0;  // the index of the operand that is the address
    const bool has_amount = in.operands.size() > first + 1;
    const bool needs_amount = expects || incomplete || kind == MbarrierUpdate::init ||
                              kind == MbarrierUpdate::expect || kind == MbarrierUpdate::complete;
    const bool takes_amount = needs_amount || arrives;
    if (in.operands.size() <= first + (needs_amount ? 1 : 0)) malformed("operands are missing");
    if (in.operands.size() > first + (takes_amount ? 2 : 1)) malformed("it has too many operands");
    if (arrives && in.operands[0].kind != Operand::Kind::sink)
        op.operand[0] = destination(in.operands[0], Type::b64);
    if (has_amount) op.operand[1] = source(in.operands[first + 1], Type::u32);
    set_address(op, in.operands[first], is_shared ? Space::shared : Space::generic);
    mbarrier.generic = !is_shared;
    mbarrier.update = kind;
    op.run = engine_.memory.mbarrier_update;
    const bool stores = kind == MbarrierUpdate::init || kind == MbarrierUpdate::inval;
    describe(Space::shared, stores ? Access::store : Access::atomic, mbarrier.memory.bytes);
    // On a GPU, cp.async.mbarrier.arrive arrives when the thread's asynchronous copies are
    // complete. In the simulator, the copies are performed first, and then the thread arrives at
    // once.
    if (copies) {
        Op wait;
        wait.run = engine_.memory.async_wait;
        wait.set(AsyncGroups{.all = true});
        emit(in, wait);
    }
    emit(in, op);
    return true;
}

bool Decoder::decode_mbarrier_wait(const ptx::Instruction& in) {
    Modifiers m(in);
    take_spelled(m, opcode_);
    const bool parity = m.take("parity");
    drop_order(m);
    const bool is_shared = m.take("shared") || m.take("shared::cta");
    if (m.take_type() != Type::b64 || !m.empty()) return false;
    // try_wait may have a time limit as a further operand.
    const size_t most = opcode_ == OpCode::mbarrier_try_wait ? 4 : 3;
    if (in.operands.size() < 3) malformed("operands are missing");
    if (in.operands.size() > most) malformed("it has too many operands");
    Op op;
    MbarrierOperand& mbarrier = op.set(MbarrierOperand{});
    mbarrier.memory.bytes = sizeof(uint64_t);
    op.operand[0] = destination(in.operands[0], Type::pred);
    op.operand[1] = source(in.operands[2], parity ? Type::u32 : Type::b64);
    set_address(op, in.operands[1], is_shared ? Space::shared : Space::generic);
    mbarrier.generic = !is_shared;
    mbarrier.by_parity = parity;
    op.run = engine_.memory.mbarrier_wait;
    describe(Space::shared, Access::load, mbarrier.memory.bytes);
    emit(in, op);
    return true;
}

bool Decoder::decode_bulk_copy(const ptx::Instruction& in) {
    Modifiers m(in);
    m.take("async");
    m.take("bulk");
    Op op;
    const bool to_global = opcode_ == OpCode::bulk_to_global;
    const bool hinted = m.take("L2::cache_hint");
    const bool named = to_global ? m.take("global") && m.take("shared::cta") && m.take("bulk_group")
                                 : (m.take("shared::cluster") || m.take("shared::cta")) &&
                                       m.take("global") && m.take("mbarrier::complete_tx::bytes");
    if (!named || !m.empty()) return false;
    const size_t expected = size_t{3} + (to_global ? 0 : 1) + (hinted ? 1 : 0);
    if (in.operands.size() < expected) malformed("operands are missing");
    if (in.operands.size() > expected) malformed("it has too many operands");

    BulkCopyOperand& copy = op.set(BulkCopyOperand{});
    set_address(op, in.operands[to_global ? 0 : 1], Space::global);
    const Op in_shared = shared_end(in.operands[to_global ? 1 : 0]);
    op.operand[0] = in_shared.operand[5];
    copy.shared_offset = int32_t(in_shared.memory().offset);
    copy.narrow_shared = in_shared.memory().form == AddressForm::narrow;
    op.operand[1] = source(in.operands[2], Type::u32);
    copy.global.bytes = 16;  // addresses and sizes are multiples of 16
    if (!to_global) {
        const Op barrier = shared_end(in.operands[3]);
        op.operand[2] = barrier.operand[5];
        op.operand[3] = constant(uint32_t(barrier.memory().offset), 4);
        copy.narrow_barrier = barrier.memory().form == AddressForm::narrow;
    }
    describe(Space::global, to_global ? Access::store : Access::async_copy, copy.global.bytes);
    op.run = to_global ? engine_.memory.bulk_copy_to_global : engine_.memory.bulk_copy_to_shared;
    emit(in, op);
    return true;
}

}  // namespace coalesce::sim
