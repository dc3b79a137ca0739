// Small products: several groups of warps share a tile, each with a part of K. float32 only.
//
// A product of 512 x 512 has 16 tiles of 128 x 128, but a GPU has 132 multiprocessors. Smaller
// tiles keep more of them busy, but a tile of 64 x 64 is not enough work for many warps. Here the
// groups of a block divide the steps of each stage, and the two blocks of a cluster divide the
// stages. Every group computes the whole tile from its part of K. At the end the groups write their
// sums to shared memory, and each group adds up a share of the tile over all groups. It reads the
// sums of the other block directly: the blocks of a cluster can read each other's shared memory
// (distributed shared memory). The order of additions is always the same.
//
// Copies run ahead as in 15_pipelined. TILE chooses the shape: 32 is a tile of 32 x 32 and 8 parts
// of K, 64 of 64 x 64 and 8 parts, 128 of 128 x 64 and 2 parts in one block.

#ifndef INDEX  // counts the elements of a matrix: size_t where there are 2^31 or more
#define INDEX int
#endif
#ifndef TILE
#define TILE 128
#endif
#define BLOCK_ROWS TILE
#define BLOCK_COLS (TILE == 32 ? 32 : 64)
#define STAGE 32  // steps of k
#define STAGES (TILE == 128 ? 3 : 4)
#define GROUPS (TILE == 128 ? 2 : 4)
#define CLUSTER (TILE == 128 ? 1 : 2)
#define WARP_ROWS (TILE == 32 ? 32 : 64)  // the tile of a warp
#define WARP_COLS 32
#define ROWS (WARP_ROWS / 8)  // per thread: lanes lie 8 x 4
#define COLS (WARP_COLS / 4)
#define GROUP_THREADS (32 * (BLOCK_ROWS / WARP_ROWS) * (BLOCK_COLS / WARP_COLS))
#define THREADS (GROUP_THREADS * GROUPS)
#define STEPS (STAGE / GROUPS)  // of a group in a stage
#define PITCH (BLOCK_ROWS + 4)

// Starts copying BYTES to shared memory; zeros where `inside` is false, and `from` is not read.
template <int BYTES>
__device__ void copy(float* to, const float* from, bool inside) {
    const unsigned target = unsigned(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target), "l"(from),
                 "n"(BYTES), "r"(inside ? BYTES : 0)
                 : "memory");
}

__device__ void cluster_meets() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Reads a float at `address` of the shared memory of a block of the cluster.
__device__ float read_from_block(const float* address, unsigned rank) {
    unsigned there;
    float value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there)
                 : "r"(unsigned(__cvta_generic_to_shared(address))), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
    return value;
}

// Where a thread's i-th row or column lies in the tile of its warp, from its first: four, and the
// next four 32 rows or 16 columns further on.
__device__ int row_of(int i) { return i / 4 * 32 + i % 4; }
__device__ int col_of(int j) { return j / 4 * 16 + j % 4; }

extern "C" __global__ void __launch_bounds__(THREADS) __cluster_dims__(CLUSTER, 1, 1) split_k(
    const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ c,
    float* __restrict__ out, int M, int N, int K, float alpha, float beta) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // z goes on where y ends, at 65535
    extern __shared__ __align__(16) float shared[];
    float* const a_ring = shared;                           // [STAGES][STAGE][PITCH]
    float* const b_ring = shared + STAGES * STAGE * PITCH;  // [STAGES][STAGE][BLOCK_COLS]
    const int t = threadIdx.x, lane = t % 32, in_group = t % GROUP_THREADS;
    const int group = t / GROUP_THREADS, warp = in_group / 32, rank = blockIdx.x % CLUSTER;
    const int block_row = block_y * BLOCK_ROWS, block_col = blockIdx.x / CLUSTER * BLOCK_COLS;
    const int row = warp / (BLOCK_COLS / WARP_COLS) * WARP_ROWS + lane / 4 * 4;
    const int col = warp % (BLOCK_COLS / WARP_COLS) * WARP_COLS + lane % 4 * 4;
    const bool b_aligned = N % 4 == 0 && size_t(b) % 16 == 0;
    const int stages = (K + STAGE - 1) / STAGE;
    const int first = int((long long)stages * rank / CLUSTER);
    const int last = int((long long)stages * (rank + 1) / CLUSTER);

    // What this thread copies of a stage: elements of A `a_rows` rows and 8 steps apart, and 16
    // bytes of rows of B. Addresses move on by whole stages; there is little to compute.
    constexpr int a_rows = THREADS / 8, a_copies = BLOCK_ROWS * STAGE / THREADS;
    constexpr int b_lanes = BLOCK_COLS / 4, b_rows = THREADS / b_lanes;
    const float* const a_own = a + INDEX(block_row + t / 8) * K + t % 8;
    const float* const b_own = b + INDEX(t / b_lanes) * N + block_col + t % b_lanes * 4;
    const int rows_left = M - block_row - t / 8;
    const int cols_left = N - block_col - t % b_lanes * 4;
    const auto start_stage = [&](int stage, int slot) {
        const int k0 = stage * STAGE;
        if (stage < last) {
            float* const a_to = a_ring + (slot * STAGE + t % 8) * PITCH + t / 8;
#pragma unroll
            for (int i = 0; i < a_copies; ++i) {
                constexpr int per_8 = BLOCK_ROWS / a_rows;
                const int r = i % per_8 * a_rows, k = i / per_8 * 8;
                copy<4>(
                    a_to + k * PITCH + r, a_own + k0 + k + INDEX(r) * K,
                    r < rows_left && k + k0 + t % 8 < K);
            }
            float* const b_to = b_ring + slot * STAGE * BLOCK_COLS;
            if (b_aligned) {
#pragma unroll
                for (int k = 0; k < STAGE; k += b_rows) {
                    copy<16>(
                        b_to + k * BLOCK_COLS + 4 * t, b_own + INDEX(k0 + k) * N,
                        cols_left > 0 && k0 + k + t / b_lanes < K);
                }
            } else {
#pragma unroll 1
                for (int i = t; i < STAGE * BLOCK_COLS; i += THREADS) {
                    const int k = k0 + i / BLOCK_COLS, s = block_col + i % BLOCK_COLS;
                    copy<4>(b_to + i, b + INDEX(k) * N + s, k < K && s < N);
                }
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };

    // The registers of step k and of step k + 1, by turns.
    float a_values[2][ROWS], b_values[2][COLS];
    const auto read_step = [&](int slot, int k) {
        const int at = slot * STAGE + group * STEPS + k;
#pragma unroll
        for (int i = 0; i < ROWS; i += 4) {
            const float4 v =
                *reinterpret_cast<const float4*>(a_ring + at * PITCH + row + row_of(i));
            float* to = &a_values[k % 2][i];
            to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
        }
#pragma unroll
        for (int j = 0; j < COLS; j += 4) {
            const float4 v =
                *reinterpret_cast<const float4*>(b_ring + at * BLOCK_COLS + col + col_of(j));
            float* to = &b_values[k % 2][j];
            to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
        }
    };

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) start_stage(first + s, s);
    float sum[ROWS][COLS] = {};
    int slot = 0;
#pragma unroll 1
    for (int stage = first; stage < last; ++stage) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // this stage is there for all threads; the one before it is free
        read_step(slot, 0);
        start_stage(stage + STAGES - 1, (slot + STAGES - 1) % STAGES);
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
            if (k + 1 < STEPS) read_step(slot, k + 1);
#pragma unroll
            for (int n = 0; n < ROWS * COLS; ++n) {
                const int i = n / COLS, j = i % 2 ? COLS - 1 - n % COLS : n % COLS;
                sum[i][j] = fmaf(a_values[k % 2][i], b_values[k % 2][j], sum[i][j]);
            }
        }
        slot = (slot + 1) % STAGES;
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();

    // The sums of all groups take the place of the ring: [GROUPS][ROWS * COLS][GROUP_THREADS].
    float* const own = shared + group * (ROWS * COLS * GROUP_THREADS) + in_group;
#pragma unroll
    for (int n = 0; n < ROWS * COLS; ++n) own[n * GROUP_THREADS] = sum[n / COLS][n % COLS];
    if (CLUSTER > 1) {
        cluster_meets();
    } else {
        __syncthreads();
    }
    const bool aligned = N % 4 == 0 && (size_t(out) | size_t(c)) % 16 == 0;
    for (int n = 4 * (rank * GROUPS + group); n < ROWS * COLS; n += 4 * GROUPS * CLUSTER) {
        float v[4] = {};
#pragma unroll
        for (int part = 0; part < GROUPS * CLUSTER; ++part) {
            const float* from =
                shared + (part % GROUPS * (ROWS * COLS) + n) * GROUP_THREADS + in_group;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                v[j] += CLUSTER > 1 ? read_from_block(from + j * GROUP_THREADS, part / GROUPS)
                                    : from[j * GROUP_THREADS];
            }
        }
        const int r = block_row + row + row_of(n / COLS), s = block_col + col + col_of(n % COLS);
        if (r >= M || s >= N) continue;
        const INDEX at = INDEX(r) * N + s;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            v[j] *= alpha;
            if (beta != 0 && s + j < N) v[j] += beta * c[at + j];
        }
        if (aligned) {
            *reinterpret_cast<float4*>(out + at) = make_float4(v[0], v[1], v[2], v[3]);
        } else {
            for (int j = 0; j < 4; ++j) {
                if (s + j < N) out[at + j] = v[j];
            }
        }
    }
    if (CLUSTER > 1) cluster_meets();  // a block's shared memory must live until all have read it
}
