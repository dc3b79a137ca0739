// Small, thin and wide products: tiles of several sizes, whose K is divided. float32 only.
//
// A product of 512 x 512 has 16 tiles of 128 x 128, but a GPU has 132 multiprocessors. Smaller
// tiles keep more of them busy. Even then there may be too few warps: a multiprocessor needs at
// least four, one for each scheduler. So several groups of warps share a tile. Every group computes
// the whole tile from its part of K: the groups of a block divide the steps of each stage, and the
// two blocks of a cluster divide the stages. At the end the groups write their sums to shared
// memory, and the block adds up the sums of all groups. It reads the sums of the other block of a
// cluster directly: the blocks of a cluster can read each other's shared memory (distributed shared
// memory). The order of additions is always the same.
//
// If K is large and the result small, some multiprocessors stay idle even so. Then K is also cut
// into `slices`. Each slice is a product of its own, in a matrix of its own (out + slice * M * N);
// another launch (layout/05_add_slices) adds them up.
//
// If K is small, the time goes into the start of a block and into its stores. Blocks with few
// threads and little shared memory help: a multiprocessor runs many of them, and some store while
// others load. Only the stages that exist are copied, and the lanes of a warp store neighbouring
// elements, whatever the alignment of the rows.
//
// Copies run ahead as in 15_pipelined, but a step starts only one or two of them. If every warp
// started all copies of a stage at once, loads from shared memory would wait for them. TILE chooses
// the tile: 32 x 32, 64 x 64, or 64 x 128. PARTS is the number of parts of K in a block or cluster.

#ifndef INDEX  // counts the elements of a matrix: size_t where there are 2^31 or more
#define INDEX int
#endif
#ifndef TILE
#define TILE 128
#endif
#ifndef PARTS
#define PARTS (TILE == 32 ? 8 : TILE == 64 ? 2 : 1)
#endif
#define BLOCK_ROWS (TILE == 32 ? 32 : 64)
#define BLOCK_COLS TILE
#define CLUSTER (PARTS == 8 ? 2 : 1)
#define GROUPS (PARTS / CLUSTER)
#define STEPS (TILE == 128 ? 16 : 8)  // steps of k per group and stage
#define STAGE (STEPS * GROUPS)        // steps of k
#define STAGES 4
#ifndef BATCHES
#define BATCHES 4  // the copies of a stage start in this many batches
#endif
// The tile of a warp. Warps of 32 x 32 need fewer registers, so that more of them fit.
#define WARP_ROWS (TILE == 128 || (TILE == 64 && PARTS > 1) ? 64 : 32)
#define WARP_COLS 32
#define ROWS (WARP_ROWS / 8)  // per thread: the lanes form 8 rows of 4 lanes
#define COLS (WARP_COLS / 4)
#define GROUP_THREADS (32 * (BLOCK_ROWS / WARP_ROWS) * (BLOCK_COLS / WARP_COLS))
#define THREADS (GROUP_THREADS * GROUPS)
// The blocks whose registers a multiprocessor must hold.
#define BLOCKS ((WARP_ROWS == 64 ? 384 : 512) / THREADS)
// If a grid has fewer blocks, about two for each multiprocessor, and their warps are large, the
// next launch must not start early: two or three of its blocks would share a multiprocessor, while
// other multiprocessors would have none. It starts when all blocks have ended.
#define FEW_BLOCKS 300
#define PITCH (BLOCK_ROWS + 4)
#define SUM_PITCH (BLOCK_COLS + 4)

// Starts copying BYTES bytes to shared memory. If `inside` is false, it reads nothing and writes 0.
template <int BYTES>
__device__ void copy(float* to, const float* from, bool inside) {
    const unsigned target = unsigned(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target), "l"(from),
                 "n"(BYTES), "r"(inside ? BYTES : 0)
                 : "memory");
}

// Reads 16 bytes of shared memory. NVRTC does not move loads that are written in PTX. It would move
// C++ loads, differently in each compilation, so that the speed would vary.
__device__ float4 load(unsigned address) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

// The next launch on the stream may start when all blocks have called let_next_launch_start(), or
// have ended. So it starts while this one stores its sums. Each thread of it waits, before it reads
// or writes an array, until this launch has ended (programmatic dependent launch).
__device__ void wait_for_earlier_launches() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ void let_next_launch_start() { asm volatile("griddepcontrol.launch_dependents;"); }

__device__ void cluster_meets() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Reads floats at `address` of the shared memory of a block of the cluster.
template <int WIDTH>
__device__ void read_from_block(const float* address, unsigned rank, float (&v)[WIDTH]) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there)
                 : "r"(unsigned(__cvta_generic_to_shared(address))), "r"(rank));
#pragma unroll
    for (int j = 0; j < WIDTH; j += 2) {
        if (WIDTH == 1) {
            asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v[0]) : "r"(there) : "memory");
        } else {
            asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
                         : "=f"(v[j]), "=f"(v[(j + 1) % WIDTH])
                         : "r"(there + 4 * j)
                         : "memory");
        }
    }
}

// Copies WIDTH floats with one load and one store.
template <int WIDTH>
__device__ void copy_floats(float* to, const float* from) {
    struct alignas(4 * WIDTH) Floats {
        float v[WIDTH];
    };
    *reinterpret_cast<Floats*>(to) = *reinterpret_cast<const Floats*>(from);
}

// Return the distance from a thread's first row (column) to its i-th row (j-th column).
// The second four rows lie 32 rows further on; the second four columns, 16 columns.
__device__ int row_of(int i) { return i / 4 * 32 + i % 4; }
__device__ int col_of(int j) { return j / 4 * 16 + j % 4; }

// Returns the number of elements of a row that are loaded or stored at once, for rows of N elements
// that begin at an address.
__device__ int width_of(int N, size_t address) {
    if (N % 4 == 0 && address % 16 == 0) return 4;
    return N % 2 == 0 && address % 8 == 0 ? 2 : 1;
}

// The copies that one thread starts. From A: single elements, `a_rows` rows or 8 steps of k apart.
// From B: pieces of rows, of WIDTH elements; rows begin at multiples of WIDTH.
template <int WIDTH>
struct Copies {
    static constexpr int a_rows = THREADS / 8, a_count = BLOCK_ROWS * STAGE / THREADS;
    static constexpr int a_across = BLOCK_ROWS / a_rows;  // rows per thread
    static constexpr int b_lanes = BLOCK_COLS / WIDTH;
    static constexpr int b_rows = THREADS / b_lanes, b_count = STAGE / b_rows;
    static constexpr int count = a_count + b_count;  // copies per stage

    const float* a_from[a_across];
    const float* b_from;
    size_t b_stage, b_pitch;  // distances in B from stage to stage, from copy to copy
    float *a_ring, *b_ring;   // where the thread's first elements go
    int rows_left, cols_left, a_steps_left, b_steps_left;

    // Prepares the copies for a tile, from step `first` of k on. From step `end` on, they write 0.
    __device__ Copies(
        const float* a, const float* b, int M, int N, int K, int block_row, int block_col,
        int first, int end, float* a_ring, float* b_ring)
        : b_stage(size_t(STAGE) * N), b_pitch(size_t(b_rows) * N) {
        const int t = threadIdx.x, a_step = t % 8, b_step = t / b_lanes;
        const int row = block_row + t / 8, col = block_col + t % b_lanes * WIDTH;
#pragma unroll
        for (int i = 0; i < a_across; ++i) {
            a_from[i] = a + INDEX(row + i * a_rows) * K + first + a_step;
        }
        b_from = b + INDEX(first + b_step) * N + col;
        this->a_ring = a_ring + a_step * PITCH + t / 8;
        this->b_ring = b_ring + b_step * BLOCK_COLS + t % b_lanes * WIDTH;
        rows_left = M - row, cols_left = N - col;
        a_steps_left = end - first - a_step, b_steps_left = end - first - b_step;
    }
    // Starts the i-th copy of this stage.
    __device__ void start(int i, int slot) const {
        if (i < a_count) {
            const int r = i % a_across, k = i / a_across * 8;
            copy<4>(
                a_ring + (slot * STAGE + k) * PITCH + r * a_rows, a_from[r] + k,
                r * a_rows < rows_left && k < a_steps_left);
        } else {
            const int k = (i - a_count) * b_rows;
            copy<4 * WIDTH>(
                b_ring + (slot * STAGE + k) * BLOCK_COLS, b_from + (i - a_count) * b_pitch,
                cols_left > 0 && k < b_steps_left);
        }
    }
    // Goes on to the next stage.
    __device__ void advance() {
        asm volatile("cp.async.commit_group;" ::: "memory");
        // Written in PTX: the compiler would compute the address of each copy anew.
#pragma unroll
        for (int i = 0; i < a_across; ++i) {
            asm volatile("add.s64 %0, %0, %1;" : "+l"(a_from[i]) : "n"(4 * STAGE));
        }
        asm volatile("add.s64 %0, %0, %1;" : "+l"(b_from) : "l"(4 * b_stage));
        a_steps_left -= STAGE, b_steps_left -= STAGE;
    }
};

// Adds the products of this group's steps to `sum`. The operands of a thread begin at the addresses
// a_own and b_own in the first slot of the ring.
template <int WIDTH>
__device__ void multiply(
    float (&sum)[ROWS][COLS], Copies<WIDTH> copies, int stages, unsigned a_own, unsigned b_own) {
    // The operands of two steps: while one step is multiplied, those of the next are loaded.
    float4 a_values[2][ROWS / 4], b_values[2][COLS / 4];
    const auto read_step = [&](int slot, int k, int into) {
#pragma unroll
        for (int x = COLS / 4 - 1; x >= 0; --x) {
            b_values[into][x] = load(b_own + 4 * ((slot * STAGE + k) * BLOCK_COLS + col_of(4 * x)));
        }
#pragma unroll
        for (int x = 0; x < ROWS / 4; ++x) {
            a_values[into][x] = load(a_own + 4 * ((slot * STAGE + k) * PITCH + row_of(4 * x)));
        }
    };
    const auto word = [](const float4& v, int i) {
        return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
    };

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < stages) {
#pragma unroll
            for (int i = 0; i < copies.count; ++i) copies.start(i, s);
        }
        copies.advance();
    }
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    read_step(0, 0, 0);
    // Returns how many copies of a stage start before step k.
    const auto batch = [&](int k) {
        return copies.count * ((k + STEPS / BATCHES - 1) / (STEPS / BATCHES)) / BATCHES;
    };
    int slot = 0;
#pragma unroll 1
    for (int stage = 0; stage < stages; ++stage) {
        // After the barrier, the next stage has arrived, from which the last step below already
        // reads. And no thread reads the previous stage any more, so its slot is free.
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 3) : "memory");
        __syncthreads();
        // After the last stage there is none to read from, so the last step reads this one again.
        const int next = stage + 1 < stages ? (slot + 1) % STAGES : slot;
        const int ahead = (slot + STAGES - 1) % STAGES;
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
            if (k + 1 < STEPS) {
                read_step(slot, k + 1, (k + 1) % 2);
            } else {
                read_step(next, 0, 0);
            }
#pragma unroll
            for (int i = batch(k); i < batch(k + 1); ++i) copies.start(i, ahead);
#pragma unroll
            for (int n = 0; n < ROWS * COLS; ++n) {
                // Goes along one row to the right, along the next to the left.
                const int i = n / COLS, j = i % 2 ? COLS - 1 - n % COLS : n % COLS;
                sum[i][j] = fmaf(
                    word(a_values[k % 2][i / 4], i % 4), word(b_values[k % 2][j / 4], j % 4),
                    sum[i][j]);
            }
        }
        copies.advance();
        slot = next;
    }
}

// Writes the tile to `out`. Its sums are in the shared memory of the blocks of the cluster:
// [GROUPS][BLOCK_ROWS][SUM_PITCH], with the two columns of each pair swapped. Each thread writes
// WIDTH columns of some rows. The lanes of a warp write neighbouring columns, so that the stores
// fill whole sectors. All addresses move by the same distance from row to row, so an element takes
// few instructions.
template <int WIDTH>
__device__ void write_tile(
    const float* sums, const float* __restrict__ c, float* __restrict__ out, int M, int N,
    int block_row, int block_col, unsigned rank, float alpha, float beta) {
    constexpr int lanes = BLOCK_COLS / WIDTH, rows = BLOCK_ROWS / CLUSTER;
    constexpr int together = THREADS / lanes;  // rows
    const int row = rank * rows + threadIdx.x / lanes, col = threadIdx.x % lanes * WIDTH;
    if (block_col + col >= N) return;
    const float* const from = sums + row * SUM_PITCH + (WIDTH == 1 ? col ^ 1 : col);
    size_t at = size_t(block_row + row) * N + block_col + col;
    const int rows_left = M - block_row - row;
#pragma unroll
    for (int x = 0; x < rows; x += together, at += size_t(together) * N) {
        if (x >= rows_left) return;
        alignas(16) float v[WIDTH] = {}, more[WIDTH];
#pragma unroll
        for (int part = 0; part < GROUPS * CLUSTER; ++part) {
            const float* const of_part = from + (part % GROUPS * BLOCK_ROWS + x) * SUM_PITCH;
            if (CLUSTER > 1) {
                read_from_block(of_part, part / GROUPS, more);
            } else {
                copy_floats<WIDTH>(more, of_part);
            }
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) v[j] += more[WIDTH == 1 ? j : j ^ 1];
        }
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            v[j] *= alpha;
            if (beta != 0) v[j] += beta * c[at + j];
        }
        copy_floats<WIDTH>(out + at, v);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) __cluster_dims__(CLUSTER, 1, 1)
    split_k(
        const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ c,
        float* __restrict__ out, int M, int N, int K, float alpha, float beta, int slices) {
    const int block_y = blockIdx.y + gridDim.y * blockIdx.z;  // y continues along z past 65535
    extern __shared__ __align__(16) float shared[];
    float* const a_ring = shared;                           // [STAGES][STAGE][PITCH]
    float* const b_ring = shared + STAGES * STAGE * PITCH;  // [STAGES][STAGE][BLOCK_COLS]
    const int t = threadIdx.x, lane = t % 32, in_group = t % GROUP_THREADS;
    const int group = t / GROUP_THREADS, warp = in_group / 32, rank = blockIdx.x % CLUSTER;
    const int tile_cols = (N + BLOCK_COLS - 1) / BLOCK_COLS, cluster = blockIdx.x / CLUSTER;
    const int slice = cluster / tile_cols, part = slice * CLUSTER + rank;
    const int block_row = block_y * BLOCK_ROWS, block_col = cluster % tile_cols * BLOCK_COLS;
    // Lanes 0 and 1 are in the same row, lanes 0 and 2 in the same column, and so on for all such
    // pairs. So the lanes of a pair read the same address of A or of B, and every 16-byte load
    // takes 2 wavefronts. If lanes 0 to 3 were in the same row, loads of B would take 4.
    const int lane_row = lane / 8 * 2 + lane / 2 % 2, lane_col = lane / 4 % 2 * 2 + lane % 2;
    const int row = warp / (BLOCK_COLS / WARP_COLS) * WARP_ROWS + lane_row * 4;
    const int col = warp % (BLOCK_COLS / WARP_COLS) * WARP_COLS + lane_col * 4;

    // The stages of this block.
    const long long stages = (K + STAGE - 1) / STAGE, parts = CLUSTER * slices;
    const int first = int(stages * part / parts), last = int(stages * (part + 1) / parts);
    const int end = min(K, last * STAGE);
    const unsigned a_own = unsigned(__cvta_generic_to_shared(a_ring + group * STEPS * PITCH + row));
    const unsigned b_own =
        unsigned(__cvta_generic_to_shared(b_ring + group * STEPS * BLOCK_COLS + col));
    float sum[ROWS][COLS] = {};
    wait_for_earlier_launches();
    switch (width_of(N, size_t(b))) {
        case 4:
            multiply<4>(
                sum, {a, b, M, N, K, block_row, block_col, first * STAGE, end, a_ring, b_ring},
                last - first, a_own, b_own);
            break;
        case 2:
            multiply<2>(
                sum, {a, b, M, N, K, block_row, block_col, first * STAGE, end, a_ring, b_ring},
                last - first, a_own, b_own);
            break;
        default:
            multiply<1>(
                sum, {a, b, M, N, K, block_row, block_col, first * STAGE, end, a_ring, b_ring},
                last - first, a_own, b_own);
    }
    if (WARP_ROWS == 32 || BLOCKS == 1 || gridDim.x * gridDim.y > FEW_BLOCKS) {
        let_next_launch_start();
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();

    out += slice * (size_t(M) * N);
    const int width = width_of(N, size_t(out) | size_t(c));
    if (PARTS == 1 && width == 4) {
#pragma unroll
        for (int n = 0; n < ROWS * COLS; n += 4) {
            const int r = block_row + row + row_of(n / COLS);
            const int s = block_col + col + col_of(n % COLS);
            if (r >= M || s >= N) continue;
            const INDEX at = INDEX(r) * N + s;
            float v[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                v[j] = alpha * sum[n / COLS][n % COLS + j];
                if (beta != 0) v[j] += beta * c[at + j];
            }
            *reinterpret_cast<float4*>(out + at) = make_float4(v[0], v[1], v[2], v[3]);
        }
        return;
    }
    // The sums of all groups take the place of the ring. The two sums of a pair are swapped. So
    // ptxas puts the sums of even columns in odd registers. The values of B of even columns are in
    // even registers, because 16-byte loads need this. So a value of B and its sum are in different
    // register banks, and their multiply-add has no bank conflict.
    float* const own = shared + (group * BLOCK_ROWS + row) * SUM_PITCH + col;
#pragma unroll
    for (int n = 0; n < ROWS * COLS; n += 2) {
        const float* v = &sum[n / COLS][n % COLS];
        float* const to = own + row_of(n / COLS) * SUM_PITCH + col_of(n % COLS);
        *reinterpret_cast<float2*>(to) = make_float2(v[1], v[0]);
    }
    if (CLUSTER > 1) {
        cluster_meets();
    } else {
        __syncthreads();
    }
    switch (width) {
        case 4:
            write_tile<4>(shared, c, out, M, N, block_row, block_col, rank, alpha, beta);
            break;
        case 2:
            write_tile<2>(shared, c, out, M, N, block_row, block_col, rank, alpha, beta);
            break;
        default:
            write_tile<1>(shared, c, out, M, N, block_row, block_col, rank, alpha, beta);
    }
    if (CLUSTER > 1) cluster_meets();  // a block's shared memory must live until all have read it
}
