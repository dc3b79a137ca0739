// Data exchange between the lanes of a warp: shuffles, votes, matches, reductions.
//
// Before one of these instructions is executed, the scheduler makes the lanes of the member mask
// reconverge (Control::synchronize). The member mask is the last operand.
#include <cstring>

#include "sim/handlers/arithmetic/integer_functions.hpp"
#include "sim/handlers/lanewise.hpp"
#include "sim/handlers/predicates.hpp"
#include "sim/program/shuffle.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

// Executes shfl d|p, a, b, c (PTX ISA, "shfl.sync"). The operands of the op are d, p, a, b, c in
// this order. PTX does not define what a lane reads from a lane that does not take part. On an H100
// and an H200, it reads 0 (tests/python/instructions/test_shuffles_of_missing_lanes.py).
void shuffle(Warp& w, const Op& op) {
    alignas(64) uint32_t a[warp_size];
    std::memcpy(a, w.lanes<const uint32_t>(op.operand[2]), sizeof a);
    for_each_lane(~w.mask, [&](int lane) { a[lane] = 0; });
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[3]);
    const uint32_t* c = w.lanes<const uint32_t>(op.operand[4]);
    uint32_t result[warp_size];
    LaneMask valid = 0;
    const ShuffleMode mode = op.get<ShuffleOperand>().mode;
    for_each_lane(w.mask, [&](int lane) {
        const auto [from, is_valid] = shuffle_source(mode, lane, b[lane], c[lane]);
        result[lane] = a[from];
        valid |= LaneMask(is_valid) << lane;
    });
    if (op.operand[0] != no_operand) {
        store_active(w.lanes<uint32_t>(op.operand[0]), result, w.mask);
    }
    store(w, op.operand[1], valid);
}

// Executes vote d, p, members. d is the result, and p is the predicate that each lane provides.
void vote(Warp& w, const Op& op) {
    const LaneMask among = w.mask;
    LaneMask p = w.predicate(op.operand[1]);
    if (op.get<VoteOperand>().negated) p = ~p;
    p &= among;
    switch (op.get<VoteOperand>().kind) {
        case VoteKind::all:
            return store(w, op.operand[0], p == among ? all_lanes : 0);
        case VoteKind::any:
            return store(w, op.operand[0], p ? all_lanes : 0);
        case VoteKind::uniform:
            return store(w, op.operand[0], p == among || p == 0 ? all_lanes : 0);
        case VoteKind::ballot: {
            set_active(w.lanes<uint32_t>(op.operand[0]), w.mask, [p](int) { return p; });
        }
    }
}

// match.any d, a, members. The result is the mask of lanes with the same value as this lane.
template <class T>
void match_any(Warp& w, const Op& op) {
    const LaneMask among = w.mask;
    const T* a = w.lanes<const T>(op.operand[1]);
    uint32_t matches[warp_size] = {};
    for_each_lane(w.mask, [&](int i) {
        for_each_lane(among, [&](int j) { matches[i] |= LaneMask(a[i] == a[j]) << j; });
    });
    store_active(w.lanes<uint32_t>(op.operand[0]), matches, w.mask);
}

// match.all d|p, a, members. If all members have the same value of a, d is the mask of all members
// and p is true. Otherwise d is 0 and p is false.
template <class T>
void match_all(Warp& w, const Op& op) {
    const LaneMask among = w.mask;
    const T* a = w.lanes<const T>(op.operand[2]);
    const T first = a[std::countr_zero(among)];
    bool equal = true;
    for_each_lane(among, [&](int i) { equal = equal && a[i] == first; });
    if (op.operand[0] != no_operand) {
        set_active(w.lanes<uint32_t>(op.operand[0]), w.mask,
                   [value = equal ? among : 0](int) { return value; });
    }
    store(w, op.operand[1], equal ? all_lanes : 0);
}

template <class F, class T>
void reduce(Warp& w, const Op& op) {
    const LaneMask among = w.mask;
    const T* a = w.lanes<const T>(op.operand[1]);
    T value = a[std::countr_zero(among)];
    for_each_lane(among & (among - 1), [&](int i) { value = F::of(value, a[i]); });
    set_active(w.lanes<T>(op.operand[0]), w.mask, [value](int) { return value; });
}

void active_mask(Warp& w, const Op& op) {
    const LaneMask mask = w.mask;
    set_active(w.lanes<uint32_t>(op.operand[0]), mask, [mask](int) { return mask; });
}

// elect d|p, members. Predicate p is true in the first lane of the member mask only, and d is the
// number of this lane.
void elect(Warp& w, const Op& op) {
    const LaneMask among = w.mask;
    const uint32_t leader = uint32_t(std::countr_zero(among));
    if (op.operand[0] != no_operand) {
        set_active(w.lanes<uint32_t>(op.operand[0]), w.mask, [leader](int) { return leader; });
    }
    store(w, op.operand[1], 1u << leader);
}

void nothing(Warp&, const Op&) {}

Selection synchronizing(Handler run, const OperandTypes& types, uint8_t destinations,
                        const Payload& payload = {}) {
    Selection s = selection(run, types);
    s.destinations = destinations;
    s.payload = payload;
    s.synchronizes = true;
    return s;
}

template <class T>
Handler reduction(Modifier what) {
    if (what == "add") return &reduce<add, T>;
    if (what == "min") return &reduce<minimum, T>;
    if (what == "max") return &reduce<maximum, T>;
    if (what == "and") return &reduce<bit_and, T>;
    return what == "or" ? &reduce<bit_or, T> : &reduce<bit_xor, T>;
}

}  // namespace

Selection select_shfl(const InstructionForm&, Modifiers& m) {
    const bool sync = m.take("sync");
    const Modifier mode = m.take_one({"up", "down", "bfly", "idx"});
    const Type t = m.take_type();
    if (ptx::size_of(t) != 4) return {};
    using enum ShuffleMode;
    const ShuffleMode by = mode == "up"     ? up
                           : mode == "down" ? down
                           : mode == "bfly" ? butterfly
                                            : index;
    Selection s =
        synchronizing(&shuffle, {t, Type::pred, t, Type::u32, Type::u32}, 2, ShuffleOperand{by});
    if (sync) s.types.push_back(Type::u32);
    s.synchronizes = sync;
    return s;
}

Selection select_vote(const InstructionForm&, Modifiers& m) {
    if (!m.take("sync")) return {};
    const Modifier what = m.take_one({"all", "any", "uni", "ballot"});
    const Type t = m.take_type();
    if (t != (what == "ballot" ? Type::b32 : Type::pred)) return {};
    return synchronizing(&vote, {t, Type::pred, Type::u32}, 1,
                         VoteOperand{.kind = what == "all"   ? VoteKind::all
                                             : what == "any" ? VoteKind::any
                                             : what == "uni" ? VoteKind::uniform
                                                             : VoteKind::ballot});
}

Selection select_match(const InstructionForm&, Modifiers& m) {
    m.take("sync");
    const bool all = m.take_one({"any", "all"}) == "all";
    const Type t = m.take_type();
    const bool wide = ptx::size_of(t) == 8;
    if (!wide && ptx::size_of(t) != 4) return {};
    const Registers words{uint8_t(wide ? 2 : 1)};
    if (all)
        return synchronizing(wide ? &match_all<uint64_t> : &match_all<uint32_t>,
                             {Type::b32, Type::pred, t, Type::u32}, 2, words);
    return synchronizing(wide ? &match_any<uint64_t> : &match_any<uint32_t>,
                         {Type::b32, t, Type::u32}, 1, words);
}

Selection select_redux(const InstructionForm&, Modifiers& m) {
    m.take("sync");
    const Modifier what = m.take_one({"add", "min", "max", "and", "or", "xor"});
    const Type t = m.take_type();
    if (ptx::size_of(t) != 4 || t == Type::f32) return {};
    return synchronizing(t == Type::s32 ? reduction<int32_t>(what) : reduction<uint32_t>(what),
                         {t, t, Type::u32}, 1);
}

Selection select_activemask(const InstructionForm&, Modifiers& m) {
    m.take_type();
    return selection(&active_mask, {Type::b32});
}

Selection select_elect(const InstructionForm&, Modifiers& m) {
    m.take("sync");
    return synchronizing(&elect, {Type::b32, Type::pred, Type::u32}, 2);
}

Selection select_warp_barrier(const InstructionForm&, Modifiers& m) {
    m.take("warp");
    m.take("sync");
    return synchronizing(&nothing, {Type::u32}, 0);
}

}  // namespace coalesce::sim::COALESCE_ISA
