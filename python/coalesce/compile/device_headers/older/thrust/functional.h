// Is read in place of Thrust's header, and adds the base classes that CUDA 13's Thrust removed.
#pragma GCC system_header
#include_next <thrust/functional.h>
#if THRUST_VERSION >= 300000 && !defined(COALESCE_OLDER_THRUST)
#define COALESCE_OLDER_THRUST
namespace thrust {
template <class Argument, class Result>
struct unary_function {
    using argument_type = Argument;
    using result_type = Result;
};
template <class First, class Second, class Result>
struct binary_function {
    using first_argument_type = First;
    using second_argument_type = Second;
    using result_type = Result;
};
}  // namespace thrust
#endif
