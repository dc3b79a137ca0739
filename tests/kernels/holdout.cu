// Small kernels of many kinds, for the errors of the models. They were written after the models, and
// the models may not be fitted to them (counter_cases/holdout.py).
//
// KERNEL(name, block, elements): a block has `block` threads, and a thread has `elements` elements of
// the n that are given. `index` has random numbers below n. The n elements have rows of `width`.
#include <cuda_fp16.h>

typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL(name, block, elements)                                                 \
    extern "C" __global__ void name(const float* __restrict__ x,                      \
                                    const int* __restrict__ index, float* y, int n, int width)
#define I int(blockIdx.x * blockDim.x + threadIdx.x)
#define LANE int(threadIdx.x % 32)

// ---- arithmetic ----

KERNEL(chain_of_fmas, 128, 1) {
    float v = I;
    for (int k = 0; k < 300; ++k) v = fmaf(v, 0.5f, 1.0f + v);
    if (I < n) y[I] = v;
}
KERNEL(four_chains, 96, 1) {
    float a = I, b = 1, c = 2, d = 3;
    for (int k = 0; k < 200; ++k)
        a = fmaf(a, 0.5f, 1), b = fmaf(b, 0.25f, 2), c = fmaf(c, 0.75f, 3), d = fmaf(d, 0.1f, 4);
    if (I < n) y[I] = a + b + c + d;
}
KERNEL(chain_of_doubles, 64, 1) {
    double v = I;
    for (int k = 0; k < 100; ++k) v = fma(v, 0.5, 1.0);
    if (I < n) y[I] = float(v);
}
KERNEL(chain_of_integers, 192, 1) {
    u32 v = I;
    for (int k = 0; k < 250; ++k) v = v * 1664525 + 1013904223 ^ v >> 7;
    if (I < n) y[I] = float(v);
}
KERNEL(divided_integers, 128, 1) {
    if (I >= n) return;
    int v = index[I] + 7, sum = 0;
    for (int k = 1; k < 20; ++k) sum += v / (k + width) + v % (k + 3), v += sum;
    y[I] = float(sum);
}
KERNEL(sines, 256, 1) {
    if (I >= n) return;
    float sum = 0;
    for (int k = 0; k < 12; ++k) sum += sinf(x[I] * k);
    y[I] = sum;
}
KERNEL(exponentials, 256, 1) {
    if (I >= n) return;
    float v = x[I];
    for (int k = 0; k < 40; ++k) v = __expf(-v) + 0.1f;
    y[I] = v;
}
KERNEL(roots_and_quotients, 160, 1) {
    if (I >= n) return;
    float v = x[I] + 1;
    for (int k = 1; k < 16; ++k) v = sqrtf(v + k) / (v + 0.5f) + 1;
    y[I] = v;
}
KERNEL(bits, 128, 1) {
    if (I >= n) return;
    u32 v = index[I];
    for (int k = 0; k < 60; ++k) v = __brev(v) + __popc(v) + (v << 3 | v >> 29);
    y[I] = float(v);
}
KERNEL(pairs_of_halves, 128, 1) {
    __half2 v = __float2half2_rn(0.5f), w = __float2half2_rn(float(LANE));
    for (int k = 0; k < 150; ++k) v = __hfma2(v, w, v), w = __hadd2(w, v);
    if (I < n) y[I] = __low2float(v) + __high2float(w);
}
KERNEL(long_products, 128, 1) {
    u64 v = I + 1, sum = 0;
    for (int k = 0; k < 60; ++k) v *= 6364136223846793005ull, sum += __umul64hi(v, sum + k);
    if (I < n) y[I] = float(sum);
}
__constant__ float coefficients[32] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7};
KERNEL(polynomial, 256, 1) {
    if (I >= n) return;
    const float v = x[I];
    float sum = 0;
    for (int k = 0; k < 32; ++k) sum = sum * v + coefficients[k];
    y[I] = sum;
}
KERNEL(table_of_constants, 128, 1) {
    if (I >= n) return;
    float sum = 0;
    for (int k = 0; k < 16; ++k) sum += coefficients[(index[I] + k * 5) & 31];
    y[I] = sum;
}
KERNEL(newton, 128, 1) {
    if (I >= n) return;
    double v = x[I] + 1.0, r = 0.3;
    for (int k = 0; k < 10; ++k) r = 0.5 * (r + v / r);
    y[I] = float(r);
}

// ---- lanes, warps and blocks that differ ----

KERNEL(lanes_differ, 128, 1) {
    float v = 1;
    for (int k = 0; k < 8 * LANE; ++k) v = fmaf(v, 0.5f, x[(I + k) % n]);
    if (I < n) y[I] = v;
}
KERNEL(one_lane, 64, 1) {
    float v = 1;
    if (LANE == 0)
        for (int k = 0; k < 150; ++k) v = v * 0.5f + k;
    if (I < n) y[I] = v;
}
KERNEL(warps_differ, 256, 1) {
    float v = 1;
    for (int k = 0; k < 60 * int(threadIdx.x / 32); ++k) v = fmaf(v, 0.5f, 1.0f);
    if (I < n) y[I] = v;
}
KERNEL(blocks_differ, 128, 1) {
    float v = 1;
    for (int k = 0; k < 80 * int(blockIdx.x % 7); ++k) v = fmaf(v, 0.5f, 1.0f);
    if (I < n) y[I] = v;
}
KERNEL(random_lengths, 128, 1) {
    if (I >= n) return;
    float sum = 0;
    for (int k = 0; k < index[I] % 64; ++k) sum += x[(I + k * width) % n];
    y[I] = sum;
}
KERNEL(early_exit, 192, 1) {
    if (I >= n || (index[I] & 7)) return;
    float v = x[I];
    for (int k = 0; k < 100; ++k) v = v * v + 0.1f;
    y[I] = v;
}
KERNEL(cases_of_a_switch, 128, 1) {
    if (I >= n) return;
    float v = x[I];
    for (int k = 0; k < 8; ++k) switch ((index[I] + k) % 6) {
            case 0: v = sinf(v); break;
            case 1: v = v * v + 3; break;
            case 2: v = sqrtf(fabsf(v)); break;
            case 3: v = v / (k + 2); break;
            case 4: v += x[index[I]]; break;
            default: v = -v;
        }
    y[I] = v;
}
KERNEL(collatz_steps, 128, 1) {
    if (I >= n) return;
    u64 v = index[I] + 1;
    int steps = 0;
    for (; v != 1 && steps < 200; ++steps) v = v & 1 ? 3 * v + 1 : v / 2;
    y[I] = float(steps);
}
KERNEL(escape_time, 128, 1) {
    if (I >= n) return;
    const float cx = x[I] * 3 - 2, cy = x[n - 1 - I] * 2 - 1;
    float a = 0, b = 0;
    int k = 0;
    for (; k < 200 && a * a + b * b < 4; ++k) {
        const float t = a * a - b * b + cx;
        b = 2 * a * b + cy, a = t;
    }
    y[I] = float(k);
}
KERNEL(bisection, 256, 1) {
    if (I >= n) return;
    float low = 0, high = 4;
    for (int k = 0; k < 24; ++k) {
        const float middle = (low + high) / 2;
        if (middle * middle * middle > x[I]) high = middle;
        else low = middle;
    }
    y[I] = low;
}

// ---- global memory ----

KERNEL(pointer_chase, 64, 1) {
    if (I >= n) return;
    int at = index[I];
    for (int k = 0; k < 24; ++k) at = index[at];
    y[I] = float(at);
}
KERNEL(thread_per_row, 128, 4097) {
    if (I >= n / width) return;
    float sum = 0;
    for (int k = 0; k < width; ++k) sum += x[I * width + k];
    y[I] = sum;
}
KERNEL(from_both_ends, 256, 1) {
    if (I < n) y[I] = x[I] * x[n - 1 - I];
}
KERNEL(scatter, 256, 1) {
    if (I < n) y[index[I]] = x[I];
}
KERNEL(four_gathers, 128, 1) {
    if (I >= n) return;
    float sum = 0;
    for (int k = 0; k < 4; ++k) sum += x[index[(I + k * 1117) % n]];
    y[I] = sum;
}
KERNEL(nine_points, 256, 1) {
    const int row = I / width, column = I % width;
    if (row < 1 || row >= n / width - 1 || column < 1 || column >= width - 1) return;
    float sum = 0;
    for (int i = -1; i <= 1; ++i)
        for (int j = -1; j <= 1; ++j) sum += x[(row + i) * width + column + j] * (i + 2 * j + 4);
    y[I] = sum;
}
KERNEL(seventeen_in_a_row, 128, 1) {
    if (I < 8 || I >= n - 8) return;
    float sum = 0;
    for (int k = -8; k <= 8; ++k) sum += x[I + k] * k;
    y[I] = sum;
}
KERNEL(turned, 256, 1) {
    const int rows = n / width;
    if (I < rows * width) y[I % width * rows + I / width] = x[I];
}
KERNEL(one_to_the_left, 512, 1) {
    if (I + 1 < n) y[I] = x[I + 1];
}
KERNEL(copy_of_vectors, 128, 4) {
    if (4 * I + 3 < n) reinterpret_cast<float4*>(y)[I] = reinterpret_cast<const float4*>(x)[I];
}
KERNEL(eight_loads_in_flight, 128, 8) {
    const int stride = gridDim.x * blockDim.x;
    float v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = x[min(I + k * stride, n - 1)];
#pragma unroll
    for (int k = 0; k < 8; ++k)
        if (I + k * stride < n) y[I + k * stride] = v[k] * 2;
}
KERNEL(one_load_in_flight, 128, 8) {
    float sum = 0;
#pragma unroll 1
    for (int i = I; i < n; i += gridDim.x * blockDim.x) sum += x[(i + int(sum * 0.0f)) % n];
    if (I < n) y[I] = sum;
}
KERNEL(bytes, 256, 4) {
    const uchar4* const of_x = reinterpret_cast<const uchar4*>(x);
    u32 sum = 0;
    if (4 * I + 3 < n)
        for (int k = 0; k < 4; ++k) sum += of_x[4 * I + k].x + of_x[4 * I + k].z;
    if (I < n) y[I] = float(sum);
}
KERNEL(array_in_local_memory, 128, 1) {
    if (I >= n) return;
    float own[24];
    for (int k = 0; k < 24; ++k) own[k] = x[I] * k;
    for (int k = 0; k < 24; ++k) own[(index[I] + k * 5) % 24] += 1;
    y[I] = own[index[I] % 24];
}
KERNEL(row_by_a_warp, 128, 128) {
    for (int row = I / 32; row < n / width; row += gridDim.x * blockDim.x / 32) {
        float sum = 0;
        for (int k = LANE; k < width; k += 32) sum += x[row * width + k] * x[k];
        for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        if (LANE == 0) y[row] = sum;
    }
}

// ---- shared memory and barriers ----

KERNEL(chase_in_shared_memory, 128, 1) {
    __shared__ int next[128];
    next[threadIdx.x] = (I < n ? index[I] : 0) % 128;
    __syncthreads();
    int at = threadIdx.x;
    for (int k = 0; k < 64; ++k) at = next[at];
    if (I < n) y[I] = float(at);
}
KERNEL(reversed_in_shared_memory, 256, 1) {
    __shared__ float s[256];
    s[threadIdx.x] = I < n ? x[I] : 0;
    __syncthreads();
    if (I < n) y[I] = s[255 - threadIdx.x];
}
KERNEL(conflicts_of_sixteen, 128, 1) {
    __shared__ float s[128 * 16];
    float sum = 0;
    for (int k = 0; k < 16; ++k) s[threadIdx.x * 16 + k] = k;
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += s[threadIdx.x * 16 + k];
    if (I < n) y[I] = sum;
}
KERNEL(sum_of_a_block, 256, 1) {
    __shared__ float s[256];
    s[threadIdx.x] = I < n ? x[I] : 0;
    for (int half = 128; half; half /= 2) {
        __syncthreads();
        if (int(threadIdx.x) < half) s[threadIdx.x] += s[threadIdx.x + half];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
KERNEL(sum_of_a_warp, 96, 1) {
    float sum = I < n ? x[I] : 0;
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (LANE == 0) y[I / 32] = sum;
}
KERNEL(scan_of_a_block, 512, 1) {
    __shared__ float s[2][512];
    int from = 0;
    s[0][threadIdx.x] = I < n ? x[I] : 0;
    for (int step = 1; step < 512; step *= 2, from ^= 1) {
        __syncthreads();
        const bool add = int(threadIdx.x) >= step;
        s[from ^ 1][threadIdx.x] = s[from][threadIdx.x] + (add ? s[from][threadIdx.x - step] : 0);
    }
    __syncthreads();
    if (I < n) y[I] = s[from][threadIdx.x];
}
KERNEL(dot_of_all, 256, 16) {
    __shared__ float s[8];
    float sum = 0;
    for (int i = I; i < n; i += gridDim.x * blockDim.x) sum += x[i] * x[n - 1 - i];
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (LANE == 0) s[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) sum += s[w];
        atomicAdd(y, sum);
    }
}
KERNEL(tile_with_two_buffers, 64, 1) {
    __shared__ float s[2][64];
    float sum = 0, next = x[I % n];
    for (int k = 0; k < 20; ++k) {
        s[k % 2][threadIdx.x] = next;
        next = x[(I + (k + 1) * 64) % n];
        __syncthreads();
        for (int j = 0; j < 64; j += 4) sum += s[k % 2][j] * s[k % 2][(j + threadIdx.x) % 64];
    }
    if (I < n) y[I] = sum;
}
// 32 x 32 elements by 64 threads: each thread has 4 x 4 results. A matrix has 128 columns.
KERNEL(product_in_registers, 64, 16) {
    __shared__ float as[16][36], bs[16][36];
    const int columns = 128, tx = threadIdx.x % 8 * 4, ty = threadIdx.x / 8 * 4;
    const int row = blockIdx.x / 4 * 32, column = blockIdx.x % 4 * 32;
    float sum[4][4] = {};
    for (int k = 0; k < columns; k += 16) {
        for (int e = threadIdx.x; e < 512; e += 64) {
            as[e % 16][e / 16] = x[((row + e / 16) * columns + k + e % 16) % n];
            bs[e / 32][e % 32] = x[((k + e / 32) * columns + column + e % 32) % n];
        }
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 16; ++q)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sum[i][j] += as[q][ty + i] * bs[q][tx + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int at = (row + ty + i) * columns + column + tx + j;
            if (at < n) y[at] = sum[i][j];
        }
}

// ---- atomics ----

KERNEL(histogram_in_shared_memory, 128, 4) {
    __shared__ int bins[64];
    if (threadIdx.x < 64) bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = I; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[index[i] % 64], 1);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(reinterpret_cast<int*>(y) + threadIdx.x, bins[threadIdx.x]);
}
KERNEL(histogram_in_global_memory, 256, 1) {
    if (I < n) atomicAdd(reinterpret_cast<int*>(y) + index[I] % 250, 1);
}
KERNEL(floats_added_anywhere, 128, 1) {
    if (I < n) atomicAdd(y + index[I], x[I]);
}
KERNEL(one_atomic_of_a_warp, 128, 1) {
    const u32 votes = __ballot_sync(~0u, I < n && x[min(I, n - 1)] > 0.5f);
    if (LANE == 0) atomicAdd(reinterpret_cast<int*>(y), __popc(votes));
}
KERNEL(places_in_a_list, 128, 1) {
    if (I < n && index[I] % 5 == 0) {
        const int at = atomicAdd(reinterpret_cast<int*>(y), 1);
        y[1 + at] = x[I];
    }
}
