// Functions whose machine code branches on an operand. Zeros, subnormals, infinities, NaNs and
// numbers of extreme size take a slow path, and so do integers that need more than 32 bits. Each
// warp has lanes on the slow path and lanes on the fast path. The last kernel sums forces between
// bodies. It also computes rsqrt(0), for the distance of each body from itself.

typedef long long int64;

#define KERNEL(name, T)                                                      \
    extern "C" __global__ void name(const T* a, const T* b, T* out, int n) { \
        const int i = blockIdx.x * blockDim.x + threadIdx.x;                 \
        if (i < n) out[i] = name##_of(a[i], b[i]);                           \
    }
#define FUNCTION(name, T, value)                       \
    __device__ T name##_of(T x, T y) { return value; } \
    KERNEL(name, T)

FUNCTION(reciprocal_double, double, 1 / x)
FUNCTION(quotient_double, double, x / y)
FUNCTION(root_double, double, sqrt(x))
FUNCTION(reciprocal_root_double, double, rsqrt(x))
FUNCTION(reciprocal_float, float, 1 / x)
FUNCTION(quotient_float, float, x / y)
FUNCTION(root_float, float, sqrtf(x))
FUNCTION(reciprocal_root_float, float, rsqrtf(x))
FUNCTION(fast_quotient, float, __fdividef(x, y))
FUNCTION(fast_sine, float, __sinf(x))
FUNCTION(fast_cosine, float, __cosf(x))
FUNCTION(fast_logarithm, float, __log2f(x))
FUNCTION(fast_exponential, float, exp2f(x))
FUNCTION(fast_tangent, float, __tanf(x))
FUNCTION(sine_double, double, sin(x))
FUNCTION(tangent_double, double, tan(x))
FUNCTION(exponential_double, double, exp(x))
FUNCTION(logarithm_double, double, log(x))
FUNCTION(power_double, double, pow(x, y))
FUNCTION(remainder_double, double, fmod(x, y))
FUNCTION(cube_root_double, double, cbrt(x))
FUNCTION(hypotenuse_double, double, hypot(x, y))
FUNCTION(gamma_double, double, tgamma(x))
FUNCTION(error_double, double, erfc(x))
FUNCTION(sine_float, float, sinf(x))
FUNCTION(tangent_float, float, tanf(x))
FUNCTION(exponential_float, float, expf(x))
FUNCTION(logarithm_float, float, logf(x))
FUNCTION(power_float, float, powf(x, y))
FUNCTION(remainder_float, float, fmodf(x, y))
FUNCTION(hypotenuse_float, float, hypotf(x, y))
FUNCTION(quotient_long, int64, y == 0 ? x : x / y)
FUNCTION(remainder_long, int64, y == 0 ? x : x % y)

extern "C" __global__ void forces(const double* position, double* force, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double sum[3] = {};
    for (int j = 0; j < n; ++j) {
        double to[3], square = 0;
        for (int axis = 0; axis < 3; ++axis) {
            to[axis] = position[3 * j + axis] - position[3 * i + axis];
            square += to[axis] * to[axis];
        }
        const double inverse = rsqrt(square);
        for (int axis = 0; axis < 3 && j != i; ++axis)
            sum[axis] += to[axis] * inverse * inverse * inverse;
    }
    for (int axis = 0; axis < 3; ++axis) force[3 * i + axis] = sum[axis];
}
