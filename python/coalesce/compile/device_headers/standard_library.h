// Parts of the C++ standard library for kernels; standard_library.py says why they are here.
namespace std {
using ::abs;
using ::acos;
using ::acosh;
using ::asin;
using ::asinh;
using ::atan;
using ::atan2;
using ::atanh;
using ::cbrt;
using ::ceil;
using ::copysign;
using ::cos;
using ::cosh;
using ::erf;
using ::erfc;
using ::exp;
using ::exp2;
using ::expf;
using ::expm1;
using ::fabs;
using ::fdim;
using ::floor;
using ::fma;
using ::fmax;
using ::fmaxf;
using ::fmin;
using ::fminf;
using ::fmod;
using ::frexp;
using ::hypot;
using ::ilogb;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intptr_t;
using ::isfinite;
using ::isinf;
using ::isnan;
using ::ldexp;
using ::lgamma;
using ::llrint;
using ::llround;
using ::log;
using ::log10;
using ::log1p;
using ::log2;
using ::logb;
using ::lrint;
using ::lround;
using ::memcpy;
using ::memset;
using ::modf;
using ::nearbyint;
using ::pow;
using ::powf;
using ::printf;
using ::ptrdiff_t;
using ::remainder;
using ::rint;
using ::round;
using ::scalbn;
using ::signbit;
using ::sin;
using ::sinh;
using ::size_t;
using ::sqrt;
using ::sqrtf;
using ::tan;
using ::tanh;
using ::tgamma;
using ::trunc;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;
using nullptr_t = decltype(nullptr);
// Classes that kernels cannot use. A class that a kernel uses may be derived from them, or may have
// a pointer to them.
template <class>
struct char_traits;
using istream = basic_istream<char, char_traits<char>>;
using ostream = basic_ostream<char, char_traits<char>>;
class exception {};
class bad_alloc : public exception {};
class logic_error : public exception {};
class domain_error : public logic_error {};
class invalid_argument : public logic_error {};
class length_error : public logic_error {};
class out_of_range : public logic_error {};
class runtime_error : public exception {};
class overflow_error : public runtime_error {};
class range_error : public runtime_error {};
class underflow_error : public runtime_error {};
template <class T>
struct numeric_limits {
    static constexpr bool is_specialized = false;
};
#define COALESCE_LIMITS_(T, integer, d, d10, s, least, most, low, eps, inf, nan, tiny)    \
    template <>                                                                           \
    struct numeric_limits<T> {                                                            \
        static constexpr bool is_specialized = true, is_integer = integer, is_signed = s; \
        static constexpr bool is_exact = integer, has_infinity = !integer;                \
        static constexpr bool has_quiet_NaN = !integer;                                   \
        static constexpr int digits = d, digits10 = d10, radix = 2;                       \
        __host__ __device__ static constexpr T min() noexcept { return least; }           \
        __host__ __device__ static constexpr T max() noexcept { return most; }            \
        __host__ __device__ static constexpr T lowest() noexcept { return low; }          \
        __host__ __device__ static constexpr T epsilon() noexcept { return eps; }         \
        __host__ __device__ static constexpr T infinity() noexcept { return inf; }        \
        __host__ __device__ static constexpr T quiet_NaN() noexcept { return nan; }       \
        __host__ __device__ static constexpr T denorm_min() noexcept { return tiny; }     \
    };
COALESCE_LIMITS_(bool, true, 1, 0, false, false, true, false, 0, 0, 0, 0)
COALESCE_LIMITS_(char, true, 7, 2, true, -128, 127, -128, 0, 0, 0, 0)
COALESCE_LIMITS_(signed char, true, 7, 2, true, -128, 127, -128, 0, 0, 0, 0)
COALESCE_LIMITS_(unsigned char, true, 8, 2, false, 0, 255, 0, 0, 0, 0, 0)
COALESCE_LIMITS_(short, true, 15, 4, true, -32768, 32767, -32768, 0, 0, 0, 0)
COALESCE_LIMITS_(unsigned short, true, 16, 4, false, 0, 65535, 0, 0, 0, 0, 0)
COALESCE_LIMITS_(int, true, 31, 9, true, -2147483647 - 1, 2147483647, -2147483647 - 1, 0, 0, 0, 0)
COALESCE_LIMITS_(unsigned int, true, 32, 9, false, 0, 4294967295U, 0, 0, 0, 0, 0)
COALESCE_LIMITS_(long, true, 63, 18, true, -9223372036854775807L - 1, 9223372036854775807L,
                 -9223372036854775807L - 1, 0, 0, 0, 0)
COALESCE_LIMITS_(unsigned long, true, 64, 19, false, 0, 18446744073709551615UL, 0, 0, 0, 0, 0)
COALESCE_LIMITS_(long long, true, 63, 18, true, -9223372036854775807LL - 1, 9223372036854775807LL,
                 -9223372036854775807LL - 1, 0, 0, 0, 0)
COALESCE_LIMITS_(unsigned long long, true, 64, 19, false, 0, 18446744073709551615ULL, 0, 0, 0, 0, 0)
COALESCE_LIMITS_(float, false, 24, 6, true, 1.17549435e-38f, 3.40282347e+38f, -3.40282347e+38f,
                 1.19209290e-07f, __builtin_bit_cast(float, 0x7f800000),
                 __builtin_bit_cast(float, 0x7fc00000), 1.40129846e-45f)
COALESCE_LIMITS_(double, false, 53, 15, true, 2.2250738585072014e-308, 1.7976931348623157e+308,
                 -1.7976931348623157e+308, 2.2204460492503131e-16,
                 __builtin_bit_cast(double, 0x7ff0000000000000LL),
                 __builtin_bit_cast(double, 0x7ff8000000000000LL), 4.9406564584124654e-324)
#undef COALESCE_LIMITS_
template <class T>
struct numeric_limits<const T> : numeric_limits<T> {};
template <class T, T v>
struct integral_constant {
    static constexpr T value = v;
    using value_type = T;
    using type = integral_constant;
    __host__ __device__ constexpr operator T() const noexcept { return v; }
    __host__ __device__ constexpr T operator()() const noexcept { return v; }
};
template <bool b>
using bool_constant = integral_constant<bool, b>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;
template <class...>
using void_t = void;
template <class T>
struct type_identity {
    using type = T;
};
template <bool, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
    using type = T;
};
template <bool, class A, class B>
struct conditional {
    using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
    using type = B;
};
template <class T, T... values>
struct integer_sequence {
    using value_type = T;
    __host__ __device__ static constexpr size_t size() { return sizeof...(values); }
};
template <class T, size_t n, T... values>
struct made_sequence_ : made_sequence_<T, n - 1, T(n - 1), values...> {};
template <class T, T... values>
struct made_sequence_<T, 0, values...> {
    using type = integer_sequence<T, values...>;
};
template <class T, T n>
using make_integer_sequence = typename made_sequence_<T, size_t(n)>::type;
template <size_t... values>
using index_sequence = integer_sequence<size_t, values...>;
template <size_t n>
using make_index_sequence = make_integer_sequence<size_t, n>;
template <size_t bytes, size_t alignment = bytes>
struct aligned_storage {
    struct type {
        alignas(alignment) unsigned char data[bytes];
    };
};
template <class T>
struct remove_const {
    using type = T;
};
template <class T>
struct remove_const<const T> {
    using type = T;
};
template <class T>
struct remove_volatile {
    using type = T;
};
template <class T>
struct remove_volatile<volatile T> {
    using type = T;
};
template <class T>
struct remove_cv {
    using type = typename remove_const<typename remove_volatile<T>::type>::type;
};
template <class T>
struct remove_reference {
    using type = T;
};
template <class T>
struct remove_reference<T&> {
    using type = T;
};
template <class T>
struct remove_reference<T&&> {
    using type = T;
};
template <class T>
struct remove_cvref {
    using type = typename remove_cv<typename remove_reference<T>::type>::type;
};
template <class T>
struct remove_pointer {
    using type = T;
};
template <class T>
struct remove_pointer<T*> {
    using type = T;
};
template <class T>
struct remove_pointer<T* const> {
    using type = T;
};
template <class T>
struct remove_extent {
    using type = T;
};
template <class T>
struct remove_extent<T[]> {
    using type = T;
};
template <class T, size_t n>
struct remove_extent<T[n]> {
    using type = T;
};
template <class T>
struct add_const {
    using type = const T;
};
template <class T>
struct add_pointer {
    using type = typename remove_reference<T>::type*;
};
template <class T>
struct add_lvalue_reference {
    using type = T&;
};
template <class T>
struct add_rvalue_reference {
    using type = T&&;
};
template <class T>
struct decay {
    using type = typename remove_cvref<T>::type;
};
template <class T>
struct underlying_type {
    using type = __underlying_type(T);
};
template <class T>
__host__ __device__ typename add_rvalue_reference<T>::type declval() noexcept;
template <class, class>
struct is_same : false_type {};
template <class T>
struct is_same<T, T> : true_type {};
template <class T>
struct is_const : false_type {};
template <class T>
struct is_const<const T> : true_type {};
template <class T>
struct is_reference : false_type {};
template <class T>
struct is_reference<T&> : true_type {};
template <class T>
struct is_reference<T&&> : true_type {};
template <class T>
struct is_array : false_type {};
template <class T>
struct is_array<T[]> : true_type {};
template <class T, size_t n>
struct is_array<T[n]> : true_type {};
template <class T>
struct coalesce_is_pointer : false_type {};
template <class T>
struct coalesce_is_pointer<T*> : true_type {};
template <class T>
struct is_pointer : coalesce_is_pointer<typename remove_cv<T>::type> {};
template <class T>
struct is_void : is_same<void, typename remove_cv<T>::type> {};
template <class T, class... U>
struct coalesce_is_any : bool_constant<(is_same<T, U>::value || ...)> {};
template <class T>
struct is_floating_point
    : coalesce_is_any<typename remove_cv<T>::type, float, double, long double> {};
template <class T>
struct is_integral
    : coalesce_is_any<typename remove_cv<T>::type, bool, char, signed char, unsigned char, wchar_t,
                      char16_t, char32_t, short, unsigned short, int, unsigned int, long,
                      unsigned long, long long, unsigned long long> {};
template <class T>
struct is_arithmetic : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
template <class T, bool = is_arithmetic<T>::value>
struct is_signed : bool_constant<(T(-1) < T(0))> {};
template <class T>
struct is_signed<T, false> : false_type {};
template <class T>
struct is_unsigned : bool_constant<is_arithmetic<T>::value && !is_signed<T>::value> {};
template <class T>
struct is_enum : bool_constant<__is_enum(T)> {};
template <class T>
struct is_class : bool_constant<__is_class(T)> {};
template <class T>
struct is_empty : bool_constant<__is_empty(T)> {};
template <class A, class B>
struct is_base_of : bool_constant<__is_base_of(A, B)> {};
template <class A, class B>
struct is_convertible : bool_constant<__is_convertible_to(A, B)> {};
template <class T>
struct is_trivially_copyable : bool_constant<__is_trivially_copyable(T)> {};
template <class T>
struct is_trivial : bool_constant<__is_trivial(T)> {};
template <class T>
struct is_standard_layout : bool_constant<__is_standard_layout(T)> {};
template <class T, class... A>
struct is_constructible : bool_constant<__is_constructible(T, A...)> {};
template <class...>
struct conjunction : true_type {};
template <class T, class... U>
struct conjunction<T, U...> : bool_constant<T::value && (U::value && ...)> {};
template <class...>
struct disjunction : false_type {};
template <class T, class... U>
struct disjunction<T, U...> : bool_constant<T::value || (U::value || ...)> {};
template <class T>
struct negation : bool_constant<!T::value> {};
template <class A, class B = A>
struct common_type {
    using type = typename decay<decltype(true ? declval<A>() : declval<B>())>::type;
};
template <class A, class B = A>
using common_type_t = typename common_type<A, B>::type;
template <class T>
struct make_unsigned {
    using type = T;
};
template <class T>
struct make_signed {
    using type = T;
};
#define COALESCE_SIGNED_(T)          \
    template <>                      \
    struct make_unsigned<T> {        \
        using type = unsigned T;     \
    };                               \
    template <>                      \
    struct make_signed<unsigned T> { \
        using type = T;              \
    };
COALESCE_SIGNED_(short)
COALESCE_SIGNED_(int) COALESCE_SIGNED_(long) COALESCE_SIGNED_(long long)
#undef COALESCE_SIGNED_
    template <>
    struct make_unsigned<char> {
    using type = unsigned char;
};
template <>
struct make_unsigned<signed char> {
    using type = unsigned char;
};
template <>
struct make_signed<char> {
    using type = signed char;
};
template <>
struct make_signed<unsigned char> {
    using type = signed char;
};

template <bool b, class T = void>
using enable_if_t = typename enable_if<b, T>::type;
template <bool b, class A, class B>
using conditional_t = typename conditional<b, A, B>::type;
template <size_t bytes, size_t alignment = bytes>
using aligned_storage_t = typename aligned_storage<bytes, alignment>::type;
template <class T>
using remove_const_t = typename remove_const<T>::type;
template <class T>
using remove_volatile_t = typename remove_volatile<T>::type;
template <class T>
using remove_cv_t = typename remove_cv<T>::type;
template <class T>
using remove_reference_t = typename remove_reference<T>::type;
template <class T>
using remove_cvref_t = typename remove_cvref<T>::type;
template <class T>
using remove_pointer_t = typename remove_pointer<T>::type;
template <class T>
using remove_extent_t = typename remove_extent<T>::type;
template <class T>
using add_const_t = typename add_const<T>::type;
template <class T>
using add_pointer_t = typename add_pointer<T>::type;
template <class T>
using decay_t = typename decay<T>::type;
template <class T>
using underlying_type_t = typename underlying_type<T>::type;
template <class T>
using make_unsigned_t = typename make_unsigned<T>::type;
template <class T>
using make_signed_t = typename make_signed<T>::type;
template <class T>
using type_identity_t = typename type_identity<T>::type;
template <class T>
using add_lvalue_reference_t = typename add_lvalue_reference<T>::type;
template <class T>
inline constexpr bool is_const_v = is_const<T>::value;
template <class T>
inline constexpr bool is_reference_v = is_reference<T>::value;
template <class T>
inline constexpr bool is_array_v = is_array<T>::value;
template <class T>
inline constexpr bool is_pointer_v = is_pointer<T>::value;
template <class T>
inline constexpr bool is_void_v = is_void<T>::value;
template <class T>
inline constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T>
inline constexpr bool is_integral_v = is_integral<T>::value;
template <class T>
inline constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
template <class T>
inline constexpr bool is_signed_v = is_signed<T>::value;
template <class T>
inline constexpr bool is_unsigned_v = is_unsigned<T>::value;
template <class T>
inline constexpr bool is_enum_v = is_enum<T>::value;
template <class T>
inline constexpr bool is_class_v = is_class<T>::value;
template <class T>
inline constexpr bool is_empty_v = is_empty<T>::value;
template <class T>
inline constexpr bool is_trivially_copyable_v = is_trivially_copyable<T>::value;
template <class T>
inline constexpr bool is_trivial_v = is_trivial<T>::value;
template <class T>
inline constexpr bool is_standard_layout_v = is_standard_layout<T>::value;
template <class T>
inline constexpr bool negation_v = negation<T>::value;
template <class A, class B>
inline constexpr bool is_same_v = is_same<A, B>::value;
template <class A, class B>
inline constexpr bool is_base_of_v = is_base_of<A, B>::value;
template <class A, class B>
inline constexpr bool is_convertible_v = is_convertible<A, B>::value;
template <class T>
__host__ __device__ constexpr const T& min(const T& a, const T& b) {
    return b < a ? b : a;
}
template <class T>
__host__ __device__ constexpr const T& max(const T& a, const T& b) {
    return a < b ? b : a;
}
template <class T, class C>
__host__ __device__ constexpr const T& min(const T& a, const T& b, C less) {
    return less(b, a) ? b : a;
}
template <class T, class C>
__host__ __device__ constexpr const T& max(const T& a, const T& b, C less) {
    return less(a, b) ? b : a;
}
template <class T, class C>
__host__ __device__ constexpr T min(initializer_list<T> list, C less) {
    const T* least = list.begin();
    for (const T* x = least; x != list.end(); ++x)
        if (less(*x, *least)) least = x;
    return *least;
}
template <class T, class C>
__host__ __device__ constexpr T max(initializer_list<T> list, C less) {
    const T* most = list.begin();
    for (const T* x = most; x != list.end(); ++x)
        if (less(*most, *x)) most = x;
    return *most;
}
template <class T>
__host__ __device__ constexpr T min(initializer_list<T> list) {
    const T* least = list.begin();
    for (const T* x = least; x != list.end(); ++x) least = *x < *least ? x : least;
    return *least;
}
template <class T>
__host__ __device__ constexpr T max(initializer_list<T> list) {
    const T* most = list.begin();
    for (const T* x = most; x != list.end(); ++x) most = *most < *x ? x : most;
    return *most;
}
template <class T>
__host__ __device__ constexpr const T& clamp(const T& x, const T& a, const T& b) {
    return x < a ? a : b < x ? b : x;
}
template <class T>
__host__ __device__ constexpr void swap(T& a, T& b) {
    T c = a;
    a = b;
    b = c;
}
template <class T, class U = T>
__host__ __device__ constexpr T exchange(T& a, U&& b) {
    T c = a;
    a = static_cast<U&&>(b);
    return c;
}
template <class I, class T>
__host__ __device__ constexpr void fill(I first, I last, const T& x) {
    for (; first != last; ++first) *first = x;
}
template <class I, class N, class T>
__host__ __device__ constexpr I fill_n(I first, N n, const T& x) {
    for (; n > 0; --n, ++first) *first = x;
    return first;
}
template <class I, class O>
__host__ __device__ constexpr O copy(I first, I last, O to) {
    for (; first != last; ++first, ++to) *to = *first;
    return to;
}
template <class A, class B>
struct pair {
    A first;
    B second;
    pair() = default;
    __host__ __device__ constexpr pair(const A& a, const B& b) : first(a), second(b) {}
};
template <class A, class B>
__host__ __device__ constexpr pair<A, B> make_pair(A a, B b) {
    return {a, b};
}
template <class A, class B>
__host__ __device__ constexpr bool operator<(const pair<A, B>& x, const pair<A, B>& y) {
    return x.first < y.first || (!(y.first < x.first) && x.second < y.second);
}
template <class A, class B>
__host__ __device__ constexpr bool operator==(const pair<A, B>& x, const pair<A, B>& y) {
    return x.first == y.first && x.second == y.second;
}
#define COALESCE_OPERATION_(name, R, op)                                              \
    template <class T = void>                                                         \
    struct name {                                                                     \
        __host__ __device__ constexpr R operator()(const T& a, const T& b) const {    \
            return a op b;                                                            \
        }                                                                             \
    };                                                                                \
    template <>                                                                       \
    struct name<void> {                                                               \
        template <class A, class B>                                                   \
        __host__ __device__ constexpr auto operator()(const A& a, const B& b) const { \
            return a op b;                                                            \
        }                                                                             \
    };
COALESCE_OPERATION_(plus, T, +)
COALESCE_OPERATION_(minus, T, -) COALESCE_OPERATION_(multiplies, T, *)
    COALESCE_OPERATION_(divides, T, /) COALESCE_OPERATION_(modulus, T, %)
        COALESCE_OPERATION_(bit_and, T, &) COALESCE_OPERATION_(bit_or, T, |)
            COALESCE_OPERATION_(bit_xor, T, ^) COALESCE_OPERATION_(logical_and, bool, &&)
                COALESCE_OPERATION_(logical_or, bool, ||) COALESCE_OPERATION_(less, bool, <)
                    COALESCE_OPERATION_(greater, bool, >) COALESCE_OPERATION_(less_equal, bool, <=)
                        COALESCE_OPERATION_(greater_equal, bool, >=)
                            COALESCE_OPERATION_(equal_to, bool, ==)
                                COALESCE_OPERATION_(not_equal_to, bool, !=)
#undef COALESCE_OPERATION_

}  // namespace std
