// Tensor cores for float64: a warp multiplies 16 x 8 x 8 values with one instruction (mma.sync).
//
// DFMA, the multiply-add for float64, reaches half of the speed that the tensor cores have for
// float64. The tensor cores take their operands from registers: each lane has a few values of the
// tiles of A and B. Tensor maps and a ring bring the tiles as in 19_bf16. Eight warps read them and
// multiply; each computes 64 x 32 elements of a tile.
//
// OPERANDS. For an instruction, a lane has 4 values of A (two rows, two steps of k) and 2 of B (two
// steps of k), in consecutive registers. A load of 16 bytes would read two neighbours of a row, but
// these do not belong side by side in registers. They would have to be moved to other registers,
// and the tensor cores would wait for the moves. Therefore each load is only 8 bytes, although this
// takes more loads.
//
// BANKS. A row of a box is 16 doubles, 128 bytes: eight parts of 16 bytes, which the copy reorders
// by the row's index modulo 8. Half a warp is served at a time. So each of its 16 lanes must read a
// different 8 bytes of the 128. With g = lane / 4 and t = lane % 4, a lane reads
//   A: row g % 4 * 2 + g / 4 of each 8 rows, k = t of each 4 steps.
//   B: column g % 2 + g / 2 % 2 * 8 + g / 4 * 2 of each 16, or the column 4 further on; the same k.
//
// Rows of `a` and `b` begin at multiples of 16 bytes.

#ifndef BLOCK_ROWS
#define BLOCK_ROWS 128  // or 64
#endif
#ifndef BLOCK_COLS
#define BLOCK_COLS 128  // or 64
#endif
#define STAGE 16  // steps of k, 128 bytes
#define DEPTH 8   // steps of k per instruction
#define STAGES 6
#define GROUP 8  // rows of tiles per group; tiles are numbered group by group, to reuse L2
#define BOX_ROWS 64
#define BOX_COLS 16
#define WARPGROUP 128  // threads
#define THREADS (3 * WARPGROUP)
#define WARPS 8                   // warps that multiply
#define ACROSS (BLOCK_COLS / 32)  // of these warps, those side by side
#define WARP_ROWS (BLOCK_ROWS / (WARPS / ACROSS))
#define ROWS (WARP_ROWS / 16)  // a warp computes ROWS x COLS tiles of 16 x 8 elements
#define COLS 4

#define A_BYTES (BLOCK_ROWS * STAGE * 8)
#define B_BYTES (STAGE * BLOCK_COLS * 8)
#define A_BOX_BYTES (BOX_ROWS * STAGE * 8)
#define B_BOX_BYTES (STAGE * BOX_COLS * 8)

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

// d += a * b, 16 x 8 x 8.
__device__ void multiply(double (&d)[4], const double (&a)[4], const double (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}

struct Place {
    int row, col;  // the tile's position, counted in tiles
};
__device__ Place place_of(int tile, int tile_rows, int tile_cols) {
    const int group = tile / (GROUP * tile_cols), in_group = tile % (GROUP * tile_cols);
    const int rows = min(GROUP, tile_rows - group * GROUP);
    return {group * GROUP + in_group % rows, in_group / rows};
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) dmma(
    const double* a, const double* b, const __grid_constant__ TensorMap a_map,
    const __grid_constant__ TensorMap b_map, const double* __restrict__ c, double* __restrict__ out,
    int M, int N, int K, double alpha, double beta) {
    extern __shared__ __align__(1024) char ring[];  // STAGES of A, STAGES of B
    __shared__ __align__(8) unsigned long long barriers[2 * STAGES];
    const unsigned a_ring = shared_address(ring), b_ring = a_ring + STAGES * A_BYTES;
    const unsigned full = shared_address(barriers), empty = full + 8 * STAGES;
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

    if (threadIdx.x >= 2 * WARPGROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x > 2 * WARPGROUP) return;
        unsigned count = 0;  // stages so far
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const Place place = place_of(tile, tile_rows, tile_cols);
            for (int stage = 0; stage < stages; ++stage, ++count) {
                const int slot = count % STAGES;
                const unsigned ready = full + 8 * slot;
                barrier_wait(empty + 8 * slot, (count / STAGES % 2) ^ 1);
                barrier_expect(ready, A_BYTES + B_BYTES);
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
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const int warp_row = warp / ACROSS * WARP_ROWS, warp_col = warp % ACROSS * 32;
        const int a_row = g % 4 * 2 + g / 4, b_col = g % 2 + g / 2 % 2 * 8 + g / 4 * 2;
        const char* const a_own = ring + (warp_row + a_row) * 128 + t % 2 * 8;
        const char* const b_own =
            ring + STAGES * A_BYTES + warp_col / 16 * B_BOX_BYTES + t * 128 + g % 2 * 8;
        // Values are read before they are needed. Values of A: one tile (16 rows) ahead. Values of
        // B: 8 columns at a time, as soon as the last tile of rows has used the old ones.
        double a_values[2][4], b_values[COLS][2];
        const auto read_a = [&](unsigned slot, int k, int i, int into) {
#pragma unroll
            for (int x = 0; x < 4; ++x) {
                const int part = (k + x / 2 * 4) / 2 + t / 2, row = i * 16 + x % 2 * 8;
                a_values[into][x] = *reinterpret_cast<const double*>(
                    a_own + slot * A_BYTES + row * 128 + (part ^ a_row) * 16);
            }
        };
        const auto read_b = [&](unsigned slot, int k, int j) {
#pragma unroll
            for (int x = 0; x < 2; ++x) {
                const int part = b_col / 2 + j % 2 * 2, row = k + x * 4;  // t rows further on
                b_values[j][x] = *reinterpret_cast<const double*>(
                    b_own + slot * B_BYTES + j / 2 * B_BOX_BYTES + row * 128 +
                    (part ^ (t + x * 4)) * 16);
            }
        };
        const int own_tiles = (tiles - int(blockIdx.x) + int(gridDim.x) - 1) / int(gridDim.x);
        const unsigned total = unsigned(max(own_tiles, 0)) * stages;
        if (total == 0) return;
        barrier_wait(full, 0);
        read_a(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < COLS; ++j) read_b(0, 0, j);
        unsigned count = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            double sum[ROWS][COLS][4] = {};
#pragma unroll 1
            for (int stage = 0; stage < stages; ++stage, ++count) {
                const unsigned slot = count % STAGES;
                unsigned next = slot;
                if (count + 1 < total) {
                    next = (count + 1) % STAGES;
                    barrier_wait(full + 8 * next, (count + 1) / STAGES % 2);
                }
#pragma unroll
                for (int n = 0; n < STAGE / DEPTH * ROWS; ++n) {
                    const int i = n % ROWS, after = (n + 1) % (STAGE / DEPTH * ROWS);
                    const unsigned from = after == 0 ? next : slot;
                    read_a(from, after / ROWS * DEPTH, after % ROWS, after % 2);
#pragma unroll
                    for (int j = 0; j < COLS; ++j) {
                        multiply(sum[i][j], a_values[n % 2], b_values[j]);
                        if (i + 1 == ROWS) read_b(from, after / ROWS * DEPTH, j);
                    }
                }
                __syncwarp();
                if (lane == 0) barrier_arrive(empty + 8 * slot);
            }

            const Place place = place_of(tile, tile_rows, tile_cols);
            const int row = place.row * BLOCK_ROWS + warp_row + a_row;
            const int col = place.col * BLOCK_COLS + warp_col + t % 2 * 8 + t / 2 * 2;
            const bool whole = (place.row + 1) * BLOCK_ROWS <= M && beta == 0 && N % 2 == 0 &&
                               (place.col + 1) * BLOCK_COLS <= N && size_t(out) % 16 == 0;
#pragma unroll
            for (int n = 0; n < 2 * ROWS * COLS; ++n) {
                const int j = n % COLS, lower = n / COLS % 2, i = n / (2 * COLS);
                const int r = row + i * 16 + lower * 8, s = col + j / 2 * 16 + j % 2 * 4;
                const double two[2] = {
                    alpha * sum[i][j][2 * lower], alpha * sum[i][j][2 * lower + 1]};
                const size_t at = size_t(r) * N + s;
                if (whole) {
                    *reinterpret_cast<double2*>(out + at) = make_double2(two[0], two[1]);
                    continue;
                }
                for (int x = 0; x < 2; ++x) {
                    if (r >= M || s + x >= N) continue;
                    out[at + x] = two[x] + (beta != 0 ? beta * c[at + x] : 0);
                }
            }
        }
    }
}
