// Executes instructions that move data without computing: moves of registers and special registers,
// packing, and conversions of addresses between state spaces (PTX ISA, "Data Movement and
// Conversion Instructions"). Loads and stores are in memory_ops.hpp.
#include <bit>
#include <cstring>

#include "sim/handlers/lanewise.hpp"
#include "sim/handlers/predicates.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/program/special_registers.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Operand;
using ptx::Type;

struct same {
    template <class T>
    static T of(T a) {
        return a;
    }
};
template <class D>
struct cast {
    template <class S>
    static D of(S a) {
        return D(a);
    }
};

// Executes createpolicy.fractional. Operand 1 is the fraction of the accesses that get the policy's
// first priority. It is optional, and its default is 1. A policy has no effect on results. Its bits
// are those that the assembler computes for compute capability 9.0 (ptxas of CUDA 13.0): a GPU has
// no instruction for a policy.
void make_policy(Warp& w, const Op& op) {
    const float* const fraction =
        op.operand[1] == no_operand ? nullptr : w.lanes<const float>(op.operand[1]);
    const uint64_t kind = op.get<AddedOffset>().by;
    uint64_t* const d = w.lanes<uint64_t>(op.operand[0]);
    for_each_lane(w.mask, [&](int i) {
        const float scaled = (fraction ? fraction[i] : 1.0f) * 15.99f;
        // This conversion clamps, and returns 0 for a NaN.
        const uint32_t n = !(scaled > 0) ? 0 : scaled >= 0x1p32f ? UINT32_MAX : uint32_t(scaled);
        d[i] = kind | uint64_t(n & 15) << 52;
    });
}

void move_predicate(Warp& w, const Op& op) { store(w, op.operand[0], w.predicate(op.operand[1])); }

template <class T, class F>
inline void fill(Warp& w, const Op& op, F&& value) {
    set_active(w.lanes<T>(op.operand[0]), w.mask, value);
}

template <class T>
void read_special(Warp& w, const Op& op) {
    const auto thread = [&](int axis) {
        const uint32_t* index = w.block->thread_index[axis] + w.index * warp_size;
        fill<T>(w, op, [index](int i) { return index[i]; });
    };
    using enum Special;
    switch (const Special which = op.get<SpecialRegister>().which) {
        case tid_x:
            return thread(0);
        case tid_y:
            return thread(1);
        case tid_z:
            return thread(2);
        case laneid:
            return fill<T>(w, op, [](int i) { return i; });
        case lanemask_eq:
            return fill<T>(w, op, [](int i) { return 1u << i; });
        case lanemask_le:
            return fill<T>(w, op, [](int i) { return (2ull << i) - 1; });
        case lanemask_lt:
            return fill<T>(w, op, [](int i) { return (1ull << i) - 1; });
        case lanemask_ge:
            return fill<T>(w, op, [](int i) { return all_lanes << i; });
        case lanemask_gt:
            return fill<T>(w, op, [](int i) { return uint32_t(0xfffffffeull << i); });
        default:
            return fill<T>(w, op, [value = uniform_value(w, which)](int) { return value; });
    }
}

void is_explicit_cluster(Warp& w, const Op& op) {
    LaneMask& d = w.predicate(op.operand[0]);
    d = (d & ~w.mask) | (w.block->launch->explicit_cluster ? w.mask : 0);
}

// mapa: the operand is an address of a variable in shared memory. The result is the address of the
// same variable in the block of rank b. In PTX, the upper byte of a shared-memory address is 0 for
// the shared memory of the block that executes the instruction. For another block of the cluster,
// the upper byte is the rank of that block + 1. No cluster has the largest rank, 254.
template <class T>
void map_to_rank(Warp& w, const Op& op) {
    T* d = w.lanes<T>(op.operand[0]);
    const T* a = w.lanes<const T>(op.operand[1]);
    const uint32_t* rank = w.lanes<const uint32_t>(op.operand[2]);
    set_active(d, w.mask, [=, own = w.block->rank](int i) {
        const T tag = rank[i] == own ? 0 : T(std::min(rank[i], 254u) + 1) << 24;
        return (a[i] & ~(T{0xff} << 24)) | tag;
    });
}

// getctarank returns the rank of the block whose shared memory contains the address.
template <class T>
void rank_of_address(Warp& w, const Op& op) {
    uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
    const T* a = w.lanes<const T>(op.operand[1]);
    set_active(d, w.mask, [=, own = w.block->rank](int i) {
        const uint32_t tag = uint32_t(a[i] >> 24) & 0xff;
        return tag ? tag - 1 : own;
    });
}

// Returns a mask of the lowest `bits` bits.
template <class Part, int bits>
inline constexpr Part low = Part(Part(~Part{0}) >> (8 * sizeof(Part) - bits));

// mov.b64 {lo, hi}, d and similar: splits operand[4] into elements. An 8-bit element gets a
// register with 16 bits per lane, because there are no narrower registers.
template <class Whole, class Part, int bits = 8 * sizeof(Part)>
void unpack(Warp& w, const Op& op) {
    const Whole* s = w.lanes<const Whole>(op.operand[4]);
    alignas(64) Whole source[warp_size];
    std::memcpy(source, s, sizeof source);
    const int count = op.get<Registers>().count;
    for (int n = 0; n < count; ++n) {
        if (op.operand[n] == no_operand) continue;
        Part* d = w.lanes<Part>(op.operand[n]);
        set_active(d, w.mask, [&source, shift = bits * n](int i) {
            return Part(source[i] >> shift) & low<Part, bits>;
        });
    }
}

// mov.b64 d, {lo, hi} and similar: combines the elements in operands 1 to 4 to one value in operand
// 0.
template <class Whole, class Part, int bits = 8 * sizeof(Part)>
void pack(Warp& w, const Op& op) {
    alignas(64) Whole value[warp_size] = {};
    const int count = op.get<Registers>().count;
    for (int n = 0; n < count; ++n) {
        const Part* s = w.lanes<const Part>(op.operand[1 + n]);
        const int shift = bits * n;
        for (int i = 0; i < warp_size; ++i) value[i] |= Whole(s[i] & low<Part, bits>) << shift;
    }
    Whole* d = w.lanes<Whole>(op.operand[0]);
    set_active(d, w.mask, [&value](int i) { return value[i]; });
}

template <class T>
void add_constant(Warp& w, const Op& op) {
    T* d = w.lanes<T>(op.operand[0]);
    const T* a = w.lanes<const T>(op.operand[1]);
    const T by = T(op.get<AddedOffset>().by);
    set_active(d, w.mask, [=](int i) { return a[i] + by; });
}

// isspacep.const tests if the address is in a module variable that cannot be written.
void is_constant(Warp& w, const Op& op) {
    const uint64_t* a = w.lanes<const uint64_t>(op.operand[1]);
    LaneMask value = 0;
    for_each_lane(w.mask, [&](int i) {
        const Buffer* b = w.block->memory->find(a[i], 1, w.block->hints[op.pc]);
        value |= LaneMask(b && !b->writable && a[i] < global_base) << i;
    });
    store(w, op.operand[0], value);
}

constexpr uint64_t above_windows = shared_window + cluster_window_bytes;

// isspacep tests if the address is in the window of a state space. For global memory, `start` is 0,
// and isspacep tests if the address is above all windows.
void is_in_window(Warp& w, const Op& op) {
    const uint64_t* a = w.lanes<const uint64_t>(op.operand[1]);
    const auto [start, bytes] = op.get<AddressWindow>();
    LaneMask value = 0;
    for (int i = 0; i < warp_size; ++i) {
        const bool in = start ? a[i] - start < bytes : a[i] >= above_windows;
        value |= LaneMask(in) << i;
    }
    store(w, op.operand[0], value);
}

void nothing(Warp&, const Op&) {}

uint64_t window_of(Modifier space) {
    if (space == "shared" || space == "shared::cta" || space == "shared::cluster")
        return shared_window;
    if (space == "local") return local_window;
    return space == "param" || space == "param::entry" ? param_window : 0;
}

Handler packing(Type whole, size_t parts, bool join) {
    switch (ptx::size_of(whole) * 10 + parts) {
        case 82:
            return join ? &pack<uint64_t, uint32_t> : &unpack<uint64_t, uint32_t>;
        case 84:
            return join ? &pack<uint64_t, uint16_t> : &unpack<uint64_t, uint16_t>;
        case 42:
            return join ? &pack<uint32_t, uint16_t> : &unpack<uint32_t, uint16_t>;
        case 44:
            return join ? &pack<uint32_t, uint16_t, 8> : &unpack<uint32_t, uint16_t, 8>;
        case 22:
            return join ? &pack<uint16_t, uint16_t, 8> : &unpack<uint16_t, uint16_t, 8>;
        default:
            return nullptr;
    }
}

}  // namespace

Selection select_special(Special which, Type type) {
    if (which == Special::unknown) return {};
    if ((which == Special::is_explicit_cluster) != (type == Type::pred)) return {};
    if (type == Type::pred) return selection(&is_explicit_cluster, {type});
    const size_t width = ptx::size_of(type);
    Selection s = selection(width == 8   ? &read_special<uint64_t>
                            : width == 4 ? &read_special<uint32_t>
                                         : &read_special<uint16_t>,
                            {type});
    s.payload = SpecialRegister{which};
    return s;
}

Selection select_mov(const InstructionForm& in, Modifiers& m) {
    if (in.operands.size() != 2) return {};
    const Type t = m.take_type();
    const Operand &d = in.operands[0], &s = in.operands[1];
    if (s.kind == Operand::Kind::special && d.kind != Operand::Kind::vector) {
        const Selection special = select_special(special_named(s.name), t);
        if (special.run || t != Type::pred) return special;
    }
    if (d.kind == Operand::Kind::vector || s.kind == Operand::Kind::vector) {
        const bool join = s.kind == Operand::Kind::vector;
        Selection packed = selection(packing(t, (join ? s : d).elements.size(), join), {t, t});
        packed.payload = Registers{uint8_t((join ? s : d).elements.size())};
        return packed;
    }
    if (t == Type::pred) return selection(&move_predicate, {t, t});
    const size_t width = ptx::size_of(t);
    return selection(width == 2   ? &lanewise<same, uint16_t, uint16_t>
                     : width == 4 ? &lanewise<same, uint32_t, uint32_t>
                     : width == 8 ? &lanewise<same, uint64_t, uint64_t>
                                  : nullptr,
                     {t, t});
}

namespace {

Modifier take_space(Modifiers& m) {
    return m.take_one({"global", "shared", "shared::cta", "shared::cluster", "local", "const",
                       "param", "param::entry"});
}

}  // namespace

Selection select_cvta(const InstructionForm&, Modifiers& m) {
    const bool to = m.take("to");
    const uint64_t window = window_of(take_space(m));
    const Type t = m.take_type();
    Selection s =
        selection(ptx::size_of(t) == 8 ? &add_constant<uint64_t> : &add_constant<uint32_t>, {t, t});
    s.payload = AddedOffset{to ? 0 - window : window};
    return s;
}

Selection select_isspacep(const InstructionForm&, Modifiers& m) {
    const Modifier space = take_space(m);
    Selection s =
        selection(space == "const" ? &is_constant : &is_in_window, {Type::pred, Type::u64});
    s.payload = AddressWindow{window_of(space),
                              space == "shared::cluster" ? cluster_window_bytes : window_bytes};
    return s;
}

Selection select_mapa(const InstructionForm&, Modifiers& m) {
    m.take("shared::cluster");
    const Type t = m.take_type();
    return selection(ptx::size_of(t) == 8 ? &map_to_rank<uint64_t> : &map_to_rank<uint32_t>,
                     {t, t, Type::u32});
}

Selection select_getctarank(const InstructionForm&, Modifiers& m) {
    m.take("shared::cluster");
    const Type t = m.take_type();
    return selection(ptx::size_of(t) == 8 ? &rank_of_address<uint64_t> : &rank_of_address<uint32_t>,
                     {Type::u32, t});
}

// Chooses the handler of createpolicy. The form .cvt copies an access property. The form .range is
// refused.
Selection select_createpolicy(const InstructionForm& request, Modifiers& m) {
    if (m.take("cvt")) {
        if (!m.take("L2") || m.take_type() != Type::b64) return {};
        return selection(&lanewise<same, uint64_t, uint64_t>, {Type::b64, Type::b64});
    }
    if (!m.take("fractional")) return {};
    const Modifier first = m.take_one(
        {"L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"});
    if (!first || m.take_type() != Type::b64) return {};
    // The priority of the remaining accesses. It is evict_unchanged if the instruction names none.
    const bool rest_first = m.take("L2::evict_first");
    if (!rest_first) m.take("L2::evict_unchanged");
    const uint64_t kind = first == "L2::evict_last"     ? 0x140
                          : first == "L2::evict_normal" ? 0x160
                          : first == "L2::evict_first"  ? 0x120
                                                        : 0x100;
    Selection s = selection(&make_policy, {Type::b64});
    if (request.operands.size() > 1) s.types.push_back(Type::f32);
    s.payload = AddedOffset{(kind | (rest_first ? 0x10 : 0)) << 52};
    return s;
}

// Hints and performance events have no effect.
Selection select_hint(const InstructionForm&, Modifiers& m) {
    m.drop_all();
    Selection s = selection(&nothing, {});
    s.destinations = 0;
    return s;
}

Handler select_resize(Type from, uint32_t to_bytes) {
    return with_type<Handler>(from, integers_of_all_widths{}, [to_bytes](auto v) -> Handler {
        using S = decltype(v);
        switch (to_bytes) {
            case 1:
                return &lanewise<cast<uint8_t>, uint8_t, S>;
            case 2:
                return &lanewise<cast<uint16_t>, uint16_t, S>;
            case 4:
                return &lanewise<cast<uint32_t>, uint32_t, S>;
            default:
                return &lanewise<cast<uint64_t>, uint64_t, S>;
        }
    });
}

// Computes an address in the frame's local memory.
void local_address(Warp& w, const Op& op) {
    const auto& at = op.get<LocalAddress>();
    const uint64_t address = w.current.frame.local + at.offset;
    if (at.bytes == 8) return fill<uint64_t>(w, op, [address](int) { return address; });
    fill<uint32_t>(w, op, [address](int) { return address; });
}

// Executes a guarded op for the lanes in which the guard is true.
void guarded(Warp& w, const Op& op) {
    const LaneMask all = w.mask;
    const LaneMask p = w.predicate(op.guard);
    w.mask = all & (op.guard_negated ? ~p : p);
    if (w.guarded_lanes && op.starts_guarded)
        w.guarded_lanes[op.pc] += uint32_t(std::popcount(w.mask));
    if (w.mask) op.inner(w, op);
    w.mask = all;
}

}  // namespace coalesce::sim::COALESCE_ISA
