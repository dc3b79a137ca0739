// Every lane of a warp reads the warp's first element: one address, one sector.
//
// The hardware loads a sector once, even if many lanes use it, and passes it to all of them in the
// same cycle. A load of one address per warp is the cheapest load there is.

#ifndef ELEMENT
#define ELEMENT float
#endif

extern "C" __global__ void broadcast(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[i - i % 32];
}
