// Rounds a float32 matrix to bfloat16, so that 19_bf16 can multiply float32 matrices.
//
// A bfloat16 is the upper half of a float32. Values are rounded to nearest, ties to even. Rows of
// `out` have `pitch` elements, a multiple of 8. The elements after the last column are zeros.

#define THREADS 256

__device__ unsigned short rounded(float x) {
    const unsigned bits = __float_as_uint(x);
    if (x != x) return 0x7FFF;
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

extern "C" __global__ void __launch_bounds__(THREADS) bfloat16(
    const float* __restrict__ x, unsigned short* __restrict__ out, int rows, int cols, int pitch) {
    const size_t groups = size_t(rows) * (pitch / 4);  // groups of four elements
    const size_t i = size_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= groups) return;
    const size_t row = i / (pitch / 4);
    const int col = int(i % (pitch / 4)) * 4;
    const float* from = x + row * cols + col;
    float v[4] = {};
    if (cols % 4 == 0 && col < cols && size_t(x) % 16 == 0) {
        const float4 four = *reinterpret_cast<const float4*>(from);
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    } else {
        for (int j = 0; j < 4 && col + j < cols; ++j) v[j] = from[j];
    }
    reinterpret_cast<ushort4*>(out)[i] =
        make_ushort4(rounded(v[0]), rounded(v[1]), rounded(v[2]), rounded(v[3]));
}
