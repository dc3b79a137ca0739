// Templates whose counters are easy to get wrong. They have a file of their own, which lists their
// instantiations at its end; see awkward.cu.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

#define I (blockIdx.x * blockDim.x + threadIdx.x)

template <class T>
__global__ void shifted(const T* in, T* out, int n, int from, int to) {
    const int i = I;
    if (i < n) out[i + to] = in[i + from];
}

template <class T, int pad>
__global__ void tile_transposed(const T* in, T* out, int n) {
    __shared__ T tile[32][32 + pad];
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += blockDim.y)
        if (x < n && y + j < n) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    const int tx = blockIdx.y * 32 + threadIdx.x, ty = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += blockDim.y)
        if (tx < n && ty + j < n) out[(ty + j) * n + tx] = tile[threadIdx.x][threadIdx.y + j];
}

template <class T>
__global__ void shared_stride(const T* in, T* out, int stride, int n) {
    __shared__ T buffer[2048 / sizeof(T) * 4];
    const int t = threadIdx.x, size = 2048 / sizeof(T) * 4;
    for (int i = t; i < size; i += blockDim.x) buffer[i] = in[i % n];
    __syncthreads();
    out[I] = buffer[t * stride % size];
}

template <int width>
__global__ void async_tile(const float* in, float* out, int n) {
    __shared__ __align__(16) float buffer[128 * width / 4];
    const int t = threadIdx.x, per = width / 4;
    const size_t i = (size_t(blockIdx.x) * 128 + t) * per;
    const u32 target = u32(__cvta_generic_to_shared(buffer + t * per));
    if (i + per <= n) {
        if (width == 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(in + i));
        else
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(target), "l"(in + i),
                         "n"(width));
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    const int other = 127 - t;
    for (int k = 0; k < per; ++k) {
        const size_t j = (size_t(blockIdx.x) * per + k) * 128 + t;
        if (j < n) out[j] = buffer[(other + 128 * k) % (128 * per)];
    }
}

// The instantiations that are tested. One compilation makes all of them.
void instantiations() {
    shifted<u8><<<1, 32>>>();
    shifted<u16><<<1, 32>>>();
    shifted<float><<<1, 32>>>();
    shifted<double><<<1, 32>>>();
    shifted<float4><<<1, 32>>>();
    tile_transposed<u8,0><<<1, 32>>>();
    tile_transposed<u8,1><<<1, 32>>>();
    shared_stride<u8><<<1, 32>>>();
    tile_transposed<u16,0><<<1, 32>>>();
    tile_transposed<u16,1><<<1, 32>>>();
    shared_stride<u16><<<1, 32>>>();
    tile_transposed<float,0><<<1, 32>>>();
    tile_transposed<float,1><<<1, 32>>>();
    shared_stride<float><<<1, 32>>>();
    tile_transposed<double,0><<<1, 32>>>();
    tile_transposed<double,1><<<1, 32>>>();
    shared_stride<double><<<1, 32>>>();
    tile_transposed<float4,0><<<1, 32>>>();
    tile_transposed<float4,1><<<1, 32>>>();
    shared_stride<float4><<<1, 32>>>();
    async_tile<4><<<1, 32>>>();
    async_tile<8><<<1, 32>>>();
    async_tile<16><<<1, 32>>>();
}
