// Tensor cores: one instruction of four warps multiplies 64 x 256 x 16 values. bfloat16 operands.
//
// 16_tma is limited by the instructions that a multiprocessor can issue: each multiply-add of a
// warp is an instruction. A wgmma instruction computes 262,144 multiply-adds. A warpgroup (4 warps
// whose first index is a multiple of 4) issues it. The tensor cores read both operands from shared
// memory and add to the registers of the warpgroup. The task is to copy the operands fast enough.
//
// TENSOR MAPS. A tensor map (made by the driver) describes a matrix in global memory: its extents,
// its row length and the shape of a box. One instruction of one thread copies a box of 64 columns.
// Parts of a box outside the matrix become zeros, so that edges need no code. A row of a box has
// 128 bytes. The copy reorders the 16-byte parts of a row, depending on the row's index (128-byte
// swizzle). So the tensor cores read them without bank conflicts.
//
// ROLES. The last warpgroup copies. It gives registers to the two others, which multiply: each
// computes a half of the tile, 64 rows. The barriers `full` and `empty` of each stage are those of
// 16_tma. A warpgroup issues the instructions of a stage before those of the previous stage are
// done, so that the tensor cores never wait for it.
//
// SMALL PRODUCTS have too few tiles of 128 x 256 for all multiprocessors. Then tiles have 192, 128
// or 64 columns, and an instruction multiplies as many. A stage of a narrow tile takes as long as
// its copy from L2. Clusters of two blocks that divide the stages of a tile were slower: to start a
// cluster and to add up the sums took 1.5 microseconds on an H200.
//
// Blocks that share copies of B in a cluster (multicast) were no faster: L2 delivers enough.
//
// Sums and `c` are float32; `a` and `b` are the bits of bfloat16 values. Rows begin at multiples of
// 16 bytes. The result is float32, or bfloat16 if BFLOAT16_RESULT is defined.

#define BLOCK_ROWS 128
#ifndef BLOCK_COLS
#define BLOCK_COLS 256  // or 192, 128 or 64
#endif
#define STAGE 64  // steps of k, 128 bytes
#define STAGES (BLOCK_COLS == 64 ? 8 : 4)
#define GROUP 16  // rows of tiles per group; tiles are numbered group by group, to reuse L2
#define BOX_COLS 64
#define WARPGROUP 128  // threads
#define THREADS (3 * WARPGROUP)

#define A_BYTES (BLOCK_ROWS * STAGE * 2)
#define BOX_BYTES (STAGE * BOX_COLS * 2)
#define B_BYTES (STAGE * BLOCK_COLS * 2)
#define BOXES (BLOCK_COLS / BOX_COLS)
#define SUMS (BLOCK_COLS / 2)  // of a thread

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

// Returns the descriptor of an operand in shared memory with 128-byte swizzle. Groups of 8 rows are
// `group` bytes apart. If k is not contiguous, boxes of 64 columns are `box` bytes apart.
__device__ unsigned long long described(unsigned address, unsigned box, unsigned group) {
    return (1ull << 62) | (unsigned long long)(group / 16) << 32 |
           (unsigned long long)(box / 16) << 16 | (address & 0x3FFFF) / 16;
}

#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define THIRTY_TWO(i) SIXTEEN(i), SIXTEEN(i + 16)
// The registers of the sums in an instruction, and the operands after them: a, b and add.
#define FIRST_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
    "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FIRST_64 \
    FIRST_32 \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, " \
    "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FIRST_96 \
    FIRST_64 \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, " \
    "%81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define FIRST_128 \
    FIRST_96 \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, " \
    "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, " \
    "%124, %125, %126, %127"
#if BLOCK_COLS == 256
#define SHAPE "m64n256k16"
#define REGISTERS FIRST_128
#define A_B "%128, %129"
#define ADD "%130"
#define VALUES THIRTY_TWO(0), THIRTY_TWO(32), THIRTY_TWO(64), THIRTY_TWO(96)
#elif BLOCK_COLS == 192
#define SHAPE "m64n192k16"
#define REGISTERS FIRST_96
#define A_B "%96, %97"
#define ADD "%98"
#define VALUES THIRTY_TWO(0), THIRTY_TWO(32), THIRTY_TWO(64)
#elif BLOCK_COLS == 128
#define SHAPE "m64n128k16"
#define REGISTERS FIRST_64
#define A_B "%64, %65"
#define ADD "%66"
#define VALUES THIRTY_TWO(0), THIRTY_TWO(32)
#else
#define SHAPE "m64n64k16"
#define REGISTERS FIRST_32
#define A_B "%32, %33"
#define ADD "%34"
#define VALUES THIRTY_TWO(0)
#endif

// d = a * b + (add ? d : 0), 64 x BLOCK_COLS x 16; rows of a are contiguous in k, rows of b in n.
__device__ void multiply(float (&d)[SUMS], unsigned long long a, unsigned long long b, int add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD
                 ", 0;\n"
                 "wgmma.mma_async.sync.aligned." SHAPE ".f32.bf16.bf16 {" REGISTERS "}, " A_B
                 ", p, 1, 1, 0, 1;\n}"
                 : VALUES
                 : "l"(a), "l"(b), "r"(add));
}
__device__ void multiply_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most `pending` groups of instructions are not done.
template <int pending>
__device__ void multiply_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// ---- the result ----

#ifdef BFLOAT16_RESULT
typedef unsigned short Result;  // the bits of a bfloat16
#else
typedef float Result;
#endif

// Returns two values rounded to bfloat16, to nearest even; `low` is in the lower half.
__device__ unsigned rounded(float low, float high) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
__device__ void write(float* to, float value) { *to = value; }
__device__ void write(unsigned short* to, float value) { *to = rounded(value, 0); }

// Writes 32 columns of a row, which four lanes hold. Of each 8 columns (i = 0, 1, ...), lane q
// holds the columns 2q and 2q + 1, in own[4 * i] and own[4 * i + 1]. The lanes exchange columns, so
// that each writes 16 bytes at a time.
__device__ void write_row(float* row, const float* own, float alpha, int q) {
    const bool odd = q % 2;  // writes to the second 8 of 16 columns
    row += 2 * q + (odd ? 6 : 0);
#pragma unroll
    for (int i = 0; i < 16; i += 8) {
        const float x = __shfl_xor_sync(~0u, odd ? own[i] : own[i + 4], 1);
        const float y = __shfl_xor_sync(~0u, odd ? own[i + 1] : own[i + 5], 1);
        const float4 four =
            odd ? make_float4(x, y, own[i + 4], own[i + 5]) : make_float4(own[i], own[i + 1], x, y);
        const float4 scaled =
            make_float4(alpha * four.x, alpha * four.y, alpha * four.z, alpha * four.w);
        *reinterpret_cast<float4*>(row + 2 * i) = scaled;
    }
}
__device__ void write_row(unsigned short* row, const float* own, float alpha, int q) {
    unsigned pairs[4];  // first own pairs; in the end, all pairs of 8 columns
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = rounded(alpha * own[4 * i], alpha * own[4 * i + 1]);
#pragma unroll
    for (int step = 2; step > 0; step /= 2) {
        const bool upper = q & step;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int low = step == 2 ? n : 2 * n, high = low + step;
            const unsigned other = __shfl_xor_sync(~0u, upper ? pairs[low] : pairs[high], step);
            if (upper) {
                pairs[low] = other;
            } else {
                pairs[high] = other;
            }
        }
    }
    *reinterpret_cast<uint4*>(row + 8 * q) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

struct Place {
    int row, col;  // the tile's position, counted in tiles
};
__device__ Place place_of(int tile, int tile_rows, int tile_cols) {
    const int group = tile / (GROUP * tile_cols);
    const int in_group = tile % (GROUP * tile_cols);
    const int rows = min(GROUP, tile_rows - group * GROUP);
    return {group * GROUP + in_group % rows, in_group / rows};
}

// The next launch on the stream may start when all blocks have called let_next_launch_start(), or
// have ended. Each thread of it waits, before it reads or writes an array, until this launch has
// ended (programmatic dependent launch).
__device__ void wait_for_earlier_launches() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ void let_next_launch_start() { asm volatile("griddepcontrol.launch_dependents;"); }

extern "C" __global__ void __launch_bounds__(THREADS, 1) bf16(
    const unsigned short* a, const unsigned short* b, const __grid_constant__ TensorMap a_map,
    const __grid_constant__ TensorMap b_map, const float* __restrict__ c, Result* __restrict__ out,
    int M, int N, int K, float alpha, float beta) {
    extern __shared__ __align__(1024) char ring[];  // STAGES of A, STAGES of B
    __shared__ __align__(8) unsigned long long barriers[2 * STAGES];
    const unsigned a_ring = shared_address(ring), b_ring = a_ring + STAGES * A_BYTES;
    const unsigned full = shared_address(barriers), empty = full + 8 * STAGES;
    // Read from lane 0: so the compiler knows that all lanes have the same value.
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / WARPGROUP, 0);
    const int tile_cols = (N + BLOCK_COLS - 1) / BLOCK_COLS;
    const int tile_rows = (M + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const int tiles = tile_rows * tile_cols, stages = (K + STAGE - 1) / STAGE;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(full + 8 * s, 1);
            barrier_init(empty + 8 * s, 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    wait_for_earlier_launches();
    let_next_launch_start();

    if (warpgroup == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 2 * WARPGROUP) {
            unsigned count = 0;  // stages so far
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                const Place place = place_of(tile, tile_rows, tile_cols);
                for (int stage = 0; stage < stages; ++stage, ++count) {
                    const int slot = count % STAGES;
                    const unsigned ready = full + 8 * slot;
                    barrier_wait(empty + 8 * slot, (count / STAGES % 2) ^ 1);
                    barrier_expect(ready, A_BYTES + B_BYTES);
                    copy_box(
                        a_ring + slot * A_BYTES, &a_map, stage * STAGE, place.row * BLOCK_ROWS,
                        ready);
                    for (int i = 0; i < BOXES; ++i) {
                        copy_box(
                            b_ring + slot * B_BYTES + i * BOX_BYTES, &b_map,
                            place.col * BLOCK_COLS + i * BOX_COLS, stage * STAGE, ready);
                    }
                }
            }
        }
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int lane = threadIdx.x % 32, in_group = threadIdx.x % WARPGROUP;
        unsigned count = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            float sum[SUMS];
#pragma unroll 1
            for (int stage = 0; stage < stages; ++stage, ++count) {
                const int slot = count % STAGES;
                barrier_wait(full + 8 * slot, count / STAGES % 2);
                const unsigned long long a_tile =
                    described(a_ring + slot * A_BYTES + warpgroup * (A_BYTES / 2), 16, 8 * 128);
                const unsigned long long b_tile =
                    described(b_ring + slot * B_BYTES, BOX_BYTES, 8 * 128);
                multiply_begin();
#pragma unroll
                for (int k = 0; k < STAGE; k += 16) {
                    multiply(sum, a_tile + k * 2 / 16, b_tile + k * 128 / 16, stage + k > 0);
                }
                multiply_commit();
                multiply_wait<1>();
                const bool done = stage > 0;  // this tile has a previous stage, and it is done
                if (done && in_group == 0) barrier_arrive(empty + 8 * ((count - 1) % STAGES));
            }
            multiply_wait<0>();
            if (in_group == 0) barrier_arrive(empty + 8 * ((count - 1) % STAGES));

            // A warp has 16 rows. A thread has two neighbouring columns of each 8, in two rows.
            const Place place = place_of(tile, tile_rows, tile_cols);
            const int row = place.row * BLOCK_ROWS + threadIdx.x / 32 * 16 + lane / 4;
            const int col = place.col * BLOCK_COLS;
            const bool whole = (place.row + 1) * BLOCK_ROWS <= M && beta == 0 &&
                               N % (16 / sizeof(Result)) == 0 && col + BLOCK_COLS <= N &&
                               size_t(out) % 16 == 0;
            if (whole) {
#pragma unroll
                for (int n = 0; n < SUMS; n += 16) {
                    Result* const to = out + size_t(row) * N + col + 2 * n;
                    write_row(to, sum + n, alpha, lane % 4);
                    write_row(to + size_t(8) * N, sum + n + 2, alpha, lane % 4);
                }
                continue;
            }
#pragma unroll
            for (int n = 0; n < SUMS; ++n) {
                const int r = row + n / 2 % 2 * 8, s = col + n / 4 * 8 + lane % 4 * 2 + n % 2;
                if (r >= M || s >= N) continue;
                const size_t at = size_t(r) * N + s;
                write(out + at, alpha * sum[n] + (beta != 0 ? beta * c[at] : 0));
            }
        }
    }
}
