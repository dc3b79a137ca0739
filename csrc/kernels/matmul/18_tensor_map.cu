// A tensor map copies a stage of A or B with one instruction, and a warpgroup only copies.
//
// In 16_tma a stage of B takes 32 bulk copies, one per row, and tiles at the right edge need
// shorter copies. A tensor map describes the matrix to the GPU: its extents, the length of its
// rows, and the shape of a box, here 32 rows of 256 columns. The driver makes it. One instruction
// copies a box; what lies outside the matrix becomes zeros. The warps that multiply have no code
// for copies any more. A third warpgroup starts them. It gives registers to the other two
// (setmaxnreg), which need 224 per thread.
//
// THE TRANSPOSITION. In 16_tma another kernel packs A before this one starts. Here the third
// warpgroup transposes A in shared memory while the others multiply. A stage of A, 128 rows of 32
// steps of k, is copied to one of two buffers (`staged`). Each thread then moves one row to a
// column of the ring: 16 bytes per load, 4 per store. The loads have no bank conflicts, because the
// copy reorders the 16-byte parts of a row by the row's index modulo 8. The stores have none,
// because the lanes of a warp store to neighbouring addresses. All this takes less than 1 % of the
// instructions.
//
// The ring, the barriers, the schedule and the sums are those of 16_tma: one block per
// multiprocessor, first whole tiles, then the rest divided evenly (stream-K). Rows of `a` and `b`
// begin at multiples of 16 bytes. float32 only, compute capability 9.0.

#define BLOCK_ROWS 128
#define BLOCK_COLS 256
#define STAGE 32  // steps of k
#define STAGES 4
#define UNROLLED 8     // steps in the body of the loop
#define THREADS 256    // threads that multiply
#define PRODUCERS 128  // threads that copy and transpose
#define STAGED 2       // stages of A that wait for their transposition
#define ROWS 16        // per thread
#define COLS 8
#define GROUP 8  // rows of tiles per group; tiles are numbered group by group, to reuse L2

#define A_BYTES (4 * STAGE * BLOCK_ROWS)
#define B_BYTES (4 * STAGE * BLOCK_COLS)

struct alignas(64) TensorMap {
    unsigned long long words[16];
};

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
__device__ void barrier_wait(unsigned barrier, int parity) {
    while (!barrier_done(barrier, parity)) {
    }
}

// Starts a copy of the box at (column, row) of a matrix.
__device__ void copy_box(unsigned to, const TensorMap* map, int column, int row, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
}
__device__ float4 load(unsigned address) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(address));
    return v;
}
__device__ void store(unsigned address, float v) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
}
// A barrier for the threads that multiply.
__device__ void consumers_meet() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); }

// ---- the schedule ----

// A part of a tile: its stages from `begin` to `end` - 1.
struct Part {
    int tile, begin, end;
};

struct Schedule {
    int stages;     // per tile
    int whole;      // the number of tiles that one block computes alone
    int next_tile;  // the next of these tiles for this block
    int shares;     // the number of blocks that share the other tiles
    int at, end;    // this block's range of the stages of the shared tiles
    int rank, blocks;

    __device__ Schedule(int tiles, int stages, int whole)
        : stages(stages), whole(whole), blocks(gridDim.x) {
        // A block waits for blocks of higher rank. Blocks start in the order of blockIdx. So ranks
        // count backwards: no block waits for one that has not started.
        rank = blocks - 1 - blockIdx.x;
        next_tile = rank;
        shares = int(min((long long)blocks, ((tiles - whole) * (long long)stages + 3) / 4));
        at = first_stage(tiles, rank);
        end = first_stage(tiles, rank + 1);
    }
    // Returns the number of stages that this block computes.
    __device__ int total() const {
        const int own = whole > rank ? (whole - rank + blocks - 1) / blocks : 0;
        return own * stages + end - at;
    }
    // Returns the first stage of the shared tiles that the block with rank `r` computes.
    __device__ int first_stage(int tiles, int r) const {
        if (shares == 0) return 0;
        // Returns all * own / shares. A division of 64-bit numbers would be a function call.
        const int all = (tiles - whole) * stages, own = min(r, shares);
        return all / shares * own + all % shares * own / shares;
    }
    __device__ bool next(Part& part) {
        if (next_tile < whole) {
            part = {next_tile, 0, stages};
            next_tile += blocks;
            return true;
        }
        if (at >= end) return false;
        const int begin = at % stages, length = min(stages - begin, end - at);
        part = {whole + at / stages, begin, begin + length};
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

extern "C" __global__ void __launch_bounds__(THREADS + PRODUCERS, 1) tensor_map(
    const float* a, const float* b, const __grid_constant__ TensorMap a_map,
    const __grid_constant__ TensorMap b_map, const float* __restrict__ c, float* __restrict__ out,
    int M, int N, int K, float alpha, float beta, int whole, float* __restrict__ partial,
    int* __restrict__ ready) {
    extern __shared__ __align__(1024) char ring[];  // STAGED of A, STAGES of A^T, STAGES of B
    __shared__ __align__(8) unsigned long long barriers[2 * (STAGES + STAGED)];
    const unsigned staged_ring = shared_address(ring), a_ring = staged_ring + STAGED * A_BYTES;
    const unsigned b_ring = a_ring + STAGES * A_BYTES;
    const unsigned full = shared_address(barriers), empty = full + 8 * STAGES;
    const unsigned staged = empty + 8 * STAGES, taken = staged + 8 * STAGED;
    const int lane = threadIdx.x % 32;
    const int tile_rows = (M + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const int tile_cols = (N + BLOCK_COLS - 1) / BLOCK_COLS;
    const int tiles = tile_rows * tile_cols, stages = (K + STAGE - 1) / STAGE;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(full + 8 * s, 1 + PRODUCERS);
            barrier_init(empty + 8 * s, THREADS);
        }
        for (int s = 0; s < STAGED; ++s) {
            barrier_init(staged + 8 * s, 1);
            barrier_init(taken + 8 * s, PRODUCERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    Schedule schedule(tiles, stages, whole);
    const int total = schedule.total();
    if (total < STAGES) {
        // The threads that multiply read one step ahead, also in the last stage. If no copy fills
        // the place of this step, it must not stay uninitialised.
        const int i = threadIdx.x;
        float* const a_next = reinterpret_cast<float*>(ring + (STAGED + total) * A_BYTES);
        float* const b_next =
            reinterpret_cast<float*>(ring + (STAGED + STAGES) * A_BYTES + total * B_BYTES);
        (i < BLOCK_ROWS ? a_next[i] : b_next[i - BLOCK_ROWS]) = 0;
    }
    __syncthreads();
    if (total == 0) return;

    if (threadIdx.x >= THREADS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        const int t = threadIdx.x - THREADS;
        Schedule schedule(tiles, stages, whole);
        Place place = {0, 0};
        Part part = {0, 0, 0};
#pragma unroll 1
        for (int count = 0; count < total + STAGED; ++count) {
            if (count >= STAGED) {
                const unsigned done = count - STAGED, slot = done % STAGES, from = done % STAGED;
                barrier_wait(empty + 8 * slot, (done / STAGES % 2) ^ 1);
                barrier_wait(staged + 8 * from, done / STAGED % 2);
                const unsigned row = staged_ring + from * A_BYTES + t * (4 * STAGE);
                const unsigned column = a_ring + slot * A_BYTES + t * 4;
#pragma unroll
                for (int x = 0; x < STAGE / 4; ++x) {
                    const float4 four = load(row + (x ^ t % 8) * 16);
                    const unsigned to = column + x * (16 * BLOCK_ROWS);
                    store(to, four.x);
                    store(to + 4 * BLOCK_ROWS, four.y);
                    store(to + 8 * BLOCK_ROWS, four.z);
                    store(to + 12 * BLOCK_ROWS, four.w);
                }
                barrier_arrive(full + 8 * slot);
                barrier_arrive(taken + 8 * from);
            }
            if (t == 0 && count < total) {
                if (part.begin == part.end) {
                    schedule.next(part);
                    place = place_of(part.tile, tile_rows, tile_cols);
                }
                const unsigned slot = count % STAGES, into = count % STAGED;
                barrier_wait(taken + 8 * into, (count / STAGED % 2) ^ 1);
                barrier_expect(staged + 8 * into, A_BYTES);
                copy_box(
                    staged_ring + into * A_BYTES, &a_map, part.begin * STAGE,
                    place.row * BLOCK_ROWS, staged + 8 * into);
                barrier_wait(empty + 8 * slot, (count / STAGES % 2) ^ 1);
                barrier_expect(full + 8 * slot, B_BYTES);
                copy_box(
                    b_ring + slot * B_BYTES, &b_map, place.col * BLOCK_COLS, part.begin * STAGE,
                    full + 8 * slot);
                ++part.begin;
            }
            __syncwarp();
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");

    // The tile of a warp is 128 x 32: 4 x 2 parts of 32 x 16 elements. In each part, the lanes form
    // 8 rows of 4 lanes, and each lane owns 4 x 4 elements.
    const int t = threadIdx.x;
    const int own_row = lane / 4 * 4, own_col = t / 32 * 32 + lane % 4 * 4;
    // The addresses of this thread's operands of step 0. The compiler must not see how they are
    // computed (asm), or it would compute them again in the loop.
    unsigned a_own = a_ring + 4 * own_row, b_own = b_ring + 4 * own_col;
    asm volatile("" : "+r"(a_own), "+r"(b_own));
    float4 a_values[2][4], b_values[2][2];
    // Read operands of the k-th step after the step whose operands begin at the address `at`.
    const auto read_a = [&](unsigned at, int k, int x) {
        a_values[k % 2][x] = load(at + k * (4 * BLOCK_ROWS) + 128 * x);
    };
    const auto read_b = [&](unsigned at, int k, int x) {
        b_values[k % 2][x] = load(at + k * (4 * BLOCK_COLS) + 64 * x);
    };
    const auto word = [](const float4& v, int i) {
        return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
    };
    float sum[ROWS][COLS] = {};
    barrier_wait(full, 0);
    // The order of the multiply-adds, for even and for odd steps: the rows, and the order of the
    // columns in each row (3 means 3, 2, 1, 0, 7, 6, 5, 4, and 4 means 4, 5, 6, 7, 0, 1, 2, 3).
    // Each is a hexadecimal digit. With arrays instead of digits, NVRTC takes 100 s longer. ptxas
    // changes this order. But for each order it chooses other registers, and so other bank
    // conflicts. A program timed more than 2,500 orders on an H200, and this one was the fastest.
    const auto row_of = [](int k, int place) {
        return int(
            (k % 2 ? 0xfedcba9857641230ull : 0xfedc3561ba987240ull) >> (60 - 4 * place) & 15);
    };
    const auto columns_of = [](int k, int place) {
        return int(
            (k % 2 ? 0x3434343433443434ull : 0x3434444334343444ull) >> (60 - 4 * place) & 15);
    };
    // The next steps to read: their position in the ring, counted in steps, and their addresses.
    // The position is 0, because t < THREADS. But the compiler must not know that. If it did, ptxas
    // would choose registers with more bank conflicts.
    unsigned from = t / THREADS * UNROLLED;
    unsigned a_at = a_own + from * (4 * BLOCK_ROWS), b_at = b_own + from * (4 * BLOCK_COLS);
#pragma unroll
    for (int x = 0; x < 4; ++x) read_a(a_at, 0, x);
#pragma unroll
    for (int x = 0; x < 2; ++x) read_b(b_at, 0, x);
    Part part;
    int count = 0;  // stages so far
    while (schedule.next(part)) {
#pragma unroll 1
        for (int stage = part.begin; stage < part.end; ++stage, ++count) {
            const int s = count % STAGES, next = (count + 1) % STAGES;
            if (count + 1 < total) barrier_wait(full + 8 * next, (count + 1) / STAGES % 2);
#pragma unroll 1
            do {
                // The next stage follows in the ring, so the last step of a stage can read from it.
                from = (from + UNROLLED) % (STAGE * STAGES);
                asm volatile("" : "+r"(from));
#pragma unroll
                for (int k = 0; k < UNROLLED; ++k) {
                    const int ahead = (k + 1) % UNROLLED;
                    if (ahead == 0) {
                        a_at = a_own + from * (4 * BLOCK_ROWS);
                        b_at = b_own + from * (4 * BLOCK_COLS);
                    }
                    read_a(a_at, ahead, 3);
                    read_a(a_at, ahead, 1);
                    read_a(a_at, ahead, 2);
                    read_b(b_at, ahead, 1);
                    read_b(b_at, ahead, 0);
                    read_a(a_at, ahead, 0);
#pragma unroll
                    for (int n = 0; n < ROWS * COLS; ++n) {
                        const int i = row_of(k, n / COLS);
                        const int j = n % COLS ^ columns_of(k, n / COLS);
                        sum[i][j] = fmaf(
                            word(a_values[k % 2][i / 4], i % 4),
                            word(b_values[k % 2][j / 4], j % 4), sum[i][j]);
                    }
                }
            } while (from / UNROLLED % (STAGE / UNROLLED) != 0);
            barrier_arrive(empty + 8 * s);
        }

        // This code copies the partial sums in pairs, with the two sums of a pair swapped. So ptxas
        // puts the sums of even columns in odd registers. The values of B of even columns are in
        // even registers, because 16-byte loads need this. So a value of B and its sum are in
        // different register banks, and their multiply-add has no bank conflict.
        const auto partial_of = [&](int rank) {
            return partial + size_t(rank) * (ROWS * COLS * THREADS) + 2 * t;
        };
        if (part.begin > 0) {  // another block began this tile and writes it
            float* to = partial_of(schedule.rank);
#pragma unroll
            for (int n = 0; n < ROWS * COLS; n += 2) {
                const float* v = &sum[n / COLS][n % COLS];
                *reinterpret_cast<float2*>(to + n * THREADS) = make_float2(v[1], v[0]);
            }
            __threadfence();
            consumers_meet();
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
                consumers_meet();
                const float* from = partial_of(rank);
#pragma unroll
                for (int n = 0; n < ROWS * COLS; n += 2) {
                    const float2 v = __ldcg(reinterpret_cast<const float2*>(from + n * THREADS));
                    float* own = &sum[n / COLS][n % COLS];
                    own[1] += v.x, own[0] += v.y;
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
