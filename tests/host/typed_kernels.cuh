// The types and functions of the kernels that tests/typed_kernels.py makes. They are compiled for a
// GPU, and with HOST_REFERENCE by g++.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef int i32; typedef unsigned u32; typedef long long i64; typedef unsigned long long u64;
typedef __int128 i128; typedef unsigned __int128 u128;
typedef float f32; typedef double f64; typedef __half f16; typedef __nv_bfloat16 b16;
#define D __device__ inline
#define N __device__ __noinline__
#ifdef HOST_REFERENCE
#define REFERENCE(host, device) host
#else
#define REFERENCE(host, device) device
#endif
template <class To, class From> D To bits_of(From x) { To y; memcpy(&y, &x, sizeof y); return y; }
// A NaN has many patterns of bits; only one of them is compared.
D u32 word(f32 x) { return x != x ? 0x7fc00000u : bits_of<u32>(x); }
D u64 word(f64 x) { return x != x ? 0x7ff8000000000000ull : bits_of<u64>(x); }
D u16 word(f16 x) { u16 b = bits_of<u16>(x); return (b & 0x7fff) > 0x7c00 ? 0x7fff : b; }
D u16 word(b16 x) { u16 b = bits_of<u16>(x); return (b & 0x7fff) > 0x7f80 ? 0x7fff : b; }
D u8 word(i8 x) { return u8(x); } D u8 word(u8 x) { return x; } D u16 word(i16 x) { return u16(x); }
D u16 word(u16 x) { return x; } D u32 word(i32 x) { return u32(x); } D u32 word(u32 x) { return x; }
D u64 word(i64 x) { return u64(x); } D u64 word(u64 x) { return x; }
D u64 word(i128 x) { return u64(x) ^ u64(u128(x) >> 64) * 3; }
D u64 word(u128 x) { return u64(x) ^ u64(x >> 64) * 3; }
template <class T> D T divide(T a, T b) { return b == 0 ? T(3) : T(-1) < T(0) && b == T(-1) ? T(0) : a / b; }
template <class T> D T modulo(T a, T b) { return b == 0 ? T(5) : T(-1) < T(0) && b == T(-1) ? T(1) : a % b; }
// Conversions of floats to integers: C++ does not define them outside the range of the integer.
template <class T, class F> D T clamped(F x) {
    const F low = T(-1) < T(0) ? -F(T(1) << (sizeof(T) * 8 - 2)) * 2 : F(0);
    const F high = F(T(1) << (sizeof(T) * 8 - 2)) * (T(-1) < T(0) ? 2 : 4);
    if (x != x) return sizeof(T) < 8 && sizeof(F) < 8 ? T(0) : T(T(1) << (sizeof(T) * 8 - 1));
    return x < low ? T(-1) < T(0) ? T(T(1) << (sizeof(T) * 8 - 1)) : T(0)
         : x >= high ? T(-1) < T(0) ? T(~(T(1) << (sizeof(T) * 8 - 1))) : T(~T(0)) : T(x);
}
D f32 round_to(f32 x, int how) { return how == 0 ? rintf(x) : how == 1 ? truncf(x) : how == 2 ? floorf(x) : ceilf(x); }
D f64 round_to(f64 x, int how) { return how == 0 ? rint(x) : how == 1 ? trunc(x) : how == 2 ? floor(x) : ceil(x); }
#define TO_INTEGER(T, F, how, n, name) \
    D T name##_##how(F x) { return REFERENCE((clamped<T, F>(round_to(x, n))), (__##name##_##how(x))); }
#define TO_INTEGERS(T, F, name) TO_INTEGER(T, F, rn, 0, name) TO_INTEGER(T, F, rz, 1, name) \
    TO_INTEGER(T, F, rd, 2, name) TO_INTEGER(T, F, ru, 3, name)
TO_INTEGERS(i32, f32, float2int) TO_INTEGERS(u32, f32, float2uint)
TO_INTEGERS(i64, f32, float2ll) TO_INTEGERS(u64, f32, float2ull)
TO_INTEGERS(i32, f64, double2int) TO_INTEGERS(u32, f64, double2uint)
TO_INTEGERS(i64, f64, double2ll) TO_INTEGERS(u64, f64, double2ull)
template <class F> D F least(F a, F b, F (*)(F, F)) {
    return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
}
template <class F> D F most(F a, F b, F (*)(F, F)) {
    return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? b : a) : a > b ? a : b;
}
#define LEAST(F, f) D F least_of(F a, F b) { return REFERENCE((least<F>(a, b, nullptr)), f(a, b)); }
#define MOST(F, f) D F most_of(F a, F b) { return REFERENCE((most<F>(a, b, nullptr)), f(a, b)); }
LEAST(f32, fminf) MOST(f32, fmaxf) LEAST(f64, fmin) MOST(f64, fmax)
// The sign of a NaN differs between processors.
template <class F> D bool negative(F x) { return x == x && std::signbit(x); }
D f32 with_sign_of(f32 x, f32 y) { return copysignf(x, y == y ? y : 1.0f); }
D f64 with_sign_of(f64 x, f64 y) { return copysign(x, y == y ? y : 1.0); }
D f16 half_from(f32 x) { return __float2half_rn(x); }
D f32 from_half(f16 x) { return __half2float(x); }
D b16 bf_from(f32 x) { return __float2bfloat16_rn(x); }
D f32 from_bf(b16 x) { return __bfloat162float(x); }
D f16 half_fma(f16 a, f16 b, f16 c) {
    return REFERENCE((__double2half(f64(from_half(a)) * from_half(b) + f64(from_half(c)))), (__hfma(a, b, c)));
}
D f16 half_least(f16 a, f16 b) { return REFERENCE((half_from(least_of(from_half(a), from_half(b)))), (__hmin(a, b))); }
D f16 half_most(f16 a, f16 b) { return REFERENCE((half_from(most_of(from_half(a), from_half(b)))), (__hmax(a, b))); }
D f16 half_add(f16 a, f16 b) { return REFERENCE((half_from(from_half(a) + from_half(b))), (__hadd(a, b))); }
D f16 half_sub(f16 a, f16 b) { return REFERENCE((half_from(from_half(a) - from_half(b))), (__hsub(a, b))); }
D f16 half_mul(f16 a, f16 b) { return REFERENCE((half_from(from_half(a) * from_half(b))), (__hmul(a, b))); }
D b16 bf_add(b16 a, b16 b) { return REFERENCE((bf_from(from_bf(a) + from_bf(b))), (__hadd(a, b))); }
D b16 bf_mul(b16 a, b16 b) { return REFERENCE((bf_from(from_bf(a) * from_bf(b))), (__hmul(a, b))); }
D b16 bf_least(b16 a, b16 b) { return REFERENCE((bf_from(least_of(from_bf(a), from_bf(b)))), (__hmin(a, b))); }
struct Halves { f16 x, y; };
D u32 halves_add(u32 a, u32 b) {
    const Halves p = bits_of<Halves>(a), q = bits_of<Halves>(b);
    const Halves host = {half_add(p.x, q.x), half_add(p.y, q.y)};
    (void)host;
    const u32 r = REFERENCE(bits_of<u32>(host), bits_of<u32>(__hadd2(bits_of<__half2>(a), bits_of<__half2>(b))));
    const Halves d = bits_of<Halves>(r);
    return word(d.x) | u32(word(d.y)) << 16;
}
D u32 halves_fma(u32 a, u32 b, u32 c) {
    const Halves p = bits_of<Halves>(a), q = bits_of<Halves>(b), s = bits_of<Halves>(c);
    const Halves host = {half_fma(p.x, q.x, s.x), half_fma(p.y, q.y, s.y)};
    (void)host;
    const u32 r = REFERENCE(bits_of<u32>(host),
        bits_of<u32>(__hfma2(bits_of<__half2>(a), bits_of<__half2>(b), bits_of<__half2>(c))));
    const Halves d = bits_of<Halves>(r);
    return word(d.x) | u32(word(d.y)) << 16;
}
template <class T> D T funnel(T low, T high, u32 by, bool left) {
    by &= 31;
    return left ? by ? high << by | low >> (32 - by) : high : by ? low >> by | high << (32 - by) : low;
}
D u32 funnel_left(u32 a, u32 b, u32 by) { return REFERENCE(funnel(a, b, by, true), __funnelshift_l(a, b, by)); }
D u32 funnel_right(u32 a, u32 b, u32 by) { return REFERENCE(funnel(a, b, by, false), __funnelshift_r(a, b, by)); }
D i64 mul_high(i64 a, i64 b) { return REFERENCE(i64(i128(a) * b >> 64), __mul64hi(a, b)); }
D u32 sad(i32 a, i32 b, u32 c) { return REFERENCE((a > b ? u32(a) - u32(b) : u32(b) - u32(a)) + c, __sad(a, b, c)); }
D u32 average(u32 a, u32 b) { return REFERENCE(u32((u64(a) + b) >> 1), __uhadd(a, b)); }
D i32 rounded_average(i32 a, i32 b) { return REFERENCE(i32((i64(a) + b + 1) >> 1), __rhadd(a, b)); }
struct Fields { u32 a : 5; i32 b : 11; u32 c : 16; i64 d : 37; u64 e : 27; i8 f; u16 g : 9; };
struct Mixed { u8 bytes[3]; i16 s; f32 f; i64 w; f16 h; u8 last; };
struct alignas(16) Quad { i16 x; u8 y, z; f32 f; u64 w; };
union Either { u32 w[2]; f64 d; i16 s[4]; u8 b[8]; f32 f[2]; u64 l; };
struct Shape { u32 k; D explicit Shape(u32 n) : k(n) {} __device__ virtual u32 area(u32 x) const { return x + k; } };
struct Square : Shape { D explicit Square(u32 n) : Shape(n) {} __device__ u32 area(u32 x) const override { return x * x + k; } };
struct Round : Shape { i16 r; D explicit Round(u32 n) : Shape(n), r(i16(n)) {}
    __device__ u32 area(u32 x) const override { return u32(r * 3) + (x >> 3); } };
N u32 g0(u32 x, i16 y) { return x * 2654435761u ^ u32(y) >> 7; }
N u32 g1(u32 x, i16 y) { return y < 0 ? x / 7 : x % 13u ? x << 3 : ~x; }
N u32 g2(u32 x, i16 y) { u32 n = 0; for (u32 i = 0; i < (x & 7); ++i) n += x >> i ^ u32(y); return n; }
N u32 recursive(u32 n, u32 x) {
    u32 kept[3] = {x, x >> 3, n};
    if (n == 0) return x;
    kept[x % 3] = recursive(n - 1, x * 5 + 1);
    return kept[0] + kept[1] * 3 + kept[2] + (n & 1 ? recursive(n / 2, x ^ n) : 0);
}
N u64 odd_even(u32 n, u64 x);
N u64 even_odd(u32 n, u64 x) { return n == 0 ? x : odd_even(n - 1, x * 3 + n); }
N u64 odd_even(u32 n, u64 x) { return n == 0 ? ~x : even_odd(n - 1, x ^ x >> 5); }
N void by_reference(i64& a, u16& b, f32* c) { a += b; b = u16(b * 3 + 1); *c = *c * 0.5f - 1; }
N Mixed returned(u32 x, f32 f) {
    Mixed m = {{u8(x), u8(x >> 8), u8(x >> 16)}, i16(x >> 5), f, i64(x) << 20, half_from(f), u8(x * 3)};
    return m;
}
typedef u32 (*Function)(u32, i16);
__device__ Function functions[3] = {g2, g0, g1};
// One variable, because machine code with generic addresses of several constants is not simulated.
struct Tables { i16 table16[37]; f64 table64[11]; u8 table8[64]; };
__constant__ Tables tables = {
    {3, -1, 500, -32768, 32767, 7, 9, 11, -13, 15, 0, 1, 2, 3, 4, 5, 6},
    {1.5, -2.25, 1e300, -0.0, 1e-310, 3, 5, 7, 1e10, 0.1, -7},
    {1, 255, 128, 127, 3, 4, 5, 6, 7, 8, 9, 99, 200, 201, 202}};
__device__ const f32 tablef[8] = {1, -2, 3.5f, 1e-40f, 1e38f, -0.0f, 0.1f, 7};
__device__ u32 counters[8];

// A shuffle whose source is a lane that exists; otherwise the own value.
template <class T> D T shuffled(u32 full, T value, int how, int n, int width) {
    const int lane = int((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31);
    const int first = lane & ~(width - 1);
    const int from = how == 0 ? first | (n & (width - 1)) : how == 1 ? lane ^ n : how == 2 ? lane + n : lane - n;
    const bool inside = how == 1 ? from < first + width : from >= first && from < first + width;
    const T got = how == 0 ? __shfl_sync(full, value, n, width) : how == 1 ? __shfl_xor_sync(full, value, n, width)
                : how == 2 ? __shfl_down_sync(full, value, n, width) : __shfl_up_sync(full, value, n, width);
    return !inside || (full >> from & 1) ? got : value;
}
