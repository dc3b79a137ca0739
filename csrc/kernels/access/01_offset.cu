// out[i] = x[i + offset]: contiguous, but not starting where a sector starts.
//
// 32 floats are 128 bytes: 4 sectors if they begin at a multiple of 32 bytes. Shifted by one
// element, they also touch a fifth sector. Two of the 5 sectors are used only in part. An offset
// that is a multiple of 8 floats costs nothing.

#ifndef ELEMENT
#define ELEMENT float
#endif

extern "C" __global__ void offset(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n, size_t offset) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[i + offset];
}
