// Hopper's copy engine fills shared memory, and the warps do nothing but multiply. float32 only.
//
// In 15_pipelined every thread spends instructions on copies. But the number of instructions limits
// the speed: a multiprocessor issues 4 warp instructions per clock, at best 32 multiply-adds each.
// Here the TMA unit of the GPU copies the stages (cp.async.bulk). One warp starts the copies of a
// stage: each lane starts a copy of 1 KB of B, and one lane also 16 KB of A. The warps take turns.
// A thread executes 128 multiply-adds for 6 loads of 16 bytes.
//
// THE RING is shared memory for 4 stages of 32 steps of k. Each stage has two barriers: `full`
// counts the bytes that arrive, and `empty` counts the warps that are done with the stage. When
// stage s begins, one warp starts the copies of stage s + 2, into the place of stage s - 2. So the
// warps hardly ever wait. The loop body has 8 steps in one basic block: 17 KB of code, which fits
// in the instruction cache. The number of iterations is hidden from the compiler, which would
// unroll the loop. The multiply-adds go along one row to the right, along the next to the left.
// This keeps an operand in the register cache, and avoids register bank conflicts.
//
// THE SCHEDULE. There is one block per multiprocessor, which runs until all tiles are done. At
// first each block computes whole tiles. The last tiles, one to two per block, are divided evenly
// by stages (stream-K): a block may end one tile and begin another. The block that ends a tile
// stores its sums in `partial`; the block that began the tile adds them and writes the result. A
// block ends its first tile before it begins the next one, so these sums are there when they are
// needed. The order of additions is always the same.
//
// `a` is packed into strips of 128 rows, each transposed and filled up with zeros
// (layout/02_packed). From one row of `b` to the next there are b_cols elements, a multiple of 4.

#define BLOCK_ROWS 128
#define BLOCK_COLS 256
#define STAGE 32  // steps of k
#define STAGES 4
#define UNROLLED 8  // steps in the body of the loop
#define THREADS 256
#define WARPS 8
#define ROWS 16  // per thread
#define COLS 8
#define GROUP 8  // rows of tiles per group; tiles are numbered group by group, to reuse L2

#define A_BYTES (4 * STAGE * BLOCK_ROWS)
#define B_BYTES (4 * STAGE * BLOCK_COLS)

__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }

// ---- barriers in shared memory: a phase ends when all threads and bytes have arrived ----

__device__ void barrier_init(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}
__device__ void barrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ void barrier_expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
__device__ bool barrier_done(unsigned barrier, int parity) {
    unsigned done;
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    return done != 0;
}

// Starts a copy of `bytes` bytes, a multiple of 16. `barrier` counts them when they arrive.
__device__ void bulk_copy(unsigned to, const float* from, int bytes, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(to),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

// ---- the schedule ----

// A part of a tile: its stages from `begin` to `end` - 1.
struct Part {
    int tile, begin, end;
};

struct Schedule {
    int stages;     // per tile
    int dealt;      // the number of tiles that one block computes alone
    int next_tile;  // the next of these tiles for this block
    int shares;     // the number of blocks that share the other tiles
    int at, end;    // this block's range of the stages of the shared tiles
    int rank, blocks;

    __device__ Schedule(int tiles, int stages) : stages(stages), blocks(gridDim.x) {
        // A block waits for blocks of higher rank. Blocks start in the order of blockIdx. So ranks
        // count backwards: no block waits for one that has not started.
        rank = blocks - 1 - blockIdx.x;
        const int left = tiles % blocks;
        const bool divide = left != 0 && (long long)(blocks - left) * stages >= 2ll * blocks;
        dealt = !divide ? tiles : tiles >= blocks ? tiles - left - blocks : 0;
        next_tile = rank;
        shares = int(min((long long)blocks, ((tiles - dealt) * (long long)stages + 3) / 4));
        at = first_stage(tiles, rank);
        end = first_stage(tiles, rank + 1);
    }
    // Returns the number of stages that this block computes.
    __device__ int total() const {
        const int whole = dealt > rank ? (dealt - rank + blocks - 1) / blocks : 0;
        return whole * stages + end - at;
    }
    // Returns the first stage of the shared tiles that the block with rank `r` computes.
    __device__ int first_stage(int tiles, int r) const {
        if (shares == 0) return 0;
        return int((long long)(tiles - dealt) * stages * min(r, shares) / shares);
    }
    __device__ bool next(Part& part) {
        if (next_tile < dealt) {
            part = {next_tile, 0, stages};
            next_tile += blocks;
            return true;
        }
        if (at >= end) return false;
        const int begin = at % stages, length = min(stages - begin, end - at);
        part = {dealt + at / stages, begin, begin + length};
        at += length;
        return true;
    }
};

struct Place {
    int row, col;  // the tile's position, counted in tiles
};
__device__ Place place_of(int tile, int tile_rows, int tile_cols) {
    const int group = tile / (GROUP * tile_cols), in_group = tile % (GROUP * tile_cols);
    const int rows = min(GROUP, tile_rows - group * GROUP);
    return {group * GROUP + in_group % rows, in_group / rows};
}

// ---- the kernel ----

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    tma(const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ c,
        float* __restrict__ out, int M, int N, int K, float alpha, float beta, int b_cols,
        float* __restrict__ partial, int* __restrict__ ready) {
    extern __shared__ __align__(128) char ring[];  // STAGES of A, STAGES of B
    __shared__ __align__(8) unsigned long long barriers[2 * STAGES];
    const unsigned a_ring = shared_address(ring), b_ring = a_ring + STAGES * A_BYTES;
    const unsigned full = shared_address(barriers), empty = full + 8 * STAGES;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tile_rows = (M + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const int tile_cols = (N + BLOCK_COLS - 1) / BLOCK_COLS;
    const int tiles = tile_rows * tile_cols, stages = (K + STAGE - 1) / STAGE;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(full + 8 * s, 1);
            barrier_init(empty + 8 * s, WARPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (b_cols % BLOCK_COLS != 0) {
        // Copies never write to the columns of the ring beyond the last column of B. So these are
        // set to 0. They are multiplied like the other columns, but the results are not stored.
        float4* const columns = reinterpret_cast<float4*>(ring + STAGES * A_BYTES);
        for (int i = threadIdx.x; i < STAGES * B_BYTES / 16; i += THREADS) {
            columns[i] = make_float4(0, 0, 0, 0);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // before copies write them
    }
    __syncthreads();

    Schedule schedule(tiles, stages);
    const int total = schedule.total();
    if (total == 0) return;

    // Starts the copies of the block's next stage into the ring, from the lanes of one warp.
    Schedule copied(tiles, stages);
    Part copying = {0, 0, 0};
    bool more = true;
    const float* zeros = a + size_t(tile_rows) * BLOCK_ROWS * stages * STAGE;
    const auto start_copies = [&](int slot, int parity, bool mine) {
        if (copying.begin == copying.end) more = more && copied.next(copying);
        const int k = copying.begin++ * STAGE;
        if (!more || !mine) return;
        const Place place = place_of(copying.tile, tile_rows, tile_cols);
        const int width = 4 * min(BLOCK_COLS, b_cols - place.col * BLOCK_COLS);
        while (!barrier_done(empty + 8 * slot, parity)) {
        }
        if (lane == 0) {
            barrier_expect(full + 8 * slot, A_BYTES + STAGE * width);
            bulk_copy(
                a_ring + slot * A_BYTES, a + (size_t(place.row) * stages * STAGE + k) * BLOCK_ROWS,
                A_BYTES, full + 8 * slot);
        }
        const float* row = b + size_t(k + lane) * b_cols + place.col * BLOCK_COLS;
        bulk_copy(
            b_ring + slot * B_BYTES + lane * 4 * BLOCK_COLS, k + lane < K ? row : zeros, width,
            full + 8 * slot);
    };

    // The tile of a warp is 128 x 32: 4 x 2 parts of 32 x 16 elements. In each part, the lanes form
    // 8 rows of 4 lanes, and each lane owns 4 x 4 elements.
    const int t = threadIdx.x;
    const int own_row = lane / 4 * 4, own_col = t / 32 * 32 + lane % 4 * 4;
    const char* a_own = ring + 4 * own_row;
    const char* b_own = ring + STAGES * A_BYTES + 4 * own_col;
    float4 a_values[2][4], b_values[2][2];
    // Reads the operands of step k after `from`, a position in the ring counted in steps.
    const auto read_a = [&](unsigned from, int k, int x) {
        a_values[k % 2][x] = *reinterpret_cast<const float4*>(
            a_own + from * (4 * BLOCK_ROWS) + k * (4 * BLOCK_ROWS) + 128 * x);
    };
    const auto read_b = [&](unsigned from, int k, int x) {
        b_values[k % 2][x] = *reinterpret_cast<const float4*>(
            b_own + from * (4 * BLOCK_COLS) + k * (4 * BLOCK_COLS) + 64 * x);
    };
    const auto word = [](const float4& v, int i) {
        return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
    };
    float sum[ROWS][COLS] = {};
    int rounds = STAGE / UNROLLED;
    asm volatile("mov.u32 %0, %0;" : "+r"(rounds));  // hides the value from the compiler

    start_copies(0, 1, warp == 0);
    start_copies(1, 1, warp == 0);
    while (!barrier_done(full, 0)) {
    }
#pragma unroll
    for (int x = 0; x < 4; ++x) read_a(0, 0, x);
#pragma unroll
    for (int x = 0; x < 2; ++x) read_b(0, 0, x);
    Part part;
    int count = 0;  // stages so far
    while (schedule.next(part)) {
#pragma unroll 1
        for (int stage = part.begin; stage < part.end; ++stage, ++count) {
            const int s = count % STAGES;
            const int next = count + 1 < total ? (count + 1) % STAGES : s;  // stage to read ahead
            start_copies((count + 2) % STAGES, (count + 2) / STAGES % 2 ^ 1, warp == count % WARPS);
            if (count + 1 < total) {
                while (!barrier_done(full + 8 * next, (count + 1) / STAGES % 2)) {
                }
            }
            unsigned from = s * STAGE;
#pragma unroll 1
            for (int round = 0; round < rounds; ++round) {
                const unsigned after = round == rounds - 1 ? next * STAGE : from + UNROLLED;
#pragma unroll
                for (int k = 0; k < UNROLLED; ++k) {
                    const unsigned base = k + 1 == UNROLLED ? after : from;
                    const int ahead = (k + 1) % UNROLLED;
#pragma unroll
                    for (int x = 1; x >= 0; --x) read_b(base, ahead, x);
#pragma unroll
                    for (int x = 0; x < 4; ++x) read_a(base, ahead, x);
#pragma unroll
                    for (int n = 0; n < ROWS * COLS; ++n) {
                        const int i = n / COLS;
                        const int j = i % 2 ? COLS - 1 - n % COLS : n % COLS;
                        sum[i][j] = fmaf(
                            word(a_values[k % 2][i / 4], i % 4),
                            word(b_values[k % 2][j / 4], j % 4), sum[i][j]);
                    }
                }
                from = after;
            }
            __syncwarp();
            if (lane == 0) barrier_arrive(empty + 8 * s);
        }

        // This code copies the partial sums one float at a time. For vectors, the sums would have
        // to be in adjacent registers, and the multiply-adds would have register bank conflicts.
        const auto partial_of = [&](int rank) {
            return partial + size_t(rank) * (ROWS * COLS * THREADS) + t;
        };
        if (part.begin > 0) {  // another block began this tile and writes it
            float* to = partial_of(schedule.rank);
#pragma unroll
            for (int n = 0; n < ROWS * COLS; ++n) to[n * THREADS] = sum[n / COLS][n % COLS];
            __threadfence();
            __syncthreads();
            if (t == 0) atomicExch(&ready[schedule.rank], 1);
        } else {
            for (int covered = part.end, rank = schedule.rank + 1; covered < stages; ++rank) {
                covered +=
                    schedule.first_stage(tiles, rank + 1) - schedule.first_stage(tiles, rank);
                if (t == 0) {
                    while (atomicAdd(&ready[rank], 0) == 0) __nanosleep(100);
                    atomicExch(&ready[rank], 0);  // reset for the next launch
                    __threadfence();
                }
                __syncthreads();
                const float* from = partial_of(rank);
#pragma unroll
                for (int n = 0; n < ROWS * COLS; ++n) {
                    sum[n / COLS][n % COLS] += __ldcg(from + n * THREADS);
                }
            }
            const Place place = place_of(part.tile, tile_rows, tile_cols);
            const bool aligned = N % 4 == 0 && (size_t(out) | size_t(c)) % 16 == 0;
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                const int row = place.row * BLOCK_ROWS + i / 4 * 32 + own_row + i % 4;
#pragma unroll
                for (int x = 0; x < 2; ++x) {
                    const int col = place.col * BLOCK_COLS + own_col + 16 * x;
                    if (row >= M || col >= N) continue;
                    const size_t at = size_t(row) * N + col;
                    float v[4];
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        v[j] = alpha * sum[i][4 * x + j];
                        if (beta != 0 && col + j < N) v[j] += beta * c[at + j];
                    }
                    if (aligned) {
                        *reinterpret_cast<float4*>(out + at) = make_float4(v[0], v[1], v[2], v[3]);
                    } else {
#pragma unroll
                        for (int j = 0; j < 4; ++j) {
                            if (col + j < N) out[at + j] = v[j];
                        }
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int j = 0; j < COLS; ++j) sum[i][j] = 0;
        }
    }
}
