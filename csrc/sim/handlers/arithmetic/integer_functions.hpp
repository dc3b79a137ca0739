// Functions of two integers that several files of operations apply to the lanes of a warp
// (lanewise.hpp). Sums and differences wrap around.
#pragma once

#include <type_traits>

namespace coalesce::sim::COALESCE_ISA {

template <class T>
constexpr int bits_of = 8 * sizeof(T);

struct add {
    template <class T>
    static T of(T a, T b) {
        return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
    }
};
struct sub {
    template <class T>
    static T of(T a, T b) {
        return T(std::make_unsigned_t<T>(a) - std::make_unsigned_t<T>(b));
    }
};
struct minimum {
    template <class T>
    static T of(T a, T b) {
        return b < a ? b : a;
    }
};
struct maximum {
    template <class T>
    static T of(T a, T b) {
        return a < b ? b : a;
    }
};
struct bit_and {
    template <class T>
    static T of(T a, T b) {
        return a & b;
    }
};
struct bit_or {
    template <class T>
    static T of(T a, T b) {
        return a | b;
    }
};
struct bit_xor {
    template <class T>
    static T of(T a, T b) {
        return a ^ b;
    }
};

}  // namespace coalesce::sim::COALESCE_ISA
