// Tensor cores for float32 matrices: operands rounded to TF32, 10 bits of mantissa instead of 23.
//
// 19_bf16 says how tensor maps and roles work. Here the elements are floats, of which the tensor
// cores use the upper 19 bits. An operand in shared memory must be contiguous along k. A is, but B
// is not. However, the first operand of a wgmma may be in registers, in any order. So B becomes the
// first operand: the product is computed transposed, out^T = B^T A^T. A warpgroup reads its 64
// columns of B in pairs of neighbours, and multiplies them by all rows of A of the tile.
//
// BANKS. A row of a box of B has eight parts of 16 bytes, which the copy reorders by the row's
// index modulo 8. Half a warp reads from four rows, 8 bytes per lane. `part` chooses two parts of
// each row, such as 0 and 4; after the reordering, they are all in different banks. Therefore not
// all columns of a warp are neighbours. Each result is written to the column where it belongs.
//
// SMALL PRODUCTS have too few tiles of 256 x 128 for all multiprocessors. Then tiles have 128 or 64
// rows, and an instruction multiplies as many rows of A.
//
// The copies round the elements to TF32 on their way (the tensor maps have TF32 elements). Sums are
// float32. Rows of `a` and `b` begin at multiples of 16 bytes.

#ifndef BLOCK_ROWS
#define BLOCK_ROWS 256  // or 128 or 64
#endif
#define BLOCK_COLS 128
#define STAGE 32  // steps of k, 128 bytes
#define GROUP 16  // columns of tiles per group; tiles are numbered group by group, to reuse L2
#define BOX_ROWS 64
#define BOX_COLS 32
#define WARPGROUP 128  // threads
#define THREADS (3 * WARPGROUP)
#define WARPS 8  // warps that multiply

#define A_BYTES (BLOCK_ROWS * STAGE * 4)
#define A_BOX_BYTES (BOX_ROWS * STAGE * 4)
#define B_BYTES (STAGE * BLOCK_COLS * 4)
#define B_BOX_BYTES (STAGE * BOX_COLS * 4)
#define STAGES ((192 << 10) / (A_BYTES + B_BYTES))
#define SUMS (BLOCK_ROWS / 2)  // of a thread

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
#define THIRTY_TWO(i) SIXTEEN(i), SIXTEEN(i + 16)
// The registers of the sums in an instruction, and the operands after them: b^T, a and add.
#define FIRST_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
    "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FIRST_64 \
    FIRST_32 \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, " \
    "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#if BLOCK_ROWS == 256
#define SHAPE "m64n256k8"
#define REGISTERS \
    FIRST_64 \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, " \
    "%81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, " \
    "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, " \
    "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define B_A "{%128, %129, %130, %131}, %132"
#define ADD "%133"
#define VALUES THIRTY_TWO(0), THIRTY_TWO(32), THIRTY_TWO(64), THIRTY_TWO(96)
#elif BLOCK_ROWS == 128
#define SHAPE "m64n128k8"
#define REGISTERS FIRST_64
#define B_A "{%64, %65, %66, %67}, %68"
#define ADD "%69"
#define VALUES THIRTY_TWO(0), THIRTY_TWO(32)
#else
#define SHAPE "m64n64k8"
#define REGISTERS FIRST_32
#define B_A "{%32, %33, %34, %35}, %36"
#define ADD "%37"
#define VALUES THIRTY_TWO(0)
#endif

// d = b^T * a^T + (add ? d : 0), 64 x BLOCK_ROWS x 8; b^T in registers.
__device__ void multiply(float (&d)[SUMS], const unsigned* b, unsigned long long a, int add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD
                 ", 0;\n"
                 "wgmma.mma_async.sync.aligned." SHAPE ".f32.tf32.tf32 {" REGISTERS "}, " B_A
                 ", p, 1, 1;\n}"
                 : VALUES
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

struct Place {
    int row, col;  // the tile's position, counted in tiles
};
__device__ Place place_of(int tile, int tile_rows, int tile_cols) {
    const int group = tile / (GROUP * tile_rows);
    const int in_group = tile % (GROUP * tile_rows);
    const int cols = min(GROUP, tile_cols - group * GROUP);
    return {in_group / cols, group * GROUP + in_group % cols};
}

// The next launch on the stream may start when all blocks have called let_next_launch_start(), or
// have ended. Each thread of it waits, before it reads or writes an array, until this launch has
// ended (programmatic dependent launch).
__device__ void wait_for_earlier_launches() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ void let_next_launch_start() { asm volatile("griddepcontrol.launch_dependents;"); }

extern "C" __global__ void __launch_bounds__(THREADS, 1) tf32(
    const float* a, const float* b, const __grid_constant__ TensorMap a_map,
    const __grid_constant__ TensorMap b_map, const float* __restrict__ c, float* __restrict__ out,
    int M, int N, int K, float alpha, float beta) {
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
#pragma unroll 1
                    for (int i = 0; i < BLOCK_ROWS / BOX_ROWS; ++i) {
                        copy_box(
                            a_ring + slot * A_BYTES + i * A_BOX_BYTES, &a_map, stage * STAGE,
                            place.row * BLOCK_ROWS + i * BOX_ROWS, ready);
                    }
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
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        // A lane has two neighbouring columns of B, in rows k and k + 4 of each 8 rows.
        const int part = lane / 8 % 2 * 4 + lane / 16 + warp % 2 * 2, k_own = lane % 4;
        const int own_col = warp / 2 * BOX_COLS + part * 4 + lane / 4 % 2 * 2;
        const char* const own = ring + STAGES * A_BYTES + warp / 2 * B_BOX_BYTES + lane / 4 % 2 * 8;
        const int near = k_own * 128 + (part ^ k_own) * 16;
        const int far = (k_own + 4) * 128 + (part ^ (k_own + 4)) * 16;
        float2 values[STAGE / 8][2];
        const auto read_b = [&](int slot) {
#pragma unroll
            for (int i = 0; i < STAGE / 8; ++i) {
                const char* from = own + slot * B_BYTES + i * 8 * 128;
                values[i][0] = *reinterpret_cast<const float2*>(from + near);
                values[i][1] = *reinterpret_cast<const float2*>(from + far);
            }
        };
        unsigned count = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            float sum[SUMS];
            barrier_wait(full + 8 * (count % STAGES), count / STAGES % 2);
            read_b(count % STAGES);
#pragma unroll 1
            for (int stage = 0; stage < stages; ++stage, ++count) {
                const int slot = count % STAGES, next = (count + 1) % STAGES;
                unsigned bits[STAGE / 8][4];
#pragma unroll
                for (int i = 0; i < STAGE / 8; ++i) {
                    bits[i][0] = __float_as_uint(values[i][0].x);
                    bits[i][1] = __float_as_uint(values[i][0].y);
                    bits[i][2] = __float_as_uint(values[i][1].x);
                    bits[i][3] = __float_as_uint(values[i][1].y);
                }
                const unsigned long long a_tile = described(a_ring + slot * A_BYTES);
                multiply_begin();
#pragma unroll
                for (int i = 0; i < STAGE / 8; ++i) {
                    multiply(sum, bits[i], a_tile + i * 32 / 16, stage + i > 0);
                }
                multiply_commit();
                if (stage + 1 < stages) {  // while the tensor cores work
                    barrier_wait(full + 8 * next, (count + 1) / STAGES % 2);
                    read_b(next);
                }
                multiply_wait();
                keep(bits);
                if (lane == 0) barrier_arrive(empty + 8 * slot);
            }

            // A thread has two neighbouring columns, in two neighbours of each 8 rows.
            const Place place = place_of(tile, tile_rows, tile_cols);
            const int row = place.row * BLOCK_ROWS + lane % 4 * 2;
            const int col = place.col * BLOCK_COLS + own_col;
            const bool whole = (place.row + 1) * BLOCK_ROWS <= M && beta == 0 && N % 2 == 0 &&
                               (place.col + 1) * BLOCK_COLS <= N && size_t(out) % 8 == 0;
            float* to = out + size_t(row) * N + col;
            const float* add = c + size_t(row) * N + col;
#pragma unroll
            for (int n = 0; n < SUMS / 2; ++n) {
                const int r = n / 2 * 8 + n % 2;
                const float left = alpha * sum[n / 2 * 4 + n % 2];
                const float right = alpha * sum[n / 2 * 4 + n % 2 + 2];
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
