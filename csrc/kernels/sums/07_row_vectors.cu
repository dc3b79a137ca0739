// Row sums with 16-byte loads, four of them in flight per thread.
//
// blockDim.x threads share a row: a warp for short rows, 256 threads for long ones. Each thread
// starts 4 loads of 16 bytes before it adds. Memory reaches its full rate only with so many bytes
// in flight. The 16 numbers are added in pairs. Their sum is added to a running sum that also keeps
// its rounding errors (Kahan's method): the result is as accurate as a pairwise sum, for at most
// one more instruction per element. The order is fixed, so every run gives the same bits.
//
// A row may begin and end between two multiples of 16 bytes: up to 3 elements at each end are
// loaded one by one. If the columns are not neighbours, all elements are, 64 bytes in flight.

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
    for (int i = 0; i < COUNT / 2; ++i) x[i] += x[i + COUNT / 2];
    if constexpr (COUNT > 2) sum_in_pairs<COUNT / 2>(x);
    return x[0];
}

// Adds every `width`-th of `left` pieces of LENGTH neighbouring elements. `step` is the distance
// from one of these pieces to the next, in pieces. 64 bytes are in flight.
template <int LENGTH>
__device__ void add_pieces(Running& running, const REAL* x, int left, int width, long long step) {
    struct alignas(LENGTH * sizeof(REAL)) Piece {
        REAL v[LENGTH];
    };
    constexpr int count = LOADS * WIDTH / LENGTH;
    const Piece* from = reinterpret_cast<const Piece*>(x);
    for (; left > 0; left -= count * width, from += count * step) {
        Piece pieces[count] = {};
#pragma unroll
        for (int i = 0; i < count; ++i) {
            if (i * width < left) pieces[i] = from[i * step];
        }
        REAL parts[LOADS * WIDTH];
#pragma unroll
        for (int i = 0; i < LOADS * WIDTH; ++i) parts[i] = pieces[i / LENGTH].v[i % LENGTH];
        running.add(sum_in_pairs<LOADS * WIDTH>(parts));
    }
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
    if (COL_STRIDE == 1) {
        const int head = min(cols, int((16 - size_t(own) % 16) / sizeof(REAL)) % WIDTH);
        const int vectors = (cols - head) / WIDTH, rest = (cols - head) % WIDTH;
        REAL single = 0;
        if (inside && t < head + rest) single = own[t < head ? t : t + WIDTH * vectors];
        const int left = inside ? vectors - t : 0;
        add_pieces<WIDTH>(running, own + head + WIDTH * t, left, width, width);
        running.add(single);
    } else {
        const int left = inside ? cols - t : 0;
        add_pieces<1>(running, own + t * COL_STRIDE, left, width, width * COL_STRIDE);
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
