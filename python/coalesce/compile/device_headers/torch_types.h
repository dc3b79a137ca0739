// The types of PyTorch that kernels of its extensions use, for sources that include <torch/...>,
// <ATen/...> or <c10/...>. The host code of such sources is left out.
#ifndef COALESCE_TORCH_TYPES_  // every header of PyTorch has this text
#define COALESCE_TORCH_TYPES_
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_HOST_DEVICE __host__ __device__
#define C10_WARP_SIZE 32
#define C10_RESTRICT __restrict__
#define C10_ALWAYS_INLINE __forceinline__
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#define C10_UNUSED __attribute__((unused))
#define CUDA_KERNEL_ASSERT(condition) assert(condition)
#define CUDA_KERNEL_LOOP_TYPE(i, n, type)                                           \
    for (type i = type(blockIdx.x) * type(blockDim.x) + type(threadIdx.x); i < (n); \
         i += type(blockDim.x) * type(gridDim.x))
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)

namespace c10 {

// A number of 16 bits. Arithmetic is done in float; each result is rounded.
#define COALESCE_NUMBER_(Name, Native, to_float, from_float)         \
    struct alignas(2) Name {                                         \
        unsigned short x;                                            \
        Name() = default;                                            \
        __host__ __device__ Name(float value) {                      \
            const Native rounded = from_float(value);                \
            x = *reinterpret_cast<const unsigned short*>(&rounded);  \
        }                                                            \
        __host__ __device__ Name(const Native& value)                \
            : x(*reinterpret_cast<const unsigned short*>(&value)) {} \
        __host__ __device__ operator float() const {                 \
            return to_float(*reinterpret_cast<const Native*>(this)); \
        }                                                            \
        __host__ __device__ operator Native() const {                \
            return *reinterpret_cast<const Native*>(this);           \
        }                                                            \
    };                                                               \
    COALESCE_OPERATOR_(Name, +)                                      \
    COALESCE_OPERATOR_(Name, -)                                      \
    COALESCE_OPERATOR_(Name, *)                                      \
    COALESCE_OPERATOR_(Name, /)                                      \
    __host__ __device__ inline Name operator-(Name a) { return -float(a); }
// If the other operand is another number, the result has the same type as with PyTorch.
#define COALESCE_OPERATOR_(Name, sign)                                                             \
    __host__ __device__ inline Name operator sign(Name a, Name b) {                                \
        return float(a) sign float(b);                                                             \
    }                                                                                              \
    __host__ __device__ inline float operator sign(Name a, float b) { return float(a) sign b; }    \
    __host__ __device__ inline float operator sign(float a, Name b) { return a sign float(b); }    \
    __host__ __device__ inline double operator sign(Name a, double b) { return float(a) sign b; }  \
    __host__ __device__ inline double operator sign(double a, Name b) { return a sign float(b); }  \
    __host__ __device__ inline Name operator sign(Name a, int b) { return a sign Name(float(b)); } \
    __host__ __device__ inline Name operator sign(int a, Name b) { return Name(float(a)) sign b; } \
    __host__ __device__ inline Name& operator sign## = (Name & a, Name b) { return a = a sign b; } \
    __host__ __device__ inline Name& operator sign## = (Name & a, float b) {                       \
        return a = Name(float(a) sign b);                                                          \
    }                                                                                              \
    __host__ __device__ inline float& operator sign## = (float& a, Name b) {                       \
        return a = a sign float(b);                                                                \
    }
COALESCE_NUMBER_(Half, __half, __half2float, __float2half)
COALESCE_NUMBER_(BFloat16, __nv_bfloat16, __bfloat162float, __float2bfloat16)
#undef COALESCE_NUMBER_
#undef COALESCE_OPERATOR_

}  // namespace c10

// Shuffles and votes, and atomic additions for every type.
template <class T>
__device__ inline T WARP_SHFL(T value, int lane, int width = 32, unsigned mask = 0xffffffff) {
    return __shfl_sync(mask, value, lane, width);
}
template <class T>
__device__ inline T WARP_SHFL_XOR(T value, int bits, int width = 32, unsigned mask = 0xffffffff) {
    return __shfl_xor_sync(mask, value, bits, width);
}
template <class T>
__device__ inline T WARP_SHFL_UP(T value, unsigned by, int width = 32, unsigned mask = 0xffffffff) {
    return __shfl_up_sync(mask, value, by, width);
}
template <class T>
__device__ inline T WARP_SHFL_DOWN(T value, unsigned by, int width = 32,
                                   unsigned mask = 0xffffffff) {
    return __shfl_down_sync(mask, value, by, width);
}
__device__ inline unsigned WARP_BALLOT(int condition, unsigned mask = 0xffffffff) {
    return __ballot_sync(mask, condition);
}
template <class T>
__device__ inline T gpuAtomicAdd(T* address, T value) {
    return atomicAdd(address, value);
}
__device__ inline c10::Half gpuAtomicAdd(c10::Half* address, c10::Half value) {
    return atomicAdd(reinterpret_cast<__half*>(address), static_cast<__half>(value));
}
__device__ inline c10::BFloat16 gpuAtomicAdd(c10::BFloat16* address, c10::BFloat16 value) {
    return atomicAdd(reinterpret_cast<__nv_bfloat16*>(address), static_cast<__nv_bfloat16>(value));
}
template <class T>
__device__ inline void gpuAtomicAddNoReturn(T* address, T value) {
    gpuAtomicAdd(address, value);
}

namespace at {

using c10::BFloat16;
using c10::Half;

template <class T>
struct OpMathType {
    using type = T;
};
template <>
struct OpMathType<Half> {
    using type = float;
};
template <>
struct OpMathType<BFloat16> {
    using type = float;
};
template <class T>
using opmath_type = typename OpMathType<T>::type;

template <class T, bool on_gpu = true>
struct AccumulateType {
    using type = opmath_type<T>;
};
template <bool on_gpu>
struct AccumulateType<signed char, on_gpu> {
    using type = long long;
};
template <bool on_gpu>
struct AccumulateType<unsigned char, on_gpu> {
    using type = long long;
};
template <bool on_gpu>
struct AccumulateType<short, on_gpu> {
    using type = long long;
};
template <bool on_gpu>
struct AccumulateType<int, on_gpu> {
    using type = long long;
};
template <class T, bool on_gpu>
using acc_type = typename AccumulateType<T, on_gpu>::type;

// The smallest and the greatest number of a type; the bounds of floats are infinite.
template <class T>
struct numeric_limits;
#define COALESCE_LIMITS_(Type, least, greatest, below, above)                     \
    template <>                                                                   \
    struct numeric_limits<Type> {                                                 \
        __device__ static Type lowest() { return static_cast<Type>(least); }      \
        __device__ static Type max() { return static_cast<Type>(greatest); }      \
        __device__ static Type lower_bound() { return static_cast<Type>(below); } \
        __device__ static Type upper_bound() { return static_cast<Type>(above); } \
    };
#define COALESCE_INTEGER_LIMITS_(Type, least, greatest) \
    COALESCE_LIMITS_(Type, least, greatest, least, greatest)
#define COALESCE_FLOAT_LIMITS_(Type, greatest)                                     \
    COALESCE_LIMITS_(Type, -(greatest), greatest, __int_as_float(int(0xff800000)), \
                     __int_as_float(0x7f800000))
COALESCE_INTEGER_LIMITS_(bool, false, true)
COALESCE_INTEGER_LIMITS_(signed char, -128, 127)
COALESCE_INTEGER_LIMITS_(unsigned char, 0, 255)
COALESCE_INTEGER_LIMITS_(short, -32768, 32767)
COALESCE_INTEGER_LIMITS_(int, -2147483647 - 1, 2147483647)
COALESCE_INTEGER_LIMITS_(long, -9223372036854775807L - 1, 9223372036854775807L)
COALESCE_INTEGER_LIMITS_(long long, -9223372036854775807LL - 1, 9223372036854775807LL)
COALESCE_FLOAT_LIMITS_(Half, 65504.0f)
COALESCE_FLOAT_LIMITS_(BFloat16, 3.3895313892515355e38f)
COALESCE_FLOAT_LIMITS_(float, 3.4028234663852886e38f)
COALESCE_FLOAT_LIMITS_(double, 1.7976931348623157e308)
#undef COALESCE_FLOAT_LIMITS_
#undef COALESCE_INTEGER_LIMITS_
#undef COALESCE_LIMITS_

template <class T>
struct DefaultPtrTraits {
    using PtrType = T*;
};
template <class T>
struct RestrictPtrTraits {
    using PtrType = T* __restrict__;
};

// An array of a tensor: `accessor[i][j]` is an element.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits,
          class Index = long long>
class TensorAccessor {
    typename Traits<T>::PtrType data_;
    const Index *sizes_, *strides_;

  public:
    __host__ __device__ TensorAccessor(typename Traits<T>::PtrType data, const Index* sizes,
                                       const Index* strides)
        : data_(data), sizes_(sizes), strides_(strides) {}
    __host__ __device__ decltype(auto) operator[](Index i) const {
        if constexpr (N == 1)
            return (data_[strides_[0] * i]);  // a reference
        else
            return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * i, sizes_ + 1,
                                                           strides_ + 1);
    }
    __host__ __device__ Index size(Index i) const { return sizes_[i]; }
    __host__ __device__ Index stride(Index i) const { return strides_[i]; }
    __host__ __device__ typename Traits<T>::PtrType data() const { return data_; }
};

// The structure that a kernel gets: the address, the sizes and the strides of a tensor.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits,
          class Index = long long>
struct GenericPackedTensorAccessor {
    typename Traits<T>::PtrType data_;
    Index sizes_[N], strides_[N];

    __host__ __device__ decltype(auto) operator[](Index i) const {
        return TensorAccessor<T, N, Traits, Index>(data_, sizes_, strides_)[i];
    }
    __host__ __device__ Index size(Index i) const { return sizes_[i]; }
    __host__ __device__ Index stride(Index i) const { return strides_[i]; }
    __host__ __device__ typename Traits<T>::PtrType data() const { return data_; }
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, long long>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits,
          class Index = long long>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, Index>;

}  // namespace at

namespace torch {
using namespace at;
}  // namespace torch
#endif
