// Tests of indices for a check; see cxx/member_accesses.py. The function without a body is executed
// by the simulator (csrc/sim/run/outside_member.hpp).
#pragma once
extern "C" __device__ void __coalesce_outside_member(unsigned long long access,
                                                     unsigned long long rank, long long i,
                                                     long long j, long long k, long long rows,
                                                     long long columns, long long depth);
namespace coalesce_members {

// The rank of an array type, its first extent, the number of its elements, and the type of its
// rows. Other types have rank 0.
template <class T>
struct array {
    enum : long long { rank = 0, extent = 1, elements = 1 };
    using row = array;
};
template <class T, unsigned long long n>
struct array<T[n]> {
    using row = array<T>;
    enum : long long { rank = 1 + row::rank, extent = n, elements = extent * row::elements };
};

// A part of an expression such as `s.b[k].a[i]`: the type of `s`, `s.b` or `s.b[k].a`, and the number
// of subscripts that follow. `known` is 1 if the part is an object, an array or an element of one,
// so that the bounds follow from its type. It is 0 for pointers, references and classes with an
// operator[]. It is also 0 for arrays with one element, because a program may allocate more memory
// for such an array than its type shows.
template <class T, int subscripts>
struct part {
    using type = T;
    enum : int {
        known = int(array<T>::rank) == subscripts && (subscripts == 0 || int(array<T>::elements > 1))
    };
};
template <class T, int subscripts>
struct part<T &, subscripts> {
    using type = T;
    enum : int { known = 0 };
};
template <class T, int subscripts>
struct part<T &&, subscripts> : part<T &, subscripts> {};

template <class First, class... Rest>
struct chain {
    using type = typename chain<Rest...>::type;
    enum : int { known = First::known && chain<Rest...>::known };
};
template <class Last>
struct chain<Last> {
    using type = array<typename Last::type>;
    enum : int { known = Last::known };
};

// Returns the index as a number that is small enough for the arithmetic below. An unsigned index of
// 64 bits counts as signed, because addresses have 64 bits: size_t(-1) is the element before.
template <class I>
__device__ constexpr long long number(I i) {
    constexpr long long most = 1ll << 40;
    const long long at = (long long)(i);
    return at > most ? most : at < -most ? -most : at;
}

// Each function returns the last index unchanged. An index may be outside its own dimension if the
// element is in the array. For example, many programs access all elements of `float m[3][4]` as
// m[0][i].
template <class Chain, class I>
__device__ constexpr I within(int access, I i) {
    if constexpr (Chain::known) {
        using A = typename Chain::type;
        const long long at = number(i);
        if (at < 0 || at >= A::elements)
            __coalesce_outside_member(access, 1, at, 0, 0, A::extent, 1, 1);
    }
    return i;
}
template <class Chain, class I, class J>
__device__ constexpr J within(int access, I i, J j) {
    if constexpr (Chain::known) {
        using A = typename Chain::type;
        using B = typename A::row;
        const long long at = number(i) * B::elements + number(j);
        if (at < 0 || at >= A::elements)
            __coalesce_outside_member(access, 2, number(i), number(j), 0, A::extent, B::extent, 1);
    }
    return j;
}
template <class Chain, class I, class J, class K>
__device__ constexpr K within(int access, I i, J j, K k) {
    if constexpr (Chain::known) {
        using A = typename Chain::type;
        using B = typename A::row;
        using C = typename B::row;
        const long long at =
            number(i) * B::elements + number(j) * C::elements + number(k);
        if (at < 0 || at >= A::elements)
            __coalesce_outside_member(access, 3, number(i), number(j), number(k), A::extent,
                                      B::extent, C::extent);
    }
    return k;
}

}  // namespace coalesce_members
