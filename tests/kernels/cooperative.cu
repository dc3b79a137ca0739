// Kernels whose blocks wait for each other, allocate memory, or share memory in clusters. Results and
// counters of these kernels are recorded. Each kernel reads words and writes a word per thread, in a grid of
// 8 blocks of 96 threads.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

#define KERNEL(name) extern "C" __global__ void name(const unsigned* in, unsigned* out)
#define CLUSTERS(name) \
    extern "C" __global__ void __cluster_dims__(4, 1, 1) name(const unsigned* in, unsigned* out)
#define THREAD blockIdx.x* blockDim.x + threadIdx.x
#define THREADS gridDim.x* blockDim.x

// ---- grid.sync() ----

KERNEL(grid_turns) {
    cg::grid_group grid = cg::this_grid();
    const unsigned t = THREAD, n = THREADS;
    out[t] = in[t];
    for (int round = 0; round < 3; ++round) {
        grid.sync();
        const unsigned other = out[(t + 97) % n];
        grid.sync();
        out[t] = other * 3 + round;
    }
}

KERNEL(grid_sum) {
    cg::grid_group grid = cg::this_grid();
    __shared__ unsigned sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, in[THREAD]);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
    grid.sync();
    unsigned all = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) all += out[b];
    grid.sync();
    out[THREAD] = all;
}

// ---- malloc and free ----

KERNEL(heap_lists) {
    struct Node {
        unsigned value;
        Node* next;
    };
    const unsigned t = THREAD;
    Node* list = nullptr;
    for (unsigned i = 0; i <= in[t] % 5; ++i) {
        Node* node = (Node*)malloc(sizeof(Node));
        node->value = in[t] + i;
        node->next = list;
        list = node;
    }
    unsigned sum = 0;
    while (list) {
        Node* next = list->next;
        sum = sum * 7 + list->value;
        free(list);
        list = next;
    }
    out[t] = sum;
}

// Bit 0: malloc(0) returns null. Bit 1: an address is not a multiple of 16. Bit 2: malloc returns memory
// although the request is larger than the heap. All three requests are legal. As in C, malloc(0) may
// return null or an address that can only be passed to free(). memcheck reports malloc(0) nevertheless.
KERNEL(heap_edges) {
    void* nothing = malloc(0);
    void* some = malloc(1 + threadIdx.x);
    void* much = malloc(size_t(1) << 30);
    out[THREAD] = (nothing == nullptr) | (size_t(some) % 16 != 0) << 1 | (much != nullptr) << 2;
    free(nothing);
    free(some);
    free(much);
}

// ---- clusters ----

CLUSTERS(cluster_reads) {
    __shared__ unsigned own[96];
    cg::cluster_group cluster = cg::this_cluster();
    own[threadIdx.x] = in[THREAD];
    cluster.sync();
    unsigned sum = 0;
    for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank)
        sum = sum * 5 + cluster.map_shared_rank(own, rank)[95 - threadIdx.x];
    cluster.sync();
    out[THREAD] = sum;
}

CLUSTERS(cluster_conflicts) {
    __shared__ unsigned own[96 * 8];
    cg::cluster_group cluster = cg::this_cluster();
    for (unsigned i = threadIdx.x; i < 96 * 8; i += 96) own[i] = in[i] + blockIdx.x;
    cluster.sync();
    const unsigned* other = cluster.map_shared_rank(own, cluster.block_rank() ^ 1);
    const unsigned value = other[threadIdx.x * 8];
    cluster.sync();
    out[THREAD] = value;
}

CLUSTERS(cluster_writes) {
    __shared__ unsigned own[96];
    __shared__ unsigned count;
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) count = 0;
    cluster.sync();
    const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    cluster.map_shared_rank(own, next)[threadIdx.x] = in[THREAD];
    atomicAdd(cluster.map_shared_rank(&count, in[THREAD] % cluster.num_blocks()), 1u);
    cluster.sync();
    out[THREAD] = own[threadIdx.x] * 100 + count;
}
