// Kernels of physics, random numbers, finance and statistics. These kernels were not used to find the
// counting rules or to fit the models; see unseen_learning.cu.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

// ---- fields on grids ----

// Blocks of 7 x 5 x 3 threads, a shape that tuning by trial may choose.
extern "C" __global__ void divergence(const float3* v, float* out, int nx, int ny, int nz) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y,
        k = blockIdx.z * blockDim.z + threadIdx.z;
    if (i < 1 || j < 1 || k < 1 || i >= nx - 1 || j >= ny - 1 || k >= nz - 1) return;
    int c = i + nx * (j + ny * k);
    out[c] = 0.5f * (v[c + 1].x - v[c - 1].x + v[c + nx].y - v[c - nx].y + v[c + nx * ny].z - v[c - nx * ny].z);
}

extern "C" __global__ void jacobi_tile(const float* u, const float* f, float* unew, double* residual, int nx,
                                       int ny) {
    __shared__ float s[18][18];
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    int x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
    bool inside = x < nx - 1 && y < ny - 1;
    if (x < nx && y < ny) {
        s[ty][tx] = u[y * nx + x];
        if (tx == 1) s[ty][0] = u[y * nx + x - 1];
        if (ty == 1) s[0][tx] = u[(y - 1) * nx + x];
        if (tx == 16 && x + 1 < nx) s[ty][17] = u[y * nx + x + 1];
        if (ty == 16 && y + 1 < ny) s[17][tx] = u[(y + 1) * nx + x];
    }
    __syncthreads();
    double r = 0;
    if (inside) {
        float v = 0.25f * (s[ty][tx - 1] + s[ty][tx + 1] + s[ty - 1][tx] + s[ty + 1][tx] - f[y * nx + x]);
        unew[y * nx + x] = v;
        r = (double)(v - s[ty][tx]) * (v - s[ty][tx]);
    }
    for (int o = 16; o; o >>= 1) r += __shfl_down_sync(0xffffffff, r, o);
    if ((threadIdx.y * 16 + threadIdx.x) % 32 == 0) atomicAdd(residual, r);
}

extern "C" __global__ void gauss_seidel(double* u, const double* f, int nx, int ny, int color) {
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int x = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + (y + color) % 2;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    int i = y * nx + x;
    u[i] = 0.25 * (u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx] - f[i]);
}

__constant__ float WAVE[3] = {-5.0f / 2, 4.0f / 3, -1.0f / 12};

// Each thread moves along z. Registers hold five planes, and shared memory holds the neighbours.
extern "C" __global__ void wave_3d(const float* now, float* next, const float* velocity, int nx, int ny, int nz) {
    __shared__ float plane[8 + 4][32 + 4];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    int tx = threadIdx.x + 2, ty = threadIdx.y + 2, stride = nx * ny, at = y * nx + x;
    float z0 = now[at], z1 = now[at + stride], z2 = now[at + 2 * stride], z3 = now[at + 3 * stride], z4;
    for (int z = 2; z < nz - 2; z++) {
        int i = z * stride + at;
        z4 = now[i + 2 * stride];
        __syncthreads();
        plane[ty][tx] = z2;
        if (threadIdx.y < 2) {
            plane[threadIdx.y][tx] = y >= 2 ? now[i - 2 * nx] : 0;
            plane[threadIdx.y + 10][tx] = y + 8 < ny ? now[i + 8 * nx] : 0;
        }
        if (threadIdx.x < 2) {
            plane[ty][threadIdx.x] = x >= 2 ? now[i - 2] : 0;
            plane[ty][threadIdx.x + 34] = x + 32 < nx ? now[i + 32] : 0;
        }
        __syncthreads();
        float lap = 3 * WAVE[0] * z2 + WAVE[1] * (z1 + z3) + WAVE[2] * (z0 + z4);
        for (int r = 1; r <= 2; r++)
            lap += WAVE[r] * (plane[ty][tx - r] + plane[ty][tx + r] + plane[ty - r][tx] + plane[ty + r][tx]);
        next[i] = 2 * z2 - next[i] + velocity[i] * lap;
        z0 = z1, z1 = z2, z2 = z3, z3 = z4;
    }
}

__constant__ int CX[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, CY[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ float WEIGHT[9] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};

extern "C" __global__ void lattice_boltzmann(const float* f_in, float* f_out, const bool* solid, int nx, int ny) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= nx) return;
    float f[9], rho = 0, ux = 0, uy = 0;
    for (int q = 0; q < 9; q++) {
        int fx = (x - CX[q] + nx) % nx, fy = (y - CY[q] + ny) % ny;
        f[q] = f_in[(q * ny + fy) * nx + fx];
        rho += f[q], ux += CX[q] * f[q], uy += CY[q] * f[q];
    }
    const int opposite[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
    if (solid[y * nx + x]) {
        for (int q = 0; q < 9; q++) f_out[(q * ny + y) * nx + x] = f[opposite[q]];
        return;
    }
    ux /= rho, uy /= rho;
    float u2 = 1.5f * (ux * ux + uy * uy);
    for (int q = 0; q < 9; q++) {
        float cu = 3 * (CX[q] * ux + CY[q] * uy);
        float feq = WEIGHT[q] * rho * (1 + cu + 0.5f * cu * cu - u2);
        f_out[(q * ny + y) * nx + x] = f[q] + 0.6f * (feq - f[q]);
    }
}

// Blocks of 48 x 3 threads. Each cell traces its fluid back to where it came from.
extern "C" __global__ void advect(const float2* velocity, const float* density, float* out, int w, int h, float dt) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) {
        float2 v = velocity[y * w + x];
        float sx = fminf(fmaxf(x - dt * (v.x - 0.5f), 0), w - 1.001f);
        float sy = fminf(fmaxf(y - dt * (v.y - 0.5f), 0), h - 1.001f);
        int ix = floorf(sx), iy = floorf(sy);
        float tx = sx - ix, ty = sy - iy;
        const float* d = density + iy * w + ix;
        out[y * w + x] = (d[0] * (1 - tx) + d[1] * tx) * (1 - ty) + (d[w] * (1 - tx) + d[w + 1] * tx) * ty;
    }
}

// ---- particles and spins ----

extern "C" __global__ void lennard_jones(const float4* __restrict__ pos, const int* __restrict__ neighbours,
                                         const int* __restrict__ num_neighbours, float3* force, int n, float box,
                                         float cutoff2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 me = pos[i];
    float3 f = {0.f, 0.f, 0.f};
    for (int k = 0; k < num_neighbours[i]; k++) {
        float4 other = __ldg(&pos[neighbours[k * n + i]]);
        float dx = me.x - other.x, dy = me.y - other.y, dz = me.z - other.z;
        dx -= box * rintf(dx / box), dy -= box * rintf(dy / box), dz -= box * rintf(dz / box);
        float r2 = dx * dx + dy * dy + dz * dz;
        if (r2 < cutoff2 && r2 > 0) {
            float inv2 = 1 / r2, inv6 = inv2 * inv2 * inv2;
            float s = 24 * inv6 * (2 * inv6 - 1) * inv2;
            f.x += dx * s, f.y += dy * s, f.z += dz * s;
        }
    }
    force[i] = f;
}

extern "C" __global__ void deposit_charge(const float2* particles, const float* charge, float* grid, int n,
                                          int cells) {
    for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < n; p += gridDim.x * blockDim.x) {
        float x = particles[p].x * (cells - 1), y = particles[p].y * (cells - 1), q = charge[p];
        int i = x, j = y;
        float fx = x - i, fy = y - j;
        atomicAdd(&grid[j * cells + i], q * (1 - fx) * (1 - fy));
        atomicAdd(&grid[j * cells + i + 1], q * fx * (1 - fy));
        atomicAdd(&grid[(j + 1) * cells + i], q * (1 - fx) * fy);
        atomicAdd(&grid[(j + 1) * cells + i + 1], q * fx * fy);
    }
}

__device__ unsigned int pcg(unsigned int v) {
    unsigned int state = v * 747796405u + 2891336453u;
    unsigned int word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
    return (word >> 22u) ^ word;
}

// Updates one colour of the checkerboard. Each row stores black and white spins separately.
extern "C" __global__ void ising(signed char* spins, const signed char* others, int rows, int half, int white,
                                 float beta, unsigned int seed) {
    const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows || j >= half) return;
    const int up = (i + rows - 1) % rows, down = (i + 1) % rows;
    const int side = (i & 1) == white ? (j + half - 1) % half : (j + 1) % half;
    const int sum = others[up * half + j] + others[down * half + j] + others[i * half + j] + others[i * half + side];
    const signed char s = spins[i * half + j];
    const float accept = __expf(-2.0f * beta * sum * s);
    if (pcg(i * half + j + seed) * 0x1p-32f < accept) spins[i * half + j] = -s;
}

extern "C" __global__ void random_walk(const unsigned char* maze, int size, int walkers, int steps, int2* end,
                                       int* escaped) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= walkers) return;
    unsigned int state = pcg(id);
    int x = size / 2, y = size / 2, t;
    for (t = 0; t < steps; t++) {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        int nx = x + ((state & 3) == 0) - ((state & 3) == 1);
        int ny = y + ((state & 3) == 2) - ((state & 3) == 3);
        if (nx < 0 || ny < 0 || nx >= size || ny >= size) break;
        if (maze[ny * size + nx] > 50) x = nx, y = ny;
    }
    end[id] = make_int2(x, y);
    if (t < steps) atomicAdd(escaped, 1);
}

// ---- random numbers and finance ----

// Philox with 4 words and 10 rounds; each thread makes two pairs of normal numbers.
extern "C" __global__ void philox_normal(float4* out, int n, uint2 key) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint4 c = make_uint4(i, 0, 0, 0);
    for (int r = 0; r < 10; r++) {
        unsigned int hi0 = __umulhi(0xD2511F53, c.x), lo0 = 0xD2511F53 * c.x;
        unsigned int hi1 = __umulhi(0xCD9E8D57, c.z), lo1 = 0xCD9E8D57 * c.z;
        c = make_uint4(hi1 ^ c.y ^ key.x, lo1, hi0 ^ c.w ^ key.y, lo0);
        key.x += 0x9E3779B9, key.y += 0xBB67AE85;
    }
    float4 v;
    float r = sqrtf(-2 * __logf((c.x + 1.0f) * 0x1p-32f)), s = sqrtf(-2 * __logf((c.z + 1.0f) * 0x1p-32f));
    __sincosf(6.2831853f * 0x1p-32f * c.y, &v.x, &v.y);
    __sincosf(6.2831853f * 0x1p-32f * c.w, &v.z, &v.w);
    v.x *= r, v.y *= r, v.z *= s, v.w *= s;
    out[i] = v;
}

struct Xorshift {
    unsigned int x, y, z, w;
    __device__ explicit Xorshift(unsigned int seed) : x(seed), y(pcg(seed)), z(pcg(y)), w(pcg(z)) {}
    __device__ float uniform() {
        unsigned int t = x ^ (x << 11);
        x = y, y = z, z = w;
        w = w ^ (w >> 19) ^ (t ^ (t >> 8));
        return (w + 0.5f) * 0x1p-32f;
    }
};

extern "C" __global__ void asian_option(double* payoff, int paths, int steps, float s0, float strike, float rate,
                                        float sigma, float years) {
    __shared__ double partial[128];
    int path = blockIdx.x * blockDim.x + threadIdx.x;
    double mine = 0;
    if (path < paths) {
        Xorshift random(path + 1);
        float dt = years / steps, s = s0, sum = 0;
        for (int t = 0; t < steps; t += 2) {
            float r = sqrtf(-2 * logf(random.uniform())), sine, cosine;
            sincospif(2 * random.uniform(), &sine, &cosine);
            s *= expf((rate - 0.5f * sigma * sigma) * dt + sigma * sqrtf(dt) * r * cosine);
            sum += s;
            s *= expf((rate - 0.5f * sigma * sigma) * dt + sigma * sqrtf(dt) * r * sine);
            sum += s;
        }
        mine = fmaxf(sum / steps - strike, 0) * expf(-rate * years);
    }
    partial[threadIdx.x] = mine;
    for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
        __syncthreads();
        if (threadIdx.x < stride) partial[threadIdx.x] += partial[threadIdx.x + stride];
    }
    if (threadIdx.x == 0) atomicAdd(payoff, partial[0]);
}

// One block per option and one thread per leaf of its tree.
extern "C" __global__ void binomial_put(const float* strike, float* price, float s0, float up, float p,
                                        float discount) {
    __shared__ float value[2][132];
    const int t = threadIdx.x, steps = blockDim.x - 1;
    const float k = strike[blockIdx.x];
    value[0][t] = fmaxf(k - s0 * powf(up, 2 * t - steps), 0.0f);
    int from = 0;
    for (int level = steps - 1; level >= 0; level--) {
        __syncthreads();
        if (t <= level) {
            float hold = discount * (p * value[from][t + 1] + (1 - p) * value[from][t]);
            value[1 - from][t] = fmaxf(hold, k - s0 * powf(up, 2 * t - level));
        }
        from = 1 - from;
    }
    if (t == 0) price[blockIdx.x] = value[from][0];
}

// ---- statistics ----

extern "C" __global__ void covariance(const double* x, const double* mean, double* cov, int samples, int vars) {
    __shared__ double part[2];
    int i = blockIdx.y, j = blockIdx.x;
    if (j > i) return;
    double sum = 0;
    for (int s = threadIdx.x; s < samples; s += blockDim.x)
        sum += (x[s * vars + i] - mean[i]) * (x[s * vars + j] - mean[j]);
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) cov[i * vars + j] = cov[j * vars + i] = (part[0] + part[1]) / (samples - 1);
}

// Each row has a few dozen columns. A tile of eight lanes processes one row.
extern "C" __global__ void short_row_stats(const float* x, float2* mean_and_max, int rows, int cols) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 8;
    if (row >= rows) return;
    float sum = 0, top = -INFINITY;
    for (int c = tile.thread_rank(); c < cols; c += tile.size()) {
        float v = x[row * cols + c];
        sum += v, top = fmaxf(top, v);
    }
    sum = cg::reduce(tile, sum, cg::plus<float>());
    top = cg::reduce(tile, top, cg::greater<float>());
    if (tile.thread_rank() == 0) mean_and_max[row] = make_float2(sum / cols, top);
}

extern "C" __global__ void moving_average(const float* in, float* out, int n, int window) {
    extern __shared__ float s[];
    int start = blockIdx.x * blockDim.x;
    for (int k = threadIdx.x; k < blockDim.x + window - 1; k += blockDim.x)
        s[k] = start + k < n ? in[start + k] : 0.f;
    __syncthreads();
    if (start + threadIdx.x + window > n) return;
    float sum = 0;
    for (int k = 0; k < window; k++) sum += s[threadIdx.x + k];
    out[start + threadIdx.x] = sum / window;
}

extern "C" __global__ void histogram_2d(const double* x, const double* y, const double* weight, double* bins, int n,
                                        int side) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int bx = min((int)(x[i] * side), side - 1), by = min((int)(y[i] * y[i] * side), side - 1);
    atomicAdd(&bins[by * side + bx], weight[i]);
}

// Maps floats to integers of the same order: the bits of negative numbers are inverted.
__device__ int ordered(float f) {
    int i = __float_as_int(f);
    return i >= 0 ? i : i ^ 0x7fffffff;
}

extern "C" __global__ void bounding_box(const float3* points, int* box, int n) {
    int lo[3] = {INT_MAX, INT_MAX, INT_MAX}, hi[3] = {INT_MIN, INT_MIN, INT_MIN};
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float p[3] = {points[i].x - 0.5f, points[i].y - 0.5f, points[i].z - 0.5f};
        for (int d = 0; d < 3; d++) lo[d] = min(lo[d], ordered(p[d])), hi[d] = max(hi[d], ordered(p[d]));
    }
    for (int d = 0; d < 3; d++) {
        lo[d] = __reduce_min_sync(~0u, lo[d]);
        hi[d] = __reduce_max_sync(~0u, hi[d]);
        if (threadIdx.x % 32 == 0) {
            atomicMin(&box[d], lo[d]);
            atomicMax(&box[3 + d], hi[d]);
        }
    }
}

// The last block to finish adds up the results of the other blocks.
extern "C" __global__ void sum_in_one(const float* x, volatile float* partial, unsigned int* done, float* total,
                                      int n) {
    __shared__ float s[8];
    __shared__ bool last;
    auto block_sum = [&](float v) {
        for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
        __syncthreads();
        if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
        __syncthreads();
        return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
    };
    float v = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) v += x[i];
    v = block_sum(v);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = v;
        __threadfence();
        last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    v = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += 256) v += partial[i];
    v = block_sum(v);
    if (threadIdx.x == 0) *total = v;
}
