// Is read in place of CUB's header, and adds the operators and iterators that CUDA 13's CUB removed.
#pragma GCC system_header
#include_next <cub/cub.cuh>
#if CUB_VERSION >= 300000 && !defined(COALESCE_OLDER_CUB)
#define COALESCE_OLDER_CUB
#include <cuda/functional>
#include <cuda/std/functional>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
namespace cub {
using Sum = ::cuda::std::plus<>;
using Difference = ::cuda::std::minus<>;
using Division = ::cuda::std::divides<>;
using Equality = ::cuda::std::equal_to<>;
using Inequality = ::cuda::std::not_equal_to<>;
using Max = ::cuda::maximum<>;
using Min = ::cuda::minimum<>;
template <class Value, class Offset = ptrdiff_t>
using CountingInputIterator = ::thrust::counting_iterator<Value, ::thrust::use_default, ::thrust::use_default, Offset>;
template <class Value, class Offset = ptrdiff_t>
using ConstantInputIterator = ::thrust::constant_iterator<Value, Offset>;
template <class Value, class Function, class Iterator, class Offset = ptrdiff_t>
struct TransformInputIterator : ::thrust::transform_iterator<Function, Iterator, Value, Value> {
    __host__ __device__ TransformInputIterator(Iterator iterator, Function function)
        : ::thrust::transform_iterator<Function, Iterator, Value, Value>(iterator, function) {}
};
}  // namespace cub
#endif
