// Kernels whose lanes do different things in one instruction, or whose results depend on addresses. PTX
// and machine code must give the same results. Each kernel reads words and writes eight words per thread.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

#define KERNEL(name) extern "C" __global__ void name(const unsigned* in, unsigned* out)
#define THREAD blockIdx.x* blockDim.x + threadIdx.x

// ---- member masks that differ between lanes ----

KERNEL(matched_sums) {
    const unsigned t = THREAD, key = in[t] % 3, mask = __match_any_sync(~0u, key);
    out[8 * t] = __reduce_add_sync(mask, t);
    out[8 * t + 1] = __ballot_sync(mask, in[t] & 8);
    out[8 * t + 2] = __shfl_sync(mask, in[t], __ffs(mask) - 1);
    out[8 * t + 3] = __reduce_max_sync(mask, in[t]);
    out[8 * t + 4] = __any_sync(mask, in[t] % 7 == 0);
    out[8 * t + 5] = __all_sync(mask, in[t] % 5 != 0);
    out[8 * t + 6] = __reduce_xor_sync(mask, in[t]);
}

KERNEL(matches_within_matches) {
    const unsigned t = THREAD, mask = __match_any_sync(~0u, in[t] & 1);
    const unsigned finer = __match_any_sync(mask, in[t] % 3);
    int same;
    out[8 * t] = finer;
    out[8 * t + 1] = __match_all_sync(finer, in[t] % 3, &same);
    out[8 * t + 2] = same;
    out[8 * t + 3] = __match_all_sync(mask, in[t] % 3, &same);
    out[8 * t + 4] = same;
    out[8 * t + 5] = __match_any_sync(mask, (unsigned long long)(in[t] % 5) << 33);
    __syncwarp(mask);
    out[8 * t + 6] = __popc(__activemask() | mask);
}

KERNEL(masks_of_some_lanes) {
    const unsigned t = THREAD;
    unsigned value = in[t];
    if (value % 4) {
        const unsigned mask = __match_any_sync(__activemask(), value % 4);
        value += __reduce_add_sync(mask, value & 255);
        value ^= __shfl_sync(mask, value, 31 - __clz(mask));
        if (value & 16) value += __ballot_sync(__activemask() & mask, value & 32) != 0;
    }
    out[8 * t] = value;
}

KERNEL(masks_in_a_loop) {
    const unsigned t = THREAD, lane = threadIdx.x % 32;
    unsigned left = ~0u, sum = 0, rounds = 0;
    const unsigned key = in[t] % 6;
    while (true) {
        const unsigned leader = __shfl_sync(left, key, __ffs(left) - 1);
        const unsigned mine = __ballot_sync(left, key == leader);
        ++rounds;
        if (key == leader) {
            sum = __reduce_add_sync(mine, in[t] % 1000);
            break;
        }
        left &= ~mine;
    }
    out[8 * t] = sum + lane;
    out[8 * t + 1] = rounds;
}

KERNEL(labeled_groups) {
    const unsigned t = THREAD;
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto group = cg::labeled_partition(warp, int(in[t] % 5));
    out[8 * t] = cg::reduce(group, int(in[t] & 1023), cg::plus<int>());
    out[8 * t + 1] = group.thread_rank();
    out[8 * t + 2] = group.size();
    out[8 * t + 3] = group.shfl(in[t], 0);
    out[8 * t + 4] = group.any(in[t] & 64);
    out[8 * t + 5] = group.ballot(in[t] & 32);
    out[8 * t + 6] = cg::reduce(group, int(in[t] & 1023), cg::less<int>());
    out[8 * t + 7] = cg::exclusive_scan(group, int(in[t] & 15));
}

KERNEL(binary_groups) {
    const unsigned t = THREAD;
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto halves = cg::binary_partition(warp, (in[t] & 2) != 0);
    out[8 * t] = cg::reduce(halves, in[t] & 255, cg::plus<unsigned>());
    auto tile = cg::tiled_partition<8>(warp);
    out[8 * t + 1] = cg::reduce(tile, in[t], cg::bit_xor<unsigned>());
    out[8 * t + 2] = tile.match_any(in[t] % 3);
    int same = 0;
    out[8 * t + 3] = tile.match_all(in[t] % 2, same);
    out[8 * t + 4] = same;
    out[8 * t + 5] = cg::inclusive_scan(tile, in[t] & 7);
    if (in[t] & 4) {
        auto active = cg::coalesced_threads();
        out[8 * t + 6] = cg::reduce(active, in[t] & 255, cg::plus<unsigned>());
        out[8 * t + 7] = active.shfl_down(in[t], 1);
    }
}

KERNEL(aggregated_append) {
    __shared__ unsigned counters[4];
    const unsigned t = THREAD, key = in[t] % 4;
    if (threadIdx.x < 4) counters[threadIdx.x] = 0;
    __syncthreads();
    const unsigned mask = __match_any_sync(~0u, key), lane = threadIdx.x % 32;
    const int leader = __ffs(mask) - 1;
    unsigned first = 0;
    if (lane == leader) first = atomicAdd(&counters[key], __popc(mask)) & 0;
    first = __shfl_sync(mask, first, leader);
    out[8 * t] = first + __popc(mask & ((1u << lane) - 1));
    __syncthreads();
    out[8 * t + 1] = counters[threadIdx.x % 4];
}

// ---- calls through pointers ----

typedef unsigned (*Function)(unsigned);
__device__ __noinline__ unsigned twice(unsigned x) { return 2 * x; }
__device__ __noinline__ unsigned square(unsigned x) { return x * x + 1; }
__device__ __noinline__ unsigned halved(unsigned x) { return x & 1 ? 3 * x + 1 : x / 2; }
__device__ __noinline__ unsigned bits(unsigned x) { return __popc(x) + __reduce_add_sync(__activemask(), 1); }
__device__ __noinline__ unsigned recursive(unsigned x) { return x < 2 ? 1 : x + recursive(x / 2); }
__device__ __noinline__ unsigned apply(Function f, unsigned x) { return f(x) + 7; }
__device__ Function table[] = {square, halved, twice};
__constant__ Function fixed[] = {recursive, twice};

KERNEL(table_of_functions) {
    const unsigned t = THREAD;
    out[8 * t] = table[in[t] % 3](in[t]);
    out[8 * t + 1] = fixed[in[t] & 1](in[t]);
    out[8 * t + 2] = table[blockIdx.x % 3](t);
}

KERNEL(chosen_functions) {
    const unsigned t = THREAD;
    Function f = in[t] & 4 ? bits : in[t] & 2 ? twice : recursive;
    out[8 * t] = f(in[t]);
    out[8 * t + 1] = apply(in[t] & 8 ? f : halved, t);
    out[8 * t + 2] = f == twice;
    unsigned value = t;
    for (int i = 0; i < 4; ++i) value = (in[t] >> i & 1 ? square : halved)(value) & 0xffff;
    out[8 * t + 3] = value;
}

KERNEL(addresses_of_functions) {
    const unsigned t = THREAD;
    Function f = in[t] & 1 ? bits : square;
    out[8 * t] = (unsigned)(unsigned long long)f;
    out[8 * t + 1] = (unsigned)(unsigned long long)table[t % 3];
    out[8 * t + 2] = f(5);
}

struct Shape {
    __device__ virtual unsigned area(unsigned x) const = 0;
    __device__ virtual unsigned edges() const { return 4; }
};
struct Square : Shape {
    __device__ unsigned area(unsigned x) const override { return x * x; }
};
struct Circle : Shape {
    unsigned scale;
    __device__ Circle(unsigned s) : scale(s) {}
    __device__ unsigned area(unsigned x) const override { return scale * x * x / 2; }
    __device__ unsigned edges() const override { return 0; }
};

KERNEL(virtual_functions) {
    const unsigned t = THREAD;
    Square s;
    Circle c(t % 7);
    Shape* shapes[] = {&s, &c};
    const Shape* shape = shapes[in[t] & 1];
    out[8 * t] = shape->area(in[t] & 255);
    out[8 * t + 1] = shape->edges();
}

// A switch and a table of functions. The compiler stores both tables in constant memory.
KERNEL(switch_and_functions) {
    const unsigned t = THREAD;
    unsigned value = table[in[t] % 3](t);
    switch (in[t] % 8) {
        case 0: value += 3; out[8 * t + 1] = 5; break;
        case 1: value = recursive(value & 255); break;
        case 2: value ^= 0x55; __threadfence(); break;
        case 3: value = __brev(value); break;
        case 4: value *= t; out[8 * t + 2] = 9; break;
        case 5: value = bits(value); break;
        case 6: value -= in[t ^ 1]; break;
        default: value = ~value;
    }
    out[8 * t] = value;
}

KERNEL(deep_recursion) {
    const unsigned t = THREAD;
    out[8 * t] = recursive(in[t]);
    out[8 * t + 1] = recursive(t);
}

// ---- addresses of shared memory ----

#define ADDRESS(x) (unsigned) __cvta_generic_to_shared(&(x))
__shared__ unsigned short of_module[5];
__shared__ double of_module_too[7];

__device__ __noinline__ unsigned with_own_memory(unsigned x) {
    __shared__ unsigned own[33];
    own[threadIdx.x % 33] = x;
    return ADDRESS(own) + ADDRESS(of_module);
}

KERNEL(places_of_variables) {
    __shared__ char first;
    __shared__ __align__(256) float aligned[3];
    __shared__ short last[7], unused[100];
    const unsigned t = THREAD;
    out[8 * t] = ADDRESS(first);
    out[8 * t + 1] = ADDRESS(aligned);
    out[8 * t + 2] = ADDRESS(last);
    out[8 * t + 3] = ADDRESS(of_module_too);
    out[8 * t + 4] = with_own_memory(t);
    first = 1;
    out[8 * t + 5] = (unsigned)((unsigned long long)&first >> 32);
    if (out == nullptr) unused[t] = 1;
}

KERNEL(place_of_dynamic_memory) {
    extern __shared__ __align__(128) unsigned dynamic[];
    const unsigned t = THREAD;
    of_module[threadIdx.x % 5] = 1;
    dynamic[threadIdx.x] = in[t];
    __syncthreads();
    out[8 * t] = ADDRESS(dynamic);
    out[8 * t + 1] = dynamic[threadIdx.x ^ 1];
    out[8 * t + 2] = __isShared(dynamic) + 2 * __isGlobal(out);
}

// XOR of addresses swaps the buffers. This fails if 1 KiB precedes the buffers, as on sm_90.
KERNEL(swapped_by_xor) {
    __shared__ __align__(4096) unsigned buffers[2][1024];
    const unsigned t = THREAD, i = threadIdx.x;
    for (unsigned k = i; k < 2048; k += blockDim.x) buffers[k / 1024][k % 1024] = k;
    __syncthreads();
    const unsigned* other = (const unsigned*)((unsigned long long)&buffers[0][i] ^ 4096);
    out[8 * t] = *other;
    unsigned loaded;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(loaded) : "r"(ADDRESS(buffers[0][i]) ^ 2048));
    out[8 * t + 1] = loaded;
}

// ---- immediate operands and slow paths ----

KERNEL(doubles_by_numbers) {
    const unsigned t = THREAD;
    const double x = (double)(int)in[t] * (t % 5 ? 1e-3 : t % 2 ? 0.0 : 1e-310);
    double* results = (double*)(out + 8 * t);
    results[0] = x / 3.7 + 2.9 / (x - 0.1);
    results[1] = rsqrt(x * x) + sqrt(fabs(x)) + 1 / (x * 1e300);
    results[2] = fmod(x, 0.37) + pow(fabs(x), 0.3) + x / 1e-308;
    results[3] = x > 0 ? sin(x * 1e6) : x < 0 ? nan("77") : exp(x);
}

KERNEL(floats_by_numbers) {
    const unsigned t = THREAD;
    const float x = (float)(int)in[t] * (t % 5 ? 1e-3f : t % 2 ? 0.0f : 1e-44f);
    out[8 * t] = __float_as_uint(x / 3.7f);
    out[8 * t + 1] = __float_as_uint(1 / x);
    out[8 * t + 2] = __float_as_uint(x < 0 ? __int_as_float(0x7fffffff) : sqrtf(x));
    out[8 * t + 3] = __float_as_uint(fmodf(x, 0.37f));
    out[8 * t + 4] = __float_as_uint(x > 1 ? __int_as_float(0x7fc00001) : x * 1e-38f);
    out[8 * t + 5] = (unsigned)(x * 1e9f);
    out[8 * t + 6] = (unsigned)(int)(x < 3 ? __int_as_float(0x7fffffff) : x);
    out[8 * t + 7] = (unsigned)((long long)(x * 1e12f) >> 20);
}
