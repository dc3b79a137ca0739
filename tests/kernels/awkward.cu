// Kernels whose counters are easy to get wrong, to be compared with the hardware's counters.
// counter_cases/awkward.py launches each, often with grids and blocks that are larger or smaller
// than the arrays.
#include <cuda_fp16.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL extern "C" __global__ void
#define I (blockIdx.x * blockDim.x + threadIdx.x)

// ---- shapes of blocks and warps ----

KERNEL rows_2d(const float* in, float* out, int rows, int cols) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x,
              row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && col < cols) out[row * cols + col] = in[row * cols + col];
}
KERNEL columns_2d(const float* in, float* out, int rows, int cols) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x,
              row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && col < cols) out[col * rows + row] = in[row * cols + col];
}
KERNEL volume_3d(const float* in, float* out, int nx, int ny, int nz) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
              z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz) return;
    const int i = (z * ny + y) * nx + x;
    float sum = in[i];
    if (x > 0) sum += in[i - 1];
    if (y > 0) sum += in[i - nx];
    if (z > 0) sum += in[i - nx * ny];
    out[i] = sum;
}
KERNEL grid_stride(const float* in, float* out, int n) {
    for (int i = I; i < n; i += gridDim.x * blockDim.x) out[i] = 2 * in[i];
}
KERNEL one_thread(const float* in, float* out, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += in[i];
    out[blockIdx.x] = sum;
}

// ---- widths, alignment, structures ----

struct Vec3 {
    float x, y, z;
};
struct Mixed {
    double d;
    int i;
};
struct Five {
    int a, b, c, d, e;
};
struct Packed {
    u32 low : 5, middle : 11, high : 16;
};
struct alignas(16) Wide {
    float x, y, z, w;
};
KERNEL aos_12(const Vec3* in, float* out, int n) {
    const int i = I;
    if (i < n) out[i] = in[i].x + in[i].y * in[i].z;
}
KERNEL aos_12_copy(const Vec3* in, Vec3* out, int n) {
    const int i = I;
    if (i < n) out[i] = in[i];
}
KERNEL aos_16(const Mixed* in, Mixed* out, int n) {
    const int i = I;
    if (i < n) out[i].i = in[i].i + int(in[i].d);
}
KERNEL aos_16_aligned(const Wide* in, Wide* out, int n) {
    const int i = I;
    if (i < n) {
        Wide w = in[i];
        w.x += w.w;
        out[i] = w;
    }
}
KERNEL aos_20(const Five* in, Five* out, int n) {
    const int i = I;
    if (i < n) out[i] = in[i];
}
KERNEL aos_20_field(const Five* in, int* out, int n) {
    const int i = I;
    if (i < n) out[i] = in[i].d;
}
KERNEL bit_fields(Packed* x, int n) {
    const int i = I;
    if (i < n) {
        x[i].middle += x[i].low;
        x[i].high ^= 1;
    }
}
KERNEL bytes_in_words(const u8* in, u8* out, int n) {
    const int i = I;
    if (i < n / 4)
        for (int k = 0; k < 4; ++k) out[4 * i + k] = in[4 * i + 3 - k];
}
KERNEL vector_parts(const float4* in, float* out, int n) {
    const int i = I;
    if (i < n) {
        const float4 v = in[i];
        out[i] = v.x + v.w;
    }
}
KERNEL vector_cast(const float* in, float* out, int n) {
    const int i = 4 * I;
    if (i + 3 < n) {
        const float4 v = *reinterpret_cast<const float4*>(in + i);
        *reinterpret_cast<float2*>(out + i) = make_float2(v.x + v.y, v.z + v.w);
    }
}
KERNEL halves(const __half2* in, __half* out, int n) {
    const int i = I;
    if (i < n) out[i] = __hadd(__low2half(in[i]), __high2half(in[i]));
}
KERNEL bools(const bool* flag, const float* in, float* out, int n) {
    const int i = I;
    if (i < n) out[i] = flag[i] ? in[i] : 0.0f;
}

// ---- divergence and predication ----

KERNEL odd_even(const float* a, const float* b, float* out, int n) {
    const int i = I;
    if (i >= n) return;
    if (threadIdx.x & 1)
        out[i] = sinf(a[i]) + 1;
    else
        out[i] = b[i] * 3 + a[i / 2];
}
KERNEL short_if(const float* flag, const float* in, float* out, int n) {
    const int i = I;
    if (i < n && flag[i] > 0.5f) out[i] = in[i];
}
KERNEL short_if_else(const float* flag, const float* a, const float* b, float* out, int n) {
    const int i = I;
    if (i < n) {
        if (flag[i] > 0.5f)
            out[i] = a[i];
        else
            out[i] = b[i] + 1;
    }
}
KERNEL nested_if(const float* flag, const float* in, float* out, int n) {
    const int i = I;
    if (i < n) {
        const float f = flag[i];
        if (f > 0.25f) {
            float v = in[i];
            if (f > 0.5f) {
                v += in[n - 1 - i];
                if (f > 0.75f) v *= in[(i * 7) % n];
            }
            out[i] = v;
        }
    }
}
KERNEL select(const float* flag, const float* a, const float* b, float* out, int n) {
    const int i = I;
    if (i < n) out[i] = flag[i] > 0.5f ? a[i] : b[i];
}
KERNEL short_circuit(const int* index, const float* in, float* out, int n) {
    const int i = I;
    if (i < n && index[i] < n / 2 && in[index[i]] > 0.3f) out[i] = 1;
}
KERNEL switch_four(const int* index, const float* in, float* out, int n) {
    const int i = I;
    if (i >= n) return;
    switch (index[i] & 3) {
        case 0:
            out[i] = in[i];
            break;
        case 1:
            out[i] = in[0];
            break;
        case 2:
            out[i] = in[i ^ 1] + in[i];
            break;
        default:
            out[n - 1 - i] = 5;
    }
}
KERNEL trip_counts(const int* index, const float* in, float* out, int n) {
    const int i = I;
    if (i >= n) return;
    float sum = 0;
    for (int k = 0; k < (index[i] & 15); ++k) sum += in[(i + k * 33) % n];
    out[i] = sum;
}
KERNEL search(const int* sorted, const int* wanted, int* out, int n) {
    const int i = I;
    if (i >= n) return;
    int low = 0, high = n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (sorted[middle] < wanted[i])
            low = middle + 1;
        else
            high = middle;
    }
    out[i] = low;
}
KERNEL first_match(const int* index, const float* in, int* out, int n) {
    const int i = I;
    if (i >= n) return;
    for (int k = 0; k < 32; ++k) {
        if (in[(i + k) % n] > 0.9f) {
            out[i] = k;
            return;
        }
        if (index[(i * 3 + k) % n] == 7) break;
    }
    out[i] = -1;
}
KERNEL warp_off(const float* in, float* out,
                int n) {  // the access of every second warp is predicated off
    const int i = I;
    float v = 0;
    if ((threadIdx.x / 32) % 2 == 0) v = in[i % n];
    if (threadIdx.x % 32 == 0) out[i / 32] = v;
}
KERNEL last_thread(const float* in, float* out, int n) {
    const int i = I;
    if (i == n - 1) out[0] = in[i];
}

// ---- addresses ----

KERNEL gather_scatter(const int* index, const float* in, float* out, int n) {
    const int i = I;
    if (i < n) out[index[i]] = in[index[n - 1 - i]];
}
KERNEL broadcasts(const float* in, float* out, int n) {
    const int i = I;
    if (i < n) out[i] = in[0] + in[blockIdx.x] + in[i / 8] + in[i / 32] + in[i % 4];
}
KERNEL stencil_5(const float* in, float* out, int rows, int cols) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x,
              row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < 1 || row >= rows - 1 || col < 1 || col >= cols - 1) return;
    const int i = row * cols + col;
    out[i] = in[i] + in[i - 1] + in[i + 1] + in[i - cols] + in[i + cols];
}
KERNEL sparse_rows(const int* first, const int* column, const float* value, const float* x,
                   float* y, int rows) {
    const int row = I;
    if (row >= rows) return;
    float sum = 0;
    for (int k = first[row]; k < first[row + 1]; ++k) sum += value[k] * x[column[k]];
    y[row] = sum;
}
KERNEL twice(const float* in, float* out, int n) {  // the compiler may remove the second read
    const int i = I;
    if (i < n) {
        out[i] = in[i];
        out[i] += in[i + 1 < n ? i + 1 : i];
    }
}
KERNEL interleaved(float* a, float* b,
                   int n) {  // a and b may alias, so registers cannot keep values
    const int i = I;
    if (i + 1 < n) {
        a[i] = b[i] + 1;
        b[i + 1] = a[i] + b[i];
    }
}
KERNEL unrolled(const float* in, float* out, int n) {
    const int i = 4 * blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 4; ++k)
        if (i + k * blockDim.x < n) out[i + k * blockDim.x] = in[i + k * blockDim.x] + k;
}
KERNEL index_64(const double* in, double* out, size_t n, size_t stride) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i * stride % n];
}

// ---- kinds of loads and stores ----

KERNEL read_only(const float4* __restrict__ a, const float* __restrict__ b, float* __restrict__ out,
                 int n) {
    const int i = I;
    if (i < n) out[i] = __ldg(&a[i]).y + __ldg(&b[i / 3]) + b[i];
}
KERNEL cache_hints(const float* a, float* out, int n) {
    const int i = I;
    if (i < n) {
        const float v =
            __ldcg(a + i) + __ldcs(a + (i ^ 1)) + __ldlu(a + (i ^ 2)) + __ldcv(a + (i ^ 3));
        __stcg(out + i, v);
        __stcs(out + (i ^ 1), v);
        __stwt(out + (i ^ 2), v);
    }
}
KERNEL volatiles(volatile float* x, volatile int* y, int n) {
    const int i = I;
    if (i < n) {
        x[i] = x[i] + x[i];
        y[i / 2] = 1;
        y[i / 2] = y[i / 2] + 1;
    }
}
__constant__ float weights[64] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ float state[1024];
__device__ u32 counter;
KERNEL constants(const float* in, float* out, int n) {
    const int i = I;
    if (i < n) out[i] = in[i] * weights[3] + weights[i % 8] + weights[blockIdx.x % 64];
}
KERNEL module_variables(float* out, int n) {
    const int i = I;
    if (i < n) {
        state[i % 1024] += 1;
        out[i] = state[(i + 1) % 1024];
        if (threadIdx.x == 0) atomicAdd(&counter, 1);
    }
}
struct Table {
    int entry[16];
};
KERNEL table_parameter(Table table, const int* index, int* out, int n) {
    const int i = I;
    if (i < n) out[i] = table.entry[index[i] & 15] + table.entry[2];
}

// ---- local memory ----

KERNEL local_array(const float* in, const int* index, float* out, int n) {
    const int i = I;
    if (i >= n) return;
    float a[16];
    for (int k = 0; k < 16; ++k) a[k] = in[(i + k) % n];
    float sum = 0;
    for (int k = 0; k < 4; ++k) sum += a[(index[i] + 5 * k) & 15];
    out[i] = sum;
}
KERNEL local_bytes(const u8* in, const int* index, u8* out, int n) {
    const int i = I;
    if (i >= n) return;
    u8 a[32];
    for (int k = 0; k < 32; ++k) a[k] = in[(i * 3 + k) % n];
    a[index[i] & 31] = 7;
    out[i] = a[(index[i] >> 5) & 31] + a[i & 31];
}
KERNEL local_doubles(const double* in, const int* index, double* out, int n) {
    const int i = I;
    if (i >= n) return;
    double a[8];
    for (int k = 0; k < 8; ++k) a[k] = in[(i + k) % n];
    a[index[i] & 7] += 1;
    out[i] = a[(index[i] >> 3) & 7];
}
KERNEL local_vectors(const float4* in, const int* index, float4* out, int n) {
    const int i = I;
    if (i >= n) return;
    float4 a[8];
    for (int k = 0; k < 8; ++k) a[k] = in[(i + k) % n];
    out[i] = a[index[i] & 7];
}
KERNEL local_divergent(const int* index, int* out, int n) {
    const int i = I;
    if (i >= n) return;
    int stack[32];
    int top = 0, seen = 0;
    stack[top++] = index[i] & 31;
    while (top > 0 && seen < 40) {
        const int node = stack[--top];
        ++seen;
        if (node > 1 && top < 30) {
            stack[top++] = node / 2;
            if (node & 1) stack[top++] = node / 3;
        }
    }
    out[i] = seen;
}
__device__ __noinline__ float called(const float* x, int i) {
    return i > 0 ? x[i] + x[i - 1] : x[0];
}
KERNEL calls(const float* in, float* out, int n) {
    const int i = I;
    if (i < n) out[i] = called(in, i) * called(in, n - 1 - i);
}

// ---- shared memory ----

KERNEL shared_vectors(const float4* in, float4* out, int n) {
    __shared__ float4 buffer[128];
    const int i = I;
    buffer[threadIdx.x] = i < n ? in[i] : make_float4(0, 0, 0, 0);
    __syncthreads();
    if (i < n) {
        float4 v = buffer[threadIdx.x ^ 1];
        v.x += buffer[threadIdx.x / 4].y + buffer[(threadIdx.x * 3) % 128].z;
        out[i] = v;
    }
}
KERNEL shared_structs(const Vec3* in, Vec3* out, int n) {
    __shared__ Vec3 buffer[96];
    const int i = I;
    if (i < n) buffer[threadIdx.x] = in[i];
    __syncthreads();
    if (i < n) out[i] = buffer[95 - threadIdx.x];
}
KERNEL reversed_dynamic(const float* in, float* out, int n) {
    extern __shared__ float buffer_f[];
    const int i = I;
    if (i < n) buffer_f[threadIdx.x] = in[i];
    __syncthreads();
    if (i < n) out[i] = buffer_f[blockDim.x - 1 - threadIdx.x];
}
KERNEL scan(const float* in, float* out, int n) {  // Hillis-Steele scan with two buffers
    __shared__ float a[2][128];
    const int t = threadIdx.x, i = I;
    int from = 0;
    a[0][t] = i < n ? in[i] : 0;
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        a[1 - from][t] = t >= d ? a[from][t] + a[from][t - d] : a[from][t];
        from = 1 - from;
        __syncthreads();
    }
    if (i < n) out[i] = a[from][t];
}
KERNEL scan_tree(const float* in, float* out, int n) {  // Blelloch scan, with bank conflicts
    __shared__ float a[256];
    const int t = threadIdx.x;
    a[2 * t] = in[2 * t % n];
    a[2 * t + 1] = in[(2 * t + 1) % n];
    int offset = 1;
    for (int d = 128; d > 0; d /= 2) {
        __syncthreads();
        if (t < d) a[offset * (2 * t + 2) - 1] += a[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) a[255] = 0;
    for (int d = 1; d < 256; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < d) {
            const int l = offset * (2 * t + 1) - 1, r = offset * (2 * t + 2) - 1;
            const float v = a[l];
            a[l] = a[r];
            a[r] += v;
        }
    }
    __syncthreads();
    out[(blockIdx.x * 256 + 2 * t) % n] = a[2 * t];
    out[(blockIdx.x * 256 + 2 * t + 1) % n] = a[2 * t + 1];
}
KERNEL bitonic(float* x, int n) {
    __shared__ float a[256];
    const int t = threadIdx.x;
    a[t] = x[(blockIdx.x * 256 + t) % n];
    for (int k = 2; k <= 256; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            __syncthreads();
            const int other = t ^ j;
            if (other > t && ((t & k) == 0) == (a[t] > a[other])) {
                const float v = a[t];
                a[t] = a[other];
                a[other] = v;
            }
        }
    __syncthreads();
    x[(blockIdx.x * 256 + t) % n] = a[t];
}
KERNEL reduce_shrinking(const float* in, float* out,
                        int n) {  // a divergent reduction, as in tutorials
    __shared__ float a[128];
    const int t = threadIdx.x, i = I;
    a[t] = i < n ? in[i] : 0;
    __syncthreads();
    for (int s = 1; s < 128; s *= 2) {
        if (t % (2 * s) == 0) a[t] += a[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = a[0];
}
KERNEL reduce_volatile(const float* in, float* out,
                       int n) {  // the last warp works without barriers
    __shared__ volatile float a[128];
    const int t = threadIdx.x, i = I;
    a[t] = (i < n ? in[i] : 0) + (i + n / 2 < n ? in[i + n / 2] : 0);
    __syncthreads();
    if (t < 64) a[t] += a[t + 64];
    __syncthreads();
    if (t < 32) {
        a[t] += a[t + 32];
        __syncwarp();
        for (int s = 16; s > 0; s /= 2) {
            if (t < s) a[t] += a[t + s];
            __syncwarp();
        }
    }
    if (t == 0) out[blockIdx.x] = a[0];
}
KERNEL shuffles(const float* in, float* out, int n) {
    const int i = I;
    float v = i < n ? in[i] : 0;
    for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(~0u, v, s);
    __shared__ float part[32];
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < (blockDim.x + 31) / 32 ? part[threadIdx.x] : 0;
        for (int s = 16; s > 0; s /= 2) v += __shfl_down_sync(~0u, v, s);
        if (threadIdx.x == 0) out[blockIdx.x] = v;
    }
}
KERNEL convolution(const float* in, float* out, int n) {  // a tile with a halo
    __shared__ float tile[128 + 8];
    const int t = threadIdx.x, i = I;
    tile[t + 4] = i < n ? in[i] : 0;
    if (t < 4) {
        tile[t] = i >= 4 ? in[i - 4] : 0;
        tile[t + 132] = i + 128 < n ? in[i + 128] : 0;
    }
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 9; ++k) sum += weights[k] * tile[t + k];
    if (i < n) out[i] = sum;
}
KERNEL register_tiles(const float* a, const float* b, float* out,
                      int n) {  // 4 x 4 results per thread
    __shared__ __align__(16) float at[8][64], bt[8][64];
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    const int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < n; k0 += 8) {
        for (int i = t; i < 512; i += 256) {
            at[i % 8][i / 8] = a[(row0 + i / 8) * n + k0 + i % 8];
            bt[i / 64][i % 64] = b[(k0 + i / 64) * n + col0 + i % 64];
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            const float4 u = *(const float4*)&at[k][4 * ty], v = *(const float4*)&bt[k][4 * tx];
            const float us[4] = {u.x, u.y, u.z, u.w}, vs[4] = {v.x, v.y, v.z, v.w};
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sum[i][j] += us[i] * vs[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        *(float4*)&out[(row0 + 4 * ty + i) * n + col0 + 4 * tx] =
            make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}
KERNEL bodies(const float4* position, float4* force, int n) {
    __shared__ float4 tile[64];
    const int i = I;
    const float4 p = i < n ? position[i] : make_float4(0, 0, 0, 0);
    float3 f = make_float3(0, 0, 0);
    for (int first = 0; first < n; first += 64) {
        tile[threadIdx.x] = first + threadIdx.x < n ? position[first + threadIdx.x] : p;
        __syncthreads();
        for (int k = 0; k < 64; ++k) {
            const float4 q = tile[k];
            const float dx = q.x - p.x, dy = q.y - p.y, dz = q.z - p.z;
            const float d = dx * dx + dy * dy + dz * dz + 0.01f, s = q.w / (d * sqrtf(d));
            f.x += dx * s;
            f.y += dy * s;
            f.z += dz * s;
        }
        __syncthreads();
    }
    if (i < n) force[i] = make_float4(f.x, f.y, f.z, 0);
}
KERNEL life(const u8* in, u8* out, int rows, int cols) {
    __shared__ u8 tile[10][34];
    const int tx = threadIdx.x, ty = threadIdx.y;
    for (int y = ty; y < 10; y += 8)
        for (int x = tx; x < 34; x += 32) {
            const int row = blockIdx.y * 8 + y - 1, col = blockIdx.x * 32 + x - 1;
            tile[y][x] =
                row >= 0 && row < rows && col >= 0 && col < cols ? in[row * cols + col] : 0;
        }
    __syncthreads();
    int sum = 0;
    for (int y = 0; y < 3; ++y)
        for (int x = 0; x < 3; ++x) sum += tile[ty + y][tx + x];
    const int row = blockIdx.y * 8 + ty, col = blockIdx.x * 32 + tx;
    if (row < rows && col < cols)
        out[row * cols + col] = sum == 3 || (sum == 4 && tile[ty + 1][tx + 1]);
}
KERNEL either_space(const float* in, float* out, int n) {  // generic pointers
    __shared__ float buffer[128];
    const int t = threadIdx.x, i = I;
    buffer[t] = 1;
    __syncthreads();
    const float* p = (t / 16) % 2 ? buffer + t : in + i % n;
    out[i % n] = *p;
}

// ---- atomics ----

KERNEL count_all(int* out, int n) {
    if (I < n) atomicAdd(out, 1);
}
KERNEL count_some(const float* in, int* out, int n) {
    const int i = I;
    if (i < n && in[i] > 0.5f) atomicAdd(out, 1);
}
KERNEL append(const float* in, float* out, int* size, int n) {
    const int i = I;
    if (i < n && in[i] > 0.5f) out[atomicAdd(size, 1)] = in[i];
}
KERNEL sum_int(const int* in, int* out, int n) {
    const int i = I;
    if (i < n) atomicAdd(out, in[i]);
}
KERNEL sum_float(const float* in, float* out, int n) {
    const int i = I;
    if (i < n) atomicAdd(out, in[i]);
}
KERNEL sum_double(const double* in, double* out, int n) {
    const int i = I;
    if (i < n) atomicAdd(out, in[i]);
}
KERNEL sum_long(const u64* in, u64* out, int n) {
    const int i = I;
    if (i < n) atomicAdd(out, in[i]);
}
KERNEL min_max(const int* in, int* out, int n) {
    const int i = I;
    if (i < n) {
        atomicMin(out, in[i]);
        atomicMax(out + 1, in[i]);
        atomicAnd(out + 2, in[i]);
        atomicOr(out + 3, in[i]);
        atomicXor(out + 4, in[i]);
    }
}
KERNEL inc_dec(u32* out, int n) {
    const int i = I;
    if (i < n) {
        atomicInc(out + i % 16, 100);
        atomicDec(out + 16 + i % 16, 100);
    }
}
KERNEL scatter_add(const int* index, const float* in, float* out, int n) {
    const int i = I;
    if (i < n) atomicAdd(out + index[i], in[i]);
}
KERNEL histogram_global(const int* index, int* bins, int n) {
    const int i = I;
    if (i < n) atomicAdd(bins + index[i] % 10, 1);
}
KERNEL histogram_shared(const int* index, int* bins, int n) {
    __shared__ int part[64];
    if (threadIdx.x < 64) part[threadIdx.x] = 0;
    __syncthreads();
    for (int i = I; i < n; i += gridDim.x * blockDim.x) atomicAdd(&part[index[i] % 64], 1);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], part[threadIdx.x]);
}
KERNEL exchange(const int* index, int* slots, int* out, int n) {
    const int i = I;
    if (i < n) out[i] = atomicExch(slots + index[i] % 100, i);
}
KERNEL compare_swap(const int* index, int* slots, int* out, int n) {
    const int i = I;
    if (i < n) out[i] = atomicCAS(slots + index[i] % 100, 0, i);
}
KERNEL half_atomics(const __half2* in, __half2* out, int n) {
    const int i = I;
    if (i < n) atomicAdd(out + i / 4, in[i]);
}
KERNEL few_lanes(const float* in, float* out, int n) {  // every third lane; four lanes per address
    const int i = I;
    if (i < n && i % 3 == 0) atomicAdd(out + i / 12, in[i]);
}
KERNEL shared_counters(const int* index, int* out, int n) {
    __shared__ int all, some, most;
    __shared__ u64 wide;
    if (threadIdx.x == 0) {
        all = some = most = 0;
        wide = 0;
    }
    __syncthreads();
    const int i = I;
    if (i < n) {
        atomicAdd(&all, 1);
        if (index[i] & 1) atomicAdd(&some, 2);
        atomicMax(&most, index[i]);
        if (threadIdx.x % 8 == 0) atomicAdd(&wide, u64(index[i]));
    }
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = all + some + most + int(wide);
}
KERNEL shared_append(const float* in, float* out, int n) {
    __shared__ int size;
    __shared__ float list[128];
    if (threadIdx.x == 0) size = 0;
    __syncthreads();
    const int i = I;
    if (i < n && in[i] > 0.5f) list[atomicAdd(&size, 1)] = 1;
    __syncthreads();
    if (threadIdx.x < size) out[blockIdx.x * 128 + threadIdx.x] = list[threadIdx.x];
}
