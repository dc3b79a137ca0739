// Data structures, sorting, points and graphs, like kernels in forums and libraries. They were not used
// to find the counting rules or to fit the models; see unseen_learning.cu.
typedef unsigned int uint32;

#define GID (threadIdx.x + blockIdx.x * blockDim.x)

// ---- lists and trees ----

// One iteration of pointer jumping: each element then points twice as far along the list.
extern "C" __global__ void list_rank(const int* next, const int* rank, int* next_out, int* rank_out, int n) {
    int tid = GID;
    if (tid < n) {
        int nx = next[tid];
        if (nx != -1) {
            rank_out[tid] = rank[tid] + rank[nx];
            next_out[tid] = next[nx];
        } else {
            rank_out[tid] = rank[tid];
            next_out[tid] = -1;
        }
    }
}

struct Entry {
    uint32 key;
    int value;
    int next;
};

extern "C" __global__ void chained_hash_find(const int* buckets, const Entry* entries, const uint32* queries,
                                             int* found, int n, uint32 mask) {
    int tid = GID;
    if (tid >= n) return;
    uint32 q = queries[tid];
    uint32 h = q ^ (q >> 16);
    h *= 0x85ebca6b;
    h ^= h >> 13;
    int at = buckets[h & mask];
    while (at >= 0 && entries[at].key != q) at = entries[at].next;
    found[tid] = at >= 0 ? entries[at].value : -1;
}

struct __align__(16) Node {
    int key, value, left, right;
};

__device__ const Node* descend(const Node* tree, int root, int key) {
    int at = root;
    while (at != -1) {
        const Node* node = &tree[at];
        if (node->key == key) return node;
        at = key < node->key ? node->left : node->right;
    }
    return nullptr;
}

extern "C" __global__ void tree_find(const Node* tree, int root, const int* keys, int* values, int n) {
    for (int i = GID; i < n; i += gridDim.x * blockDim.x) {
        const Node* node = descend(tree, root, keys[i]);
        values[i] = node ? node->value : -1;
    }
}

// Finds the range of elements equal to each 64-bit key in a sorted array.
extern "C" __global__ void count_equal(const long long* sorted, long long size, const long long* keys,
                                       long long* count, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const long long key = keys[i];
    long long bounds[2];
    for (int side = 0; side < 2; side++) {
        long long lo = 0, len = size;
        while (len > 0) {
            long long half = len >> 1;
            bool right = side ? sorted[lo + half] <= key : sorted[lo + half] < key;
            lo = right ? lo + half + 1 : lo;
            len = right ? len - half - 1 : half;
        }
        bounds[side] = lo;
    }
    count[i] = bounds[1] - bounds[0];
}

// ---- sorting and scanning ----

extern "C" __global__ void radix_count(const uint32* keys, int* counts, int n, int shift) {
    __shared__ int digits[16];
    if (threadIdx.x < 16) digits[threadIdx.x] = 0;
    __syncthreads();
    int base = blockIdx.x * blockDim.x * 4;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int i = base + k * blockDim.x + threadIdx.x;
        if (i < n) atomicAdd(&digits[(keys[i] >> shift) & 15], 1);
    }
    __syncthreads();
    if (threadIdx.x < 16) counts[threadIdx.x * gridDim.x + blockIdx.x] = digits[threadIdx.x];
}

// offsets: the start of each digit of each block. A scan of the counts of radix_count gives them.
extern "C" __global__ void radix_scatter(const uint32* keys, const int* offsets, uint32* sorted, int n,
                                         int shift) {
    __shared__ int warp_count[4][16];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane < 16) warp_count[warp][lane] = 0;
    __syncwarp();
    int i = GID;
    uint32 key = i < n ? keys[i] : 0xffffffff;
    int digit = i < n ? (key >> shift) & 15 : 16;
    uint32 peers = __match_any_sync(0xffffffff, digit);
    int rank = __popc(peers & ((1u << lane) - 1));
    if (rank == 0 && digit < 16) warp_count[warp][digit] = __popc(peers);
    __syncthreads();
    if (i < n) {
        int at = offsets[digit * gridDim.x + blockIdx.x] + rank;
        for (int w = 0; w < warp; w++) at += warp_count[w][digit];
        sorted[at] = key;
    }
}

extern "C" __global__ void bitonic_warp(uint32* keys) {
    uint32 mine = keys[GID];
    int lane = threadIdx.x % 32;
    for (int k = 2; k <= 32; k <<= 1)
        for (int j = k >> 1; j > 0; j >>= 1) {
            uint32 other = __shfl_xor_sync(~0u, mine, j);
            bool up = (lane & k) == 0, lower = (lane & j) == 0;
            mine = up == lower ? min(mine, other) : max(mine, other);
        }
    keys[GID] = mine;
}

#define LOG_NUM_BANKS 5
#define CONFLICT_FREE_OFFSET(n) ((n) >> LOG_NUM_BANKS)

extern "C" __global__ void prescan(float* g_odata, const float* g_idata, float* sums, int n) {
    extern __shared__ float temp[];
    int thid = threadIdx.x;
    int offset = 1;
    const float* in = g_idata + blockIdx.x * n;
    int ai = thid;
    int bi = thid + (n / 2);
    int bankOffsetA = CONFLICT_FREE_OFFSET(ai);
    int bankOffsetB = CONFLICT_FREE_OFFSET(bi);
    temp[ai + bankOffsetA] = in[ai];
    temp[bi + bankOffsetB] = in[bi];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (thid < d) {
            int a = offset * (2 * thid + 1) - 1;
            int b = offset * (2 * thid + 2) - 1;
            a += CONFLICT_FREE_OFFSET(a);
            b += CONFLICT_FREE_OFFSET(b);
            temp[b] += temp[a];
        }
        offset *= 2;
    }
    if (thid == 0) {
        sums[blockIdx.x] = temp[n - 1 + CONFLICT_FREE_OFFSET(n - 1)];
        temp[n - 1 + CONFLICT_FREE_OFFSET(n - 1)] = 0;
    }
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (thid < d) {
            int a = offset * (2 * thid + 1) - 1;
            int b = offset * (2 * thid + 2) - 1;
            a += CONFLICT_FREE_OFFSET(a);
            b += CONFLICT_FREE_OFFSET(b);
            float t = temp[a];
            temp[a] = temp[b];
            temp[b] += t;
        }
    }
    __syncthreads();
    g_odata[blockIdx.x * n + ai] = temp[ai + bankOffsetA];
    g_odata[blockIdx.x * n + bi] = temp[bi + bankOffsetB];
}

// Sums the values of equal consecutive keys. Each warp adds the sums of its runs to memory.
extern "C" __global__ void segmented_sum(const int* keys, const float* values, float* sums, int n) {
    int i = GID, lane = threadIdx.x & 31;
    int key = i < n ? keys[i] : -1;
    float v = i < n ? values[i] : 0;
    for (int d = 1; d < 32; d *= 2) {
        int other_key = __shfl_up_sync(~0u, key, d);
        float other = __shfl_up_sync(~0u, v, d);
        if (lane >= d && other_key == key) v += other;
    }
    int next = __shfl_down_sync(~0u, key, 1);
    if (i < n && (lane == 31 || next != key)) atomicAdd(sums + key, v);
}

template <typename T, typename Predicate>
__device__ void compact_block(const T* in, T* out, const int* block_offsets, int n, Predicate keep) {
    __shared__ int warp_offset[32];
    int i = GID, lane = threadIdx.x & 31, wid = threadIdx.x >> 5;
    T v = i < n ? in[i] : T();
    bool valid = i < n && keep(v);
    unsigned ballot = __ballot_sync(~0u, valid);
    if (lane == 0) warp_offset[wid] = __popc(ballot);
    __syncthreads();
    if (threadIdx.x == 0) {
        int running = 0;
        for (int w = 0; w < blockDim.x / 32; w++) {
            int c = warp_offset[w];
            warp_offset[w] = running;
            running += c;
        }
    }
    __syncthreads();
    if (valid) out[block_offsets[blockIdx.x] + warp_offset[wid] + __popc(ballot & ((1u << lane) - 1))] = v;
}

extern "C" __global__ void keep_between(const float* in, float* out, const int* block_offsets, int n,
                                        float low, float high) {
    compact_block(in, out, block_offsets, n, [=](float v) { return v >= low && v < high; });
}

extern "C" __global__ void sort_eights(short* x, int groups) {
    int g = GID;
    if (g >= groups) return;
    short a[8];
    for (int i = 0; i < 8; i++) a[i] = x[g * 8 + i];
    for (int i = 1; i < 8; i++) {
        short v = a[i];
        int j = i - 1;
        while (j >= 0 && a[j] > v) {
            a[j + 1] = a[j];
            j--;
        }
        a[j + 1] = v;
    }
    for (int i = 0; i < 8; i++) x[g * 8 + i] = a[i];
}

// ---- points and graphs ----

// Assigns each point to the nearest of k centres and adds up the points of each centre.
extern "C" __global__ void kmeans(const float3* points, const float3* centers, int* label, float* sums,
                                  int* counts, int n, int k) {
    __shared__ float3 c[32];
    __shared__ int members[32];
    if (threadIdx.x < k) {
        c[threadIdx.x] = centers[threadIdx.x];
        members[threadIdx.x] = 0;
    }
    __syncthreads();
    int i = GID;
    if (i < n) {
        float3 p = points[i];
        float best = 3.4e38f;
        int mine = 0;
        for (int j = 0; j < k; j++) {
            float dx = p.x - c[j].x, dy = p.y - c[j].y, dz = p.z - c[j].z;
            float d2 = dx * dx + dy * dy + dz * dz;
            if (d2 < best) best = d2, mine = j;
        }
        label[i] = mine;
        atomicAdd(&sums[3 * mine], p.x);
        atomicAdd(&sums[3 * mine + 1], p.y);
        atomicAdd(&sums[3 * mine + 2], p.z);
        atomicAdd(&members[mine], 1);
    }
    __syncthreads();
    if (threadIdx.x < k && members[threadIdx.x]) atomicAdd(&counts[threadIdx.x], members[threadIdx.x]);
}

extern "C" __global__ void dbscan_core(const float2* points, int* neighbours, bool* core, int n, float eps,
                                       int min_points) {
    __shared__ float2 tile[96];
    int i = GID;
    float2 me = i < n ? points[i] : make_float2(1e9f, 1e9f);
    int count = 0;
    for (int base = 0; base < n; base += blockDim.x) {
        int load = base + threadIdx.x;
        if (load < n) tile[threadIdx.x] = points[load];
        __syncthreads();
        int limit = min((int)blockDim.x, n - base);
        for (int j = 0; j < limit; j++) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y;
            if (dx * dx + dy * dy <= eps * eps) count++;
        }
        __syncthreads();
    }
    if (i >= n) return;
    neighbours[i] = count;
    core[i] = count >= min_points;
}

extern "C" __global__ void expand_frontier(const int* frontier, int size, const int* row_offsets,
                                           const int* column_indices, uint32* distance, uint32 level) {
    int warp = GID / 32, lane = threadIdx.x % 32;
    if (warp >= size) return;
    int v = frontier[warp];
    for (int e = row_offsets[v] + lane; e < row_offsets[v + 1]; e += 32)
        atomicMin(&distance[column_indices[e]], level);
}

extern "C" __global__ void hook_components(const int2* edges, const int* parent, int* next_parent,
                                           int num_edges) {
    int e = GID;
    if (e >= num_edges) return;
    int2 uv = edges[e];
    int pu = parent[uv.x], pv = parent[uv.y];
    if (pu == pv) return;
    int big = max(pu, pv), small = min(pu, pv);
    atomicMin(next_parent + big, small);
}

extern "C" __global__ void pagerank(const int* in_offsets, const int* in_neighbours, const int* out_degree,
                                    const float* rank, float* next_rank, float* change, int n) {
    __shared__ float diff;
    if (threadIdx.x == 0) diff = 0;
    __syncthreads();
    int v = GID;
    if (v < n) {
        float sum = 0;
        for (int e = in_offsets[v]; e < in_offsets[v + 1]; e++) {
            int u = in_neighbours[e];
            sum += rank[u] / out_degree[u];
        }
        float r = 0.15f / n + 0.85f * sum;
        next_rank[v] = r;
        atomicAdd(&diff, fabsf(r - rank[v]));
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(change, diff);
}
