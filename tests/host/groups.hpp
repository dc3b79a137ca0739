// Cooperative groups for device_code.hpp: blocks, and tiles of a warp.
#pragma once

namespace cooperative_groups {

struct thread_group;

struct thread_block {
    operator thread_group() const;
    static void sync() { __syncthreads(); }
    static unsigned thread_rank() { return unsigned(host::lane_of_block); }
    static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned num_threads() { return size(); }
    static dim3 group_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
    static dim3 thread_index() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

// A grid of one block.
struct grid_group {
    static void sync() {
        if (gridDim.x * gridDim.y * gridDim.z > 1) std::exit(9);
        __syncthreads();
    }
    static unsigned long long thread_rank() {
        const unsigned long long row = 1ull * blockIdx.z * gridDim.y + blockIdx.y;
        return (row * gridDim.x + blockIdx.x) * thread_block::size() + thread_block::thread_rank();
    }
    static unsigned long long size() {
        return 1ull * gridDim.x * gridDim.y * gridDim.z * thread_block::size();
    }
    static unsigned long long num_threads() { return size(); }
};
inline grid_group this_grid() { return {}; }

// A tile of `threads` neighbouring lanes of a warp.
struct thread_group {
    unsigned threads;

    unsigned thread_rank() const { return unsigned(host::lane_of_block) % threads; }
    unsigned size() const { return threads; }
    unsigned num_threads() const { return threads; }
    unsigned mask() const {
        const unsigned lane = unsigned(host::lane_of_block) & 31;
        return (threads >= 32 ? ~0u : (1u << threads) - 1) << (lane / threads * threads);
    }
    unsigned meta_group_rank() const { return unsigned(host::lane_of_block) / threads; }
    unsigned meta_group_size() const { return (thread_block::size() + threads - 1) / threads; }
    void sync() const {
        if (threads > 32) {
            __syncthreads();
        } else {
            __syncwarp(mask());
        }
    }
    template <class T>
    T shfl(T value, int source) const {
        return __shfl_sync(mask(), value, source, int(threads));
    }
    template <class T>
    T shfl_down(T value, unsigned by) const {
        return __shfl_down_sync(mask(), value, by, int(threads));
    }
    template <class T>
    T shfl_up(T value, unsigned by) const {
        return __shfl_up_sync(mask(), value, by, int(threads));
    }
    template <class T>
    T shfl_xor(T value, int bits) const {
        return __shfl_xor_sync(mask(), value, bits, int(threads));
    }
    unsigned ballot(int condition) const {
        return (__ballot_sync(mask(), condition) & mask()) >> __builtin_ctz(mask());
    }
    int any(int condition) const { return ballot(condition) != 0; }
    int all(int condition) const { return ballot(!condition) == 0; }
};
inline thread_block::operator thread_group() const { return {size()}; }
template <unsigned N, class Parent = void>
struct thread_block_tile : thread_group {
    thread_block_tile() : thread_group{N} {}
    template <class Other>
    thread_block_tile(const thread_block_tile<N, Other>&) : thread_group{N} {}
    static constexpr unsigned size() { return N; }
    static constexpr unsigned num_threads() { return N; }
};
template <unsigned N, class Parent>
thread_block_tile<N, Parent> tiled_partition(const Parent&) {
    return {};
}
inline thread_group tiled_partition(const thread_block&, unsigned n) { return {n}; }
inline thread_group tiled_partition(const thread_group&, unsigned n) { return {n}; }
template <class Group>
void sync(const Group& group) {
    group.sync();
}

template <class T>
struct plus {
    T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct greater {
    T operator()(T a, T b) const { return a > b ? a : b; }
};
template <class T>
struct less {
    T operator()(T a, T b) const { return a < b ? a : b; }
};
template <class Group, class T, class F>
T reduce(const Group& group, T value, F merged) {
    T result = group.shfl(value, 0);
    for (unsigned i = 1; i < group.size(); ++i) result = merged(result, group.shfl(value, int(i)));
    return result;
}

}  // namespace cooperative_groups

// Barriers and copies of <cuda/barrier>. A copy is done at once.
namespace cuda {

enum thread_scope {
    thread_scope_system,
    thread_scope_device,
    thread_scope_block,
    thread_scope_thread,
};
template <size_t Alignment>
struct aligned_size_t {
    size_t value;
    explicit aligned_size_t(size_t n) : value(n) {}
    operator size_t() const { return value; }
};
template <thread_scope Scope>
struct barrier {
    using arrival_token = int;

    int expected, arrived, phase;

    barrier() = default;
    explicit barrier(int n) : expected(n), arrived(0), phase(0) {}
    arrival_token arrive(int n = 1) {
        const int own = phase;
        arrived += n;
        if (arrived >= expected) arrived = 0, ++phase;
        return own;
    }
    void wait(arrival_token token) const {
        host::until([this, token] { return phase != token; });
    }
    void arrive_and_wait() { wait(arrive()); }
    void arrive_and_drop() { --expected, arrive(0); }
};
template <thread_scope Scope>
void init(barrier<Scope>* b, long n) {
    *b = barrier<Scope>(int(n));
}
template <class T, class Size, class Barrier>
void memcpy_async(T* to, const T* from, Size bytes, Barrier&) {
    std::memcpy(to, from, size_t(bytes));
}
template <class Group, class T, class Size, class Barrier>
void memcpy_async(const Group& group, T* to, const T* from, Size bytes, Barrier&) {
    if (group.thread_rank() == 0) std::memcpy(to, from, size_t(bytes));
}

}  // namespace cuda

namespace cub {}  // namespace cub
