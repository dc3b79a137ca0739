// float32 accuracy from tensor cores: each operand is the sum of two TF32 values.
//
// TF32 values have 11 significant bits, floats have 24. A float is its nearest TF32 value plus the
// rest in TF32, with an error of 2^-23 or less. Let a = a_high + a_low and b = b_high + b_low:
//
//     a * b = a_high * b_high + a_high * b_low + a_low * b_high      (+ a_low * b_low, left out)
//
// So this takes three products of 20_tf32. But tensor cores are over six times as fast as FFMA.
//
// Tensor cores add less exactly than FFMA: they cut off low bits instead of rounding to nearest. So
// the sums over each stage (32 steps of k) are added to the sums of the result by ordinary
// additions. The registers cannot hold two sets of sums of a whole tile, so a warpgroup computes
// its 128 columns in two halves. While one warpgroup adds, the tensor cores work for the other.
//
// The copies round A to TF32, which is a_high (the elements of `a_map` are TF32). `low` has the
// rest of each element (layout/03_tf32_rest). B is split in registers. An infinity becomes NaN,
// because its rest is inf - inf.

#define BLOCK_ROWS 128
#define BLOCK_COLS 256
#define STAGE 32  // steps of k, 128 bytes
#define STAGES 3
#define GROUP 16  // columns of tiles per group; tiles are numbered group by group, to reuse L2
#define BOX_COLS 32
#define WARPGROUP 128  // threads
#define THREADS (3 * WARPGROUP)
#define WARPS 8  // warps that multiply

#define PART_BYTES (BLOCK_ROWS * STAGE * 4)  // high or low part of A
#define A_BYTES (2 * PART_BYTES)
#define B_BYTES (STAGE * BLOCK_COLS * 4)
#define B_BOX_BYTES (STAGE * BOX_COLS * 4)

struct alignas(64) TensorMap {
    unsigned long long words[16];
};

__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }

// ---- barriers in shared memory: a phase ends when all threads and bytes have arrived ----

__device__ void barrier_init(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}
__device__ void barrier_expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
__device__ void barrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ void barrier_wait(unsigned barrier, int parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}
// Starts a copy of the box at (column, row).
__device__ void copy_box(unsigned to, const TensorMap* map, int column, int row, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
}

// ---- tensor cores ----

// Returns the descriptor of an operand with 128-byte swizzle: groups of 8 rows 1024 bytes apart.
__device__ unsigned long long described(unsigned address) {
    return (1ull << 62) | 64ull << 32 | 1ull << 16 | (address & 0x3FFFF) / 16;
}

#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define SIXTY_FOUR(i) SIXTEEN(i), SIXTEEN(i + 16), SIXTEEN(i + 32), SIXTEEN(i + 48)

// d = b^T * a^T + (add ? d : 0), 64 x 128 x 8; b^T in registers.
__device__ void multiply(float (&d)[64], const unsigned* b, unsigned long long a, int add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, p, 1, 1;\n}"
        : SIXTY_FOUR(0)
        : "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "l"(a), "r"(add));
}
__device__ void multiply_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ void multiply_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// Tells the compiler that these registers are in use up to this point. The compiler does not know
// how long the tensor cores read the registers, and would load other values into them too early.
__device__ void keep(const unsigned (&bits)[STAGE / 8][4]) {
#pragma unroll
    for (int i = 0; i < STAGE / 8; ++i) {
        asm volatile("" ::"r"(bits[i][0]), "r"(bits[i][1]), "r"(bits[i][2]), "r"(bits[i][3]));
    }
}
// The tensor cores do not read the lower 13 bits. Half of the last bit that they do read rounds.
__device__ void split(float x, unsigned& high, unsigned& low) {
    high = (__float_as_uint(x) + 0x1000) & 0xFFFFE000;
    low = __float_as_uint(x - __uint_as_float(high)) + 0x1000;
}

struct Place {
    int row, col;  // the tile's position, counted in tiles
};
__device__ Place place_of(int tile, int tile_rows, int tile_cols) {
    const int group = tile / (GROUP * tile_rows);
    const int in_group = tile % (GROUP * tile_rows);
    const int cols = min(GROUP, tile_cols - group * GROUP);
    return {in_group / cols, group * GROUP + in_group % cols};
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) tf32x3(
    const float* a, const float* low, const float* b, const __grid_constant__ TensorMap a_map,
    const __grid_constant__ TensorMap low_map, const __grid_constant__ TensorMap b_map,
    const float* __restrict__ c, float* __restrict__ out, int M, int N, int K, float alpha,
    float beta) {
    extern __shared__ __align__(1024) char ring[];  // STAGES of A, STAGES of B
    __shared__ __align__(8) unsigned long long barriers[2 * STAGES];
    const unsigned a_ring = shared_address(ring), b_ring = a_ring + STAGES * A_BYTES;
    const unsigned full = shared_address(barriers), empty = full + 8 * STAGES;
    // Read from lane 0: so the compiler knows that all lanes have the same value.
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / WARPGROUP, 0);
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
    __syncthreads();

    if (warpgroup == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 2 * WARPGROUP) {
            unsigned count = 0;  // stages so far
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                const Place place = place_of(tile, tile_rows, tile_cols);
#pragma unroll 1
                for (int stage = 0; stage < stages; ++stage, ++count) {
                    const int slot = count % STAGES;
                    const unsigned ready = full + 8 * slot;
                    barrier_wait(empty + 8 * slot, (count / STAGES % 2) ^ 1);
                    barrier_expect(ready, A_BYTES + B_BYTES);
#pragma unroll 1
                    for (int i = 0; i < 2; ++i) {
                        copy_box(
                            a_ring + slot * A_BYTES + i * PART_BYTES, i ? &low_map : &a_map,
                            stage * STAGE, place.row * BLOCK_ROWS, ready);
                    }
#pragma unroll 1
                    for (int i = 0; i < BLOCK_COLS / BOX_COLS; ++i) {
                        copy_box(
                            b_ring + slot * B_BYTES + i * B_BOX_BYTES, &b_map,
                            place.col * BLOCK_COLS + i * BOX_COLS, stage * STAGE, ready);
                    }
                }
            }
        }
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        // A lane has two neighbouring columns of B, in rows k, k + 4 of each 8 rows, as in 20_tf32.
        const int part = lane / 8 % 2 * 4 + lane / 16 + warp % 2 * 2, k_own = lane % 4;
        const int box = warpgroup * 4 + warp / 2 % 2;  // the second half uses box + 2
        const int own_col = box * BOX_COLS + part * 4 + lane / 4 % 2 * 2;
        const char* const own = ring + STAGES * A_BYTES + box * B_BOX_BYTES + lane / 4 % 2 * 8;
        const int near = k_own * 128 + (part ^ k_own) * 16;
        const int far = (k_own + 4) * 128 + (part ^ (k_own + 4)) * 16;
        unsigned count = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            float sum[2][64] = {}, of_stage[64];
#pragma unroll 1
            for (int stage = 0; stage < stages; ++stage, ++count) {
                const int slot = count % STAGES;
                barrier_wait(full + 8 * slot, count / STAGES % 2);
                const unsigned long long a_high = described(a_ring + slot * A_BYTES);
                const unsigned long long a_low = a_high + PART_BYTES / 16;
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    unsigned b_high[STAGE / 8][4], b_low[STAGE / 8][4];
#pragma unroll
                    for (int i = 0; i < STAGE / 8; ++i) {
                        const char* from =
                            own + slot * B_BYTES + half * 2 * B_BOX_BYTES + i * 8 * 128;
                        const float2 x = *reinterpret_cast<const float2*>(from + near);
                        const float2 y = *reinterpret_cast<const float2*>(from + far);
                        split(x.x, b_high[i][0], b_low[i][0]);
                        split(x.y, b_high[i][1], b_low[i][1]);
                        split(y.x, b_high[i][2], b_low[i][2]);
                        split(y.y, b_high[i][3], b_low[i][3]);
                    }
                    multiply_begin();
#pragma unroll
                    for (int i = 0; i < STAGE / 8; ++i) {
                        multiply(of_stage, b_low[i], a_high + i * 32 / 16, i > 0);
                        multiply(of_stage, b_high[i], a_low + i * 32 / 16, 1);
                    }
#pragma unroll
                    for (int i = 0; i < STAGE / 8; ++i) {
                        multiply(of_stage, b_high[i], a_high + i * 32 / 16, 1);
                    }
                    multiply_commit();
                    multiply_wait();
                    keep(b_high), keep(b_low);
                    if (half == 1 && lane == 0) barrier_arrive(empty + 8 * slot);
#pragma unroll
                    for (int n = 0; n < 64; ++n) sum[half][n] += of_stage[n];
                }
            }

            // A thread has two neighbouring columns, in two neighbours of each 8 rows.
            const Place place = place_of(tile, tile_rows, tile_cols);
            const int row = place.row * BLOCK_ROWS + lane % 4 * 2;
            const bool whole = (place.row + 1) * BLOCK_ROWS <= M && beta == 0 && N % 2 == 0 &&
                               (place.col + 1) * BLOCK_COLS <= N && size_t(out) % 8 == 0;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int col = place.col * BLOCK_COLS + own_col + half * 2 * BOX_COLS;
                float* to = out + size_t(row) * N + col;
                const float* add = c + size_t(row) * N + col;
#pragma unroll
                for (int n = 0; n < 32; ++n) {
                    const int r = n / 2 * 8 + n % 2;
                    const float left = alpha * sum[half][n / 2 * 4 + n % 2];
                    const float right = alpha * sum[half][n / 2 * 4 + n % 2 + 2];
                    if (whole) {
                        *reinterpret_cast<float2*>(to) = make_float2(left, right);
                    } else if (row + r < M) {
                        if (col < N) to[0] = left + (beta != 0 ? beta * add[0] : 0);
                        if (col + 1 < N) to[1] = right + (beta != 0 ? beta * add[1] : 0);
                    }
                    to += size_t(n % 2 ? 7 : 1) * N, add += size_t(n % 2 ? 7 : 1) * N;
                }
            }
        }
    }
}
