// Every lane of a warp reads the warp's first element: one address, one sector.
//
// The hardware fetches a sector once, however many lanes want it, and hands it to all of them in
// the same cycle. A load that is uniform in the warp is the cheapest there is.

#ifndef ELEMENT
#define ELEMENT float
#endif

extern "C" __global__ void broadcast(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[i - i % 32];
}
