// Kernels with bulk copies, tensor maps, mbarriers and matrix products of warpgroups, for compute
// capability 9.0a. tests/counter_cases/hopper.py launches them.

#include "mbarriers.cuh"

// The lanes of the first warp each copy `bytes` bytes. Then all threads read with a stride.
extern "C" __global__ void bulk_by_lanes(const float* x, float* out, int bytes, int stride) {
    __shared__ __align__(128) float s[4096];
    __shared__ wide full;
    const int t = threadIdx.x, block = blockIdx.x * 8 * bytes;
    if (t == 0) {
        start(at(&full));
    }
    __syncthreads();
    if (t < 32) {
        if (t == 0) expect(at(&full), 32 * bytes);
        __syncwarp();
        bring(at(s) + t * bytes, x + block + t * bytes / 4, bytes, at(&full));
    }
    wait(at(&full), 0);
    for (int i = 0; i < 4; ++i)
        out[blockIdx.x * blockDim.x + t] += s[(t * stride + i) % (8 * bytes)];
}

// Copies in, changes, and copies out. Only lanes below `copies` of the last warp copy.
extern "C" __global__ void bulk_there_and_back(const float* x, float* out, int copies) {
    __shared__ __align__(128) float s[2048];
    __shared__ wide full;
    const int t = threadIdx.x, first = blockIdx.x * 2048;
    if (t == 0) {
        start(at(&full));
        expect(at(&full), sizeof s);
        bring(at(s), x + first, sizeof s, at(&full));
    }
    __syncthreads();
    wait(at(&full), 0);
    for (int i = t; i < 2048; i += blockDim.x) s[i] = 2 * s[i] + i;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const int lane = t - (blockDim.x - 32);
    if (lane >= 0 && lane < copies) {
        take_out(out + first + lane * 64, at(s + lane * 64), 256);
        end_group();
    }
}

// A ring of four stages: one warp copies, the others read. The consumers read with bank conflicts.
template <bool boxes>
__device__ void ring(const Map* map, const float* x, float* out, int stages) {
    __shared__ __align__(1024) float s[4][32][32];
    __shared__ wide barriers[8];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const unsigned full = at(barriers), empty = full + 32;
    if (t == 0) {
        for (int i = 0; i < 4; ++i) {
            init(full + 8 * i, 1);
            init(empty + 8 * i, blockDim.x / 32 - 1);
        }
        init_done();
    }
    __syncthreads();
    if (warp == 0) {
        for (int i = 0; i < stages; ++i) {
            const int slot = i % 4;
            wait(empty + 8 * slot, i / 4 % 2 ^ 1);
            if (lane == 0) {
                expect(full + 8 * slot, 4096);
                if (boxes) bring_box(at(s[slot]), map, i * 32, blockIdx.x * 32, full + 8 * slot);
            }
            __syncwarp();
            if (!boxes && lane < 4)
                bring(at(s[slot]) + lane * 1024, x + (blockIdx.x * stages + i) * 1024 + lane * 256,
                      1024, full + 8 * slot);
        }
        return;
    }
    float sum = 0;
    for (int i = 0; i < stages; ++i) {
        const int slot = i % 4;
        wait(full + 8 * slot, i / 4 % 2);
        for (int k = 0; k < 8; ++k) sum += s[slot][lane][(k + warp) % 32] * s[slot][k][lane];
        __syncwarp();
        if (lane == 0) arrive(empty + 8 * slot);
    }
    out[blockIdx.x * blockDim.x + t] = sum;
}
extern "C" __global__ void bulk_ring(const float* x, float* out, int stages) {
    ring<false>(nullptr, x, out, stages);
}
extern "C" __global__ void box_ring(const __grid_constant__ Map map, const float* x, float* out,
                                    int stages) {
    ring<true>(&map, x, out, stages);
}

// Copies a box, transposes it in shared memory and copies it out.
extern "C" __global__ void transpose_boxes(const __grid_constant__ Map from,
                                           const __grid_constant__ Map to, const float* x,
                                           float* out) {
    __shared__ __align__(128) float a[32][32], b[32][32];
    __shared__ wide full;
    const int t = threadIdx.x;
    if (t == 0) {
        start(at(&full));
        expect(at(&full), sizeof a);
        bring_box(at(a), &from, blockIdx.x * 32, blockIdx.y * 32, at(&full));
    }
    __syncthreads();
    wait(at(&full), 0);
    for (int i = t / 32; i < 32; i += blockDim.x / 32) b[t % 32][i] = a[i][t % 32];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        take_out_box(&to, blockIdx.y * 32, blockIdx.x * 32, at(b));
        end_group();
    }
}

// Each block of a cluster gets the box that the first block copies.
extern "C" __global__ void __cluster_dims__(2)
    share_boxes(const __grid_constant__ Map map, const float* x, float* out) {
    __shared__ __align__(128) float s[32][32];
    __shared__ wide full;
    const int t = threadIdx.x;
    if (t == 0) {
        start(at(&full));
        expect(at(&full), sizeof s);
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (t == 0 && blockIdx.x % 2 == 0)
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
            ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(at(s)),
            "l"(&map), "r"(0), "r"(int(blockIdx.x / 2) * 32), "r"(at(&full)), "h"((short)3)
            : "memory");
    wait(at(&full), 0);
    out[blockIdx.x * blockDim.x + t] = s[t % 32][t / 32] + s[t / 32][t % 32];
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

// Warps exchange values, phase by phase, with an mbarrier in place of __syncthreads().
extern "C" __global__ void phases(const float* x, float* out, int count) {
    __shared__ float s[2][256];
    __shared__ wide barrier;
    const int t = threadIdx.x;
    if (t == 0) init(at(&barrier), blockDim.x);
    __syncthreads();
    float v = x[blockIdx.x * blockDim.x + t];
    for (int i = 0; i < count; ++i) {
        s[i % 2][t] = v;
        arrive(at(&barrier));
        wait(at(&barrier), i % 2);
        v += s[i % 2][(t * 2 + i) % blockDim.x];
    }
    out[blockIdx.x * blockDim.x + t] = v;
}

// What a thread reads depends on whether the copy is complete.
extern "C" __global__ void impatient(const float* x, float* out) {
    __shared__ __align__(128) float s[1024];
    __shared__ wide full;
    const int t = threadIdx.x;
    if (t == 0) {
        start(at(&full));
        expect(at(&full), sizeof s);
        bring(at(s), x, sizeof s, at(&full));
    }
    __syncthreads();
    float sum = 0;
    while (!done(at(&full), 0)) sum += x[1024 + t];
    out[t] = s[t] + sum;
}

// Products of a warpgroup after a change of the number of registers.
extern "C" __global__ void __launch_bounds__(256, 1)
    few_registers(const unsigned* x, float* out, int steps) {
    __shared__ __align__(1024) unsigned s[8192];
    const int t = threadIdx.x;
    for (int i = t; i < 8192; i += blockDim.x) s[i] = x[i];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (t < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        out[4096 + blockIdx.x * 128 + t] = s[t * 4] + t;
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[16];
    for (int i = 0; i < 16; ++i) d[i] = 0;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int i = 0; i < steps; ++i) {
        const wide a = wide(at(s) / 16 + i * 2) | 1ull << 16 | 64ull << 32 | 1ull << 62;
        const wide b = wide(at(s + 4096) / 16 + i * 2) | 1ull << 16 | 64ull << 32 | 1ull << 62;
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, "
            "%8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, 1, 1, 1, 0, 0;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
              "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),
              "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
            : "l"(a), "l"(b));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 16; ++i) out[(blockIdx.x * 16 + i) * 128 + t - 128] = d[i];
}
