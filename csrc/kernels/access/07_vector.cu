// The same bytes in loads of 1 to 16 bytes per lane: wider accesses need fewer requests.
//
// A load of a warp touches 1 sector with 1 byte per lane, 4 sectors with 4 bytes, 16 sectors with
// 16 bytes (float4). Every byte is used at every width, so a copy always moves the same number of
// sectors. Wider accesses need fewer instructions and requests. ELEMENT is the type of an access.

#ifndef ELEMENT
#define ELEMENT float4
#endif

extern "C" __global__ void vector(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[i];
}
