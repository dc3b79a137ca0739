// out[i] = x[i * stride]: lanes `stride` elements apart.
//
// A sector holds 8 floats. Stride 2 uses every second float: 8 sectors per load instead of 4. From
// stride 8 on, each lane has its own sector: 32 sectors, with 4 used bytes each. A larger stride
// costs no more sectors, but the sectors are in more lines and pages.

#ifndef ELEMENT
#define ELEMENT float
#endif

extern "C" __global__ void stride(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n, size_t stride) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[i * stride];
}
