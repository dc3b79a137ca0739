// Packs a matrix into transposed strips of 128 rows, for 16_tma.
//
// Element (row, k) goes to out[row / 128][k][row % 128]. In a strip, 32 values of k form a stage:
// 16 KB of contiguous memory, which 16_tma copies at once. `depth` is cols rounded up to whole
// stages; elements past the edges are zeros. 256 zeros follow the strips. 16_tma reads them as rows
// of B past the last row of B.

#define STRIP 128  // rows of a strip
#define STAGE 32   // values of k
#define ZEROS 256
#define THREADS 256

extern "C" __global__ void __launch_bounds__(THREADS) packed(
    const float* __restrict__ x, float* __restrict__ out, int* __restrict__ ready, int rows,
    int cols, int depth, int blocks) {
    // 33 words per row: neither the writes nor the transposed reads have bank conflicts.
    __shared__ float tile[STRIP][STAGE + 1];
    const int t = threadIdx.x;
    const int strips = (rows + STRIP - 1) / STRIP, stages = depth / STAGE;
    const int strip = blockIdx.x / stages, k0 = blockIdx.x % stages * STAGE;
    if (blockIdx.x == 0) {
        out[size_t(strips) * STRIP * depth + t] = 0;
        for (int i = t; i < blocks; i += THREADS) ready[i] = 0;
    }

    if (cols % 4 == 0 && size_t(x) % 16 == 0) {
        float4 values[4];  // all loads come first: more bytes are in flight
        for (int i = 0; i < 4; ++i) {
            const int row = strip * STRIP + t / 8 + 32 * i, k = k0 + t % 8 * 4;
            values[i] = make_float4(0, 0, 0, 0);
            if (row < rows && k < cols) {
                values[i] = *reinterpret_cast<const float4*>(x + size_t(row) * cols + k);
            }
        }
        for (int i = 0; i < 4; ++i) {
            float* to = &tile[t / 8 + 32 * i][t % 8 * 4];
            to[0] = values[i].x, to[1] = values[i].y, to[2] = values[i].z, to[3] = values[i].w;
        }
    } else {
        float values[16];
        for (int i = 0; i < 16; ++i) {
            const int row = strip * STRIP + t / 32 + 8 * i, k = k0 + t % 32;
            values[i] = row < rows && k < cols ? x[size_t(row) * cols + k] : 0.0f;
        }
        for (int i = 0; i < 16; ++i) tile[t / 32 + 8 * i][t % 32] = values[i];
    }
    __syncthreads();

    const int row = t / 32 % 4 * 32 + t % 8 * 4;
    for (int k = t / 128 * 4 + t / 8 % 4; k < STAGE; k += 8) {
        const float4 values =
            make_float4(tile[row][k], tile[row + 1][k], tile[row + 2][k], tile[row + 3][k]);
        float* to = out + (size_t(strip) * depth + k0 + k) * STRIP + row;
        *reinterpret_cast<float4*>(to) = values;
    }
}
