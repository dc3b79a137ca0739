// Moves data between registers and memory: loads, stores and atomics. The handlers in this file do
// not translate addresses. They get the host memory that belongs to the addresses of the lanes
// (Resolved in memory.hpp).
#include <atomic>
#include <cstring>

#include "sim/handlers/arithmetic/integer_functions.hpp"
#include "sim/handlers/lanewise.hpp"
#include "sim/memory/floats.hpp"
#include "sim/warp/memory.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

template <class M>
inline M read(const std::byte* p) {
    M value;
    std::memcpy(&value, p, sizeof value);
    return value;
}

// An aligned group of 8 bytes is moved at once, even if it consists of two elements of 4 bytes. In
// machine code, such elements may be one 64-bit number of the source. Another block may access this
// number at the same time, on another host thread, and must never see only half of it.
template <class M, int V>
inline constexpr int elements_at_once = sizeof(M) == 4 && V % 2 == 0 ? 2 : 1;

// Loads V elements of type M per lane into operands 0 to V-1. R is the type of a register in one
// lane. R is at least as wide as M. If R is wider, a value of a signed type M is extended with its
// sign, and other values with zeros.
template <class M, class R, int V>
void load(Warp& w, const Op& op, const Resolved& r) {
    constexpr int together = elements_at_once<M, V>;
    using Unit = std::conditional_t<together == 2, uint64_t, M>;
    for (int v = 0; v < V; v += together) {
        const auto register_of = [&](int element) -> R* {
            const auto operand = op.operand[element];
            return operand == no_operand ? nullptr : w.lanes<R>(operand);
        };
        R* const first = register_of(v);
        R* const second = together == 2 ? register_of(v + 1) : nullptr;
        if (!first && !second) continue;
        const auto move = [&](auto&& each_lane, auto&& read_unit) {
            if (first && second) {
                each_lane([&](int i) {
                    const auto unit = uint64_t(read_unit(i));
                    first[i] = R(M(unit));
                    second[i] = R(M(unit >> 32));
                });
            } else if (first) {
                each_lane([&](int i) { first[i] = R(M(read_unit(i))); });
            } else {
                each_lane([&](int i) { second[i] = R(M(uint64_t(read_unit(i)) >> 32)); });
            }
        };
        const auto all = [](auto&& body) {
            for (int i = 0; i < warp_size; ++i) body(i);
        };
        switch (r.shape) {
            case Shape::uniform: {
                const auto value = read<Unit>(r.host + v * sizeof(M));
                move(all, [&](int) { return value; });
                break;
            }
            case Shape::consecutive: {
                const std::byte* s = r.host + v * sizeof(M);
                move(all, [&](int i) { return read<Unit>(s + i * sizeof(M) * V); });
                break;
            }
            case Shape::strided:
            case Shape::scattered:
                move([&](auto&& body) { for_each_lane(r.mask, body); },
                     [&](int i) { return read<Unit>(r.lane[i] + v * sizeof(M)); });
        }
    }
}

template <class M, class R, int V>
void store(Warp& w, const Op& op, const Resolved& r) {
    constexpr int together = elements_at_once<M, V>;
    for (int v = 0; v < V; v += together) {
        const R* const first = w.lanes<const R>(op.operand[v]);
        const R* const second = w.lanes<const R>(op.operand[v + together - 1]);
        const auto put = [&](std::byte* p, int i) {
            if constexpr (together == 2) {
                const uint64_t unit = uint32_t(first[i]) | uint64_t{uint32_t(second[i])} << 32;
                std::memcpy(p, &unit, sizeof unit);
            } else {
                const M m = M(first[i]);
                std::memcpy(p, &m, sizeof m);
            }
        };
        switch (r.shape) {
            case Shape::uniform:
                put(r.host + v * sizeof(M), warp_size - 1);
                break;
            case Shape::consecutive: {
                std::byte* d = r.host + v * sizeof(M);
                for (int i = 0; i < warp_size; ++i) put(d + i * sizeof(M) * V, i);
                break;
            }
            case Shape::strided:
            case Shape::scattered:
                for_each_lane(r.mask, [&](int i) { put(r.lane[i] + v * sizeof(M), i); });
        }
    }
}

template <template <class, class, int> class Make, class M>
Mover with_register(uint32_t register_bytes, int elements) {
    using U8 = std::conditional_t<std::is_signed_v<M>, int64_t, uint64_t>;
    using U4 = std::conditional_t<std::is_signed_v<M>, int32_t, uint32_t>;
    using U2 = std::conditional_t<std::is_signed_v<M>, int16_t, uint16_t>;
    const auto by_count = [&](auto reg) -> Mover {
        using R = decltype(reg);
        if constexpr (sizeof(R) < sizeof(M))
            return nullptr;
        else
            return elements == 1   ? Make<M, R, 1>::mover()
                   : elements == 2 ? Make<M, R, 2>::mover()
                   : elements == 4 ? Make<M, R, 4>::mover()
                                   : nullptr;
    };
    return register_bytes == 8   ? by_count(U8{})
           : register_bytes == 4 ? by_count(U4{})
                                 : by_count(U2{});
}

template <class M, class R, int V>
struct MakeLoad {
    static Mover mover() { return &load<M, R, V>; }
};
template <class M, class R, int V>
struct MakeStore {
    static Mover mover() { return &store<M, R, V>; }
};

template <template <class, class, int> class Make>
Mover by_memory_type(Type type, uint32_t register_bytes, int elements) {
    switch (type) {
        case Type::s8:
            return with_register<Make, int8_t>(register_bytes, elements);
        case Type::s16:
            return with_register<Make, int16_t>(register_bytes, elements);
        case Type::s32:
            return with_register<Make, int32_t>(register_bytes, elements);
        default:
            break;
    }
    switch (ptx::size_of(type)) {
        case 1:
            return with_register<Make, uint8_t>(register_bytes, elements);
        case 2:
            return with_register<Make, uint16_t>(register_bytes, elements);
        case 4:
            return with_register<Make, uint32_t>(register_bytes, elements);
        case 8:
            return with_register<Make, uint64_t>(register_bytes, elements);
        default:
            return nullptr;
    }
}

// The following structs compute the new value in memory for each atomic. They get the old value m
// and the operands (PTX ISA, "atom").
struct sum {
    template <class T>
    static T of(T m, T b, T) {
        if constexpr (std::is_integral_v<T>)
            return add::of(m, b);
        else
            return m + b;
    }
};
template <class F>
struct updated_by {
    template <class T>
    static T of(T m, T b, T) {
        return F::of(m, b);
    }
};
struct exchange {
    template <class T>
    static T of(T, T b, T) {
        return b;
    }
};
struct compare_and_swap {
    template <class T>
    static T of(T m, T b, T c) {
        return m == b ? c : m;
    }
};
struct increment {
    template <class T>
    static T of(T m, T b, T) {
        return m >= b ? 0 : m + 1;
    }
};
struct decrement {
    template <class T>
    static T of(T m, T b, T) {
        return m == 0 || m > b ? b : m - 1;
    }
};
template <class Format>
struct add_half {
    static uint16_t of(uint16_t m, uint16_t b, uint16_t) {
        return Format::narrow(Format::widen(m) + Format::widen(b));
    }
};
template <class Format>
struct add_halves {
    static uint32_t of(uint32_t m, uint32_t b, uint32_t) {
        return add_half<Format>::of(uint16_t(m), uint16_t(b), 0) |
               uint32_t(add_half<Format>::of(uint16_t(m >> 16), uint16_t(b >> 16), 0)) << 16;
    }
};

template <size_t bytes>
struct Word;
template <>
struct Word<2> {
    using type = uint16_t;
};
template <>
struct Word<4> {
    using type = uint32_t;
};
template <>
struct Word<8> {
    using type = uint64_t;
};

// Returns the new value in memory. In global memory, additions of float32 numbers replace
// subnormals by zeros, also in the sum. In shared memory, they do not (PTX ISA, "atom").
template <class F, class T>
T updated(T m, T b, T c, bool in_global) {
    if constexpr (std::is_same_v<F, sum> && std::is_same_v<T, float>)
        return canonical(in_global ? flush(flush(m) + flush(b)) : m + b);
    else
        return F::of(m, b, c);
}

// Executes the atomic for one lane after another. Operand 0 is optional and receives the old value.
// Operand 1 is b, and operand 2 is c. If a lane updates several elements, they are neighbours in
// memory and in the registers. Each element is updated separately (PTX ISA, "atom").
template <class F, class T, int elements = 1>
void atomic(Warp& w, const Op& op, const Resolved& r) {
    using U = typename Word<sizeof(T)>::type;
    T* d = op.operand[0] == no_operand ? nullptr : w.lanes<T>(op.operand[0]);
    const T* b = w.lanes<const T>(op.operand[1]);
    const T* c = op.operand[2] == no_operand ? b : w.lanes<const T>(op.operand[2]);
    // Updates one element of lane i. Returns the old value.
    const auto update = [&](std::byte* p, T value, int i) {
        if (!r.shared_by_blocks) {
            const T old = read<T>(p);
            const T sum = updated<F>(old, value, c[i], false);
            std::memcpy(p, &sum, sizeof sum);
            return old;
        }
        U* word = reinterpret_cast<U*>(p);
        U old = __atomic_load_n(word, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(
            word, &old, std::bit_cast<U>(updated<F>(std::bit_cast<T>(old), value, c[i], true)),
            true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        }
        return std::bit_cast<T>(old);
    };
    for_each_lane(r.mask, [&](int i) {
        std::byte* p = r.shape == Shape::scattered ? r.lane[i]
                       : r.shape == Shape::uniform ? r.host
                                                   : r.host + size_t(i) * elements * sizeof(T);
        T values[elements];  // read first, because d may be the same registers
        for (int n = 0; n < elements; ++n) values[n] = b[n * warp_size + i];
        for (int n = 0; n < elements; ++n) {
            const T old = update(p + size_t(n) * sizeof(T), values[n], i);
            if (d) d[n * warp_size + i] = old;
        }
    });
}

template <class F, Type... types>
Mover atomic_of(Type type, TypeList<types...> list) {
    return with_type<Mover>(type, list, [](auto v) -> Mover { return &atomic<F, decltype(v)>; });
}

// Returns null if a lane cannot add this number of elements of this type.
template <int elements>
Mover vector_sum_of(Type type) {
    switch (type) {
        case Type::f32:
            return &atomic<sum, float, elements>;
        case Type::f16x2:
            return &atomic<add_halves<half_format>, uint32_t, elements>;
        case Type::bf16x2:
            return &atomic<add_halves<bfloat_format>, uint32_t, elements>;
        default:
            return nullptr;
    }
}

}  // namespace

Mover choose_load(Type memory, uint32_t register_bytes, int elements) {
    return by_memory_type<MakeLoad>(memory, register_bytes, elements);
}
Mover choose_store(Type memory, uint32_t register_bytes, int elements) {
    return by_memory_type<MakeStore>(memory, register_bytes, elements);
}

Mover choose_atomic(AtomicUpdate update, Type type, int elements) {
    if (elements > 1) {
        if (update != AtomicUpdate::add) return nullptr;
        return elements == 2   ? vector_sum_of<2>(type)
               : elements == 4 ? vector_sum_of<4>(type)
                               : nullptr;
    }
    using sums = TypeList<Type::u32, Type::s32, Type::u64, Type::s64, Type::f32, Type::f64>;
    using words = TypeList<Type::u32, Type::s32, Type::u64, Type::s64>;
    using raw = TypeList<Type::b16, Type::b32, Type::b64>;
    using unsigned_word = TypeList<Type::u32>;
    switch (update) {
        case AtomicUpdate::add:
            switch (type) {
                case Type::f16:
                    return &atomic<add_half<half_format>, uint16_t>;
                case Type::bf16:
                    return &atomic<add_half<bfloat_format>, uint16_t>;
                case Type::f16x2:
                    return &atomic<add_halves<half_format>, uint32_t>;
                case Type::bf16x2:
                    return &atomic<add_halves<bfloat_format>, uint32_t>;
                default:
                    return atomic_of<sum>(type, sums{});
            }
        case AtomicUpdate::minimum:
            return atomic_of<updated_by<minimum>>(type, words{});
        case AtomicUpdate::maximum:
            return atomic_of<updated_by<maximum>>(type, words{});
        case AtomicUpdate::exchange:
            return atomic_of<exchange>(type, raw{});
        case AtomicUpdate::compare_and_swap:
            return atomic_of<compare_and_swap>(type, raw{});
        case AtomicUpdate::bit_and:
            return atomic_of<updated_by<bit_and>>(type, raw{});
        case AtomicUpdate::bit_or:
            return atomic_of<updated_by<bit_or>>(type, raw{});
        case AtomicUpdate::bit_xor:
            return atomic_of<updated_by<bit_xor>>(type, raw{});
        case AtomicUpdate::increment:
            return atomic_of<increment>(type, unsigned_word{});
        case AtomicUpdate::decrement:
            return atomic_of<decrement>(type, unsigned_word{});
    }
    return nullptr;
}

}  // namespace coalesce::sim::COALESCE_ISA
