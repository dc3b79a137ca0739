// Texture fetches and surface accesses, for hardware counters. Each kernel makes one access per
// thread. The kernels that read an array write a result only if it is not finite, which never
// happens. So the counters of global memory stay zero.

#define KERNEL(name, type, value)                                                                \
    extern "C" __global__ void name(cudaTextureObject_t t, cudaSurfaceObject_t s, float* y) {    \
        const int x = threadIdx.x + blockIdx.x * blockDim.x, row = threadIdx.y + blockIdx.y * 4; \
        const type v = value;                                                                    \
        if (!isfinite(float(v))) y[x] = row;                                                     \
    }
#define WRITE(name, access)                                                                      \
    extern "C" __global__ void name(cudaTextureObject_t t, cudaSurfaceObject_t s, float* y) {    \
        const int x = threadIdx.x + blockIdx.x * blockDim.x, row = threadIdx.y + blockIdx.y * 4; \
        access;                                                                                  \
    }
#define LANE (threadIdx.x % 32)

KERNEL(rows, float, (tex2D<float>(t, x + 0.5f, row + 0.5f)))
KERNEL(columns, float, (tex2D<float>(t, row + 0.5f, x + 0.5f)))
KERNEL(tiles, float, (tex2D<float>(t, x / 32 * 8 + LANE % 8 + 0.5f, row * 4 + LANE / 8 + 0.5f)))
KERNEL(strided_2, float, (tex2D<float>(t, 2 * x + 0.5f, row + 0.5f)))
KERNEL(strided_8, float, (tex2D<float>(t, 8 * LANE + 0.5f, row + 0.5f)))
KERNEL(same, float, (tex2D<float>(t, 3.5f, row + 0.5f)))
KERNEL(diagonal, float, (tex2D<float>(t, x + 0.5f, x + row + 0.5f)))
KERNEL(between, float, (tex2D<float>(t, x + 0.75f, row + 0.75f)))
KERNEL(gathered, float, (tex2Dgather<float4>(t, x + 1.0f, row + 1.0f, 0).y))
KERNEL(vectors, float, (tex2D<float4>(t, x + 0.5f, row + 0.5f).z))
KERNEL(bytes, unsigned, (tex2D<unsigned char>(t, x + 0.5f, row + 0.5f)))
KERNEL(boxes, float, (tex3D<float>(t, x + 0.5f, row + 0.5f, 1.5f)))
KERNEL(line, float, (tex1Dfetch<float>(t, x + 64 * row)))
KERNEL(line_strided, float, (tex1Dfetch<float>(t, 8 * x + row)))
KERNEL(line_scattered, float, (tex1Dfetch<float>(t, (x * 797 + row * 31) % 4096)))
KERNEL(line_vectors, float, (tex1Dfetch<float4>(t, x + 64 * row).w))
KERNEL(surface_rows, float, (surf2Dread<float>(s, 4 * x, row)))
KERNEL(surface_columns, float, (surf2Dread<float>(s, 4 * row, x)))
KERNEL(surface_vectors, float, (surf2Dread<float4>(s, 16 * x, row).y))
WRITE(write_rows, (surf2Dwrite(float(x), s, 4 * x, row)))
WRITE(write_columns, (surf2Dwrite(float(x), s, 4 * row, x)))
WRITE(write_vectors, (surf2Dwrite(make_float4(x, row, 1, 2), s, 16 * x, row)))
WRITE(write_bytes, (surf2Dwrite((unsigned char)(x), s, x, row)))
WRITE(read_and_write, (surf2Dwrite(2 * surf2Dread<float>(s, 4 * x, row), s, 4 * x, row)))
