// Whole kernels like those of courses and libraries. They were written after the counting rules were
// complete. So their counters are an independent check of these rules.
// counter_cases/programs.py launches each.
#include <cooperative_groups.h>
#include <cuda_fp16.h>

namespace cg = cooperative_groups;
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL extern "C" __global__ void
#define I (blockIdx.x * blockDim.x + threadIdx.x)

// ---- vectors ----

KERNEL saxpy(int n, float a, const float* __restrict__ x, float* __restrict__ y) {
    const int i = I;
    if (i < n) y[i] = a * x[i] + y[i];
}
KERNEL saxpy_vectors(int n, float a, const float4* __restrict__ x, float4* __restrict__ y) {
    const int i = I;
    if (i >= n) return;
    const float4 u = x[i];
    float4 v = y[i];
    v.x += a * u.x, v.y += a * u.y, v.z += a * u.z, v.w += a * u.w;
    y[i] = v;
}
KERNEL complex_product(const double2* a, const double2* b, double2* out, int n) {
    for (int i = I; i < n; i += gridDim.x * blockDim.x)
        out[i] = make_double2(a[i].x * b[i].x - a[i].y * b[i].y, a[i].x * b[i].y + a[i].y * b[i].x);
}
KERNEL half_axpy(int n, const __half2* x, __half2* y) {
    const int i = I;
    if (i < n) y[i] = __hfma2(__float2half2_rn(0.5f), x[i], y[i]);
}
// Each thread processes its own chunk, so neighbouring threads access distant addresses.
KERNEL chunked_sum(const float* x, float* out, int n, int chunk) {
    const int first = I * chunk;
    float sum = 0;
    for (int k = 0; k < chunk && first + k < n; ++k) sum += x[first + k];
    out[I] = sum;
}

// ---- reductions and scans ----

KERNEL reduce(const float* x, float* out, int n) {
    __shared__ float s[512];
    const int block = blockDim.x;
    float sum = 0;
    for (int i = blockIdx.x * block * 2 + threadIdx.x; i < n; i += gridDim.x * block * 2)
        sum += x[i] + (i + block < n ? x[i + block] : 0.0f);
    s[threadIdx.x] = sum;
    __syncthreads();
    for (int half = block / 2; half >= 32; half /= 2) {
        if (threadIdx.x < half) s[threadIdx.x] = sum += s[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x < 32)
        for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
KERNEL reduce_interleaved(const float* x, float* out, int n) {
    extern __shared__ float s[];
    const int i = I;
    s[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        const int at = 2 * step * threadIdx.x;
        if (at < blockDim.x) s[at] += s[at + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
KERNEL reduce_groups(const double* x, double* out, int n) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    double sum = 0;
    for (int i = I; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    for (int step = warp.size() / 2; step > 0; step /= 2) sum += warp.shfl_down(sum, step);
    if (warp.thread_rank() == 0) atomicAdd(out, sum);
}
KERNEL argmax(const float* x, u64* best, int n) {
    u64 mine = 0;
    for (int i = I; i < n; i += gridDim.x * blockDim.x) {
        const u64 key = (u64(__float_as_uint(x[i])) << 32) | u32(i);
        mine = mine > key ? mine : key;
    }
    for (int step = 16; step > 0; step /= 2) {
        const u64 other = __shfl_xor_sync(0xffffffff, mine, step);
        mine = mine > other ? mine : other;
    }
    if (threadIdx.x % 32 == 0) atomicMax(best, mine);
}
KERNEL scan_warps(const int* x, int* out, int* sums, int n) {
    __shared__ int totals[32];
    const int i = I, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int v = i < n ? x[i] : 0;
    for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(0xffffffff, v, step);
        if (lane >= step) v += other;
    }
    if (lane == 31) totals[warp] = v;
    __syncthreads();
    if (warp == 0) {
        int total = lane < blockDim.x / 32 ? totals[lane] : 0;
        for (int step = 1; step < 32; step *= 2) {
            const int other = __shfl_up_sync(0xffffffff, total, step);
            if (lane >= step) total += other;
        }
        totals[lane] = total;
    }
    __syncthreads();
    if (warp > 0) v += totals[warp - 1];
    if (i < n) out[i] = v;
    if (threadIdx.x == blockDim.x - 1) sums[blockIdx.x] = v;
}
KERNEL compact(const int* x, int* out, int* count, int n) {
    const int i = I, lane = threadIdx.x % 32;
    const int v = i < n ? x[i] : 0;
    const bool keep = i < n && v % 3 == 0;
    const u32 kept = __ballot_sync(0xffffffff, keep);
    int base = 0;
    if (lane == 0 && kept) base = atomicAdd(count, __popc(kept));
    base = __shfl_sync(0xffffffff, base, 0);
    if (keep) out[base + __popc(kept & ((1u << lane) - 1))] = v;
}

// ---- matrices ----

KERNEL matvec_warps(const float* a, const float* x, float* y, int rows, int cols) {
    const int row = I / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0;
    for (int k = lane; k < cols; k += 32) sum += a[row * cols + k] * x[k];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
    if (lane == 0) y[row] = sum;
}
KERNEL matvec_columns(const float* a, const float* x, float* y, int rows, int cols) {
    const int row = I;
    if (row >= rows) return;
    float sum = 0;
    for (int k = 0; k < cols; ++k) sum += a[row * cols + k] * x[k];
    y[row] = sum;
}
// Tiles of 64 x 64 with 4 x 4 results per thread. The tiles of a are transposed when they are filled.
KERNEL gemm_registers(const float* a, const float* b, float* c, int n) {
    __shared__ float as[8][64 + 4], bs[8][64];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int row = blockIdx.y * 64, col = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k = 0; k < n; k += 8) {
        for (int i = threadIdx.x; i < 512; i += 256) {
            as[i % 8][i / 8] = a[(row + i / 8) * n + k + i % 8];
            bs[i / 64][i % 64] = b[(k + i / 64) * n + col + i % 64];
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 8; ++kk) {
            float u[4], v[4];
            for (int i = 0; i < 4; ++i) u[i] = as[kk][4 * ty + i], v[i] = bs[kk][4 * tx + i];
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sum[i][j] += u[i] * v[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) c[(row + 4 * ty + i) * n + col + 4 * tx + j] = sum[i][j];
}
KERNEL batched_3x3(const double* a, const double* b, double* c, int batch) {
    const int m = I / 9, e = I % 9;
    if (m >= batch) return;
    double sum = 0;
    for (int k = 0; k < 3; ++k) sum += a[9 * m + e / 3 * 3 + k] * b[9 * m + 3 * k + e % 3];
    c[9 * m + e] = sum;
}
KERNEL floyd_step(float* d, int n, int k) {
    const int j = I, i = blockIdx.y;
    if (j < n) d[i * n + j] = fminf(d[i * n + j], d[i * n + k] + d[k * n + j]);
}
KERNEL softmax_rows(const float* x, float* out, int cols) {
    __shared__ float s[8];
    const float* row = x + blockIdx.x * cols;
    float top = -1e30f, sum = 0;
    for (int k = threadIdx.x; k < cols; k += blockDim.x) top = fmaxf(top, row[k]);
    for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = top;
    __syncthreads();
    top = s[0];
    for (int w = 1; w < blockDim.x / 32; ++w) top = fmaxf(top, s[w]);
    __syncthreads();
    for (int k = threadIdx.x; k < cols; k += blockDim.x) sum += __expf(row[k] - top);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < blockDim.x / 32; ++w) sum += s[w];
    for (int k = threadIdx.x; k < cols; k += blockDim.x)
        out[blockIdx.x * cols + k] = __expf(row[k] - top) / sum;
}

// ---- sparse matrices and graphs ----

KERNEL csr_warps(const int* first, const int* column, const float* value, const float* x, float* y,
                 int rows) {
    const int row = I / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0;
    for (int e = first[row] + lane; e < first[row + 1]; e += 32) sum += value[e] * x[column[e]];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (lane == 0) y[row] = sum;
}
KERNEL ell(const int* column, const float* value, const float* x, float* y, int rows, int width) {
    const int row = I;
    if (row >= rows) return;
    float sum = 0;
    for (int k = 0; k < width; ++k) sum += value[k * rows + row] * x[column[k * rows + row]];
    y[row] = sum;
}
KERNEL bfs_level(const int* first, const int* edge, int* depth, int* changed, int level, int nodes) {
    const int node = I;
    if (node >= nodes || depth[node] != level) return;
    for (int e = first[node]; e < first[node + 1]; ++e)
        if (depth[edge[e]] < 0) {
            depth[edge[e]] = level + 1;
            *changed = 1;
        }
}
KERNEL hash_lookup(const u32* keys, const u32* table, int* where, int n, u32 slots) {
    const int i = I;
    if (i >= n) return;
    u32 slot = keys[i] * 2654435761u % slots;
    for (u32 probe = 0; probe < slots; ++probe) {
        const u32 at = (slot + probe) % slots, held = table[at];
        if (held == keys[i] || held == 0) {
            where[i] = held ? int(at) : -1;
            return;
        }
    }
}
KERNEL merge_path(const int* a, const int* b, int* out, int n) {
    const int i = I;  // a and b are sorted arrays of n elements; each thread places one element of each
    if (i >= n) return;
    int low = 0, high = n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (b[middle] < a[i]) low = middle + 1; else high = middle;
    }
    out[i + low] = a[i];
    low = 0, high = n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (a[middle] <= b[i]) low = middle + 1; else high = middle;
    }
    out[i + low] = b[i];
}

// ---- pictures and grids ----

KERNEL grey(const uchar3* rgb, u8* out, int width, int height) {
    const int x = I, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const uchar3 p = rgb[y * width + x];
    out[y * width + x] = u8(0.299f * p.x + 0.587f * p.y + 0.114f * p.z);
}
KERNEL invert(const uchar4* in, uchar4* out, int pixels) {
    const int i = I;
    if (i < pixels) out[i] = make_uchar4(255 - in[i].x, 255 - in[i].y, 255 - in[i].z, in[i].w);
}
KERNEL box_blur(const u8* in, u8* out, int width, int height) {
    const int x = I, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int sum = 0, count = 0;
    for (int dy = -2; dy <= 2; ++dy)
        for (int dx = -2; dx <= 2; ++dx)
            if (x + dx >= 0 && x + dx < width && y + dy >= 0 && y + dy < height)
                sum += in[(y + dy) * width + x + dx], ++count;
    out[y * width + x] = u8(sum / count);
}
__constant__ float MASK[25] = {1, 4, 6, 4, 1, 4, 16, 24, 16, 4, 6, 24, 36, 24, 6, 4, 16, 24, 16, 4, 1, 4, 6, 4, 1};
KERNEL convolve_tiles(const float* in, float* out, int width, int height) {
    __shared__ float tile[20][20];
    const int x0 = blockIdx.x * 16 - 2, y0 = blockIdx.y * 16 - 2;
    for (int i = threadIdx.y * 16 + threadIdx.x; i < 400; i += 256) {
        const int x = x0 + i % 20, y = y0 + i / 20;
        tile[i / 20][i % 20] = x >= 0 && x < width && y >= 0 && y < height ? in[y * width + x] : 0.0f;
    }
    __syncthreads();
    const int x = x0 + 2 + threadIdx.x, y = y0 + 2 + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0;
    for (int j = 0; j < 5; ++j)
        for (int i = 0; i < 5; ++i) sum += MASK[5 * j + i] * tile[threadIdx.y + j][threadIdx.x + i];
    out[y * width + x] = sum / 256;
}
KERNEL heat_3d(const float* in, float* out, int nx, int ny, int nz) {
    const int x = I, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    const int plane = nx * ny;
    float below = in[y * nx + x], here = in[plane + y * nx + x];
    for (int z = 1; z < nz - 1; ++z) {
        const int i = z * plane + y * nx + x;
        const float above = in[i + plane];
        out[i] = 0.4f * here + 0.1f * (below + above + in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx]);
        below = here, here = above;
    }
}
KERNEL mandelbrot(u8* out, int width, int height) {
    const int px = I, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    const float cx = 3.0f * px / width - 2, cy = 2.0f * py / height - 1;
    float x = 0, y = 0;
    int k = 0;
    for (; k < 100 && x * x + y * y < 4; ++k) {
        const float t = x * x - y * y + cx;
        y = 2 * x * y + cy, x = t;
    }
    out[py * width + px] = u8(k);
}
KERNEL histogram_private(const u8* data, int* bins, int n) {
    __shared__ int mine[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) mine[b] = 0;
    __syncthreads();
    for (int i = I; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[data[i]], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) if (mine[b]) atomicAdd(&bins[b], mine[b]);
}

// ---- physics, signals, random numbers ----

KERNEL nbody_tiles(const float4* body, float4* force, int n) {
    __shared__ float4 tile[128];
    const int i = I;
    const float4 me = body[i];
    float3 sum = {0, 0, 0};
    for (int t = 0; t < n; t += 128) {
        tile[threadIdx.x] = body[t + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 128; ++j) {
            const float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            const float s = tile[j].w * inverse * inverse * inverse;
            sum.x += dx * s, sum.y += dy * s, sum.z += dz * s;
        }
        __syncthreads();
    }
    force[i] = make_float4(sum.x, sum.y, sum.z, 0);
}
struct Particle { float x, y, z, vx, vy, vz, mass; };
KERNEL particles_aos(Particle* p, int n, float dt) {
    const int i = I;
    if (i >= n) return;
    p[i].x += p[i].vx * dt, p[i].y += p[i].vy * dt, p[i].z += p[i].vz * dt;
}
KERNEL particles_soa(float* x, float* y, float* z, const float* vx, const float* vy, const float* vz, int n,
                     float dt) {
    const int i = I;
    if (i >= n) return;
    x[i] += vx[i] * dt, y[i] += vy[i] * dt, z[i] += vz[i] * dt;
}
KERNEL fft_256(const float2* in, float2* out) {
    __shared__ float2 s[256];
    const int t = threadIdx.x;  // 128 threads and 256 points per block
    s[__brev(t) >> 24] = in[blockIdx.x * 256 + t];
    s[__brev(t + 128) >> 24] = in[blockIdx.x * 256 + t + 128];
    for (int half = 1; half < 256; half *= 2) {
        __syncthreads();
        const int j = t % half, at = t / half * 2 * half + j;
        float sine, cosine;
        __sincosf(-3.14159265f * j / half, &sine, &cosine);
        const float2 u = s[at], v = s[at + half];
        const float2 w = make_float2(v.x * cosine - v.y * sine, v.x * sine + v.y * cosine);
        s[at] = make_float2(u.x + w.x, u.y + w.y);
        s[at + half] = make_float2(u.x - w.x, u.y - w.y);
    }
    __syncthreads();
    out[blockIdx.x * 256 + t] = s[t];
    out[blockIdx.x * 256 + t + 128] = s[t + 128];
}
KERNEL pi_by_chance(u64* inside, int rounds) {
    u32 state = I * 747796405u + 2891336453u;
    int hits = 0;
    for (int k = 0; k < rounds; ++k) {
        state = state * 1664525u + 1013904223u;
        const float x = (state >> 8) * 0x1p-24f;
        state = state * 1664525u + 1013904223u;
        const float y = (state >> 8) * 0x1p-24f;
        hits += x * x + y * y < 1;
    }
    hits = __reduce_add_sync(0xffffffff, hits);
    if (threadIdx.x % 32 == 0) atomicAdd(inside, u64(hits));
}
KERNEL black_scholes(const float* price, const float* strike, const float* years, float* call, int n) {
    const int i = I;
    if (i >= n) return;
    const float s = price[i] + 0.5f, k = strike[i] + 0.5f, t = years[i] + 0.1f, root = sqrtf(t);
    const float d1 = (logf(s / k) + (0.02f + 0.045f) * t) / (0.3f * root), d2 = d1 - 0.3f * root;
    call[i] = s * normcdff(d1) - k * expf(-0.02f * t) * normcdff(d2);
}
KERNEL dot_bytes(const int* a, const int* b, int* out, int n) {
    const int i = I;
    int sum = 0;
    for (int k = i; k < n; k += gridDim.x * blockDim.x) sum = __dp4a(a[k], b[k], sum);
    sum = __reduce_add_sync(0xffffffff, sum);
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}
KERNEL crc_rows(const u8* data, u32* out, int length, int rows) {
    const int row = I;
    if (row >= rows) return;
    u32 crc = ~0u;
    for (int k = 0; k < length; ++k) {
        crc ^= data[row * length + k];
        for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    out[row] = ~crc;
}
KERNEL odd_even_sort(int* x, int n) {
    extern __shared__ int s_[];
    const int t = threadIdx.x, base = blockIdx.x * blockDim.x * 2;
    s_[t] = x[base + t], s_[t + blockDim.x] = x[base + t + blockDim.x];
    for (int round = 0; round < n; ++round) {
        __syncthreads();
        const int at = 2 * t + round % 2;
        if (at + 1 < 2 * blockDim.x && s_[at] > s_[at + 1]) {
            const int held = s_[at];
            s_[at] = s_[at + 1], s_[at + 1] = held;
        }
    }
    __syncthreads();
    x[base + t] = s_[t], x[base + t + blockDim.x] = s_[t + blockDim.x];
}
