// Kernels as users write them, for compiled.py.

extern "C" __global__ void naive(const float* a, const float* b, float* c, int n) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y,
              column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || column >= n) return;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

extern "C" __global__ void tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float tile_a[32][32], tile_b[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 32 + y, column = blockIdx.x * 32 + x;
    float sum = 0;
    for (int k = 0; k < n; k += 32) {
        tile_a[y][x] = a[row * n + k + x];
        tile_b[y][x] = b[(k + y) * n + column];
        __syncthreads();
        for (int i = 0; i < 32; ++i) sum += tile_a[y][i] * tile_b[i][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void sum(const float* x, float* total, int n) {
    __shared__ float of_warps[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float part = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        part += x[i];
    for (int by = 16; by > 0; by /= 2) part += __shfl_down_sync(~0u, part, by);
    if (lane == 0) of_warps[warp] = part;
    __syncthreads();
    if (warp > 0) return;
    part = lane < blockDim.x / 32 ? of_warps[lane] : 0;
    for (int by = 16; by > 0; by /= 2) part += __shfl_down_sync(~0u, part, by);
    if (lane == 0) total[blockIdx.x] = part;
}

extern "C" __global__ void histogram(const unsigned char* x, unsigned* bins, int n) {
    __shared__ unsigned of_block[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) of_block[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&of_block[x[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], of_block[i]);
}

extern "C" __global__ void stencil(const float* from, float* to, int n) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x == 0 || y == 0 || x >= n - 1 || y >= n - 1) return;
    const float* const at = from + y * n + x;
    to[y * n + x] = 0.5f * at[0] + 0.125f * (at[-1] + at[1] + at[-n] + at[n]);
}

extern "C" __global__ void nbody(const float4* bodies, float4* forces, int n) {
    __shared__ float4 tile[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 me = bodies[i];
    float4 force = {};
    for (int first = 0; first < n; first += 256) {
        tile[threadIdx.x] = bodies[first + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 256; ++j) {
            const float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
            const float f = tile[j].w * inverse * inverse * inverse;
            force.x += f * dx, force.y += f * dy, force.z += f * dz;
        }
        __syncthreads();
    }
    forces[i] = force;
}

extern "C" __global__ void mandelbrot(int* steps, int n) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const float re = -2 + 3.0f * x / n, im = -1.5f + 3.0f * y / n;
    float r = 0, i = 0;
    int k = 0;
    for (; k < 200 && r * r + i * i < 4; ++k) {
        const float next = r * r - i * i + re;
        i = 2 * r * i + im;
        r = next;
    }
    steps[y * n + x] = k;
}

extern "C" __global__ void scan(const int* x, int* sums) {
    __shared__ int values[2][256];
    const int t = threadIdx.x, i = blockIdx.x * 256 + t;
    int from = 0;
    values[0][t] = x[i];
    __syncthreads();
    for (int by = 1; by < 256; by *= 2) {
        values[!from][t] = values[from][t] + (t >= by ? values[from][t - by] : 0);
        from = !from;
        __syncthreads();
    }
    sums[i] = values[from][t];
}

extern "C" __global__ void bitonic(int* x) {
    __shared__ int values[512];
    const int t = threadIdx.x;
    int* const mine = x + blockIdx.x * 512;
    values[t] = mine[t], values[t + 256] = mine[t + 256];
    for (int size = 2; size <= 512; size *= 2)
        for (int by = size / 2; by > 0; by /= 2) {
            __syncthreads();
            const int low = 2 * t - (t & (by - 1));
            const int a = values[low], b = values[low + by];
            if ((a > b) == ((low & size) == 0)) values[low] = b, values[low + by] = a;
        }
    __syncthreads();
    mine[t] = values[t], mine[t + 256] = values[t + 256];
}

extern "C" __global__ void spmv(const int* starts, const int* columns, const float* values,
                                const float* x, float* y, int rows) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int k = starts[row]; k < starts[row + 1]; ++k) sum += values[k] * x[columns[k]];
    y[row] = sum;
}

extern "C" __global__ void hash(const unsigned long long* x, unsigned long long* hashes) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long z = x[i];
    for (int k = 0; k < 32; ++k) {  // splitmix64
        z += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        z ^= z >> 31;
    }
    hashes[i] = z;
}
