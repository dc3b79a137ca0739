// Contiguous elements read in any order inside the warp: the order costs nothing.
//
// A load moves the sectors that contain its 32 addresses. Which lane uses which address does not
// matter: 32 neighbouring floats are 4 sectors in any order. ORDER is the permutation, one element
// for each lane. Elements that do not fill a whole warp stay in place.

#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef ORDER  // default: lanes in reverse order
#define ORDER \
    31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, \
        7, 6, 5, 4, 3, 2, 1, 0
#endif

__constant__ unsigned char order[32] = {ORDER};

extern "C" __global__ void permuted(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const size_t first = i - i % 32;  // the warp's first element
    out[i] = x[first + 32 <= n ? first + order[i % 32] : i];
}
