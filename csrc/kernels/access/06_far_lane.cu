// 31 lanes read neighbours, and the last lane reads an element far away: only one sector more.
//
// The hardware counts distinct sectors: 4 for the 31 contiguous floats and 1 for the last lane, 5
// in total. A load is not coalesced or uncoalesced as a whole, and the last lane does not cost a
// whole 128-byte line.

#ifndef ELEMENT
#define ELEMENT float
#endif

extern "C" __global__ void far_lane(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n, size_t distance) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    size_t j = i % 32 == 31 ? i + distance : i;
    if (j >= n) j -= n;
    out[i] = x[j];
}
