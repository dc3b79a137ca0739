// Computes x - tf32(x) for a matrix x: the low parts of the elements, which 21_tf32x3 needs.
//
// The copies of 21_tf32x3 round x to 11 significant bits: to the nearest value, ties to even. This
// kernel rounds x in the same way, and then rounds the difference. Rows of `rest` have `pitch`
// elements, a multiple of 4. The elements after the last column are zeros.

#define THREADS 256

__device__ float rounded_to_tf32(float x) {
    const unsigned bits = __float_as_uint(x);
    return __uint_as_float((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000);
}

extern "C" __global__ void __launch_bounds__(THREADS) tf32_rest(
    const float* __restrict__ x, float* __restrict__ rest, int rows, int cols, int pitch) {
    const size_t groups = size_t(rows) * (pitch / 4);  // groups of four elements
    const size_t i = size_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= groups) return;
    const size_t row = i / (pitch / 4);
    const int col = int(i % (pitch / 4)) * 4;
    const float* from = x + row * cols + col;
    float v[4] = {};
    if (cols == pitch && size_t(x) % 16 == 0) {
        const float4 four = *reinterpret_cast<const float4*>(from);
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    } else {
        for (int j = 0; j < 4 && col + j < cols; ++j) v[j] = from[j];
    }
    for (int j = 0; j < 4; ++j) v[j] = rounded_to_tf32(v[j] - rounded_to_tf32(v[j]));
    reinterpret_cast<float4*>(rest)[i] = make_float4(v[0], v[1], v[2], v[3]);
}
