// out[i] = x[index[i]]: the values of `index` decide the cost of the load of x.
//
// The load of index is contiguous, 4 sectors per warp. The load of x costs as many sectors as the
// 32 indices touch: 4 if they are neighbours in any order, up to 32 if they are scattered. Sorting
// the indices, or the elements of x, makes a gather fast.

#ifndef ELEMENT
#define ELEMENT float
#endif

extern "C" __global__ void gather(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n,
    const int* __restrict__ index) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[index[i]];
}
