// out[i] = x[i * stride]: lanes `stride` elements apart.
//
// With floats a sector holds 8 elements. Stride 2 uses every second one, 8 sectors a load instead
// of 4; from stride 8 on each lane has a sector to itself, 32 sectors, 4 of every 32 bytes used.
// It can get no worse in sectors, only in the lines and pages they lie in.

#ifndef ELEMENT
#define ELEMENT float
#endif

extern "C" __global__ void stride(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n, size_t stride) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[i * stride];
}
