// Row sums with 16-byte loads, four of them in flight per thread.
//
// blockDim.x threads share a row: a warp for short rows, 256 threads for long ones. Each thread
// starts 4 loads of 16 bytes before it adds. Memory reaches its full rate only with so many bytes
// in flight. The 16 numbers are added in pairs. Their sum is added to a running sum that also keeps
// its rounding errors (Kahan's method): the result is as accurate as a pairwise sum, for at most
// one more instruction per element. The order is fixed, so every run gives the same bits.
//
// If rows do not begin at multiples of 16 bytes, single elements are loaded, 16 in flight.

#ifndef REAL
#define REAL float
#endif
// The distances between rows and between columns. They are constants unless STRIDED is defined.
#ifdef STRIDED
#define ROW_STRIDE row_stride
#define COL_STRIDE col_stride
#else
#define ROW_STRIDE cols
#define COL_STRIDE 1
#endif
#define THREADS 256                     // threads per block
#define WIDTH (16 / int(sizeof(REAL)))  // elements in 16 bytes
#define LOADS 4

struct alignas(16) Vector {
    REAL v[WIDTH];
};

// A sum, and the error that rounding has added to it.
struct Running {
    REAL sum = 0, lost = 0;
    __device__ void add(REAL x) {
        const REAL y = x - lost, next = sum + y;
        const REAL rounding = next - sum - y;
        lost = rounding - rounding == 0 ? rounding : REAL(0);  // 0 if the value is infinite or NaN
        sum = next;
    }
};

template <int COUNT>
__device__ REAL sum_in_pairs(REAL* x) {
#pragma unroll
    for (int half = COUNT / 2; half > 0; half /= 2) {
#pragma unroll
        for (int i = 0; i < half; ++i) x[i] += x[i + half];
    }
    return x[0];
}

extern "C" __global__ void __launch_bounds__(THREADS) vectorized(
    const REAL* __restrict__ x, REAL* __restrict__ sums, int rows, int cols, long long row_stride,
    long long col_stride) {
    __shared__ REAL partial[THREADS / 32];
    const int t = threadIdx.x, width = blockDim.x;
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    const bool inside = row < rows;
    const REAL* own = x + size_t(inside ? row : 0) * ROW_STRIDE;

    Running running;
    if (cols % WIDTH == 0 && ROW_STRIDE % WIDTH == 0 && COL_STRIDE == 1 && size_t(x) % 16 == 0) {
        for (int col = WIDTH * t; inside && col < cols; col += LOADS * WIDTH * width) {
            Vector values[LOADS] = {};
#pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                const int at = col + i * WIDTH * width;
                if (at < cols) values[i] = *reinterpret_cast<const Vector*>(own + at);
            }
            REAL parts[LOADS * WIDTH];
#pragma unroll
            for (int i = 0; i < LOADS * WIDTH; ++i) parts[i] = values[i / WIDTH].v[i % WIDTH];
            running.add(sum_in_pairs<LOADS * WIDTH>(parts));
        }
    } else {
        constexpr int count = LOADS * WIDTH;
        for (int col = t; inside && col < cols; col += count * width) {
            REAL values[count] = {};
#pragma unroll
            for (int i = 0; i < count; ++i) {
                if (col + i * width < cols) values[i] = own[(col + i * width) * COL_STRIDE];
            }
            running.add(sum_in_pairs<count>(values));
        }
    }

    REAL sum = running.sum;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
    if (width > 32) {  // several warps share the row
        if (t % 32 == 0) partial[t / 32] = sum;
        __syncthreads();
        sum = t < width / 32 ? partial[t] : REAL(0);
        if (t < 32) {
            for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
        }
    }
    if (t == 0 && inside) sums[row] = sum;
}
